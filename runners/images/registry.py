"""A client of OCI registries: resolve a reference to a digest, fetch the image as an OCI archive.

This is the small part of the OCI distribution specification that fetching needs. Every byte is
checked against its digest, so neither the registry nor the network is trusted. Refused means that
the registry answered (no such name, no permission, wrong content), TryAgain that it did not (host
not reachable, too many requests).
"""

import base64
import contextlib
import hashlib
import http.client
import io
import re
import socket
import ssl
import tarfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

from runners.errors import Refused, TryAgain
from runners.images import addresses
from runners.payload import manifests, pack

CHUNK = 1 << 18  # bytes
LIMIT = 16 << 20  # bytes of a manifest, a configuration or a token
TIMEOUT = 30  # seconds without a byte
ATTEMPTS = 4  # connections for one blob
HUB = "registry-1.docker.io"  # the host that serves images of docker.io
MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
WORD = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REFERENCE = re.compile(
    r"(?:(?P<host>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d{1,5})?|\[[0-9a-fA-F:]+\](?::\d{1,5})?)/)?"
    rf"(?P<repository>{WORD}(?:/{WORD})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True)
class Reference:
    """The name of an image, as `docker pull` takes it. The digest wins over the tag."""

    host: str  # "docker.io", "localhost:5000"
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def tag_or_digest(self) -> str:
        return self.digest or self.tag


@dataclass(frozen=True)
class Access:
    """The user of a registry and the hosts that may be reached. Its repr has no password."""

    user: str = ""
    password: str = field(default="", repr=False)
    inside: Collection[str] = ()  # hosts in the own network, or without TLS: see `addresses`


@dataclass(frozen=True)
class Resolved:
    """The image for one platform that a reference means at this moment."""

    reference: Reference
    digest: str  # of the image's own manifest, by which it is identified
    manifest: bytes = field(repr=False)
    size: int = 0  # bytes of all blobs
    index_digest: str = ""  # of the list of platforms, if the reference named one


@dataclass(frozen=True)
class Descriptor:
    """A blob as a manifest lists it."""

    digest: str
    size: int


def parse(text: str) -> Reference:
    """Parse `docker://host/name:tag@sha256:...`; host and tag are optional. Raises Refused."""
    bare = re.sub(r"^(docker|oci|https?)://", "", text.strip())
    match = REFERENCE.fullmatch(bare)
    if not match:
        raise Refused(
            f"{text!r} is no reference of an image: it should look like "
            "docker://registry.example.org/group/name:tag, in small letters, without spaces."
        )
    host, repository = match["host"] or "", match["repository"]
    if host and not re.search(r"[.:\[]", host) and host != "localhost":
        host, repository = "", f"{host}/{repository}"  # "group/name" of the default registry
        if not re.fullmatch(rf"{WORD}(/{WORD})*", repository):
            raise Refused(f"{text!r} is no reference of an image: names are in small letters.")
    host = host or "docker.io"
    if host in ("docker.io", "index.docker.io"):
        host = "docker.io"
        repository = repository if "/" in repository else f"library/{repository}"
    tag, digest = match["tag"] or "", match["digest"] or ""
    return Reference(host, repository, tag or ("" if digest else "latest"), digest)


def resolve(
    reference: Reference, access: Access | None = None, *, architecture: str = "amd64"
) -> Resolved:
    """Ask the registry for a reference's image for Linux. Raises Refused, TryAgain."""
    session = Session(reference, access or Access())
    content = session.fetch_manifest(reference.tag_or_digest)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    index_digest = ""
    if reference.digest and digest != reference.digest:
        raise Refused(
            f"{reference.host} answers with something else: its digest is {digest}, "
            f"not {reference.digest}."
        )
    with _refuse_bad_images(reference):
        document = _parse_object(content)
        for _ in range(3):  # an index may name another index
            if "manifests" not in document:
                break
            index_digest = index_digest or digest
            digest = manifests.choose_manifest(document["manifests"], architecture, "linux")
            manifests.parse_digest(digest)
            content = session.fetch_manifest(digest)
            actual_digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
            manifests.check_digest("the manifest", digest, actual_digest.partition(":")[2])
            document = _parse_object(content)
        if "layers" not in document or "config" not in document:
            raise manifests.BadImage(
                "the registry has it in a form from before 2016, or as something else than an "
                f"image (schemaVersion {document.get('schemaVersion')!r}, "
                f"{document.get('artifactType') or document.get('mediaType')!r})"
            )
        size = sum(manifests.parse_size(blob) for blob in (document["config"], *document["layers"]))
    return Resolved(reference, digest, content, size, index_digest)


def fetch(
    resolved: Resolved,
    target: Path,
    access: Access | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    architecture: str = "amd64",
) -> str:
    """Download an image as an OCI archive and return its digest. Raises Refused, TryAgain.

    `progress` is called with the bytes received so far and the bytes in total. After TryAgain
    `TARGET.part` stays, and the next call continues it; `target` itself exists only once it is
    complete and every digest was right.
    """
    session = Session(resolved.reference, access or Access())
    partial = target.with_name(f"{target.name}.part")
    with _refuse_bad_images(resolved.reference):
        manifest = _parse_object(resolved.manifest)
        blobs = {
            layer["digest"]: Descriptor(
                f"sha256:{manifests.parse_digest(layer['digest'])}", manifests.parse_size(layer)
            )
            for layer in manifest["layers"]
        }
        config = session.fetch_small_blob(manifest["config"]["digest"])
        manifests.check_platform(_parse_object(config), architecture, "linux")
        partial.touch()
        with partial.open("r+b") as file:
            download = Download(session, cast(BinaryIO, file), resolved.size, progress)
            writer = download.begin()
            for layer in blobs.values():
                download.add_blob(layer)
            file.truncate()
            digest = writer.finish(resolved.manifest, config)
        partial.replace(target)
    return digest


class Download:
    """An archive being downloaded. It only grows at its end, so its length is its progress."""

    def __init__(
        self,
        session: "Session",
        file: BinaryIO,
        size: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.session, self.file, self.size, self.progress = session, file, size, progress
        self.done = 0
        self.length = file.seek(0, io.SEEK_END)
        file.seek(0)

    def begin(self) -> pack.Writer:
        """Write the archive's beginning, which an earlier call may have left already."""
        length = self.length
        writer = pack.Writer(self.file)
        self.length = max(length, self.file.tell())
        return writer

    def add_blob(self, descriptor: Descriptor) -> None:
        """Skip the part of a blob that the file has already, and fetch the rest."""
        header = pack.header(f"blobs/sha256/{descriptor.digest[7:]}", descriptor.size)
        start = self.file.tell()
        if self.length < start + len(header) or self.file.read(len(header)) != header:
            self.truncate_at(start)
            self.file.write(header)
        digest, received = self.read_existing(descriptor.size)
        try:
            for attempt in range(ATTEMPTS):
                try:
                    received = self.receive_rest(descriptor, digest, received)
                    break
                except _Restart:
                    self.truncate_at(start + len(header))
                    digest, received = hashlib.sha256(), 0
                except TryAgain:
                    received = self.file.tell() - start - len(header)
                    if attempt == ATTEMPTS - 1:
                        raise
        finally:
            self.file.flush()
        if received != descriptor.size or digest.hexdigest() != descriptor.digest[7:]:
            self.truncate_at(start)
            raise manifests.BadImage(
                f"the digest of a layer that came is sha256:{digest.hexdigest()}, "
                f"not {descriptor.digest}"
            )
        self.file.write(bytes(-descriptor.size % tarfile.BLOCKSIZE))
        self.length = max(self.length, self.file.tell())

    def truncate_at(self, at: int) -> None:
        self.file.seek(at)
        self.file.truncate()
        self.length = at

    def read_existing(self, size: int) -> tuple[Any, int]:
        """Return the running hash and the length of the part of a blob that the file has."""
        digest, length = hashlib.sha256(), 0
        while length < size and (chunk := self.file.read(min(CHUNK, size - length))):
            digest.update(chunk)
            length += len(chunk)
            self.report_progress(len(chunk))
        return digest, length

    def receive_rest(self, descriptor: Descriptor, digest: Any, received: int) -> int:
        """Append the rest of a blob and return its length. Raises _Restart, BadImage, TryAgain."""
        if received == descriptor.size:
            return received
        with self.session.open_blob(descriptor.digest, received) as (answer, is_rest):
            if received and not is_rest:
                self.done -= received
                raise _Restart
            for chunk in _read_chunks(self.session.host, answer):
                received += len(chunk)
                if received > descriptor.size:
                    raise manifests.BadImage(
                        f"the layer {descriptor.digest} is larger than it should be"
                    )
                self.file.write(chunk)
                digest.update(chunk)
                self.report_progress(len(chunk))
        if received < descriptor.size:
            raise TryAgain(f"{self.session.host} broke off.", kind="unreachable")
        return received

    def report_progress(self, count: int) -> None:
        self.done += count
        if self.progress:
            self.progress(self.done, self.size)


class _Restart(Exception):
    """The registry sends blobs from their beginning only: this one has to be fetched anew."""


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

    def fetch_small_blob(self, digest: str) -> bytes:
        """Return a blob that fits into memory."""
        manifests.parse_digest(digest)
        with self.open(f"/blobs/{digest}") as answer:
            content = self.read_whole(answer)
        manifests.check_digest("the configuration", digest, hashlib.sha256(content).hexdigest())
        return content

    @contextlib.contextmanager
    def open_blob(self, digest: str, start: int) -> Iterator[tuple[Any, bool]]:
        """Open a blob from byte `start` on; the second value says whether the registry did so."""
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self.open(f"/blobs/{digest}", headers) as answer:
            yield answer, answer.status == 206

    def read_whole(self, answer: Any) -> bytes:
        content = b"".join(_read_chunks(self.host, answer, LIMIT))
        if len(content) > LIMIT:
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
                answer_document = _parse_object(self.read_whole(answer))
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
            return Refused(
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


def _read_chunks(host: str, answer: Any, limit: int | None = None) -> Iterator[bytes]:
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


def _parse_object(content: bytes) -> dict[str, Any]:
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


@contextlib.contextmanager
def _refuse_bad_images(reference: Reference) -> Iterator[None]:
    """Turn errors in an image's content into Refused."""
    try:
        with manifests.explain_bad_manifest():
            yield
    except manifests.BadImage as error:
        message = str(error).rstrip(".")
        raise Refused(f"{reference} is refused: {message[:1].lower()}{message[1:]}.") from None
