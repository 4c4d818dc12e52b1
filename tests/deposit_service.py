"""A stand-in of Zenodo's API for tests: a real HTTP server, with the faults that a test asks for.

It answers as https://developers.zenodo.org says. Depositions are kept, so that a test can count
them, whatever became of the answers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

TOKEN = "a-token-with-both-scopes"
Fault = Callable[["Conversation"], None]


@dataclass
class Service:
    """The server's port, what it has been told, and what it does instead of answering."""

    port: int = 0
    depositions: dict[int, dict[str, Any]] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    """By the beginning of "METHOD PATH": what happens to the next requests of that kind."""
    requests: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    lists_nothing: bool = False
    """A new draft is not listed yet."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    def fail(self, request: str, *faults: Fault) -> None:
        self.faults.setdefault(request, []).extend(faults)

    def count(self, request: str) -> int:
        return sum(line.startswith(request) for line in self.requests)


class Conversation(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    @property
    def service(self) -> Service:
        return cast("Server", self.server).service

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def handle_any(self) -> None:
        line = f"{self.command} {self.path}"
        self.service.requests.append(line)
        self.service.tokens.append(self.headers.get("Authorization", ""))
        for beginning, faults in self.service.faults.items():
            if line.startswith(beginning) and faults:
                faults.pop(0)(self)
                return
        self.answer_truly()

    do_GET = do_POST = do_PUT = handle_any  # noqa: N815

    def read_body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send(self, status: int, document: Any, **headers: str) -> None:
        content = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def answer_truly(self) -> None:
        body = self.read_body()
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.send(401, {"status": 401, "message": "Unauthorized"})
            return
        path, _, query = self.path.partition("?")
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "files"] and self.command == "PUT":
            self.take_file(parts[2], parts[3], body)
        elif parts[:3] == ["api", "deposit", "depositions"]:
            self.answer_deposition(parts[3:], query, body)
        else:
            self.send(404, {"status": 404, "message": "Not found"})

    def answer_deposition(self, rest: list[str], query: str, body: bytes) -> None:
        service = self.service
        if not rest and self.command == "GET":
            rows = [] if service.lists_nothing else list(reversed(service.depositions.values()))
            page = int(dict(part.split("=") for part in query.split("&"))["page"])
            size = int(dict(part.split("=") for part in query.split("&"))["size"])
            self.send(200, rows[(page - 1) * size : page * size])
        elif not rest:
            self.send(201, self.make_deposition(json.loads(body)["metadata"]))
        elif (row := service.depositions.get(int(rest[0]))) is None:
            self.send(404, {"status": 404, "message": "The deposition does not exist."})
        elif rest[1:] == ["actions", "publish"]:
            if row["submitted"]:
                self.send(400, {"status": 400, "message": "It is published already."})
                return
            row |= {
                "submitted": True,
                "state": "done",
                "doi": row["metadata"]["prereserve_doi"]["doi"],
            }
            self.send(202, row)
        elif self.command == "PUT":
            row["metadata"] |= {
                name: value
                for name, value in json.loads(body)["metadata"].items()
                if name != "prereserve_doi"
            }
            self.send(200, row)
        else:
            self.send(200, row)

    def make_deposition(self, metadata: dict[str, Any]) -> dict[str, Any]:
        number = 1000 + len(self.service.depositions)
        base = f"http://{self.headers['Host']}"
        doi = {"doi": f"10.5281/zenodo.{number}", "recid": number}
        self.service.files[f"bucket-{number}"] = {}
        self.service.depositions[number] = {
            "id": number,
            "state": "unsubmitted",
            "submitted": False,
            "metadata": {**metadata, "prereserve_doi": doi},
            "links": {
                "bucket": f"{base}/api/files/bucket-{number}",
                "html": f"{base}/deposit/{number}",
            },
        }
        return self.service.depositions[number]

    def take_file(self, bucket: str, name: str, body: bytes) -> None:
        self.service.files[bucket][name] = body
        digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
        self.send(201, {"key": name, "size": len(body), "checksum": f"md5:{digest}"})

    def cut(self) -> None:
        """Close the connection without an answer."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


def answer(status: int, document: Any = None, **headers: str) -> Fault:
    """Return a fault that answers instead."""

    def act(conversation: Conversation) -> None:
        conversation.read_body()
        conversation.send(status, document if document is not None else {}, **headers)

    return act


def do_and_cut(conversation: Conversation) -> None:
    """Do what was asked for, and break the connection off before the answer."""
    conversation.wfile = _Nowhere()  # type: ignore[assignment]
    conversation.answer_truly()
    conversation.cut()


def do_and_answer(status: int, content: bytes) -> Fault:
    """Do what was asked for, and answer with something else."""

    def act(conversation: Conversation) -> None:
        real, conversation.wfile = conversation.wfile, _Nowhere()  # type: ignore[assignment]
        conversation.answer_truly()
        conversation._headers_buffer = []
        conversation.wfile = real
        conversation.send(status, content)

    return act


def cut_before_it_is_read(conversation: Conversation) -> None:
    """Break the connection off, with nothing done."""
    conversation.read_body()
    conversation.cut()


def cut_in_the_middle(conversation: Conversation) -> None:
    """Read the beginning of a file alone."""
    conversation.rfile.read(1000)
    conversation.cut()


def refuse_early(status: int) -> Fault:
    """Return a fault that answers before the file has been read, and closes."""

    def act(conversation: Conversation) -> None:
        conversation.send(status, {"status": status, "message": "Bucket quota exceeded."})
        conversation.cut()

    return act


def answer_a_gigabyte(conversation: Conversation) -> None:
    conversation.read_body()
    conversation.send_response(201)
    conversation.send_header("Content-Length", str(10**9))
    conversation.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(1000):
            conversation.wfile.write(b" " * 10**6)
    conversation.cut()


class _Nowhere:
    """A file that keeps nothing."""

    closed = False

    def write(self, content: bytes) -> int:
        return len(content)

    def flush(self) -> None: ...

    def close(self) -> None: ...


class Server(ThreadingHTTPServer):
    daemon_threads = True
    service: Service

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: connections are cut in many tests."""


@contextmanager
def serve_deposits() -> Iterator[Service]:
    """Yield a service that listens on 127.0.0.1."""
    with Server(("127.0.0.1", 0), Conversation) as server:
        server.service = Service(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.service
        finally:
            server.shutdown()
            thread.join()
