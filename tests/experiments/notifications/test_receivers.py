"""Posting to addresses of others: never inside the site, never for long, never more than little."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.notifications import receivers
from experiments.notifications.receivers import NotAllowed, check_address, post
from tests.web_receiver import Receiver, serve_webhook, write_answer, write_certificate

LOOPBACK = ["127.0.0.0/8", "::1/128"]
INSIDE = [
    *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.9.9", "192.168.1.1", "100.64.0.1"),
    *("169.254.169.254", "100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.1"),
    *("255.255.255.255", "240.0.0.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0"),
    *("fd00:ec2::254", "fc00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"),
    *("::ffff:169.254.169.254", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1"),
    "::ffff:168.63.129.16",
]


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    settings.WEBHOOKS_WITHOUT_TLS = True
    settings.WEBHOOK_INSIDE_NETWORKS = LOOPBACK
    with serve_webhook() as server:
        yield server


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> float:
    """Have limits of time that a test can wait for."""
    monkeypatch.setattr(receivers, "SECONDS", 0.4)
    return 0.4


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[str]:
    """Have each look-up give the addresses; return the hosts that were looked up."""
    asked: list[str] = []

    def look_up(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        asked.append(host)
        return [
            (
                socket.AF_INET6 if ":" in address else socket.AF_INET,
                socket.SOCK_STREAM,
                6,
                "",
                (address, port),
            )
            for address in addresses
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return asked


def test_what_is_posted_arrives_as_it_was_written(receiver: Receiver) -> None:
    answer = post(receiver.address, b'{"a": 1}', {"webhook-id": "one"})
    assert (answer.status, answer.problem) == (200, "")
    (taken,) = receiver.taken
    assert taken.line == "POST /hook?from=tare HTTP/1.1"
    assert taken.headers["host"] == f"localhost:{receiver.port}"
    assert taken.headers["webhook-id"] == "one"
    assert taken.body == b'{"a": 1}'


@pytest.mark.parametrize("address", INSIDE)
def test_no_address_inside_the_site_is_connected_to(
    monkeypatch: pytest.MonkeyPatch, settings: Any, address: str
) -> None:
    resolve_to(monkeypatch, address)
    monkeypatch.setattr(socket.socket, "connect", lambda *_: pytest.fail("it connected"))
    with pytest.raises(NotAllowed, match="inside this site’s network") as problem:
        post("https://example.org/", b"", {})
    assert address not in str(problem.value)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "[::1]", "169.254.169.254", "[::ffff:10.0.0.1]", "[fd00:ec2::254]"]
)
def test_numbers_of_the_site_are_refused_before_anything_is_stored(host: str) -> None:
    with pytest.raises(NotAllowed, match="inside"):
        check_address(f"https://{host}/hook")


@pytest.mark.parametrize("host", ["0x7f.1", "2130706433", "127.1", "localhost"])
def test_other_spellings_of_this_machine_are_refused_when_they_are_looked_up(host: str) -> None:
    with pytest.raises(NotAllowed, match="inside"):
        post(f"https://{host}/hook", b"", {})


def test_one_address_inside_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "93.184.216.34", "10.0.0.1")
    with pytest.raises(NotAllowed):
        post("https://example.org/", b"", {})


def test_the_name_is_looked_up_once_and_the_connection_goes_to_what_was_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = resolve_to(monkeypatch, "93.184.216.34")
    connected: list[Any] = []

    def refuse(self: socket.socket, address: Any) -> None:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert post("https://example.org:8443/", b"", {}).problem == "Nobody listens there."
    assert asked == ["example.org"]
    assert connected == [("93.184.216.34", 8443)]


def test_an_administrator_can_list_a_network(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_INSIDE_NETWORKS = ["10.1.0.0/16"]
    for address in ("10.1.2.3", "::ffff:10.1.2.3"):
        resolve_to(monkeypatch, address)
        monkeypatch.setattr(socket.socket, "connect", lambda *_: (_ for _ in ()).throw(OSError))
        assert post("https://inside.example/", b"", {}).problem == "It cannot be reached."
    resolve_to(monkeypatch, "10.2.0.1")
    with pytest.raises(NotAllowed):
        post("https://inside.example/", b"", {})


def test_what_a_listed_network_answers_is_not_shown(receiver: Receiver) -> None:
    assert post(receiver.address, b"", {}).body == ""


@pytest.mark.parametrize(
    "address",
    [
        "",
        "example.org",
        "ftp://example.org/",
        "file:///etc/passwd",
        "https://",
        "https://user:word@example.org/",
        "https://example.org:99999/",
        "https://exa mple.org/",
        "https://example.org/\r\nHost: inside",
        "https://example.org/#part",
        "https://ex\x00ample.org/",
        "https://[::1/",
        "http://example.org/",  # unless the site allows it
        "gopher://example.org/",
        "https://example.org\\@10.0.0.1/",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(NotAllowed):
        check_address(address)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(receiver: Receiver, status: int) -> None:
    with serve_webhook() as other:
        receiver.answer = write_answer(status, headers=f"Location: {other.address}\r\n")
        answer = post(receiver.address, b"", {})
    assert answer.problem == f"It answered with HTTP {status}: redirects are not followed."
    assert other.taken == []


@pytest.mark.parametrize(
    ("answer", "drips", "problem"),
    [
        (b"", b"", "It did not answer within 0 s."),
        (b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", "It did not answer within 0 s."),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\n", b"X-Many: yes\r\n", ""),
    ],
)
def test_one_that_hangs_or_drips_is_left_after_a_short_time(
    receiver: Receiver, short: float, answer: bytes, drips: bytes, problem: str
) -> None:
    receiver.answer, receiver.drips = answer, drips
    result = post(receiver.address, b"", {})
    assert result.status is None
    assert result.problem
    assert problem in ("", result.problem)
    assert result.seconds < 10 * short


def test_a_body_without_an_end_is_read_for_a_short_time_and_counts(
    receiver: Receiver, short: float
) -> None:
    receiver.answer, receiver.drips = b"HTTP/1.1 200 OK\r\n\r\n", b"x"
    assert post(receiver.address, b"", {}).problem == ""


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\xff\xfe",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"x" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 500 + b"\r\n",
    ],
)
def test_what_is_no_answer_is_no_success(receiver: Receiver, answer: bytes) -> None:
    receiver.answer = answer
    result = post(receiver.address, b"", {})
    assert result.status is None
    assert result.problem


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take this machine for one of the public internet, so that its answers are shown."""
    monkeypatch.setattr(receivers, "is_public", lambda _: True)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"thanks", "thanks"),
        (
            b"\xff\xfe\x00 caf\xe9",
            "\N{REPLACEMENT CHARACTER}" * 2 + " caf\N{REPLACEMENT CHARACTER}",
        ),
        (b"<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("a\u202eb\x1b[31m\nc".encode(), "a b [31m c"),
        (b"x" * 10_000_000, "x" * receivers.MOST_BODY_BYTES),
    ],
)
def test_of_a_body_the_first_bytes_are_kept_as_a_line_of_text(
    receiver: Receiver, body: bytes, shown: str
) -> None:
    receiver.answer = write_answer(200, body)
    answer = post(receiver.address, b"", {})
    assert (answer.problem, answer.body) == ("", shown)


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("length", "content"),
    [("Transfer-Encoding: chunked", b"zz\r\n"), ("Content-Length: 99", b"cut"), ("X: y", b"open")],
)
def test_a_status_counts_whatever_follows_it(
    receiver: Receiver, length: str, content: bytes
) -> None:
    receiver.answer = f"HTTP/1.1 200 OK\r\n{length}\r\n\r\n".encode() + content
    assert post(receiver.address, b"", {}).problem == ""


