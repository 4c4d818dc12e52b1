"""The site's own key, which signs bundles, and the list of keys that the site publishes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction
from django.db.models.functions import Now
from django.views.decorators.debug import sensitive_variables

from experiments.access import audit
from experiments.encryption import WrongKey
from experiments.models import SigningKey
from experiments.signing import ssh_signatures

NAMESPACE = "tare-bundle"
"""What a signature is for: one of a bundle holds for nothing else."""
PRINCIPAL = "tare"
"""Under this name keys stand in a list for `ssh-keygen -Y verify -I`."""
NO_KEY = "This site has no key of its own."
CLOSED_KEY = "This site can no longer read its key."


@dataclass(frozen=True)
class Signer:
    """A key that signs now, without the key: what is signed goes through `sign`."""

    allowed_signers: bytes
    """A line for `ssh-keygen -Y verify -f`."""
    fingerprint: str
    sign: Callable[[bytes], bytes]


@sensitive_variables()
def make_signing_key() -> SigningKey:
    """Make a key that signs from now on; those before it sign no more, and stay in the list."""
    private = ssh_signatures.make_key()
    public = ssh_signatures.write_public_key(private)
    with transaction.atomic():
        SigningKey.objects.filter(retired_at=None).update(retired_at=Now())
        row = SigningKey.objects.create(
            private=private, public=public, fingerprint=ssh_signatures.find_fingerprint(public)
        )
        audit.note(None, "added", row, why="manage.py new_signing_key")
    return row


@sensitive_variables()
def find_signer() -> tuple[Signer | None, str]:
    """Return what signs now; None, with the reason in words, where bundles are not signed."""
    row = SigningKey.objects.filter(retired_at=None).first()
    if row is None:
        return None, NO_KEY
    secret = row.private
    try:
        secret.reveal()
    except WrongKey:
        return None, CLOSED_KEY

    @sensitive_variables()
    def sign(message: bytes) -> bytes:
        return ssh_signatures.sign(secret.reveal(), message, NAMESPACE)

    return Signer(write_allowed_signer(row), row.fingerprint, sign), ""


def write_allowed_signer(row: SigningKey) -> bytes:
    """Return the line of a key in a list of allowed signers."""
    return f'{PRINCIPAL} namespaces="{NAMESPACE}" {row.public}\n'.encode()


def write_allowed_signers() -> bytes:
    """Return all keys of the site, the newest first, also those that sign no more."""
    return b"".join(write_allowed_signer(row) for row in SigningKey.objects.defer("private"))
