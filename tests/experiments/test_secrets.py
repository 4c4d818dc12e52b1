"""Promise 5: secrets are write-only."""

from __future__ import annotations

import io
import pickle
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.apps import apps
from django.core import serializers
from django.core.management import CommandError, call_command
from django.db import connection, models
from django.utils import timezone
from pytest_django.fixtures import Settings

from experiments import execution
from experiments.encryption import SEALED, KeyRing, Secret, WrongKey, list_secret_fields
from experiments.models import (
    AuditEntry,
    Credential,
    DepositToken,
    ImageImport,
    ShareLink,
    SigningKey,
    Webhook,
)
from experiments.settings_checks import check_credential_keys
from tests.factories import ClusterFactory, CredentialFactory, ExperimentFactory, UserFactory

KEY = "-----BEGIN OPENSSH PRIVATE KEY----- very secret"

pytestmark = pytest.mark.django_db


def make_image_import(**secrets: str) -> ImageImport:
    return ImageImport.objects.create(
        owner=UserFactory(), kind="registry", reference="it", user_name="ada", **secrets
    )


def make_link(**secrets: str) -> ShareLink:
    return ShareLink.objects.create(
        experiment=ExperimentFactory(), token_hash=uuid.uuid4().hex, **secrets
    )


def make_webhook(**secrets: str) -> Webhook:
    row = Webhook(owner=UserFactory(), created_at=timezone.now(), host="example.org", **secrets)
    row.save()
    return row


def make_signing_key(**secrets: str) -> SigningKey:
    return SigningKey.objects.create(public="ssh-ed25519 AAAA", fingerprint="SHA256:x", **secrets)


def make_token(**secrets: str) -> DepositToken:
    return DepositToken.objects.create(
        owner=UserFactory(), service="https://example.org", **secrets
    )


# How to make a row with secrets, for every model that has some.
MAKERS: dict[type[models.Model], Callable[..., Any]] = {
    Credential: CredentialFactory,
    DepositToken: make_token,
    ImageImport: make_image_import,
    ShareLink: make_link,
    SigningKey: make_signing_key,
    Webhook: make_webhook,
}


def stored(row: models.Model, column: str = "private_key") -> str:
    """Return what the database holds."""
    with connection.cursor() as cursor:
        cursor.execute(f"select {column} from {row._meta.db_table} where id = %s", [row.pk])
        return str(cursor.fetchone()[0])


def use_another_key(settings: Settings) -> None:
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]


def test_the_database_holds_ciphertext_only() -> None:
    credential = CredentialFactory(private_key=KEY)
    assert KEY not in stored(credential)
    assert Credential.objects.get().private_key.reveal() == KEY


def test_no_repr_serialisation_or_pickle_shows_a_secret() -> None:
    made = CredentialFactory(private_key=KEY)
    credential = Credential.objects.get(pk=made.pk)
    shown = repr(made.__dict__) + repr(credential.__dict__) + str(credential.private_key)
    shown += f"{credential.private_key!r}{credential.private_key}"
    shown += serializers.serialize("json", Credential.objects.all())
    dumped = io.StringIO()
    call_command("dumpdata", "experiments.credential", stdout=dumped)
    assert "very secret" not in shown + dumped.getvalue()
    with pytest.raises(TypeError):
        pickle.dumps(credential.private_key)


def test_dumped_credentials_can_be_loaded_again() -> None:
    credential = CredentialFactory(private_key=KEY, passphrase="")
    text = serializers.serialize("json", Credential.objects.all())
    for loaded in serializers.deserialize("json", text):
        loaded.save()
    credential = Credential.objects.get()
    assert credential.private_key.reveal() == KEY
    assert not credential.passphrase


def test_every_model_with_a_secret_is_tried_here() -> None:
    assert set(MAKERS) == {model for model in apps.get_models() if list_secret_fields(model)}


@pytest.mark.parametrize("model", MAKERS)
def test_rotation_moves_every_secret_to_the_first_key(
    model: type[models.Model], settings: Settings
) -> None:
    names = list_secret_fields(model)
    row, empty = MAKERS[model](**dict.fromkeys(names, KEY)), MAKERS[model]()
    before, old = [stored(row, name) for name in names], settings.CREDENTIAL_KEYS
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode(), *old]
    call_command("rotate_credentials", stdout=io.StringIO())
    new = KeyRing(settings.CREDENTIAL_KEYS[:1])
    for name, sealed in zip(names, before, strict=True):
        assert stored(row, name) != sealed
        assert new.open(stored(row, name)) == KEY
    settings.CREDENTIAL_KEYS = settings.CREDENTIAL_KEYS[:1]
    again = model._default_manager.get(pk=row.pk)
    assert [getattr(again, name).reveal() for name in names] == [KEY] * len(names)
    told = AuditEntry.objects.filter(kind=model._meta.model_name, what="encrypted anew")
    assert told.filter(object_pk=str(row.pk)).exists()
    unset = [name for name in names if not getattr(empty, name)]
    assert [stored(empty, name) for name in unset] == [""] * len(unset)


