"""Addresses on the web that Tare may request: none inside the site, except for hosts that it lists.

A host is looked up once. All addresses of the resolver are checked, and the connection goes to one
of these, so that a name cannot mean one address when it is checked and another when it is used.
`inside` holds the hosts that may be anywhere, as `environment.read_hosts` returns them: `host` or
`host:port` with TLS, `http://` before it without.
"""

import http.client
import ipaddress
import re
import socket
import urllib.parse
import urllib.request
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from runners.errors import Refused

# No user, no escapes, no control characters: nothing that two parsers could read differently.
ADDRESS = re.compile(
    r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?([/?][!-~]*)?", re.ASCII | re.IGNORECASE
)
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
UNICAST = ipaddress.IPv6Network("2000::/3")  # of IPv6, all that is given to the public internet
CLOUDS = [ipaddress.IPv4Network(name) for name in ("168.63.129.16/32", "192.0.0.0/24")]
"""Where Azure and Oracle tell machines about themselves: some versions of Python call these public.
The addresses of other clouds are link-local or private."""
SETTING = "IMAGE_INSIDE_HOSTS"


def open_address(request: urllib.request.Request, inside: Collection[str], timeout: float) -> Any:
    """Open a request and follow its redirects. Raises Refused, and what urllib raises."""
    check_address(request.full_url, inside)
    director = urllib.request.OpenerDirector()  # without the handlers of files and FTP
    for handler in (
        urllib.request.ProxyHandler(),
        CheckingHandler(inside),
        Redirects(inside),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    ):
        director.add_handler(handler)
    return director.open(request, timeout=timeout)


def is_plain(host: str, inside: Collection[str]) -> bool:
    """Return whether the site lists `host` or `host:port` for requests without TLS."""
    try:
        parts = urllib.parse.urlsplit(f"http://{host}")
        names = _list_spellings(parts.hostname or "", parts.port or 80, "http://")
    except ValueError:  # no host at all; `check_address` says so
        return False
    return not names.isdisjoint(inside)


def check_address(address: str, inside: Collection[str]) -> tuple[str, int]:
    """Return host and port of an address by HTTP or HTTPS. Raises Refused.

    Nothing is looked up yet.
    """
    try:
        parts = urllib.parse.urlsplit(address)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:  # brackets without an address, or a port beyond 65535
        raise Refused(f"{address[:200]!r} is no address of the web.") from None
    if not ADDRESS.fullmatch(address) or not parts.hostname:
        raise Refused(f"{address[:200]!r} is no address of the web.")
    if parts.scheme == "http" and not is_plain(parts.netloc, inside):
        raise Refused(
            f"{parts.netloc} would be asked without TLS. That is for hosts that this site lists in "
            f"{SETTING}, with http:// before the name."
        )
    return parts.hostname, port


def is_public(address: str) -> bool:
    """Return whether an IP address, as a resolver writes it, is one of the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])  # without the interface
    if isinstance(ip, ipaddress.IPv6Address):
        packed = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in NAT64 else None
        ip = ip.ipv4_mapped or ip.sixtofour or packed or ip
    if isinstance(ip, ipaddress.IPv6Address) and ip not in UNICAST:
        return False
    if any(ip in network for network in CLOUDS):
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved)


def look_up(host: str, port: int, inside: Collection[str]) -> list[tuple[Any, ...]]:
    """Return the checked addresses of `socket.getaddrinfo`. Raises Refused, OSError.

    Numbers such as 0x7f.1 and 2130706433 are checked as the address that the resolver returns.
    """
    try:
        results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError:  # a label that is empty or too long
        raise Refused(f"{host!r} is no name of a host.") from None
    is_listed = not _list_spellings(host, port, "", "http://").isdisjoint(inside)
    if not is_listed and not all(is_public(str(result[-1][0])) for result in results):
        # Without the address: people who may name an image must not explore the site's network.
        raise Refused(
            f"{host} is inside this site's network. Tare asks hosts of the public internet, and "
            f"those that this site lists in {SETTING}."
        )
    return list(results)


def connect(host: str, port: int, timeout: Any, inside: Collection[str]) -> socket.socket:
    """Return a connection to one of the checked addresses. Raises Refused, OSError."""
    problem: OSError = socket.gaierror(f"{host} has no address")
    for family, kind, protocol, _, address in look_up(host, port, inside):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(address)
        except OSError as error:
            connection.close()
            problem = error
        else:
            return connection
    raise problem


def _list_spellings(host: str, port: int, *prefixes: str) -> set[str]:
    """Return the spellings in which a site may list a host."""
    name = f"[{host}]" if ":" in host else host.rstrip(".").lower()
    return {f"{prefix}{name}{end}" for prefix in prefixes for end in ("", f":{port}")}


class CheckedConnection(http.client.HTTPConnection):
    """HTTP to a checked address."""

    inside: Collection[str] = ()

    def connect(self) -> None:
        self.sock = connect(self.host, self.port, self.timeout, self.inside)


class CheckedTLSConnection(http.client.HTTPSConnection, CheckedConnection):
    """HTTPS to a checked address: the library adds TLS, and verifies the name."""


class CheckingHandler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Opens HTTP and HTTPS by checked connections, or by the proxy that the environment names."""

    def __init__(self, inside: Collection[str]) -> None:
        super().__init__()
        self.inside = inside

    def http_open(self, req: urllib.request.Request) -> Any:
        return self.open_checked(req, http.client.HTTPConnection, CheckedConnection)

    def https_open(self, req: urllib.request.Request) -> Any:
        return self.open_checked(req, http.client.HTTPSConnection, CheckedTLSConnection)

    def open_checked(
        self,
        request: urllib.request.Request,
        by_proxy: type[http.client.HTTPConnection],
        direct: type[CheckedConnection],
    ) -> Any:
        host, port = check_address(request.full_url, self.inside)
        if request.host != urllib.parse.urlsplit(request.full_url).netloc:  # a proxy's
            with suppress(socket.gaierror):  # a name that only the proxy knows
                look_up(host, port, self.inside)
            return self.do_open(by_proxy, request)

        def make_connection(host: str, **options: Any) -> CheckedConnection:
            connection = direct(host, **options)
            connection.inside = self.inside
            return connection

        return self.do_open(make_connection, request)


class Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to addresses that may be requested, and never from TLS to plain HTTP."""

    def __init__(self, inside: Collection[str]) -> None:
        self.inside = inside

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        old_scheme, new_scheme = (
            urllib.parse.urlsplit(url).scheme for url in (req.full_url, newurl)
        )
        if new_scheme not in ("https", old_scheme):
            raise Refused(f"{req.host} sends on to {newurl}, which is not safe to follow.")
        check_address(newurl, self.inside)
        fp.close()  # unread: it may have no end
        return super().redirect_request(req, fp, code, msg, headers, newurl)
