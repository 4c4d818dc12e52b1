"""What a registry's name, a redirect or a realm may lead to: nothing inside that is not listed."""

import ipaddress
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from runners.errors import Refused, TryAgain
from runners.images.addresses import check_address, is_public
from runners.images.references import Reference
from runners.images.registry import resolve
from runners.images.registry_session import Access
from tests.runners import registry
from tests.runners.made_images import image, layer, os_release
from tests.runners.registry import Answer, answering, push

INSIDE = "is inside this site's network"
PUBLIC = "93.184.216.34"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def port() -> Iterator[int]:
    """The port of something inside that must never be reached, on all addresses."""
    with closing(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)) as s:
        s.setblocking(False)
        yield s.getsockname()[1]
        with pytest.raises(BlockingIOError):  # nobody has come
            s.accept()


def ask(host: str, *inside: str) -> None:
    resolve(Reference(host, "x", "latest"), Access("jo", "secret", inside))


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LOCALHOST", "127.0.0.1", "127.1", "127.8.9.10", "0x7f.1", "0x7f000001",
        "2130706433", "017700000001", "0.0.0.0", "0", "[::1]", "[::]", "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:0001]", "10.0.0.1", "192.168.1.1", "169.254.169.254",
        "100.64.0.1", "[fd00:ec2::254]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
    ],
)  # fmt: skip
def test_a_name_that_leads_inside_is_not_asked(host: str, port: int) -> None:
    with pytest.raises(Refused, match=INSIDE):
        ask(f"{host}:{port}")
    with pytest.raises(Refused, match=INSIDE):  # another port of a listed host is not listed
        ask(f"{host}:{port}", f"{host}:1", f"http://{host}:1", "localhost:1", "127.0.0.1:1")


@pytest.mark.parametrize("host", ["localhost.", "127.0.0.1.", "a..b", "x" * 70, "[:::]", "[12]"])
def test_what_is_hardly_a_name_is_an_error_in_words(host: str, port: int) -> None:
    for inside in ((), ("http://elsewhere",)):
        with pytest.raises((Refused, TryAgain)):
            ask(f"{host}:{port}", *inside)


def test_a_port_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="no address of the web"):
        ask("localhost:99999", "http://localhost")


def test_a_listed_host_is_asked_as_it_is_listed() -> None:
    asked: list[str] = []

    def answer(path: str, headers: dict[str, str]) -> Answer:
        asked.append(path)
        return 404, {}, b""

    with answering(answer) as host:
        name = host.replace("127.0.0.1", "localhost")
        for entry in (f"http://{host}", "http://127.0.0.1"):
            with pytest.raises(Refused, match="no such name"):
                ask(host, entry)
        with pytest.raises(Refused, match="no such name"):
            ask(name.replace("localhost", "LocalHost"), f"http://{name}")
        assert len(asked) == 3
        with pytest.raises(TryAgain, match="does not speak TLS"):
            ask(host, host)
        with pytest.raises(Refused, match=INSIDE):  # a name is listed, not where it leads
            ask(name, f"http://{host}", host)
    assert len(asked) == 3


LEADS = [
    ("http://127.0.0.1:PORT/latest/meta-data/", "without TLS"),
    ("https://127.0.0.1:PORT/", INSIDE),
    ("https://localhost:PORT/", INSIDE),
    ("https://0x7f.1:PORT/", INSIDE),
    ("https://[::ffff:127.0.0.1]:PORT/", INSIDE),
    ("https://listed@127.0.0.1:PORT/", "no address of the web"),
    ("https://127.0.0.1%20:PORT/", "no address of the web"),
    ("https://127.0.0.1\t:PORT/", f"no address of the web|{INSIDE}"),
    ("https://[x:PORT/", "no address of the web"),
    ("https://127.0.0.1:PORT000/", "no address of the web"),
    ("https:///x", "no address of the web"),
    ("HTTPS://127.0.0.1:PORT", INSIDE),
]


@pytest.mark.parametrize(("lead", "message"), LEADS)
def test_no_redirect_leads_inside(lead: str, message: str, port: int) -> None:
    lead = lead.replace("PORT", str(port))
    with answering(lambda path, headers: (307, {"Location": lead}, b"")) as host:
        with pytest.raises(Refused, match=message):
            ask(host, f"http://{host}")
        # Nor the second one, after a redirect that is allowed.
        with (
            answering(lambda path, headers: (302, {"Location": f"http://{host}/y"}, b"")) as first,
            pytest.raises(Refused, match=message),
        ):
            ask(first, f"http://{host}", f"http://{first}")


@pytest.mark.parametrize(
    ("lead", "message"),
    [
        *LEADS,
        ("file:///etc/passwd", "no address of the web"),
        ("ftp://127.0.0.1:PORT/", "no address of the web"),
        ("data:application/json,{}", "no address of the web"),
        ("//127.0.0.1:PORT/", "no address of the web"),
        ("https://127.0.0.1:PORT/\xe9", "no address of the web"),
        ("", "no address of the web"),
    ],
)
def test_no_realm_leads_inside(lead: str, message: str, port: int) -> None:
    asks = {"WWW-Authenticate": f'Bearer realm="{lead.replace("PORT", str(port))}"'}
    with (
        answering(lambda path, headers: (401, asks, b"")) as host,
        pytest.raises(Refused, match=message),
    ):
        ask(host, f"http://{host}")


