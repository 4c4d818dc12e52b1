"""One request to a site and its answer, with proxies and authorities of the standard library."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, Protocol
from urllib.parse import urlencode

from tare_client import __version__
from tare_client.errors import (
    FieldProblem,
    NotReachable,
    NotTrusted,
    Refused,
    TareError,
    UnexpectedAnswer,
    UsageError,
)
from tare_client.stored_sites import StoredSite, is_loopback

MOST_JSON_BYTES = 256 * 2**20
AT_ONCE = 2**16
PLAIN_URL = re.compile("[!-~]+")
REDIRECTS = (301, 302, 303, 307, 308)


class Body(Protocol):
    """An answer while it is read: what `urllib` opens."""

    status: int
    headers: Any

    def read1(self, n: int = ...) -> bytes: ...


@dataclass(frozen=True)
class Question:
    """What is sent."""

    method: str
    path: str
    """After the site's address: "/api/v1/me"; or an address of the same site."""
    body: bytes | None = None
    headers: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Answer:
    """A successful answer, whole."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Connection:
    """Sends questions to one site, once each; answers that are no success become exceptions."""

    def __init__(
        self, site: StoredSite, *, timeout: float, total: float, most_bytes: int = MOST_JSON_BYTES
    ) -> None:
        self.site, self.timeout, self.total, self.most_bytes = site, timeout, total, most_bytes
        self._opener: urllib.request.OpenerDirector | None = None

    def __repr__(self) -> str:
        return f"Connection({self.site.url!r})"

    def send(self, question: Question) -> Answer:
        """Return the whole answer, 304 included. Raises TareError."""
        with self.open(question) as body:
            content = b"".join(self._read(body, limited=True))
            return Answer(body.status, dict(body.headers.items()), content)

    def save(self, question: Question, file: IO[bytes]) -> Mapping[str, str]:
        """Write the answer into a file, a part at a time; return its headers. Raises TareError."""
        with self.open(question) as body:
            for part in self._read(body, limited=False):
                try:
                    file.write(part)
                except OSError as error:  # of the disk, not of the site
                    message = f"What was received cannot be written: {error.strerror or error}."
                    raise UsageError(message) from error
            return dict(body.headers.items())

    @contextmanager
    def open(self, question: Question) -> Iterator[Body]:
        """Send a question and hold its answer open. Raises TareError."""
        url = self.resolve(question.path)
        headers = {
            "Authorization": f"Bearer {self.site.token}",
            "User-Agent": f"tare-client/{__version__}",
            "Accept": "application/json, application/problem+json, */*",
            **(question.headers or {}),
        }
        request = urllib.request.Request(  # noqa: S310  the address begins with the site's own
            url, data=question.body, headers=headers, method=question.method
        )
        try:
            with self._get_opener().open(request, timeout=self.timeout) as body:
                if body.status >= 300 and body.status != 304:
                    content = b"".join(self._read(body, limited=True))
                    raise self._read_refusal(body.status, dict(body.headers.items()), content)
                yield body
        except (OSError, http.client.HTTPException) as error:
            sentence = self.describe_failure(error)
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise NotTrusted(sentence) from error
            raise NotReachable(sentence) from error

    def resolve(self, path: str) -> str:
        """Return the whole address; UnexpectedAnswer where it would leave the site.

        A site below a path, https://example.org/tare, may name addresses with that path or without.
        """
        origin = re.match("https?://[^/]*", self.site.url)
        below = self.site.url[origin.end() :] if origin else ""
        if path.startswith(f"{self.site.url}/"):
            url = path
        elif path.startswith("/"):
            url = self.site.url + (path[len(below) :] if path.startswith(f"{below}/") else path)
        else:
            raise UnexpectedAnswer("The site named an address of another site; it was not asked.")
        if not PLAIN_URL.fullmatch(url):
            raise UnexpectedAnswer(f"{self.site.url} named an address that is none.")
        return url

    def redact(self, text: str) -> str:
        """Return a text without the token, whatever repeated it."""
        return text.replace(self.site.token, "tare_…")

    def describe_failure(self, error: Exception) -> str:
        """Return a sentence about an answer that did not come, or not whole."""
        reason: object = error.reason if isinstance(error, urllib.error.URLError) else error
        text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        if isinstance(reason, TimeoutError) or "timed out" in text:
            return f"{self.site.url} did not answer within {self.timeout:g} s."
        if "CERTIFICATE_VERIFY_FAILED" in str(reason):
            return (
                f"The certificate of {self.site.url} is not trusted here ({text}). If your "
                "institution has an authority of its own, set SSL_CERT_FILE to its certificate."
            )
        if "WRONG_VERSION_NUMBER" in str(reason):
            return (
                f"{self.site.url} answers without TLS. If that is meant, "
                "write http:// before the address."
            )
        if isinstance(reason, (http.client.HTTPException, ConnectionResetError)):
            return f"The connection to {self.site.url} was cut off."
        return self.redact(f"{self.site.url} cannot be reached: {text}.")

    def _get_opener(self) -> urllib.request.OpenerDirector:
        """Return what sends requests. It follows no redirect: a token stays with its site."""
        if self._opener is None:
            self._opener = urllib.request.OpenerDirector()
            if not is_loopback(self.site.url):
                self._opener.add_handler(urllib.request.ProxyHandler())
            if self.site.url.startswith("https:"):
                self._opener.add_handler(urllib.request.HTTPSHandler())
            else:
                self._opener.add_handler(urllib.request.HTTPHandler())
        return self._opener

    def _read(self, body: Body, *, limited: bool) -> Iterator[bytes]:
        """Yield an answer's parts; NotReachable for one that ends early or takes too long."""
        ends = time.monotonic() + self.total
        length, n_bytes = body.headers.get("Content-Length"), 0
        while True:
            part = body.read1(AT_ONCE)
            if not part:
                break
            n_bytes += len(part)
            if limited and n_bytes > self.most_bytes:
                size = f"{self.most_bytes / 2**20:.0f} MiB"
                raise UnexpectedAnswer(f"{self.site.url} sent more than {size}: ask for less.")
            if limited and time.monotonic() > ends:
                raise NotReachable(f"{self.site.url} took longer than {self.total:g} s to answer.")
            yield part
        if length and length.isdigit() and n_bytes < int(length) and body.status != 304:
            raise NotReachable(f"The connection to {self.site.url} was cut off.")

    def _read_refusal(self, status: int, headers: dict[str, str], content: bytes) -> TareError:
        """Return the exception for an answer that is no success."""
        if status in REDIRECTS:
            target = headers.get("Location", "")
            return UnexpectedAnswer(
                f"{self.site.url} sends its visitors to {self.redact(target)[:200]}. "
                "Run `tare login` with the address that your browser ends at."
            )
        retry_after = _read_seconds(headers.get("Retry-After", ""))
        document: Any = None
        if "json" in headers.get("Content-Type", ""):
            try:
                document = read_json(content)
            except ValueError:
                document = None
        if not isinstance(document, dict):
            detail = _explain_status(status, self.site.url)
            return Refused(detail, status=status, retry_after=retry_after)
        problems = document.get("problems")
        return Refused(
            self.redact(str(document.get("detail") or document.get("title") or ""))
            or _explain_status(status, self.site.url),
            status=status,
            title=self.redact(str(document.get("title", ""))),
            problems=tuple(
                self._read_problem(problem)
                for problem in (problems if isinstance(problems, list) else ())
                if isinstance(problem, dict)
            ),
            retry_after=retry_after,
            type=str(document.get("type") or "")[:200],
        )

    def _read_problem(self, problem: dict[str, Any]) -> FieldProblem:
        line, column = problem.get("line"), problem.get("column")
        return FieldProblem(
            self.redact(str(problem.get("field") or "")),
            self.redact(str(problem.get("message") or "")),
            line if isinstance(line, int) else None,
            column if isinstance(column, int) else None,
        )