def test_nobody_listens(receiver: Receiver) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert post(f"http://127.0.0.1:{port}/", b"", {}).problem == "Nobody listens there."


def test_no_such_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert post("https://nowhere.example/", b"", {}).problem == "There is no host of this name."


@pytest.mark.parametrize(
    ("names", "is_trusted", "problem"),
    [
        (["localhost"], True, ""),
        (["localhost"], False, "Its certificate is not trusted"),
        (["other.example"], True, "Its certificate is not trusted"),
    ],
)
def test_certificates_are_checked_with_the_name(
    settings: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    names: list[str],
    is_trusted: bool,
    problem: str,
) -> None:
    settings.WEBHOOK_INSIDE_NETWORKS = LOOPBACK
    certificate = write_certificate(tmp_path / "it.pem", *names)
    if is_trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with serve_webhook(certificate) as receiver:
        answer = post(receiver.address, b"{}", {})
    assert answer.problem.startswith(problem)
    assert bool(answer.problem) == bool(problem)
    assert len(receiver.taken) == (not problem)


def test_a_host_without_tls_is_no_success(settings: Any) -> None:
    settings.WEBHOOK_INSIDE_NETWORKS = LOOPBACK
    with serve_webhook() as receiver:
        answer = post(receiver.address.replace("http:", "https:"), b"{}", {})
    assert answer.problem == "It does not speak TLS as it should."


def test_proxies_of_the_environment_are_not_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert post(receiver.address, b"", {}).status == 200
