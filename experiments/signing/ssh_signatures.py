"""Signatures that `ssh-keygen -Y verify` checks: the format SSHSIG of OpenSSH, by Ed25519.

The format is OpenSSH's PROTOCOL.sshsig, version 1.
"""

from __future__ import annotations

import base64
import hashlib
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

MAGIC = b"SSHSIG"
HASH = b"sha512"
ALGORITHM = b"ssh-ed25519"
LINE = 70


def make_key() -> str:
    """Return a new private key as OpenSSH writes it, without a passphrase."""
    key = Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def write_public_key(private: str) -> str:
    """Return the public key of a private one: `ssh-ed25519` and the key in base64."""
    key = _load(private).public_key()
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def find_fingerprint(public: str) -> str:
    """Return the fingerprint of a public key as `ssh-keygen -l` prints it."""
    digest = hashlib.sha256(base64.b64decode(public.split()[1])).digest()
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def sign(private: str, message: bytes, namespace: str) -> bytes:
    """Return the armoured signature of a message, as `ssh-keygen -Y sign` writes it."""
    key = _load(private)
    space = _write_string(namespace.encode())
    digest = hashlib.sha512(message).digest()
    signed = MAGIC + space + _write_string(b"") + _write_string(HASH) + _write_string(digest)
    signature = _write_string(ALGORITHM) + _write_string(key.sign(signed))
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    blob = (
        MAGIC
        + struct.pack(">I", 1)
        + _write_string(_write_string(ALGORITHM) + _write_string(public))
        + space
        + _write_string(b"")
        + _write_string(HASH)
        + _write_string(signature)
    )
    text = base64.b64encode(blob).decode()
    lines = [text[start : start + LINE] for start in range(0, len(text), LINE)]
    return "\n".join(
        ["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""]
    ).encode()


def _load(private: str) -> Ed25519PrivateKey:
    """Return a private key. ValueError if it is none, or of another kind."""
    key = load_ssh_private_key(private.encode(), None)
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError("Bundles are signed by Ed25519 keys alone.")
    return key


def _write_string(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content
