"""The part of Zenodo's REST API that a deposit takes (https://developers.zenodo.org).

Redirects are not followed, so the token goes to the host of the setting alone; proxies of the
environment are not asked. Time and size of each answer are limited. What went wrong is a `Failure`
in words for the person who deposits.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import http.client
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from django.views.decorators.debug import sensitive_variables

from experiments.encryption import Secret
from experiments.notifications.plain_lines import clean_line
from runners.untrusted import clean_text

SECONDS = 30.0
"""Without a byte."""
WHOLE_SECONDS = 45.0
"""From the last byte of a request to the last one of its answer."""
MOST_BYTES = 2 << 20  # of an answer
MOST_MESSAGE = 500  # characters of what the service says
LONGEST_WAIT = 6 * 3600
PAGE_SIZE, MOST_PAGES = 25, 4
PIECE = 1 << 18
DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>]{1,150}", re.A)


class Failure(Exception):
    """Why a request did not do what it was to do; the message is for people."""

    def __init__(
        self,
        text: str,
        *,
        may_pass: bool,
        was_refused: bool,
        wait: int | None = None,
        is_missing: bool = False,
    ) -> None:
        super().__init__(text)
        self.may_pass = may_pass
        """Whether trying again by itself makes sense."""
        self.was_refused = was_refused
        """Whether the service has certainly not done what it was asked for."""
        self.wait = wait
        """Seconds that the service asks to wait."""
        self.is_missing = is_missing
        """Whether the service has no such draft, and no such record."""


class DepositService:
    """Requests to the service with the token of one person."""

    def __init__(self, address: str, token: Secret) -> None:
        self.address, self._token = address.rstrip("/"), token
        parts = urlsplit(self.address)
        self.origin = f"{parts.scheme}://{parts.netloc}"
        self.host = parts.netloc
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Failure(
                "The address of the service in this site’s settings is none of the web.",
                may_pass=False,
                was_refused=True,
            )

    def create(self, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Create a deposition and return it."""
        return self._ask("POST", self._path("/deposit/depositions"), {"metadata": metadata})

    def find(self, mark: str) -> dict[str, Any] | None:
        """Return the newest deposition of this person whose notes have `mark`."""
        for page in range(1, MOST_PAGES + 1):
            query = f"?sort=mostrecent&size={PAGE_SIZE}&page={page}"
            rows = self._send("GET", self._path("/deposit/depositions") + query)
            if not isinstance(rows, list):
                raise self._refuse_answer("a list")
            for row in rows:
                if isinstance(row, dict) and mark in str(_look_up(row, "metadata", "notes")):
                    return row
            if len(rows) < PAGE_SIZE:
                return None
        return None

    def read(self, number: int) -> dict[str, Any]:
        return self._ask("GET", self._path(f"/deposit/depositions/{number}"))

    def describe(self, number: int, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Set the metadata of a deposition."""
        path = self._path(f"/deposit/depositions/{number}")
        return self._ask("PUT", path, {"metadata": metadata})

    def publish(self, number: int) -> dict[str, Any]:
        return self._ask("POST", self._path(f"/deposit/depositions/{number}/actions/publish"))

    def upload(self, bucket: str, name: str, file: Path, note: Callable[[int], None]) -> None:
        """Put a file into a bucket, a piece at a time; `note` gets the bytes sent so far."""
        if not self.is_of_service(bucket):
            raise Failure(
                f"{self.host} wants the file at another host. The token goes nowhere else.",
                may_pass=False,
                was_refused=True,
            )
        with file.open("rb") as content:
            pieces = _Pieces(content, note)
            answer = self._send(
                "PUT",
                f"{urlsplit(bucket).path.rstrip('/')}/{quote(name, safe='')}",
                pieces,
                {
                    "Content-Type": "application/octet-stream",
                    "Content-Length": str(file.stat().st_size),
                },
            )
        if not isinstance(answer, dict):
            raise self._refuse_answer("an object")
        arrived = answer.get("checksum")
        if isinstance(arrived, str) and arrived != f"md5:{pieces.md5.hexdigest()}":
            raise Failure(
                "The file arrived with another check sum than it was sent with.",
                may_pass=True,
                was_refused=True,
            )

    def is_of_service(self, link: object) -> bool:
        """Return whether a link of an answer leads to the service itself."""
        if not isinstance(link, str) or len(link) > 500:
            return False
        try:
            parts = urlsplit(link)
        except ValueError:
            return False
        plain = re.fullmatch(r"[\x21-\x7e]+", link) is not None
        return plain and f"{parts.scheme}://{parts.netloc}" == self.origin

    def _path(self, path: str) -> str:
        return urlsplit(self.address).path + path

    def _ask(self, method: str, path: str, document: Any = None) -> dict[str, Any]:
        body = json.dumps(document).encode() if document is not None else b""
        headers = {"Content-Type": "application/json"} if document is not None else {}
        answer = self._send(method, path, body, headers)
        if not isinstance(answer, dict):
            raise self._refuse_answer("an object")
        return answer

    def _refuse_answer(self, expected: str) -> Failure:
        text = f"{self.host} answered with something else than {expected} of JSON."
        return Failure(text, may_pass=False, was_refused=False)

    @sensitive_variables("token", "sent")
    def _send(
        self, method: str, path: str, body: Any = b"", headers: Mapping[str, str] | None = None
    ) -> Any:
        """Send a request and return the document that answers it. Raises Failure."""
        token = self._token.reveal()
        if not re.fullmatch(r"[\x21-\x7e]{1,1000}", token):
            raise Failure("The token is none.", may_pass=False, was_refused=True)
        sent = {
            "Accept": "application/json",
            "User-Agent": "Tare",
            "Authorization": f"Bearer {token}",
            **(headers or {}),
        }
        with _open(self.address) as connection:
            try:
                connection.connect()
            except (OSError, http.client.HTTPException) as error:
                raise self._explain(error, was_refused=True) from None
            try:
                status, reply, content = _exchange(connection, method, path, body, sent)
            except (OSError, http.client.HTTPException, ValueError) as error:
                raise self._explain(error, was_refused=False) from None
        if not 200 <= status < 300:
            raise self._explain_status(status, reply, content)
        if len(content) > MOST_BYTES:
            text = f"{self.host} answered with more than {MOST_BYTES >> 20} MiB."
            raise Failure(text, may_pass=False, was_refused=False)
        document = _parse(content)
        if document is None:
            raise self._refuse_answer("a document")
        return document

    def _explain(self, error: Exception, *, was_refused: bool) -> Failure:
        if isinstance(error, ssl.SSLCertVerificationError):
            text = f"The certificate of {self.host} is not trusted."
        elif isinstance(error, ssl.SSLError):
            text = f"{self.host} does not speak TLS as it should."
        elif isinstance(error, socket.gaierror):
            text = f"There is no host {self.host}, or no network."
        elif isinstance(error, TimeoutError):
            text = f"{self.host} did not answer in time."
        elif isinstance(error, ConnectionRefusedError):
            text = f"Nobody listens at {self.host}."
        else:
            text = f"The connection to {self.host} broke off."
        return Failure(text, may_pass=True, was_refused=was_refused)

    def _explain_status(self, status: int, reply: Mapping[str, str], content: bytes) -> Failure:
        # A proxy may repeat what it was sent.
        said = _read_message(content, hidden=self._token.reveal())
        quoted = f" It says: {said}" if said else ""
        wait = _read_wait(
            {name.lower(): text for name, text in reply.items()}.get("retry-after", "")
        )
        if status == http.HTTPStatus.UNAUTHORIZED:
            text = (
                f"{self.host} does not know the token: it is wrong, withdrawn or expired.{quoted}"
            )
        elif status == http.HTTPStatus.FORBIDDEN:
            text = (
                f"{self.host} does not let the token do this: it takes the scopes deposit:write "
                f"and deposit:actions.{quoted}"
            )
        elif status in (http.HTTPStatus.NOT_FOUND, http.HTTPStatus.GONE):
            text = f"{self.host} does not have the draft (any more).{quoted}"
            return Failure(text, may_pass=False, was_refused=True, is_missing=True)
        elif status == http.HTTPStatus.TOO_MANY_REQUESTS:
            text = f"{self.host} was asked too often for now.{quoted}"
            return Failure(text, may_pass=True, was_refused=True, wait=wait)
        elif 300 <= status < 400:
            text = (
                f"{self.host} sends on to another address (HTTP {status}). The token goes nowhere "
                "else."
            )
        elif status >= 500 or status == http.HTTPStatus.REQUEST_TIMEOUT:
            text = f"{self.host} fails (HTTP {status}).{quoted}"
            return Failure(text, may_pass=True, was_refused=False, wait=wait)
        else:
            text = f"{self.host} refuses it (HTTP {status}).{quoted}"
        return Failure(text, may_pass=False, was_refused=True)


class _Pieces:
    """A file that is read a piece at a time, summed up, and counted."""

    def __init__(self, content: Any, note: Callable[[int], None]) -> None:
        self._content, self._note, self._sent = content, note, 0
        self.md5 = hashlib.md5(usedforsecurity=False)

    def read(self, size: int = -1) -> bytes:
        self._note(self._sent)
        piece: bytes = self._content.read(PIECE)
        self._sent += len(piece)
        self.md5.update(piece)
        return piece


@contextlib.contextmanager
def _open(address: str) -> Any:
    parts = urlsplit(address)
    assert parts.hostname
    connection = (
        http.client.HTTPConnection(parts.hostname, parts.port, timeout=SECONDS)
        if parts.scheme == "http"
        else http.client.HTTPSConnection(
            parts.hostname, parts.port, timeout=SECONDS, context=ssl.create_default_context()
        )
    )
    with contextlib.closing(connection):
        yield connection


def _exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any,
    headers: Mapping[str, str],
) -> tuple[int, Mapping[str, str], bytes]:
    """Send a request; return status, headers and content of the answer, cut above the limit.

    A server that has answered before it has read all may have closed its side: then the answer
    counts, not the pipe that broke.
    """
    broken: OSError | None = None
    try:
        connection.request(method, path, body, dict(headers))
    except (BrokenPipeError, ConnectionResetError) as error:
        broken = error
    sock = connection.sock
    ends_at = time.monotonic() + WHOLE_SECONDS
    # However slowly bytes drip, the socket is shut in time.
    watch = threading.Timer(WHOLE_SECONDS, _shut, [sock])
    watch.daemon = True
    watch.start()
    try:
        response = connection.getresponse()
        content = b""
        while len(content) <= MOST_BYTES and (piece := response.read1(PIECE)):
            content += piece
        if time.monotonic() > ends_at:
            raise TimeoutError
        return response.status, dict(response.headers), content
    except (OSError, http.client.HTTPException):
        if time.monotonic() > ends_at:
            raise TimeoutError from None
        raise broken or ConnectionError from None
    finally:
        watch.cancel()


def _shut(sock: socket.socket | None) -> None:
    with contextlib.suppress(OSError, AttributeError):
        sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


def _parse(content: bytes) -> Any:
    """Return a document of JSON; None where it is none, or holds what no database takes."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    try:
        return json.loads(content.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        return None


def _look_up(document: Any, *names: str) -> Any:
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


@sensitive_variables("hidden", "texts")
def _read_message(content: bytes, *, hidden: str) -> str:
    """Return what an answer with an error says, in a line, without `hidden`; "" for nothing."""
    document = _parse(content[:MOST_BYTES])
    parts = [_look_up(document, "message")]
    errors = _look_up(document, "errors")
    for entry in errors[:5] if isinstance(errors, list) else ():
        field, message = _look_up(entry, "field"), _look_up(entry, "message")
        messages = _look_up(entry, "messages")
        if isinstance(messages, list):
            message = "; ".join(map(str, messages[:3]))
        parts.append(f"{field}: {message}" if field else message)
    texts = [part for part in parts if isinstance(part, str) and part]
    return clean_line(clean_text(" ".join(texts).replace(hidden, "…")))[:MOST_MESSAGE]


def _read_wait(text: str) -> int | None:
    """Return the seconds that `Retry-After` names, at most a few hours."""
    text = text.strip()
    if re.fullmatch(r"\d{1,9}", text, re.A):
        return min(int(text), LONGEST_WAIT)
    try:
        until = email.utils.parsedate_to_datetime(text)
        return max(0, min(int(until.timestamp() - time.time()), LONGEST_WAIT))
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
