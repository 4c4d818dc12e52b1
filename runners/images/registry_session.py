"""Requests to a registry: where they may go, how they are authorized, what failures mean.

Refused means that the registry answered (no such name, no permission, wrong content), TryAgain that
it did not (host not reachable, too many requests).
"""

import base64
import contextlib
import hashlib
import http.client
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from runners.errors import Refused, TryAgain
from runners.images import addresses
from runners.images.references import Reference
from runners.payload import manifests

CHUNK = 1 << 18  # bytes
LIMIT = 16 << 20  # bytes of a manifest, a configuration or a token
TIMEOUT = 30  # seconds without a byte
HUB = "registry-1.docker.io"  # the host that serves images of docker.io
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


class Missing(Refused):
    """The registry answers, and has nothing of this name."""


@dataclass(frozen=True)
class Access:
    """The user of a registry and the hosts that may be reached. Its repr has no password."""

    user: str = ""
    password: str = field(default="", repr=False)
    inside: Collection[str] = ()  # hosts in the own network, or without TLS: see `addresses`


class Session:
    """Requests to one repository, with the authorization that they need."""

    def __init__(self, reference: Reference, access: Access) -> None:
        self.reference, self.access = reference, access
        self.host = HUB if reference.host == "docker.io" else reference.host
        scheme = "http" if addresses.is_plain(self.host, access.inside) else "https"
        self.base = f"{scheme}://{self.host}/v2/{reference.repository}"
        addresses.check_address(self.base, access.inside)
        self.authorization = ""  # the Authorization header

    def fetch_manifest(self, name: str) -> bytes:
        accepted = ", ".join((*MANIFESTS, *manifests.INDEXES))
        with self.open(f"/manifests/{name}", {"Accept": accepted}) as answer:
            return self.read_whole(answer)

    def fetch_referrers(self, digest: str) -> bytes:
        """Return the index of what refers to a manifest."""
        with self.open(f"/referrers/{digest}", {"Accept": manifests.INDEXES[0]}) as answer:
            return self.read_whole(answer)

    def fetch_small_blob(self, digest: str, limit: int = LIMIT) -> bytes:
        """Return a blob that fits into memory."""
        manifests.parse_digest(digest)
        with self.open(f"/blobs/{digest}") as answer:
            content = self.read_whole(answer, limit)
        manifests.check_digest("the configuration", digest, hashlib.sha256(content).hexdigest())
        return content

    @contextlib.contextmanager
    def open_blob(self, digest: str, start: int) -> Iterator[tuple[Any, bool]]:
        """Open a blob from byte `start` on; the second value says whether the registry did so."""
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self.open(f"/blobs/{digest}", headers) as answer:
            yield answer, answer.status == 206

    def read_whole(self, answer: Any, limit: int = LIMIT) -> bytes:
        content = b"".join(read_chunks(self.host, answer, limit))
        if len(content) > limit:
            raise Refused(f"{self.host} answers with more than a manifest can be.")
        return content

    def open(self, path: str, headers: Mapping[str, str] | None = None) -> Any:
        """Return a successful response. Authorizes once if the registry demands it."""
        for attempt in range(2):
            request = urllib.request.Request(self.base + path, headers=dict(headers or {}))  # noqa: S310
            if self.authorization:
                # Unredirected: the hosts that a redirect leads to must not see it.
                request.add_unredirected_header("Authorization", self.authorization)
            try:
                return _open_request(request, self.host, self.access.inside)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == 401 and attempt == 0:
                        self.authorize(error.headers.get_all("WWW-Authenticate") or [])
                        continue
                    raise self.explain_http_error(error) from None
        raise AssertionError

    def authorize(self, challenges: list[str]) -> None:
        """Set the Authorization header by the registry's WWW-Authenticate headers."""
        basic = f"{self.access.user}:{self.access.password}".encode()
        basic_authorization = (
            f"Basic {base64.b64encode(basic).decode()}" if self.access.user else ""
        )
        for challenge in challenges:
            kind, _, rest = challenge.partition(" ")
            fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            if kind.lower() == "bearer" and "realm" in fields:
                self.authorization = self.request_bearer_token(fields, basic_authorization)
                return
            if kind.lower() == "basic" and basic_authorization:
                self.authorization = basic_authorization
                return
        self.authorization = ""

    def request_bearer_token(self, fields: Mapping[str, str], basic_authorization: str) -> str:
        """Return the header with a token of the realm that the challenge names."""
        addresses.check_address(fields["realm"], self.access.inside)
        realm = urllib.parse.urlsplit(fields["realm"])
        if realm.scheme != "https" and not self.base.startswith("http:"):
            raise Refused(f"{self.host} wants its password sent without TLS, to {realm.netloc}.")
        parameters = {
            "service": fields.get("service", ""),
            "scope": fields.get("scope") or f"repository:{self.reference.repository}:pull",
        }
        query = "&".join(filter(None, [realm.query, urllib.parse.urlencode(parameters)]))
        address = urllib.parse.urlunsplit((realm.scheme, realm.netloc, realm.path, query, ""))
        request = urllib.request.Request(address)  # noqa: S310 - http and https only
        if basic_authorization:
            request.add_unredirected_header("Authorization", basic_authorization)
        try:
            with _open_request(request, realm.netloc, self.access.inside) as answer:
                answer_document = parse_object(self.read_whole(answer))
        except manifests.BadImage as error:
            raise Refused(f"{realm.netloc} gives no token for {self.reference}: {error}.") from None
        except urllib.error.HTTPError as error:
            with error:
                raise self.explain_http_error(error) from None
        token = answer_document.get("token") or answer_document.get("access_token")
        if not isinstance(token, str):
            raise Refused(f"{realm.netloc} gives no token for {self.reference}.")
        return f"Bearer {token}"

    def explain_http_error(self, error: urllib.error.HTTPError) -> Exception:
        """Return the exception that explains an HTTP error to a person."""
        content = b""
        with contextlib.suppress(OSError, http.client.HTTPException):
            content = error.read(LIMIT)
        message = _read_error_messages(content)
        name, quoted = str(self.reference), f" It says: {message}." if message else ""
        if error.code in (401, 403):
            if self.access.user:
                reader = (
                    f"for user {self.access.user}: name or password are wrong, or may not read it"
                )
            else:
                reader = "for everybody: it wants a user name and a password, or has no such name"
            return Refused(f"{self.host} does not give {name} {reader}.{quoted}")
        if error.code == 404:
            return Missing(
                f"{self.host} has no {name}: no such name, tag or digest (any more).{quoted}"
            )
        if error.code == 429:
            wait = error.headers.get("Retry-After", "")
            after = f" It asks to wait {wait} s." if wait.isdigit() else ""
            return TryAgain(f"{self.host} was asked too often for now.{after}{quoted}", kind="busy")
        if error.code >= 500:
            return TryAgain(f"{self.host} fails with HTTP {error.code}.{quoted}", kind="busy")
        return Refused(
            f"{self.host} answers with HTTP {error.code} {error.reason} to {name}.{quoted}"
        )


