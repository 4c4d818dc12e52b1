"""Signatures of images that cosign has stored beside them in a registry: fetched, not judged.

cosign stores them under a tag made of the image's digest, or as manifests that refer to it
(OCI referrers). Each is a small document that names the digest, and a signature over its bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runners.errors import Refused
from runners.images.references import Reference
from runners.images.registry_session import Access, Missing, Session, parse_object
from runners.payload import manifests

PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"
CERTIFICATE = "dev.sigstore.cosign/certificate"
BUNDLES = ("application/vnd.dev.sigstore.bundle",)
"""Beginnings of the kinds of what newer tools store: an envelope, which is not read here."""
MOST_SIGNATURES = 50
MOST_REFERRERS = 50
MOST_PAYLOAD_BYTES = 64 << 10


@dataclass(frozen=True)
class Signature:
    """A signature as a registry has it: whether it fits nobody has looked at yet."""

    digest: str  # of the manifest beside which it is stored
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    has_certificate: bool = False  # signed without a key of one's own (Fulcio)


@dataclass(frozen=True)
class StoredSignatures:
    """What a registry has of an image's signatures."""

    signatures: tuple[Signature, ...] = ()
    unread: tuple[str, ...] = ()
    """A sentence for each signature that is there and could not be read."""


def fetch_signatures(
    reference: Reference, digests: Sequence[str], access: Access | None = None
) -> StoredSignatures:
    """Fetch the signatures of manifests of one repository. Raises Refused, TryAgain."""
    session = Session(reference, access or Access())
    signatures: dict[tuple[str, bytes, bytes], Signature] = {}
    unread: list[str] = []
    for digest in dict.fromkeys(digests):
        for manifest in _list_manifests(session, digest, unread):
            for signature in _read_manifest(session, digest, manifest, unread):
                key = (digest, signature.payload, signature.signature)
                signatures.setdefault(key, signature)
                if len(signatures) >= MOST_SIGNATURES:
                    unread.append(f"Only the first {MOST_SIGNATURES} were read.")
                    return StoredSignatures(tuple(signatures.values()), tuple(unread))
    return StoredSignatures(tuple(signatures.values()), tuple(dict.fromkeys(unread)))


def _list_manifests(session: Session, digest: str, unread: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the manifests with signatures of one digest."""
    tag = digest.replace(":", "-")
    for name in (f"{tag}.sig", *_list_referrers(session, digest, tag, unread)):
        try:
            yield parse_object(session.fetch_manifest(name))
        except Missing:
            continue
        except manifests.BadImage as problem:
            unread.append(f"A list of signatures is damaged: {problem}.")


def _list_referrers(session: Session, digest: str, tag: str, unread: list[str]) -> list[str]:
    """Return the digests of manifests with signatures that refer to this one.

    A registry without that part of the specification keeps the same list under a tag.
    """
    try:
        try:
            index = parse_object(session.fetch_referrers(digest))
        except Refused:
            index = parse_object(session.fetch_manifest(tag))
    except Missing:
        return []
    except manifests.BadImage as problem:
        unread.append(f"The list of what refers to the image is damaged: {problem}.")
        return []
    rows = index.get("manifests")
    if not isinstance(rows, list):
        return []
    chosen = []
    for row in rows[:MOST_REFERRERS]:
        kind = str(row.get("artifactType") or "") if isinstance(row, Mapping) else ""
        if kind.startswith(BUNDLES):
            unread.append("A signature is stored as a Sigstore bundle, which Tare does not read.")
        elif "cosign" in kind and "sig" in kind:
            try:
                chosen.append(f"sha256:{manifests.parse_digest(row.get('digest'))}")
            except manifests.BadImage as problem:
                unread.append(f"The list of what refers to the image is damaged: {problem}.")
    return chosen


def _read_manifest(
    session: Session, digest: str, manifest: Mapping[str, Any], unread: list[str]
) -> Iterator[Signature]:
    layers = manifest.get("layers")
    for layer in layers[: MOST_SIGNATURES + 1] if isinstance(layers, list) else ():
        if not isinstance(layer, Mapping) or layer.get("mediaType") != PAYLOAD:
            continue
        try:
            yield _read_layer(session, digest, layer)
        except (manifests.BadImage, Refused, LookupError, TypeError, ValueError) as problem:
            unread.append(f"A signature is damaged: {str(problem).rstrip('.')[:200]}.")


def _read_layer(session: Session, digest: str, layer: Mapping[str, Any]) -> Signature:
    annotations = layer.get("annotations") or {}
    if manifests.parse_size(dict(layer)) > MOST_PAYLOAD_BYTES:
        raise manifests.BadImage("what it signs is larger than 64 KiB")
    signature = base64.b64decode(str(annotations[SIGNATURE]), validate=True)
    payload = session.fetch_small_blob(str(layer["digest"]), MOST_PAYLOAD_BYTES)
    return Signature(digest, payload, signature, bool(annotations.get(CERTIFICATE)))
