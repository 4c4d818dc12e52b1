"""Whether an image is signed by somebody whom this site knows: cosign's signatures, by key.

The public keys are an administrator's, each for a registry or a part of it. What was signed
without a key (by Fulcio and Rekor) is named, and not verified.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_public_key,
)

from experiments.models import Image, TrustedKey
from experiments.models.images import SignatureState
from runners.errors import Refused, TryAgain
from runners.images.references import Reference
from runners.images.registry import Resolved
from runners.images.registry_session import Access
from runners.images.signatures import Signature, StoredSignatures, fetch_signatures
from runners.untrusted import clean_text

MOST_CHARACTERS = 2000
TYPE = "cosign container image signature"
RANKS = [
    SignatureState.UNCHECKED,
    SignatureState.NONE,
    SignatureState.MISMATCH,
    SignatureState.SIGNED,
]
"""A later state is worth more: another copy of an image without signatures takes none away."""


class NoKey(ValueError):
    """A text that is no public key of the kind that cosign makes; the message says why."""


@dataclass(frozen=True)
class Finding:
    """What was found about the signatures of an image."""

    state: SignatureState
    note: str
    key: str = ""  # the name of the key that signed it

    def outranks(self, image: Image) -> bool:
        """Return whether it says as much as is known of the image, or more."""
        return RANKS.index(self.state) >= RANKS.index(SignatureState(image.signature_state))

    def make_columns(self, at: datetime) -> dict[str, Any]:
        """Return the columns of `Image` that keep it."""
        return {
            "signature_state": self.state,
            "signature_note": self.note[:MOST_CHARACTERS],
            "signature_key": self.key,
            "signature_checked_at": at,
        }


def load_key(pem: str) -> ec.EllipticCurvePublicKey:
    """Return the public key in a PEM text. Raises NoKey."""
    try:
        key = load_pem_public_key(pem.strip().encode())
    except (ValueError, TypeError) as problem:
        if "PRIVATE KEY" in pem:
            raise NoKey("This is a private key: enter cosign.pub.") from None
        raise NoKey("This is no public key in PEM (-----BEGIN PUBLIC KEY-----).") from problem
    except Exception as problem:
        raise NoKey("This key is of a kind that is not known.") from problem
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise NoKey(
            "It is no ECDSA key of the curve P-256, which `cosign generate-key-pair` makes."
        )
    return key


def compute_key_fingerprint(pem: str) -> str:
    """Return the sha256 of a public key, in hex. Raises NoKey."""
    der = load_key(pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def find_keys(reference: Reference) -> list[TrustedKey]:
    """Return the keys that were entered for a repository, those for the smallest part first."""
    name = f"{reference.host}/{reference.repository}"
    keys = [row for row in TrustedKey.objects.all() if row.covers(name)]
    return sorted(keys, key=lambda row: (-len(row.prefix), row.name))


def check_signatures(resolved: Resolved, access: Access, keys: Sequence[TrustedKey]) -> Finding:
    """Return what a registry has of an image's signatures, judged by these keys. No database.

    A signature may be over the image itself, or over the list of platforms that names it.
    """
    digests = [digest for digest in (resolved.digest, resolved.index_digest) if digest]
    try:
        stored = fetch_signatures(resolved.reference, digests, access)
    except (Refused, TryAgain) as problem:
        return make_unchecked(f"Its signatures could not be read. {problem}")
    return judge_signatures(resolved.reference, resolved.digest, stored, keys)


def judge_signatures(
    reference: Reference, digest: str, stored: StoredSignatures, keys: Sequence[TrustedKey]
) -> Finding:
    """Return what the signatures of the image with this digest come to. Pure."""
    signatures = stored.signatures
    if not signatures and not stored.unread:
        return Finding(SignatureState.NONE, f"{reference.host} has no signature of it.")
    unread = " ".join(stored.unread)
    for signature in signatures:
        for row in keys:
            if fits(signature, row.pem):
                what = "it" if signature.digest == digest else "the list of platforms that names it"
                return Finding(
                    SignatureState.SIGNED,
                    f"Key {row.fingerprint[:16]} (sha256), for {row.prefix}, signed {what}.",
                    row.name,
                )
    with_key = [signature for signature in signatures if not signature.has_certificate]
    if keys and with_key:
        names = ", ".join(row.name for row in keys)
        return Finding(
            SignatureState.MISMATCH,
            f"{_count(len(with_key))}, and none is by {names} over this digest. {unread}".strip(),
        )
    reasons = []
    if with_key:
        reasons.append(
            f"{_count(len(with_key))}, and no key was entered for "
            f"{reference.host}/{reference.repository}."
        )
    if len(with_key) < len(signatures):
        reasons.append(
            f"{_count(len(signatures) - len(with_key))} made without a key (Fulcio, Rekor), which "
            "Tare does not verify."
        )
    return Finding(SignatureState.UNCHECKED, " ".join([*reasons, *stored.unread]))


def fits(signature: Signature, pem: str) -> bool:
    """Return whether a signature is by this key, and over the digest beside which it is stored."""
    try:
        key = load_key(pem)
        key.verify(signature.signature, signature.payload, ec.ECDSA(hashes.SHA256()))
        critical = json.loads(signature.payload)["critical"]
        digest, kind = critical["image"]["docker-manifest-digest"], critical["type"]
    except (InvalidSignature, NoKey, ValueError, LookupError, TypeError, RecursionError):
        return False
    return (digest, kind) == (signature.digest, TYPE)


def make_unchecked(why: str) -> Finding:
    """Return that signatures were not looked at, and why not."""
    return Finding(SignatureState.UNCHECKED, clean_text(why))


def _count(count: int) -> str:
    return "There is a signature" if count == 1 else f"There are {count} signatures"
