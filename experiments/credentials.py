"""Private keys as an administrator hands them in."""

from __future__ import annotations

from runners.errors import TryAgain
from runners.transports import fingerprint, load_private_key


def fingerprint_of(private_key: str, passphrase: str = "") -> str:
    """Return `SHA256:...` of the public half. ValueError says, without secrets, what is wrong."""
    try:
        key = load_private_key(private_key, passphrase)
    except TryAgain as problem:
        raise ValueError(str(problem)) from None
    return fingerprint(f"{key.get_name()} {key.get_base64()}")


def normalised(private_key: str) -> str:
    """Return the text as a key file has it: browsers send CRLF, and lose the last line's end."""
    return private_key.replace("\r\n", "\n").strip() + "\n"
