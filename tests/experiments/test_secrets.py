"""Promise 5: secrets are write-only."""

from __future__ import annotations

import io
import pickle

import pytest
from cryptography.fernet import Fernet
from django.core import serializers
from django.core.management import call_command
from django.db import connection
from pytest_django.fixtures import Settings

from experiments.checks import credential_keys_work
from experiments.models import Credential
from experiments.secrets import KeyRing, Secret, WrongKey
from tests.factories import CredentialFactory

KEY = "-----BEGIN OPENSSH PRIVATE KEY----- very secret"

pytestmark = pytest.mark.django_db


def stored(credential: Credential) -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "select private_key from experiments_credential where id = %s", [credential.pk]
        )
        return str(cursor.fetchone()[0])


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


def test_rotation_moves_to_the_first_key(settings: Settings) -> None:
    credential = CredentialFactory(private_key=KEY, next_private_key=KEY)
    before, old = stored(credential), settings.CREDENTIAL_KEYS
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode(), *old]
    call_command("rotate_credentials", stdout=io.StringIO())
    assert stored(credential) != before
    settings.CREDENTIAL_KEYS = settings.CREDENTIAL_KEYS[:1]
    assert Credential.objects.get().private_key.reveal() == KEY
    assert Credential.objects.get().next_private_key.reveal() == KEY


def test_a_wrong_key_fails_closed(settings: Settings) -> None:
    CredentialFactory(private_key=KEY)
    settings.CREDENTIAL_KEYS = [Fernet.generate_key().decode()]
    with pytest.raises(WrongKey):
        Credential.objects.get()


@pytest.mark.parametrize("keys", [[], ["not a key"]])
def test_tare_does_not_start_without_a_usable_key(settings: Settings, keys: list[str]) -> None:
    settings.CREDENTIAL_KEYS = keys
    (error,) = credential_keys_work()
    assert error.id == "tare.E001"
    assert "not a key" not in str(error)


def test_equal_secrets_are_equal_and_sealed_differently_each_time() -> None:
    ring = KeyRing([Fernet.generate_key().decode()])
    assert Secret("a") == Secret("a") != Secret("b")
    assert ring.seal("a") != ring.seal("a")
