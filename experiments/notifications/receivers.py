"""Posting to an address that a person has typed: outside of the site's network, and in short time.

The name is looked up once, all of its addresses are checked, and the connection goes to one of
these. Redirects are not followed, the proxies of the environment are not asked, and time and what
is read of an answer are limited. So nobody reaches through a webhook what they could not reach
otherwise.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from experiments.notifications.plain_lines import clean_line
from runners.images.addresses import ADDRESS, is_public

SECONDS = 10.0
"""As long may posting take from the connection to the end of what is read; a look-up comes on top.
"""
MOST_BYTES = 64 * 1024  # of an answer, with its headers
MOST_BODY_BYTES = 500  # that are kept


class NotAllowed(Exception):
    """The address must not be asked. The message can be shown to whoever has typed it."""


@dataclass(frozen=True)
class Answer:
    """What came of posting. Without a `problem` the receiver has taken it."""

    seconds: float
    status: int | None = None
    body: str = ""
    problem: str = ""

    @property
    def is_gone(self) -> bool:
        """Return whether the receiver says that it wants nothing any more."""
        return self.status == http.HTTPStatus.GONE

    @property
    def is_of_the_message(self) -> bool:
        """Return whether only this message was refused: others may be taken."""
        busy = (
            http.HTTPStatus.REQUEST_TIMEOUT,
            http.HTTPStatus.TOO_EARLY,
            http.HTTPStatus.TOO_MANY_REQUESTS,
        )
        return self.status is not None and 400 <= self.status < 500 and self.status not in busy


def check_address(address: str) -> tuple[str, int, str]:
    """Return host, port and path of an address. Raises NotAllowed; nothing is looked up."""
    try:
        parts = urlsplit(address)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        raise NotAllowed("This is no address of the web.") from None
    if not ADDRESS.fullmatch(address) or not parts.hostname or parts.fragment:
        raise NotAllowed("This is no address of the web, such as https://example.org/tare.")
    if parts.scheme == "http" and not settings.WEBHOOKS_WITHOUT_TLS:
        raise NotAllowed("This site posts by https only.")
    try:
        literal = ipaddress.ip_address(parts.hostname)
    except ValueError:
        pass
    else:
        _require_allowed(parts.hostname, [str(literal)])
    path = parts.path or "/"
    return parts.hostname, port, f"{path}?{parts.query}" if parts.query else path


def post(address: str, body: bytes, headers: Mapping[str, str]) -> Answer:
    """Post to an address and return what came of it. Raises NotAllowed."""
    host, port, path = check_address(address)
    began = time.monotonic()
    is_tls = address.lower().startswith("https:")
    connection: CheckedHTTP | CheckedHTTPS
    if is_tls:
        connection = CheckedHTTPS(host, port, context=ssl.create_default_context())
    else:
        connection = CheckedHTTP(host, port)
    status, text, problem = None, b"", ""
    try:
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        status = response.status
        text = _read_beginning(response)
    except (OSError, http.client.HTTPException, ValueError) as error:
        problem = _explain_failure(error)
    finally:
        connection.end()
    seconds = time.monotonic() - began
    if status is not None:
        problem = "" if 200 <= status < 300 else _explain_status(status)
    shown = "" if connection.is_inside else clean_line(text.decode(errors="replace"))
    return Answer(seconds, status, shown, problem)


def _read_beginning(response: http.client.HTTPResponse) -> bytes:
    """Return the first bytes of a body; of one that breaks off or hangs, what there was of it."""
    text = b""
    try:
        while len(text) < MOST_BODY_BYTES and (part := response.read1(MOST_BODY_BYTES - len(text))):
            text += part
    except (OSError, http.client.HTTPException, ValueError):
        return text
    return text


def _explain_status(status: int) -> str:
    if 300 <= status < 400:
        return f"It answered with HTTP {status}: redirects are not followed."
    return f"It answered with HTTP {status}."


def _explain_failure(error: Exception) -> str:
    """Return in words why there is no answer; without any address of a network."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"Its certificate is not trusted: {clean_line(error.verify_message)}."
    if isinstance(error, ssl.SSLError):
        return "It does not speak TLS as it should."
    if isinstance(error, socket.gaierror):
        return "There is no host of this name."
    if isinstance(error, TimeoutError):
        return f"It did not answer within {SECONDS:.0f} s."
    if isinstance(error, ConnectionRefusedError):
        return "Nobody listens there."
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        return "It cannot be reached."
    return "It broke the connection off, or its answer is no HTTP."