def test_a_redirect_is_not_read() -> None:
    """Its content may have no end."""

    def answer(path: str, headers: dict[str, str]) -> Answer:
        if path == "/end":
            return 404, {}, b""
        return 307, {"Location": "/end", "Content-Length": str(1 << 50)}, b"and so on"

    with answering(answer) as host, pytest.raises(Refused, match="no such name"):
        ask(host, f"http://{host}")


def resolver(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[Any]:
    """A resolver that changes its mind, and a network that nobody answers in; what was asked."""
    seen: list[Any] = []
    coming = iter(answers)

    def look_up(host: str, port: int, *_: object, **__: object) -> list[Any]:
        seen.append(host)
        kind, protocol = socket.SOCK_STREAM, socket.IPPROTO_TCP
        return [(socket.AF_INET, kind, protocol, "", (ip, port)) for ip in next(coming)]

    def connect(_: socket.socket, address: object) -> None:
        seen.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(socket.socket, "connect", connect)
    return seen


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = resolver(monkeypatch, [PUBLIC, "8.8.8.8"], ["127.0.0.1"])
    with pytest.raises(TryAgain, match="Nobody listens"):
        ask("rebinding.example")
    assert seen == ["rebinding.example", (PUBLIC, 443), ("8.8.8.8", 443)]


def test_one_address_inside_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = resolver(monkeypatch, [PUBLIC, "10.0.0.1"])
    with pytest.raises(Refused, match=INSIDE) as caught:
        ask("both.example")
    assert seen == ["both.example"]
    assert "10.0.0.1" not in str(caught.value)


def test_tls_holds_to_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = image(layer(*os_release()))
    store = tmp_path / "store"
    with registry.serve(tmp_path, store) as plain:
        push(plain, "x", "latest", made)
    look_up = socket.getaddrinfo

    def resolve_to_loopback(host: str, *more: Any, **options: Any) -> Any:
        return look_up("localhost", *more, **options)

    with registry.serve(tmp_path, store, tls=True) as host:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "certificate.pem"))
        resolved = resolve(Reference(host, "x", "latest"), Access(inside=[host]))
        assert resolved.digest == made.digest
        monkeypatch.setattr(socket, "getaddrinfo", resolve_to_loopback)
        other = host.replace("localhost", "other.example")
        with pytest.raises(TryAgain, match="does not trust: Hostname mismatch"):
            ask(other, other)


def test_a_proxy_of_the_environment_looks_up_what_this_machine_cannot(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    asked: list[str] = []

    def answer(path: str, headers: dict[str, str]) -> Answer:
        asked.append(path)
        return 404, {}, b""

    with answering(answer) as proxy:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://{proxy}")
        with pytest.raises(Refused, match="no such name"):
            ask("plain.invalid:5000", "http://plain.invalid:5000")
        assert asked == ["http://plain.invalid:5000/v2/x/manifests/latest"]
        with pytest.raises(TryAgain, match="Tunnel connection failed: 501"):
            ask("secure.invalid")
        with pytest.raises(Refused, match=INSIDE):
            ask(f"localhost:{port}")
        monkeypatch.setenv("no_proxy", "localhost")
        with pytest.raises(Refused, match=INSIDE):
            ask(f"localhost:{port}")
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("address", "public"),
    [
        (PUBLIC, True), ("2606:4700::1111", True), ("64:ff9b::808:808", True),
        ("::ffff:8.8.8.8", True), ("2002:808:808::1", True),
        ("172.31.255.255", False), ("172.32.0.0", True), ("169.254.169.254", False),
        ("100.127.255.255", False), ("224.0.0.1", False), ("255.255.255.255", False),
        ("240.0.0.1", False), ("0.0.0.0", False), ("198.18.0.1", False),
        ("::", False), ("::1", False), ("::7f00:1", False), ("fe80::1%eth0", False),
        ("fec0::1", False), ("fc00::1", False), ("ff02::1", False), ("64:ff9b:1::808:808", False),
        ("2001:0:7f00:1::", False), ("::ffff:0:7f00:1", False),
        ("192.0.0.192", False), ("168.63.129.16", False), ("168.63.129.17", True),
        ("64:ff9b::a83f:8110", False), ("2002:a83f:8110::1", False),
    ],
)  # fmt: skip
def test_only_addresses_of_the_internet_are_public(address: str, public: bool) -> None:
    assert is_public(address) is public


@given(st.ip_addresses(v=4))
def test_an_address_within_another_is_judged_as_itself(inner: ipaddress.IPv4Address) -> None:
    number = int(inner)
    for outer in ((0xFFFF << 32) + number, (0x2002 << 112) + (number << 80),
                  (0x64FF9B << 96) + number):  # fmt: skip
        assert is_public(str(ipaddress.IPv6Address(outer))) is is_public(str(inner))


@given(st.text() | st.from_regex(r"https?://[ -~]*"))
@example("http://[")
@example("https://a:" + "9" * 5000)
def test_any_text_is_an_address_or_refused(text: str) -> None:
    try:
        host, port = check_address(text, ())
    except Refused:
        return
    assert text.lower().startswith(f"https://{host}") or ":" in host
    assert 0 < port < 65536
