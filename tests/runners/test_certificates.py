"""User certificates of a real authority, read and shown to a real server."""

import re
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.errors import TryAgain
from runners.transports import fingerprint, load_private_key, parse_certificate
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
    text = sign(authority, tmp_path / "key", "-n", "me,other", "-V", "-1h:+2h", "-z", "7")
    read = parse_certificate(text)
    shown = subprocess.check_output(["ssh-keygen", "-Lf", tmp_path / "key-cert.pub"], text=True)
    assert f'Key ID: "{read.key_id}"' in shown
    assert read.ca_fingerprint in shown
    assert read.key_fingerprint in shown
    assert (read.principals, read.serial) == (("me", "other"), 7)
    assert read.valid_to - read.valid_from == timedelta(hours=3)
    assert re.search(rf"to {read.valid_to.astimezone():%Y-%m-%dT%H:%M:%S}", shown)
    assert read.problem(load_private_key(private)) == ""


def test_one_without_dates_is_valid_for_ever(authority, tmp_path):
    key = load_private_key(make_key(tmp_path / "key"))
    read = parse_certificate(sign(authority, tmp_path / "key", "-V", "always:forever"))
    assert (read.valid_from, read.valid_to, read.problem(key)) == (None, None, "")
    assert read.dates == "valid from always to for ever"


def test_it_belongs_to_its_key_and_to_its_days(authority, tmp_path):
    key = load_private_key(make_key(tmp_path / "key"))
    other = load_private_key(make_key(tmp_path / "other"))
    span = "20260102120000Z:20260103120000Z"
    read = parse_certificate(sign(authority, tmp_path / "key", "-V", span))
    early, in_time, late = (datetime(2026, 1, day, 18, tzinfo=UTC) for day in (1, 2, 3))
    assert read.problem(key, in_time) == ""
    dates = "valid from 2026-01-02 12:00 UTC to 2026-01-03 12:00 UTC"
    for when, message in ((early, "not valid yet"), (late, "has expired")):
        assert message in read.problem(key, when)
        assert dates in read.problem(key, when)
    assert fingerprint((tmp_path / "key.pub").read_text()) in read.problem(other, in_time)


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
