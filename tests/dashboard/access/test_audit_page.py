"""The audit log as people read it: filtered, paged, linked, and only what is theirs to know."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from experiments.access import audit
from experiments.models import AuditEntry, Role, User
from tests.dashboard.conftest import People
from tests.factories import (
    ClusterFactory,
    CredentialFactory,
    ImageFactory,
    PartitionFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def keeper(people: People) -> User:
    user: User = UserFactory(username="keeper", role=Role.CLUSTER_ADMINISTRATOR)
    return user


def read(user: User, **asked: Any) -> str:
    client = Client()
    client.force_login(user)
    answer = client.get(reverse("audit"), asked)
    assert answer.status_code == 200
    return answer.content.decode()


def test_old_and_new_are_shown_and_secrets_are_not(people: People) -> None:
    cluster = ClusterFactory(name="forhlr2", host="old.example")
    before = audit.read_values(cluster)
    cluster.host = "new.example"
    audit.saved(people.owner, cluster, before, why="it moved <b>")
    credential = CredentialFactory(name="tare key", private_key="hush", fingerprint="SHA256:abc")
    audit.saved(None, credential, {})
    page = " ".join(read(people.admin).split())
    assert "<del>old.example</del> → new.example" in page
    assert "it moved &lt;b&gt;" in page
    assert f'<a href="{reverse("cluster", args=[cluster.pk])}">forhlr2</a>' in page
    assert "set, never shown" in page
    assert "SHA256:abc" in page
    assert "hush" not in page


def test_cluster_administrators_read_what_concerns_what_is_theirs(
    people: People, keeper: User
) -> None:
    mine, other = ClusterFactory(owner=keeper, transport="ssh"), ClusterFactory()
    for row in (
        PartitionFactory(cluster=mine, name="shown1"),
        CredentialFactory(owner=keeper, name="shown2"),
        ImageFactory(owner=keeper, reference="shown3"),
        PartitionFactory(cluster=other, name="kept back1"),
        CredentialFactory(name="kept back2"),
        UserFactory(username="kept back3"),
    ):
        audit.note(people.admin, "added", row)
    audit.deleted(keeper, ClusterFactory(name="shown4", users=[]))
    page = read(keeper)
    assert all(f"shown{n}" in page for n in range(1, 5))
    assert "kept back" not in page
    assert "kept back1" in read(people.admin)


def test_it_is_filtered_and_linked_from_what_it_is_about(people: People, keeper: User) -> None:
    first, second = (
        ClusterFactory(name="alpha", owner=keeper, transport="ssh"),
        ClusterFactory(name="beta"),
    )
    audit.note(keeper, "added", first)
    audit.note(people.admin, "host key pinned", second, why="compared by telephone")
    for asked, found in (
        ({"q": "telephone"}, "beta"),
        ({"q": "alph"}, "alpha"),
        ({"who": "keep"}, "alpha"),
        ({"kind": "cluster", "object": second.pk}, "beta"),
        ({"on": first.pk}, "alpha"),
    ):
        page = read(people.admin, **asked)
        assert [name for name in ("alpha", "beta") if f">{name}</a>" in page] == [found], asked
    assert "No entry fits" in read(people.admin, until="2020-01-01")
    assert "beta" in read(people.admin, since="nonsense", kind="nonsense")
    client = Client()
    client.force_login(keeper)
    page = client.get(reverse("cluster", args=[first.pk])).content.decode()
    assert f"{reverse('audit')}?on={first.pk}" in page
    page = people.client("owner").get(reverse("cluster", args=[first.pk])).content.decode()
    assert reverse("audit") not in page


def test_entries_from_before_a_model_was_renamed_are_found_under_its_name_today(
    people: People,
) -> None:
    AuditEntry.objects.create(what="asked for an image", kind="arrival", object_pk="1", name="a:1")
    AuditEntry.objects.create(what="deleted", kind="gone", object_pk="1", name="b:2")
    page = read(people.admin)
    assert '<span class="muted">image import</span>' in page
    assert '<span class="muted">arrival</span>' not in page
    assert '<span class="muted">gone</span>' in page
    page = read(people.admin, kind="imageimport")
    assert "a:1" in page
    assert "b:2" not in page


def test_a_page_costs_as_many_queries_however_long_the_log_is(people: People) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            read(people.admin)
        return len(seen)

    def more(count: int) -> None:
        rows = (ClusterFactory(), CredentialFactory(), ImageFactory())
        for row in rows * count:
            audit.note(people.admin, "added", row)

    more(1)
    few = queries()
    more(30)
    assert queries() == few
    page = read(people.admin)
    assert page.count('<td class="nowrap">') == 50
    assert "?page=2" in page
