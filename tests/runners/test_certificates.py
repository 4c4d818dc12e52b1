"""User certificates of a real authority, read and shown to a real server."""

import base64
import hashlib
import re
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    SSHCertificateBuilder,
    SSHCertificateType,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.errors import TryAgain
from runners.transports import fingerprint_public_key, load_private_key, parse_certificate
from runners.transports.keys import Reader
from tests.runners.sshd import make_key, sign


@pytest.fixture
def authority(tmp_path):
    make_key(tmp_path / "authority")
    return tmp_path / "authority"


def failure(transport) -> TryAgain:
    with pytest.raises(TryAgain) as caught:
        transport.run(["true"], timeout=2)
    return caught.value


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_certificate_is_read_as_ssh_keygen_reads_it(authority, tmp_path, kind):
    private = make_key(tmp_path / "key", "-t", kind)
    text = sign(authority, tmp_path / "key", "-n", "me,other", "-V", "-1h:+2h")
    read = parse_certificate(text)
    shown = subprocess.check_output(["ssh-keygen", "-Lf", tmp_path / "key-cert.pub"], text=True)
    assert f'Key ID: "{read.key_id}"' in shown
    assert read.ca_fingerprint in shown
    assert read.key_fingerprint in shown
    assert read.principals == ("me", "other")
    assert read.valid_to - read.valid_from == timedelta(hours=3)
    assert re.search(rf"to {read.valid_to.astimezone():%Y-%m-%dT%H:%M:%S}", shown)
    assert read.why_not_usable(load_private_key(private)) == ""


def test_one_without_dates_is_valid_for_ever(authority, tmp_path):
    key = load_private_key(make_key(tmp_path / "key"))
    read = parse_certificate(sign(authority, tmp_path / "key", "-V", "always:forever"))
    assert (read.valid_from, read.valid_to, read.why_not_usable(key)) == (None, None, "")
    assert read.dates == "valid from always to for ever"


def test_it_belongs_to_its_key_and_to_its_days(authority, tmp_path):
    key = load_private_key(make_key(tmp_path / "key"))
    other = load_private_key(make_key(tmp_path / "other"))
    span = "20260102120000Z:20260103120000Z"
    read = parse_certificate(sign(authority, tmp_path / "key", "-V", span))
    early, in_time, late = (datetime(2026, 1, day, 18, tzinfo=UTC) for day in (1, 2, 3))
    assert read.why_not_usable(key, in_time) == ""
    dates = "valid from 2026-01-02 12:00 UTC to 2026-01-03 12:00 UTC"
    for when, message in ((early, "not valid yet"), (late, "has expired")):
        assert message in read.why_not_usable(key, when)
        assert dates in read.why_not_usable(key, when)
    assert fingerprint_public_key((tmp_path / "key.pub").read_text()) in read.why_not_usable(
        other, in_time
    )


