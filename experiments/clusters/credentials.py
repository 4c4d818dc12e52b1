"""Credentials: how administrators generate, import, share, rotate and delete keys.

Secrets go in and never come out: all values returned and all messages can be shown to anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.contrib.auth.models import Group
from django.db import models, transaction
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from experiments.access import audit
from experiments.encryption import WrongKey
from experiments.models import Cluster, Credential, Origin, User
from runners.errors import TryAgain
from runners.transports import (
    Certificate,
    fingerprint_public_key,
    format_public_key,
    load_private_key,
    parse_certificate,
)

# The columns that a rotation fills in, and empties at its end.
NEXT = ("next_private_key", "next_public_key", "next_fingerprint", "next_certificate")


class NotDone(Exception):
    """Nothing was changed; the message says why, without secrets."""


@dataclass(frozen=True)
class Pair:
    """A key pair. Its repr shows the public key alone."""

    private_key: str = field(repr=False)
    public_key: str  # "ssh-ed25519 AAAA...", without a comment
    passphrase: str = field(default="", repr=False)

    @property
    def fingerprint(self) -> str:
        return fingerprint_public_key(self.public_key)


def make_pair() -> Pair:
    """Make an ed25519 pair, the private key in OpenSSH's format."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    return Pair(private.decode(), public.decode())


@sensitive_variables()
def read_pair(private_key: str, passphrase: str = "") -> Pair:
    """Return the pair in the text of a key file.

    Raises ValueError, which says without secrets what is wrong with the text.
    """
    try:
        key = load_private_key(private_key, passphrase)
    except TryAgain as problem:
        raise ValueError(str(problem)) from None
    return Pair(normalise_key(private_key), format_public_key(key), passphrase)


def compute_fingerprint(private_key: str, passphrase: str = "") -> str:
    """Return `SHA256:...` of the public key. Raises ValueError as `read_pair` does."""
    return read_pair(private_key, passphrase).fingerprint


def normalise_key(private_key: str) -> str:
    """Return a key's text as in a key file: browsers send CRLF and drop the last line's end."""
    lines = private_key.lstrip("\ufeff").strip().splitlines()
    return "\n".join(line.strip() for line in lines) + "\n"


def set_pair(credential: Credential, pair: Pair, origin: Origin) -> None:
    """Set the credential's pair without saving, and drop the certificate of another key."""
    if pair.fingerprint != credential.fingerprint:
        credential.certificate, credential.certificate_ends_at = "", None
    credential.private_key = pair.private_key
    credential.passphrase = pair.passphrase
    credential.public_key = pair.public_key
    credential.fingerprint = pair.fingerprint
    credential.origin = origin
    credential.key_since = timezone.now()


def add(credential: Credential, pair: Pair, origin: Origin, by: User) -> Credential:
    """Store a new credential."""
    credential.owner = by
    set_pair(credential, pair, origin)
    with audit.log_change(by, credential, why=f"{Origin(origin).label}: {pair.fingerprint}"):
        credential.save()
    return credential


def find_public_key(credential: Credential) -> str:
    """Return the public key; "" if it is not stored and cannot be derived.

    Keys that were imported long ago have none stored: theirs is derived, and stored now.
    """
    if not credential.public_key:
        try:
            pair = read_pair(credential.private_key.reveal(), credential.passphrase.reveal())
        except (ValueError, WrongKey):
            return ""
        Credential.objects.filter(pk=credential.pk).update(public_key=pair.public_key)
        credential.public_key = pair.public_key
    return credential.public_key


def read_certificate(text: str) -> Certificate | None:
    """Return a stored certificate, parsed; None if there is none."""
    try:
        return parse_certificate(text) if text else None
    except ValueError:
        return None


def add_certificate(credential: Credential, text: str, by: User) -> Certificate:
    """Store a certificate of the key in use, or of the next one. Raises NotDone."""
    try:
        certificate = parse_certificate(text)
    except ValueError as problem:
        raise NotDone(str(problem)) from None
    of_next = certificate.key_fingerprint == credential.next_fingerprint
    if not of_next and certificate.key_fingerprint != credential.fingerprint:
        raise NotDone(
            f"The certificate belongs to another key: to {certificate.key_fingerprint}, and this "
            f"one is {credential.fingerprint}."
        )
    if expiry_problem := certificate.why_not_valid(timezone.now()):
        raise NotDone(expiry_problem)
    if of_next:
        credential.next_certificate = text.strip()
    else:
        credential.certificate, credential.certificate_ends_at = text.strip(), certificate.valid_to
    columns = ["certificate", "certificate_ends_at", "next_certificate"]
    _save(credential, columns, by, f"certificate {certificate.key_id}, {certificate.dates}")
    return certificate


def share(credential: Credential, users: Iterable[User], groups: Iterable[Group], by: User) -> None:
    """Set which other users and groups may use the credential."""
    with audit.log_change(by, credential):
        credential.users.set(users)
        credential.groups.set(groups)


def begin_rotation(credential: Credential, by: User) -> None:
    """Make the next pair, beside the one in use. Raises NotDone if there is one already."""
    if credential.is_rotating:
        raise NotDone("A new key waits already: try it, or give it up first.")
    pair = make_pair()
    credential.next_private_key = pair.private_key
    credential.next_public_key = pair.public_key
    credential.next_fingerprint = pair.fingerprint
    credential.next_certificate, credential.next_since = "", timezone.now()
    why = f"{pair.fingerprint} was made beside {credential.fingerprint}"
    _save(credential, [*NEXT, "next_since"], by, why)


def give_up_rotation(credential: Credential, by: User) -> None:
    """Erase the next pair; the one in use stays. Raises NotDone if there is none."""
    if not credential.is_rotating:
        raise NotDone("There is no new key to give up.")
    given_up = credential.next_fingerprint
    _empty_next(credential)
    _save(credential, [*NEXT, "next_since"], by, f"{given_up} was given up")


def finish_rotation(pk: int, tried: str, by: User | None) -> bool:
    """Replace the pair in use, which is erased, by the next pair that a test has tried.

    Return False, and change nothing, if the pair that was tried is not the next one any more.
    """
    with transaction.atomic():
        credential = Credential.objects.select_for_update().get(pk=pk)
        if not tried or credential.next_fingerprint != tried:
            return False
        old = credential.fingerprint
        certificate = credential.next_certificate
        pair = Pair(credential.next_private_key.reveal(), credential.next_public_key)
        set_pair(credential, pair, Origin.GENERATED)
        parsed = read_certificate(certificate)
        credential.certificate = certificate
        credential.certificate_ends_at = parsed.valid_to if parsed else None
        _empty_next(credential)
        with audit.log_change(by, credential, why=f"{tried} took the place of {old}"):
            credential.save()
    return True


def delete(credential: Credential, by: User) -> None:
    """Delete a credential. Raises NotDone with the names of the clusters that use it."""
    with transaction.atomic():
        users = list(Cluster.objects.filter(credential=credential).values_list("name", flat=True))
        if users:
            raise NotDone(
                f"{credential} opens {', '.join(users)}: give "
                f"{'it' if len(users) == 1 else 'them'} another credential first."
            )
        try:
            audit.delete(by, credential)
        except models.ProtectedError:
            raise NotDone(f"{credential} came into use meanwhile.") from None


def _empty_next(credential: Credential) -> None:
    for name in NEXT:
        setattr(credential, name, "")
    credential.next_since = None


def _save(credential: Credential, columns: list[str], by: User, why: str) -> None:
    with audit.log_change(by, credential, why=why):
        credential.save(update_fields=columns)
