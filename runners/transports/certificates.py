"""Parses OpenSSH's user certificates, and says whether one can be used with a key now.

The format is PROTOCOL.certkeys of OpenSSH. The server decides whom it lets in; problems that can be
known earlier are reported before. docs/decisions/0085 says why no library parses it.
"""

import base64
import binascii
import contextlib
from dataclasses import dataclass, field
from datetime import UTC, datetime

import paramiko
from paramiko.ssh_exception import SSHException

from runners.errors import TryAgain
from runners.transports.keys import KEY_CLASSES, Reader, fingerprint_blob

SUFFIX = "-cert-v01@openssh.com"
# How many fields the public key in a certificate of this kind has.
PUBLIC_FIELDS = {"ssh-ed25519": 1, "ssh-rsa": 2, "ecdsa-sha2-nistp256": 2}
PUBLIC_FIELDS |= {"ecdsa-sha2-nistp384": 2, "ecdsa-sha2-nistp521": 2}
OF_A_USER = 1
DAMAGED = "The certificate is cut off or damaged: upload the whole file."


@dataclass(frozen=True)
class Certificate:
    """What Tare needs of a certificate; nothing of it is secret."""

    key_id: str
    principals: tuple[str, ...]  # accounts; none: any
    valid_from: datetime | None  # None: no beginning
    valid_to: datetime | None  # None: no end
    ca_fingerprint: str
    key_fingerprint: str  # of the key that it belongs to
    blob: bytes = field(repr=False)

    def why_not_usable(self, key: paramiko.PKey, now: datetime | None = None) -> str:
        """Return why it cannot be used with this key now, as a sentence, or ""."""
        if fingerprint_blob(key.asbytes()) != self.key_fingerprint:
            return (
                f"The certificate belongs to another key: to {self.key_fingerprint}, and this one "
                f"is {fingerprint_blob(key.asbytes())}."
            )
        return self.why_not_valid(now or datetime.now(UTC))

    def why_not_valid(self, now: datetime) -> str:
        """Return why it is not valid at `now`, as a sentence, or ""."""
        if self.valid_from and now < self.valid_from:
            return (
                f"The certificate is not valid yet: {self.dates}, and it is {_format_moment(now)}."
            )
        if self.valid_to and now >= self.valid_to:
            return f"The certificate has expired: {self.dates}, and it is {_format_moment(now)}."
        return ""

    @property
    def dates(self) -> str:
        return (
            f"valid from {_format_moment(self.valid_from) if self.valid_from else 'always'} "
            f"to {_format_moment(self.valid_to) if self.valid_to else 'for ever'}"
        )


def parse_certificate(text: str) -> Certificate:
    """Return the certificate in the text of a `-cert.pub` file. ValueError says what is wrong."""
    fields = text.split()
    if not fields:
        raise ValueError("No certificate was given.")
    if "PRIVATE KEY" in text:
        raise ValueError("This is a private key, not a certificate. Nothing of it was kept.")
    kind = fields[0].removesuffix(SUFFIX)
    if kind not in PUBLIC_FIELDS:
        raise ValueError(
            "This is no SSH certificate: the file ends in -cert.pub, and its text begins with "
            f"ssh-ed25519{SUFFIX} or the like."
        )
    if kind == fields[0]:
        raise ValueError("This is a public key that nobody has signed: -cert.pub is wanted.")
    try:
        return _parse_blob(kind, base64.b64decode(fields[1], validate=True))
    except (ValueError, IndexError, binascii.Error, OverflowError) as problem:
        if isinstance(problem, _Unusable):
            raise
        raise ValueError(DAMAGED) from None


def attach_certificate(key: paramiko.PKey, text: str) -> paramiko.PKey:
    """Return the key with its certificate, to show both to servers. TryAgain if it is not valid."""
    try:
        certificate = parse_certificate(text)
        problem = certificate.why_not_usable(key)
    except ValueError as error:
        problem = str(error)
    if problem:
        raise TryAgain(problem, kind="certificate")
    key.load_certificate(paramiko.Message(certificate.blob))
    return key


class _Unusable(ValueError):
    """A complete certificate that Tare cannot use."""


def _parse_blob(kind: str, blob: bytes) -> Certificate:
    content = Reader(blob)
    if content.read_string().decode() != kind + SUFFIX:
        raise ValueError
    content.read_string()  # nonce
    began = content.at
    for _ in range(PUBLIC_FIELDS[kind]):
        content.read_string()
    public = _pack_string(kind.encode()) + blob[began : content.at]
    content.read_number(8)  # serial number
    role = content.read_number(4)
    key_id = content.read_string().decode(errors="replace")
    principals = tuple(
        name.decode(errors="replace") for name in _read_strings(content.read_string())
    )
    valid_from, valid_to = content.read_number(8), content.read_number(8)
    content.read_string()  # critical options
    content.read_string()  # extensions
    content.read_string()  # reserved
    authority = content.read_string()
    signed = blob[: content.at]
    signature = content.read_string()
    if not content.is_at_end or not _is_signed(signed, authority, signature):
        raise ValueError
    if role != OF_A_USER:
        raise _Unusable("This is the certificate of a host; one of a user is wanted.")
    return Certificate(
        key_id=key_id,
        principals=principals,
        valid_from=_convert_to_datetime(valid_from) if valid_from else None,
        valid_to=_convert_to_datetime(valid_to),
        ca_fingerprint=fingerprint_blob(authority),
        key_fingerprint=fingerprint_blob(public),
        blob=blob,
    )


def _is_signed(signed: bytes, authority: bytes, signature: bytes) -> bool:
    """Return whether the authority signed this; True if Tare does not know its kind of key."""
    for key_class in KEY_CLASSES:
        with contextlib.suppress(SSHException, ValueError, IndexError):
            key = key_class(data=authority)
            return bool(key.verify_ssh_sig(signed, paramiko.Message(signature)))
    return True


def _read_strings(packed: bytes) -> list[bytes]:
    content, strings = Reader(packed), []
    while not content.is_at_end:
        strings.append(content.read_string())
    return strings


def _pack_string(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def _convert_to_datetime(seconds: int) -> datetime | None:
    """Return None for a date after the end of any calendar, such as OpenSSH's "forever"."""
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(seconds, tz=UTC)
    return None


def _format_moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
