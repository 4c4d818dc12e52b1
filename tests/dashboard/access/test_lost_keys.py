"""A secret that no key opens stops what needs it, and no page."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet
from django_webtest import DjangoTestApp
from pytest_django import Settings

from experiments.clusters import credentials
from experiments.models import Credential, ImageImport
from tests.dashboard.conftest import People, Site, measured
from tests.factories import ClusterFactory, CredentialFactory
from tests.secrets_search import pages_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def key(people: People, site: Site, settings: Settings) -> Credential:
    """Secrets of all kinds, and not the key that they were encrypted with."""
    made: Credential = CredentialFactory(owner=people.admin)
    credentials.begin_rotation(made, people.admin)
    ClusterFactory(transport="ssh", host="login.example", host_key="some", credential=made)
    measured(site, people.admin, blocks=2)
    ImageImport.objects.create(
        owner=people.admin, kind="registry", reference="docker.io/library/it:1", password="secret"
    )
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    return made


def test_every_page_answers(key: Credential, people: People, django_app: DjangoTestApp) -> None:
    pages = dict(pages_of(django_app, people.admin.username))  # each answers 200 or leads on
    assert {"/catalogue/", "/clusters/", "/credentials/"} <= set(pages)
    for address in ("/credentials/", key.get_absolute_url()):
        assert "CREDENTIAL_KEYS" in pages[address], address


def test_a_lost_key_is_replaced_by_rotating(
    key: Credential, people: People, django_app: DjangoTestApp
) -> None:
    app, user = django_app, people.admin.username
    for name in ("give_up_rotation", "begin_rotation"):
        getattr(credentials, name)(Credential.objects.get(pk=key.pk), people.admin)
    row = Credential.objects.get(pk=key.pk)
    assert row.cannot_be_opened
    assert credentials.finish_rotation(row.pk, row.next_fingerprint, people.admin)
    row.refresh_from_db()
    assert not row.cannot_be_opened
    assert "CREDENTIAL_KEYS" not in app.get(row.get_absolute_url(), user=user).text
