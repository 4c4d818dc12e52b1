"""Signatures as cosign makes and stores them, by its specification, in a real registry."""

from __future__ import annotations

import base64
import json
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from runners.images.signatures import CERTIFICATE, PAYLOAD, SIGNATURE
from runners.payload import pack
from tests.runners.made_images import Image, sha256
from tests.runners.registry import push

TYPE = "cosign container image signature"


def make_key() -> ec.EllipticCurvePrivateKey:
    """Return a key as `cosign generate-key-pair` makes it."""
    return ec.generate_private_key(ec.SECP256R1())


def write_public(key: Any) -> str:
    """Return the content of cosign.pub."""
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def make_payload(digest: str, kind: str = TYPE) -> bytes:
    """Return what is signed: simple signing, in Go's spelling of JSON."""
    critical = {
        "identity": {"docker-reference": "registry.example.org/lab/toy"},
        "image": {"docker-manifest-digest": digest},
        "type": kind,
    }
    document = {"critical": critical, "optional": None}
    return json.dumps(document, separators=(",", ":")).encode()


def sign(key: ec.EllipticCurvePrivateKey, payload: bytes) -> str:
    """Return the signature as cosign writes it into an annotation."""
    return base64.b64encode(key.sign(payload, ec.ECDSA(hashes.SHA256()))).decode()


def make_layer(payload: bytes, signature: str | None, **annotations: str) -> dict[str, Any]:
    """Return the descriptor of one signature."""
    made = {SIGNATURE: signature} if signature is not None else {}
    return {
        **pack.make_descriptor(PAYLOAD, sha256(payload), len(payload)),
        "annotations": made | annotations,
    }


def make_keyless_layer(payload: bytes, signature: str) -> dict[str, Any]:
    return make_layer(payload, signature, **{CERTIFICATE: "-----BEGIN CERTIFICATE-----"})


def make_stored(*pairs: tuple[bytes, dict[str, Any]]) -> Image:
    """Return the manifest with signatures, and its blobs, as it is pushed."""
    config = json.dumps({"architecture": "", "os": "", "rootfs": {"type": "layers"}}).encode()
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": pack.make_descriptor(pack.CONFIG, sha256(config), len(config)),
        "layers": [layer for _, layer in pairs],
    }
    blobs = tuple(dict.fromkeys(payload for payload, _ in pairs))
    return Image(json.dumps(manifest).encode(), config, blobs)


def push_signature(host: str, repository: str, digest: str, key: Any, **more: Any) -> None:
    """Sign a digest and store the signature beside it, as `cosign sign --key` does."""
    payload = make_payload(more.get("signed", digest), more.get("kind", TYPE))
    pair = payload, make_layer(payload, sign(key, payload))
    push(host, repository, f"{digest.replace(':', '-')}.sig", make_stored(pair))