def _look_up(host: str, port: int) -> tuple[list[tuple[Any, ...]], bool]:
    """Return the checked addresses of a host, and whether one of them is inside the site.

    Raises NotAllowed, OSError.
    """
    try:
        results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:
        raise NotAllowed("This is no name of a host.") from None
    addresses = [str(result[-1][0]) for result in results]
    return list(results), _require_allowed(host, addresses)


def _require_allowed(host: str, addresses: list[str]) -> bool:
    """Return whether one of the addresses is inside the site, in a network that is listed.

    Raises NotAllowed, without the address, if one is inside and not listed.
    """
    inside = [text for text in addresses if not is_public(text)]
    if not all(_is_listed(text) for text in inside):
        raise NotAllowed(
            f"{host} is inside this site’s network: nothing is posted there, "
            "unless its administrator allows that network."
        )
    return bool(inside)


def _is_listed(text: str) -> bool:
    address = _parse_address(text)
    networks = (ipaddress.ip_network(name, False) for name in settings.WEBHOOK_INSIDE_NETWORKS)
    return any(address in network for network in networks)


def _parse_address(text: str) -> IPv4Address | IPv6Address:
    """Return an address as a resolver writes it; one of IPv4 that IPv6 wraps as that of IPv4."""
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


class TimedReader(io.RawIOBase):
    """Reads from a socket until a time and up to a size, however slowly the bytes come."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock, self.deadline, self.left = sock, deadline, MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what there is. Raises TimeoutError, and OSError where it is too much."""
        if self.left <= 0:
            raise http.client.HTTPException("too much")
        self.sock.settimeout(find_rest(self.deadline))
        count = self.sock.recv_into(memoryview(buffer)[: self.left])
        self.left -= count
        return count


class TimedSocket:
    """What `http.client` uses of a socket, with one deadline for all of it."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock, self.deadline = sock, deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        assert mode == "rb"
        return io.BufferedReader(TimedReader(self.sock, self.deadline))

    def sendall(self, content: bytes) -> None:
        self.sock.settimeout(find_rest(self.deadline))
        self.sock.sendall(content)

    def close(self) -> None:
        """Leave it open: `http.client` closes it before the body is read, if no other follows."""


def find_rest(deadline: float) -> float:
    """Return the seconds until a moment of `time.monotonic`. Raises TimeoutError after it."""
    rest = deadline - time.monotonic()
    if rest <= 0:
        raise TimeoutError
    return rest


class CheckedHTTP(http.client.HTTPConnection):
    """HTTP to a checked address."""

    is_inside = False
    opened: socket.socket | None = None

    def connect(self) -> None:
        """Connect to the first of the checked addresses that answers."""
        results, self.is_inside = _look_up(self.host, self.port)
        deadline = time.monotonic() + SECONDS
        problem: OSError = socket.gaierror("no address")
        for family, kind, protocol, _, address in results:
            sock = None
            try:
                sock = socket.socket(family, kind, protocol)  # fails for a family that is off
                # One that hangs leaves time for the others.
                sock.settimeout(min(find_rest(deadline), SECONDS / len(results)))
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.opened = self.secure(sock, deadline)
            except OSError as error:
                if sock is not None:
                    sock.close()
                problem = error
            else:
                self.sock = TimedSocket(self.opened, deadline)
                return
        raise problem

    def end(self) -> None:
        """Close the connection, whatever of the answer was not read."""
        if self.opened is not None:
            self.opened.close()

    def secure(self, sock: socket.socket, deadline: float) -> socket.socket:
        """Return the connection on which HTTP is spoken."""
        return sock


class CheckedHTTPS(CheckedHTTP):
    """HTTPS to a checked address, with the host's certificate verified."""

    def __init__(self, host: str, port: int, *, context: ssl.SSLContext) -> None:
        super().__init__(host, port)
        self.context = context
        self.default_port = http.client.HTTPS_PORT  # so that the header Host has no :443

    def secure(self, sock: socket.socket, deadline: float) -> socket.socket:
        """Return the connection with TLS around it."""
        sock.settimeout(find_rest(deadline))
        return self.context.wrap_socket(sock, server_hostname=self.host)