def test_rotation_names_what_no_key_opens_and_moves_the_rest(settings: Settings) -> None:
    lost, old = CredentialFactory(name="lost", private_key=KEY), settings.CREDENTIAL_KEYS
    before = stored(lost)
    use_another_key(settings)
    kept = CredentialFactory(private_key=KEY)
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode(), *settings.CREDENTIAL_KEYS]
    with pytest.raises(CommandError, match="lost"):
        call_command("rotate_credentials", stdout=io.StringIO())
    assert KeyRing(settings.CREDENTIAL_KEYS[:1]).open(stored(kept)) == KEY
    assert stored(lost) == before
    assert KeyRing(old).open(before) == KEY


def test_a_wrong_key_fails_closed(settings: Settings) -> None:
    CredentialFactory(private_key=KEY)
    use_another_key(settings)
    secret = Credential.objects.get().private_key
    assert secret
    assert not secret.opens()
    with pytest.raises(WrongKey):
        secret.reveal()
    assert secret != Secret(KEY)


@pytest.mark.parametrize("keys", [[], ["not a key"]])
def test_without_usable_keys_nothing_opens_and_nothing_is_shown(
    settings: Settings, keys: list[str]
) -> None:
    CredentialFactory(private_key=KEY)
    settings.CREDENTIAL_KEYS = keys
    with pytest.raises(WrongKey) as shown:
        Credential.objects.get().private_key.reveal()
    assert "not a key" not in str(shown.value)
    assert shown.value.__cause__ is None


def test_saving_a_row_that_no_key_opens_loses_nothing(settings: Settings) -> None:
    credential = CredentialFactory(private_key=KEY)
    before, old = stored(credential), settings.CREDENTIAL_KEYS
    use_another_key(settings)
    row = Credential.objects.get()
    row.name = "another name"
    row.save()
    assert stored(credential) == before
    settings.CREDENTIAL_KEYS = old
    assert Credential.objects.get().private_key.reveal() == KEY


def test_a_cluster_whose_key_cannot_be_opened_says_so(settings: Settings) -> None:
    credential = CredentialFactory(name="the key of the lab")
    cluster = ClusterFactory(
        transport="ssh", host="login.example", host_key="some", credential=credential
    )
    use_another_key(settings)
    assert execution.tick(cluster.pk) == "try again"
    cluster.refresh_from_db()
    assert cluster.last_error_kind == "set-up"
    assert "the key of the lab" in cluster.last_error
    assert "CREDENTIAL_KEYS" in cluster.last_error


def test_an_import_whose_password_cannot_be_opened_says_so_and_waits(settings: Settings) -> None:
    row = make_image_import(password=KEY)
    use_another_key(settings)
    assert execution.receive(row.pk) == "try again"
    row.refresh_from_db()
    assert "CREDENTIAL_KEYS" in row.problem
    assert not row.is_over


def test_ciphertext_that_somebody_types_is_not_opened(settings: Settings) -> None:
    """Whoever has a copy of the database must not have Tare decrypt it, as a password say."""
    ciphertext = SEALED + KeyRing(settings.CREDENTIAL_KEYS).seal(KEY)
    row = make_image_import(password=ciphertext)
    assert row.password.reveal() == ciphertext
    row.refresh_from_db()
    assert row.password.reveal() == ciphertext
    cleaned = ImageImport._meta.get_field("password").clean(row.password, row)
    assert cleaned.reveal() == ciphertext


@pytest.mark.parametrize("keys", [[], ["not a key"]])
def test_tare_does_not_start_without_a_usable_key(settings: Settings, keys: list[str]) -> None:
    settings.CREDENTIAL_KEYS = keys
    (error,) = check_credential_keys()
    assert error.id == "tare.E001"
    assert "not a key" not in str(error)


def test_equal_secrets_are_equal_and_sealed_differently_each_time() -> None:
    ring = KeyRing([Fernet.generate_key().decode()])
    assert Secret("a") == Secret("a") != Secret("b")
    assert ring.seal("a") != ring.seal("a")
