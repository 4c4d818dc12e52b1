"""Keys as administrators make them, hand them in, share, rotate and take away.

Secrets go in and never come out: what is returned and what is said of them can be shown to anybody.
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
    fingerprint,
    load_private_key,
    parse_certificate,
    public_line,
)

# What a rotation fills in, and empties again.
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
        return fingerprint(self.public_key)


def new_pair() -> Pair:
    """Make an ed25519 pair, the private half in OpenSSH's format."""
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
    """Return the pair in the text of a key file. ValueError says, without secrets, what it is."""
    try:
        key = load_private_key(private_key, passphrase)
    except TryAgain as problem:
        raise ValueError(str(problem)) from None
    return Pair(normalised(private_key), public_line(key), passphrase)


def fingerprint_of(private_key: str, passphrase: str = "") -> str:
    """Return `SHA256:...` of the public key. ValueError as `read_pair`."""
    return read_pair(private_key, passphrase).fingerprint


def normalised(private_key: str) -> str:
    """Return the text as a key file has it: browsers send CRLF, and lose the last line's end."""
    lines = private_key.lstrip("\ufeff").strip().splitlines()
    return "\n".join(line.strip() for line in lines) + "\n"


def keep(credential: Credential, pair: Pair, origin: Origin) -> None:
    """Put a pair in its place; a certificate of the key before goes with it. Nothing is saved."""
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
    keep(credential, pair, origin)
    with transaction.atomic():
        credential.save()
        audit.saved(by, credential, {}, why=f"{Origin(origin).label}: {pair.fingerprint}")
    return credential


def public_of(credential: Credential) -> str:
    """Return the public key; of keys that were handed in long ago it is made anew."""
    if not credential.public_key:
        try:
            pair = read_pair(credential.private_key.reveal(), credential.passphrase.reveal())
        except (ValueError, WrongKey):
            return ""
        Credential.objects.filter(pk=credential.pk).update(public_key=pair.public_key)
        credential.public_key = pair.public_key
    return credential.public_key


def certificate_of(text: str) -> Certificate | None:
    """Return what a stored certificate says; None if there is none."""
    try:
        return parse_certificate(text) if text else None
    except ValueError:
        return None


def add_certificate(credential: Credential, text: str, by: User) -> Certificate:
    """Store a certificate of the key, or of the one that is to follow. NotDone in words."""
    try:
        found = parse_certificate(text)
    except ValueError as problem:
        raise NotDone(str(problem)) from None
    of_next = found.key_fingerprint == credential.next_fingerprint
    if not of_next and found.key_fingerprint != credential.fingerprint:
        raise NotDone(
            f"The certificate belongs to another key: to {found.key_fingerprint}, and this one is "
            f"{credential.fingerprint}."
        )
    if words := found.expiry(timezone.now()):
        raise NotDone(words)
    before = audit.state(credential)
    if of_next:
        credential.next_certificate = text.strip()
    else:
        credential.certificate, credential.certificate_ends_at = text.strip(), found.valid_to
    columns = ["certificate", "certificate_ends_at", "next_certificate"]
    _save(credential, columns, before, by, f"certificate {found.key_id}, {found.dates}")
    return found


def share(credential: Credential, users: Iterable[User], groups: Iterable[Group], by: User) -> None:
    """Say who else may use it."""
    before = audit.state(credential)
    with transaction.atomic():
        credential.users.set(users)
        credential.groups.set(groups)
        audit.saved(by, credential, before)


def begin_rotation(credential: Credential, by: User) -> None:
    """Make the pair that is to follow, beside the one in use. NotDone if there is one already."""
    if credential.is_rotating:
        raise NotDone("A new key waits already: try it, or give it up first.")
    before, pair = audit.state(credential), new_pair()
    credential.next_private_key = pair.private_key
    credential.next_public_key = pair.public_key
    credential.next_fingerprint = pair.fingerprint
    credential.next_certificate, credential.next_since = "", timezone.now()
    why = f"{pair.fingerprint} was made beside {credential.fingerprint}"
    _save(credential, [*NEXT, "next_since"], before, by, why)


def give_up_rotation(credential: Credential, by: User) -> None:
    """Erase the pair that was to follow; the one in use stays."""
    if not credential.is_rotating:
        raise NotDone("There is no new key to give up.")
    before, given_up = audit.state(credential), credential.next_fingerprint
    _empty_next(credential)
    _save(credential, [*NEXT, "next_since"], before, by, f"{given_up} was given up")


def finish_rotation(pk: int, tried: str, by: User | None) -> bool:
    """Let the pair that was tried take the other's place, which is erased.

    False if the pair that was tried no longer waits: nothing is changed then.
    """
    with transaction.atomic():
        credential = Credential.objects.select_for_update().get(pk=pk)
        if not tried or credential.next_fingerprint != tried:
            return False
        before, old = audit.state(credential), credential.fingerprint
        certificate = credential.next_certificate
        pair = Pair(credential.next_private_key.reveal(), credential.next_public_key)
        keep(credential, pair, Origin.GENERATED)
        found = certificate_of(certificate)
        credential.certificate = certificate
        credential.certificate_ends_at = found.valid_to if found else None
        _empty_next(credential)
        credential.save()
        audit.saved(by, credential, before, why=f"{tried} took the place of {old}")
    return True


def delete(credential: Credential, by: User) -> None:
    """Erase it. NotDone, naming them, while clusters use it."""
    with transaction.atomic():
        users = list(Cluster.objects.filter(credential=credential).values_list("name", flat=True))
        if users:
            raise NotDone(
                f"{credential} opens {', '.join(users)}: give "
                f"{'it' if len(users) == 1 else 'them'} another credential first."
            )
        audit.deleted(by, credential)
        try:
            credential.delete()
        except models.ProtectedError:
            raise NotDone(f"{credential} came into use meanwhile.") from None


def _empty_next(credential: Credential) -> None:
    for name in NEXT:
        setattr(credential, name, "")
    credential.next_since = None


def _save(
    credential: Credential, columns: list[str], before: audit.State, by: User, why: str
) -> None:
    with transaction.atomic():
        credential.save(update_fields=columns)
        audit.saved(by, credential, before, why=why)
