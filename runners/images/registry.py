"""Registries: what a reference means today, and the image behind it as an OCI archive.

The small part of the OCI distribution specification that fetching needs. Every byte is held to its
digest, so neither the registry nor the network is trusted. Refused is an answer (no such name, not
for us, wrong content), TryAgain is none (host away, too many requests).
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
from runners.payload import layers, pack

CHUNK = 1 << 18  # bytes
LIMIT = 16 << 20  # bytes of a manifest, a configuration or a token
TIMEOUT = 30  # seconds without a byte
ATTEMPTS = 4  # to go on with a blob whose connection broke
HUB = "registry-1.docker.io"  # what docker.io means
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
    """The name of an image: what `docker pull` takes. The digest wins over the tag."""

    host: str  # "docker.io", "localhost:5000"
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.repository}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def wanted(self) -> str:
        return self.digest or self.tag


@dataclass(frozen=True)
class Access:
    """Who asks, and how. A password is in no repr."""

    user: str = ""
    password: str = field(default="", repr=False)
    inside: Collection[str] = ()  # hosts that may be inside, or without TLS: see `addresses`


@dataclass(frozen=True)
class Resolved:
    """What a reference means now: one image for one platform."""

    reference: Reference
    digest: str  # of the image's own manifest: what it is known by
    manifest: bytes = field(repr=False)
    size: int = 0  # bytes of all blobs
    index_digest: str = ""  # of the list of platforms that the reference named, if it named one


@dataclass(frozen=True)
class Descriptor:
    digest: str
    size: int


def parse(text: str) -> Reference:
    """`docker://host/name:tag@sha256:...`; host and tag may be left out. Raises Refused."""
    bare = re.sub(r"^(docker|oci|https?)://", "", text.strip())
    found = REFERENCE.fullmatch(bare)
    if not found:
        raise Refused(
            f"{text!r} is no reference of an image: it should look like "
            "docker://registry.example.org/group/name:tag, in small letters, without spaces."
        )
    host, repository = found["host"] or "", found["repository"]
    if host and not re.search(r"[.:\[]", host) and host != "localhost":
        host, repository = "", f"{host}/{repository}"  # "group/name" of the default registry
        if not re.fullmatch(rf"{WORD}(/{WORD})*", repository):
            raise Refused(f"{text!r} is no reference of an image: names are in small letters.")
    host = host or "docker.io"
    if host in ("docker.io", "index.docker.io"):
        host = "docker.io"
        repository = repository if "/" in repository else f"library/{repository}"
    tag, digest = found["tag"] or "", found["digest"] or ""
    return Reference(host, repository, tag or ("" if digest else "latest"), digest)


def resolve(
    reference: Reference, access: Access | None = None, *, architecture: str = "amd64"
) -> Resolved:
    """Ask what a reference means now, for a platform of linux. Raises Refused, TryAgain."""
    session = Session(reference, access or Access())
    content = session.manifest(reference.wanted)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    index_digest = ""
    if reference.digest and digest != reference.digest:
        raise Refused(
            f"{reference.host} answers with something else: its digest is {digest}, "
            f"not {reference.digest}."
        )
    with _refused(reference):
        about = _object(content)
        for _ in range(3):  # an index may name another index
            if "manifests" not in about:
                break
            index_digest = index_digest or digest
            digest = layers.chosen(about["manifests"], architecture, "linux")
            layers.hex_of(digest)
            content = session.manifest(digest)
            found = f"sha256:{hashlib.sha256(content).hexdigest()}"
            layers.check("the manifest", digest, found.partition(":")[2])
            about = _object(content)
        if "layers" not in about or "config" not in about:
            raise layers.BadImage(
                "the registry has it in a form from before 2016, or as something else than an "
                f"image (schemaVersion {about.get('schemaVersion')!r}, "
                f"{about.get('artifactType') or about.get('mediaType')!r})"
            )
        size = sum(layers.size_of(one) for one in (about["config"], *about["layers"]))
    return Resolved(reference, digest, content, size, index_digest)


def fetch(
    resolved: Resolved,
    target: Path,
    access: Access | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
    architecture: str = "amd64",
) -> str:
    """Bring an image here as an OCI archive; its digest. Raises Refused, TryAgain.

    `progress` is told bytes here and bytes in all. After TryAgain `TARGET.part` stays, and the next
    call goes on with it; `target` itself is there when it is whole and every digest was right.
    """
    session = Session(resolved.reference, access or Access())
    partial = target.with_name(f"{target.name}.part")
    with _refused(resolved.reference):
        about = _object(resolved.manifest)
        found = {
            one["digest"]: Descriptor(f"sha256:{layers.hex_of(one['digest'])}", layers.size_of(one))
            for one in about["layers"]
        }
        config = session.small(about["config"]["digest"])
        layers.check_platform(_object(config), architecture, "linux")
        partial.touch()
        with partial.open("r+b") as file:
            download = Download(session, cast(BinaryIO, file), resolved.size, progress)
            writer = download.begin()
            for one in found.values():
                download.blob(one)
            file.truncate()
            digest = writer.finish(resolved.manifest, config)
        partial.replace(target)
    return digest


class Download:
    """An archive that grows at its end only, so that its length says how far it is."""

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
        kept = self.length
        writer = pack.Writer(self.file)
        self.length = max(kept, self.file.tell())
        return writer

    def blob(self, about: Descriptor) -> None:
        """Pass over what is there of a blob, and fetch the rest."""
        header = pack.header(f"blobs/sha256/{about.digest[7:]}", about.size)
        start = self.file.tell()
        if self.length < start + len(header) or self.file.read(len(header)) != header:
            self.restart(start)
            self.file.write(header)
        digest, there = self.reread(about.size)
        try:
            for attempt in range(ATTEMPTS):
                try:
                    there = self.receive(about, digest, there)
                    break
                except _Restart:
                    self.restart(start + len(header))
                    digest, there = hashlib.sha256(), 0
                except TryAgain:
                    there = self.file.tell() - start - len(header)
                    if attempt == ATTEMPTS - 1:
                        raise
        finally:
            self.file.flush()
        if there != about.size or digest.hexdigest() != about.digest[7:]:
            self.restart(start)
            raise layers.BadImage(
                f"the digest of a layer that came is sha256:{digest.hexdigest()}, "
                f"not {about.digest}"
            )
        self.file.write(bytes(-about.size % tarfile.BLOCKSIZE))
        self.length = max(self.length, self.file.tell())

    def restart(self, at: int) -> None:
        self.file.seek(at)
        self.file.truncate()
        self.length = at

    def reread(self, size: int) -> tuple[Any, int]:
        """The hash of what is there of a blob, and how much."""
        digest, there = hashlib.sha256(), 0
        while there < size and (chunk := self.file.read(min(CHUNK, size - there))):
            digest.update(chunk)
            there += len(chunk)
            self.tell(len(chunk))
        return digest, there

    def receive(self, about: Descriptor, digest: Any, there: int) -> int:
        if there == about.size:
            return there
        with self.session.open_blob(about.digest, there) as (answer, is_rest):
            if there and not is_rest:
                self.done -= there
                raise _Restart
            for chunk in _chunks(self.session.host, answer):
                there += len(chunk)
                if there > about.size:
                    raise layers.BadImage(f"the layer {about.digest} is larger than it should be")
                self.file.write(chunk)
                digest.update(chunk)
                self.tell(len(chunk))
        if there < about.size:
            raise TryAgain(f"{self.session.host} broke off.", kind="unreachable")
        return there

    def tell(self, count: int) -> None:
        self.done += count
        if self.progress:
            self.progress(self.done, self.size)


class _Restart(Exception):
    """The registry sends blobs from their beginning only."""


class Session:
    """Requests to one repository, with whatever leave they need."""

    def __init__(self, reference: Reference, access: Access) -> None:
        self.reference, self.access = reference, access
        self.host = HUB if reference.host == "docker.io" else reference.host
        scheme = "http" if addresses.is_plain(self.host, access.inside) else "https"
        self.base = f"{scheme}://{self.host}/v2/{reference.repository}"
        addresses.check_address(self.base, access.inside)
        self.leave = ""  # the Authorization header

    def manifest(self, name: str) -> bytes:
        accepted = ", ".join((*MANIFESTS, *layers.INDEXES))
        with self.open(f"/manifests/{name}", {"Accept": accepted}) as answer:
            return self.whole(answer)

    def small(self, digest: str) -> bytes:
        """A blob that fits into memory."""
        layers.hex_of(digest)
        with self.open(f"/blobs/{digest}") as answer:
            content = self.whole(answer)
        layers.check("the configuration", digest, hashlib.sha256(content).hexdigest())
        return content

    @contextlib.contextmanager
    def open_blob(self, digest: str, start: int) -> Iterator[tuple[Any, bool]]:
        """A blob from a byte on, if the registry can; and whether it does."""
        headers = {"Range": f"bytes={start}-"} if start else {}
        with self.open(f"/blobs/{digest}", headers) as answer:
            yield answer, answer.status == 206

    def whole(self, answer: Any) -> bytes:
        content = b"".join(_chunks(self.host, answer, LIMIT))
        if len(content) > LIMIT:
            raise Refused(f"{self.host} answers with more than a manifest can be.")
        return content

    def open(self, path: str, headers: Mapping[str, str] | None = None) -> Any:
        """An answer that is well. Asks for leave once, where the registry wants that."""
        for attempt in range(2):
            request = urllib.request.Request(self.base + path, headers=dict(headers or {}))  # noqa: S310
            if self.leave:
                # Not for where a redirect leads: other hosts must not see it.
                request.add_unredirected_header("Authorization", self.leave)
            try:
                return _open(request, self.host, self.access.inside)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == 401 and attempt == 0:
                        self.ask_for_leave(error.headers.get_all("WWW-Authenticate") or [])
                        continue
                    raise self.in_words(error) from None
        raise AssertionError

    def ask_for_leave(self, challenges: list[str]) -> None:
        basic = f"{self.access.user}:{self.access.password}".encode()
        basic_leave = f"Basic {base64.b64encode(basic).decode()}" if self.access.user else ""
        for challenge in challenges:
            kind, _, rest = challenge.partition(" ")
            fields = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            if kind.lower() == "bearer" and "realm" in fields:
                self.leave = self.bearer(fields, basic_leave)
                return
            if kind.lower() == "basic" and basic_leave:
                self.leave = basic_leave
                return
        self.leave = ""

    def bearer(self, fields: Mapping[str, str], basic_leave: str) -> str:
        addresses.check_address(fields["realm"], self.access.inside)
        realm = urllib.parse.urlsplit(fields["realm"])
        if realm.scheme != "https" and not self.base.startswith("http:"):
            raise Refused(f"{self.host} wants its password sent without TLS, to {realm.netloc}.")
        asked = {
            "service": fields.get("service", ""),
            "scope": fields.get("scope") or f"repository:{self.reference.repository}:pull",
        }
        query = "&".join(filter(None, [realm.query, urllib.parse.urlencode(asked)]))
        address = urllib.parse.urlunsplit((realm.scheme, realm.netloc, realm.path, query, ""))
        request = urllib.request.Request(address)  # noqa: S310 - http and https only
        if basic_leave:
            request.add_unredirected_header("Authorization", basic_leave)
        try:
            with _open(request, realm.netloc, self.access.inside) as answer:
                given = _object(self.whole(answer))
        except layers.BadImage as error:
            raise Refused(f"{realm.netloc} gives no token for {self.reference}: {error}.") from None
        except urllib.error.HTTPError as error:
            with error:
                raise self.in_words(error) from None
        token = given.get("token") or given.get("access_token")
        if not isinstance(token, str):
            raise Refused(f"{realm.netloc} gives no token for {self.reference}.")
        return f"Bearer {token}"

    def in_words(self, error: urllib.error.HTTPError) -> Exception:
        """What an answer that is not well means for a person."""
        content = b""
        with contextlib.suppress(OSError, http.client.HTTPException):
            content = error.read(LIMIT)
        said = _errors(content)
        name, own = str(self.reference), f" It says: {said}." if said else ""
        if error.code in (401, 403):
            if self.access.user:
                who = f"for user {self.access.user}: name or password are wrong, or may not read it"
            else:
                who = "for everybody: it wants a user name and a password, or has no such name"
            return Refused(f"{self.host} does not give {name} {who}.{own}")
        if error.code == 404:
            return Refused(
                f"{self.host} has no {name}: no such name, tag or digest (any more).{own}"
            )
        if error.code == 429:
            wait = error.headers.get("Retry-After", "")
            after = f" It asks to wait {wait} s." if wait.isdigit() else ""
            return TryAgain(f"{self.host} was asked too often for now.{after}{own}", kind="busy")
        if error.code >= 500:
            return TryAgain(f"{self.host} fails with HTTP {error.code}.{own}", kind="busy")
        return Refused(f"{self.host} answers with HTTP {error.code} {error.reason} to {name}.{own}")


def _open(request: urllib.request.Request, host: str, inside: Collection[str]) -> Any:
    """The answer, or HTTPError. Raises Refused, and TryAgain when there is no answer."""
    try:
        return addresses.open_address(request, inside, TIMEOUT)
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        raise _away(host, error.reason) from None
    except (OSError, http.client.HTTPException) as error:
        raise _away(host, error) from None
    except ValueError:  # of urllib, about where a redirect leads
        raise Refused(f"{host} sends on to what is no address of the web.") from None


def _away(host: str, why: object) -> TryAgain:
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


def _chunks(host: str, answer: Any, limit: int | None = None) -> Iterator[bytes]:
    """The content, up to a limit and one chunk more. Raises TryAgain when it breaks off."""
    count = 0
    try:
        while chunk := answer.read1(CHUNK):
            count += len(chunk)
            yield chunk
            if limit is not None and count > limit:
                return
    except (OSError, http.client.HTTPException) as error:
        raise _away(host, error) from None


def _object(content: bytes) -> dict[str, Any]:
    if content.lstrip()[:1] == b"<":
        raise layers.BadImage("the answer is a web page")
    found = layers.parse_json(content, "the answer")
    if not isinstance(found, dict):
        raise layers.BadImage("the answer is no JSON object")
    return found


def _errors(content: bytes) -> str:
    """What a registry says in its own words."""
    try:
        found = layers.parse_json(content, "the answer")["errors"]
        said = [str(one.get("message") or one.get("code")) for one in found]
    except (layers.BadImage, KeyError, TypeError, AttributeError):
        return ""
    return "; ".join(said)[:500].rstrip(".")


@contextlib.contextmanager
def _refused(reference: Reference) -> Iterator[None]:
    try:
        with layers.as_bad_image():
            yield
    except layers.BadImage as error:
        words = str(error).rstrip(".")
        raise Refused(f"{reference} is refused: {words[:1].lower()}{words[1:]}.") from None