def _open_request(request: urllib.request.Request, host: str, inside: Collection[str]) -> Any:
    """Return the response. Raises HTTPError, Refused, and TryAgain if there is no response."""
    try:
        return addresses.open_address(request, inside, TIMEOUT)
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        raise _explain_failure(host, error.reason) from None
    except (OSError, http.client.HTTPException) as error:
        raise _explain_failure(host, error) from None
    except ValueError:  # of urllib, about where a redirect leads
        raise Refused(f"{host} sends on to what is no address of the web.") from None


def _explain_failure(host: str, why: object) -> TryAgain:
    """Return the exception that says why a host could not be reached."""
    if isinstance(why, ssl.SSLCertVerificationError):
        return TryAgain(
            f"{host} shows a certificate that this machine does not trust: {why.verify_message}.",
            kind="unreachable",
        )
    if isinstance(why, ssl.SSLError):
        return TryAgain(
            f"{host} does not speak TLS as it should: {why.reason or why}.", kind="unreachable"
        )
    if isinstance(why, socket.gaierror):
        return TryAgain(f"No host is called {host}.", kind="host name")
    if isinstance(why, TimeoutError):
        return TryAgain(f"{host} did not answer in {TIMEOUT} s.", kind="time-out")
    if isinstance(why, ConnectionRefusedError):
        return TryAgain(f"Nobody listens at {host}.", kind="unreachable")
    return TryAgain(f"{host} cannot be reached: {why or type(why).__name__}.", kind="unreachable")


def read_chunks(host: str, answer: Any, limit: int | None = None) -> Iterator[bytes]:
    """Yield the content, up to a limit and one chunk more. TryAgain if the connection breaks."""
    count = 0
    try:
        while chunk := answer.read1(CHUNK):
            count += len(chunk)
            yield chunk
            if limit is not None and count > limit:
                return
    except (OSError, http.client.HTTPException) as error:
        raise _explain_failure(host, error) from None


def parse_object(content: bytes) -> dict[str, Any]:
    if content.lstrip()[:1] == b"<":
        raise manifests.BadImage("the answer is a web page")
    document = manifests.parse_json(content, "the answer")
    if not isinstance(document, dict):
        raise manifests.BadImage("the answer is no JSON object")
    return document


def _read_error_messages(content: bytes) -> str:
    """Return the messages of a registry's error document, or ""."""
    try:
        errors = manifests.parse_json(content, "the answer")["errors"]
        messages = [str(entry.get("message") or entry.get("code")) for entry in errors]
    except (manifests.BadImage, KeyError, TypeError, AttributeError):
        return ""
    return "; ".join(messages)[:500].rstrip(".")
