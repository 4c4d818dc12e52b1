"""Parses SSH keys that people import, computes fingerprints, and says what is wrong with a key.

No message repeats any part of the text: it may be a secret, pasted into the wrong field.
"""

import base64
import binascii
import contextlib
import hashlib
import io
import re
import struct

import paramiko
from paramiko.ssh_exception import SSHException

from runners.errors import TryAgain

KEY_CLASSES = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)
# Errors of paramiko about bad keys; it asserts that the two halves of a key agree.
BAD_KEY = (SSHException, ValueError, IndexError, TypeError, struct.error, AssertionError)

BEGIN = re.compile(r"^-----BEGIN ([A-Z0-9 ]+)-----$", re.MULTILINE)
PUBLIC_LINE = re.compile(r"^(ssh-|ecdsa-sha2-|sk-)\S+ +AAAA", re.MULTILINE)
MAGIC = b"openssh-key-v1\0"
CIPHERS = ("none", "aes256-ctr", "aes256-cbc")  # that paramiko opens

CONVERT = "Convert a copy of the file with: ssh-keygen -p -f FILE"
ACCEPTED_KEYS = "An ed25519, ECDSA or RSA key in OpenSSH's format is wanted"


def fingerprint_public_key(public_key: str) -> str:
    """Return "SHA256:..." as ssh-keygen shows it. ValueError if the text is no public key."""
    return fingerprint_key(parse_public_key(public_key))


def parse_public_key(text: str) -> paramiko.PKey:
    """Return the key in a line such as "ssh-ed25519 AAAA... comment". ValueError if it has none."""
    with contextlib.suppress(ValueError):
        _, content = text.split()[:2]
        blob = base64.b64decode(content, validate=True)
        for key_class in KEY_CLASSES:
            with contextlib.suppress(SSHException, ValueError, IndexError):
                return key_class(data=blob)
    raise ValueError("This is no ed25519, ECDSA or RSA public key.")


def fingerprint_key(key: paramiko.PKey) -> str:
    """Return "SHA256:..." of a key."""
    return fingerprint_blob(key.asbytes())


def fingerprint_blob(blob: bytes) -> str:
    """Return "SHA256:..." of a public key in SSH's binary format."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def format_public_key(key: paramiko.PKey, comment: str = "") -> str:
    """Return the public key as a line of authorized_keys."""
    return f"{key.get_name()} {key.get_base64()} {comment}".strip()


def load_private_key(text: str, passphrase: str = "") -> paramiko.PKey:
    """Return the ed25519, ECDSA or RSA key in the text of a key file.

    Raises TryAgain, whose message says what the text is instead, and never shows any of it.
    """
    text = "\n".join(line.strip() for line in text.lstrip("\ufeff").strip().splitlines())
    kind = _read_kind(text)
    is_encrypted = _is_encrypted_openssh(text) if kind == "OPENSSH" else "ENCRYPTED" in text
    if is_encrypted and not passphrase:
        raise TryAgain(
            "The private key needs a passphrase, and none was given with it.", kind="passphrase"
        )
    for key_class in KEY_CLASSES:
        with contextlib.suppress(*BAD_KEY):
            return key_class.from_private_key(io.StringIO(text + "\n"), passphrase or None)
    if is_encrypted:
        raise TryAgain("The passphrase does not open the private key.", kind="passphrase")
    raise _make_refusal(
        f"The private key is damaged: not every character of it is here. {ACCEPTED_KEYS}."
    )


def _read_kind(text: str) -> str:
    """Return the word between BEGIN and PRIVATE KEY. TryAgain if Tare cannot use such a key."""
    if not text:
        raise _make_refusal("No private key was given.")
    if text.startswith("PuTTY-User-Key-File"):
        raise _make_refusal(
            "This is a PuTTY key (.ppk). In PuTTYgen, Conversions, Export OpenSSH key makes the "
            "file that is wanted."
        )
    match = BEGIN.search(text)
    label = match[1] if match else ""
    if not label.endswith("PRIVATE KEY"):
        raise _make_refusal(_describe_other_text(text, label))
    kind = label.removesuffix("PRIVATE KEY").strip()
    if kind == "DSA":
        raise _make_refusal(
            f"This is a DSA key, which SSH servers no longer accept. {ACCEPTED_KEYS}."
        )
    if kind in ("", "ENCRYPTED"):
        raise _make_refusal(f"This private key is in PKCS#8 format. {ACCEPTED_KEYS}. {CONVERT}")
    if kind not in ("OPENSSH", "RSA", "EC"):
        raise _make_refusal(f"This is a private key of another kind. {ACCEPTED_KEYS}.")
    if f"-----END {label}-----" not in text:
        raise _make_refusal(
            f"The private key is cut off: its last line, -----END {label}-----, is missing. "
            "Upload the whole file."
        )
    return kind


def _describe_other_text(text: str, label: str) -> str:
    """Return a message that says what a text is that is no private key."""
    if PUBLIC_LINE.search(text):
        if "-cert-v01@openssh.com" in text:
            return "This is an SSH certificate, not the private key that it belongs to."
        return (
            "This is the public key of a pair. The private key is the file of the same name "
            "without .pub."
        )
    if "PUBLIC KEY" in label:
        return f"This is the public key of a pair, not the private key. {ACCEPTED_KEYS}."
    if "CERTIFICATE" in label:
        return (
            "This is a certificate as web servers have it (X.509), and no SSH key. "
            f"{ACCEPTED_KEYS}."
        )
    return (
        "This text is no private key: a line -----BEGIN ... PRIVATE KEY----- is missing. "
        f"{ACCEPTED_KEYS}, with its BEGIN and END lines."
    )


def _is_encrypted_openssh(text: str) -> bool:
    """Return whether the key needs a passphrase. TryAgain if it is cut off or cannot be used."""
    inside = text.partition("OPENSSH PRIVATE KEY-----")[2].partition("-----END")[0]
    try:
        content = Reader(base64.b64decode("".join(inside.split()), validate=True))
        if content.take(len(MAGIC)) != MAGIC:
            raise ValueError
        cipher = content.read_string().decode()
        content.read_string()  # how the passphrase becomes a key
        content.read_string()
        keys = content.read_number(4)
        name = Reader(content.read_string()).read_string().decode()
        content.read_string()
    except (ValueError, binascii.Error):
        raise _make_refusal(
            "The private key is cut off or damaged: not every character of it is here. Upload "
            "the whole file, with its BEGIN and END lines."
        ) from None
    if name == "ssh-dss":
        raise _make_refusal(
            f"This is a DSA key, which SSH servers no longer accept. {ACCEPTED_KEYS}."
        )
    if name.startswith("sk-"):
        raise _make_refusal(
            "This key needs a touch of its security key each time, which nobody is there "
            f"to give. {ACCEPTED_KEYS}."
        )
    if keys != 1:
        raise _make_refusal("This file holds several keys: upload one.")
    if cipher not in CIPHERS:
        raise _make_refusal(
            "The private key is encrypted in a way that Tare does not read. Encrypt a copy of it "
            "anew with: ssh-keygen -p -Z aes256-ctr -f FILE"
        )
    return cipher != "none"


class Reader:
    """Reads the fields of SSH's binary format one by one. ValueError if they end early."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.content):
            raise ValueError("cut off")
        return self.content[self.at - size : self.at]

    def read_number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def read_string(self) -> bytes:
        return self.take(self.read_number(4))

    @property
    def is_at_end(self) -> bool:
        return self.at >= len(self.content)


def _make_refusal(message: str) -> TryAgain:
    return TryAgain(message, kind="key refused")