def read_json(content: bytes) -> Any:
    """Return what a JSON text says. Raises ValueError, also for NaN and for what is nested deep."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number of JSON")

    try:
        return json.loads(content, parse_constant=refuse)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def add_query(path: str, query: Mapping[str, object]) -> str:
    """Return a path with a query; lists are repeated, None and "" are left out.

    Raises UsageError.
    """
    pairs = [
        (name, str(value).lower() if isinstance(value, bool) else str(value))
        for name, values in query.items()
        for value in (values if isinstance(values, (list, tuple)) else [values])
        if value is not None and value != ""
    ]
    try:
        return f"{path}?{urlencode(pairs)}" if pairs else path
    except UnicodeEncodeError as error:  # words of a shell may be any bytes
        raise UsageError("What is asked for is not UTF-8.") from error


def _read_seconds(text: str) -> float | None:
    """Return a Retry-After in seconds; dates and other texts are None."""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _explain_status(status: int, url: str) -> str:
    if status == 401:
        return f"The token is not valid any more. Run `tare login {url}` again."
    if status == 404:
        return (
            f"There is no Tare at {url}. Give the address of the site alone, "
            "such as https://tare.example.org."
        )
    if status >= 500:
        return f"{url} has a problem of its own ({status}). Try again in some minutes."
    return f"{url} refuses this ({status} {http.client.responses.get(status, '')})."