def test_what_is_none_is_called_what_it_is(authority, tmp_path):
    private = make_key(tmp_path / "key")
    whole = sign(authority, tmp_path / "key")
    host = sign(authority, tmp_path / "key", "-h", "-n", "login1")
    for text, message in (
        ("", "No certificate was given"),
        (private, "This is a private key, not a certificate"),
        ((tmp_path / "key.pub").read_text(), "a public key that nobody has signed"),
        ("milk and eggs", "This is no SSH certificate"),
        (whole[:200], "cut off or damaged"),
        (host, "the certificate of a host"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            parse_certificate(text)
        assert private.splitlines()[1] not in str(caught.value)


def test_one_that_was_changed_is_refused(authority, tmp_path):
    make_key(tmp_path / "key")
    kind, content, *_ = sign(authority, tmp_path / "key", "-n", "me").split()
    at = len(content) // 2
    changed = content[:at] + ("A" if content[at] != "A" else "B") + content[at + 1 :]
    with pytest.raises(ValueError, match="cut off or damaged"):
        parse_certificate(f"{kind} {changed}")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(at=st.integers(0, 900), text=st.text(max_size=30))
def test_any_text_ends_in_words(tmp_path_factory, at, text):
    base = tmp_path_factory.getbasetemp() / "any"
    if not base.exists():
        base.mkdir()
        make_key(base / "authority")
        make_key(base / "key")
        sign(base / "authority", base / "key")
    whole = (base / "key-cert.pub").read_text()
    for damaged in (text, whole[:at] + text, whole[:at] + text + whole[at + 1 :]):
        message = "."
        try:
            parse_certificate(damaged)
        except ValueError as problem:
            message = str(problem)
        assert message.endswith((".", "like.", "kept."))


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_a_server_that_trusts_the_authority_lets_it_in(server, connect, authority, tmp_path, kind):
    private = make_key(tmp_path / "key", "-t", kind)
    server.trust((tmp_path / "authority.pub").read_text())
    named = sign(authority, tmp_path / "key", "-n", server.address.user)
    address = server.but(private_key=private, certificate=named)
    assert connect(address).run(["echo", "in"]).stdout == b"in\n"
    assert failure(connect(server.but(private_key=private))).kind == "key refused"
    other = sign(authority, tmp_path / "key", "-n", "somebody-else")
    assert failure(connect(server.but(private_key=private, certificate=other))).kind == (
        "key refused"
    )


def test_an_expired_one_is_refused_before_anything_is_sent(server, connect, authority, tmp_path):
    private = make_key(tmp_path / "key")
    expired = sign(authority, tmp_path / "key", "-V", "20200101:20200102")
    address = server.but(private_key=private, certificate=expired, host="no-such-host.invalid")
    error = failure(connect(address))
    assert error.kind == "certificate"
    assert "has expired: valid from 2020-01-0" in str(error)


def sign_with_security_key(certificate: str, device: Ed25519PrivateKey) -> tuple[str, str]:
    """Return the certificate as an authority on a security key signs it, and its public key.

    No such device is here: this signs what the device would (PROTOCOL.u2f of OpenSSH).
    """
    kind, content, *_ = certificate.split()
    name, application, touched = b"sk-ssh-ed25519@openssh.com", b"ssh:", b"\x01"
    fields = Reader(base64.b64decode(content))
    for size in (0, 0, 0, 8, 4, 0, 0, 8, 8, 0, 0, 0):  # up to the authority; 0: a string
        fields.take(size) if size else fields.read_string()
    public = b"".join(map(pack, (name, device.public_key().public_bytes_raw(), application)))
    body = fields.content[: fields.at] + pack(public)
    counter = (7).to_bytes(4)
    hashes = [hashlib.sha256(text).digest() for text in (application, body)]
    signature = device.sign(hashes[0] + touched + counter + hashes[1])
    signed = body + pack(pack(name) + pack(signature) + touched + counter)
    return (
        f"{kind} {base64.b64encode(signed).decode()}",
        f"{name.decode()} {base64.b64encode(public).decode()}\n",
    )


def pack(content: bytes) -> bytes:
    return len(content).to_bytes(4) + content


def test_an_authority_may_be_on_a_security_key(server, connect, authority, tmp_path):
    """The library `cryptography` refuses such certificates, or Tare would leave them to it."""
    private = make_key(tmp_path / "key")
    plain = sign(authority, tmp_path / "key", "-n", server.address.user)
    text, public_key = sign_with_security_key(plain, Ed25519PrivateKey.generate())
    server.trust(public_key)
    assert parse_certificate(text).ca_fingerprint == "SHA256:" + base64.b64encode(
        hashlib.sha256(base64.b64decode(public_key.split()[1])).digest()
    ).decode().rstrip("=")
    address = server.but(private_key=private, certificate=text)
    assert connect(address).run(["echo", "in"]).stdout == b"in\n"


@given(
    key_id=st.binary(max_size=40),
    principals=st.lists(st.binary(min_size=1, max_size=20), max_size=5),
    dates=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)).map(sorted),
    options=st.dictionaries(st.binary(min_size=1, max_size=9), st.binary(max_size=9), max_size=3),
)
def test_what_a_library_writes_is_read(key_id, principals, dates, options):
    authority, key = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    builder = (
        SSHCertificateBuilder()
        .public_key(key.public_key())
        .type(SSHCertificateType.USER)
        .key_id(key_id)
        .valid_after(dates[0])
        .valid_before(dates[1])
    )
    builder = (
        builder.valid_principals(principals) if principals else builder.valid_for_all_principals()
    )
    for name, value in options.items():
        builder = builder.add_critical_option(name, value)
    certificate = parse_certificate(builder.sign(authority).public_bytes().decode())
    assert certificate.key_id == key_id.decode(errors="replace")
    assert certificate.principals == tuple(p.decode(errors="replace") for p in principals)
    public = [
        key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        for key in (authority, key)
    ]
    assert [certificate.ca_fingerprint, certificate.key_fingerprint] == [
        fingerprint_public_key(line) for line in public
    ]
    for moment, seconds in zip((certificate.valid_from, certificate.valid_to), dates, strict=True):
        assert moment is None or moment.timestamp() == seconds
