"""A small server that answers as docs of the API promise, and fails on request: for faults that
the real site cannot be made to have."""

from __future__ import annotations

import json
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "tare_" + "t0-_" * 10 + "abc"
RUN = {
    "id": "0" * 31 + "1",
    "experiment": 1,
    "block": 1,
    "workload": "ResNet-50",
    "scale": "1x1",
    "environment": "apptainer",
    "state": "succeeded",
    "metrics": {"step_time": 0.0402, "loss": 2.5},
    "units": {"step_time": "s"},
}
MEMBER = 4242
"""The number of the one experiment of a study."""
ROW = {
    "workload": "ResNet-50",
    "scale": "1x1",
    "metric": "step_time",
    "baseline": "bare metal",
    "environment": "apptainer",
    "unit": "s",
    "ratio": 1.051,
    "ci90_low": 1.04,
    "ci90_high": 1.06,
    "ci95_low": 1.03,
    "ci95_high": 1.07,
    "margin": 0.02,
    "verdict": "SLOWER",
    "sentence": "apptainer is slower than bare metal by 5.1 %.",
}
Fault = Callable[["Handler"], None]


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass
class Site:
    """What the server knows, and how it is to fail: each fault is one request's."""

    url: str = ""
    faults: deque[Fault | None] = field(default_factory=deque)
    requests: list[Request] = field(default_factory=list)
    experiments: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    """By Idempotency-Key."""
    progress: deque[dict[str, Any]] = field(default_factory=deque)
    runs: list[dict[str, Any]] = field(default_factory=lambda: [RUN])
    exit_word: str = "slower"
    problems: list[dict[str, Any]] = field(default_factory=list)
    page_size: int = 1000
    bundle: bytes = b"PK" + bytes(range(256)) * 2000

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    site: Site

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""

    def handle_any(self) -> None:
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(
            self.command, parts.path, parse_qs(parts.query), dict(self.headers.items()), body
        )
        self.site.requests.append(request)
        self.close_connection = True
        fault = self.site.faults.popleft() if self.site.faults else None
        if fault is not None:
            fault(self)
        else:
            self.answer(request)

    do_GET = do_POST = handle_any  # noqa: N815

    def answer(self, request: Request) -> None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.send_problem(401, "Log in by a token.")
        path = request.path.removeprefix("/api/v1")
        if request.method == "POST":
            return self.answer_post(path, request)
        if path == "/me":
            scopes = ["read", "experiments"]
            me = {"username": "ada", "role": "Member", "scopes": scopes}
            return self.send_json(200, {**me, "expires_at": "2027-01-01T00:00:00Z"})
        if path == "/experiments":
            return self.send_list(request, self.site.experiments)
        if path == "/studies":
            return self.send_list(request, [describe_study(3)])
        if path == "/studies/3":
            return self.send_json(200, describe_study(3))
        if path == "/studies/3/progress":
            return self.send_json(200, describe_study_progress(self.site.exit_word))
        if path.endswith("/series"):
            row = {"metric": "step_time", "unit": "s", "warm_up": 1, "steps": [1, 2]}
            return self.send_json(200, {"items": [{**row, "values": [0.5, None]}]})
        if path.endswith("/runs"):
            return self.send_list(request, self.site.runs)
        if path.endswith("/progress") and self.site.progress:
            several = len(self.site.progress) > 1
            shown = self.site.progress.popleft() if several else self.site.progress[0]
            return self.send_json(200, shown)
        if path.endswith("/comparison"):
            return self.send_comparison(request)
        if path.endswith("/bundle.zip"):
            headers = {"Content-Disposition": 'attachment; filename="bundle.zip"'}
            return self.send(200, self.site.bundle, "application/zip", headers)
        if path.endswith(("/definition.yaml", "/methods.txt", ".csv", ".tex", ".parquet")):
            return self.send(200, b"tare: 1\n", "text/plain")
        rows = [*self.site.experiments, describe_experiment(MEMBER)]
        for row in rows:
            if path == f"/experiments/{row['id']}":
                return self.send_json(200, row)
        return self.send_problem(404, "It is not there, or you may not view it.")

    def answer_post(self, path: str, request: Request) -> None:
        key = request.headers.get("Idempotency-Key", "")
        if key not in self.site.answers:
            self.site.answers[key] = self.make(path, request)
        status, document = self.site.answers[key]
        self.send_json(status, document)

    def make(self, path: str, request: Request) -> tuple[int, Any]:
        if self.site.problems:
            detail = "The experiment file is not valid."
            title = "Unprocessable Content"
            problem = {"type": "about:blank", "title": title, "status": 422, "detail": detail}
            return 422, {**problem, "problems": self.site.problems}
        if path == "/experiments/check":
            plan = {"runs": 20, "blocks": 10, "jobs": 1, "gpu_hours_at_most": 3.5}
            return 200, {"valid": True, "problems": [], "plan": plan}
        if path == "/experiments":
            row = describe_experiment(len(self.site.experiments) + 1)
            row["is_draft"] = request.query.get("launch") != ["true"]
            self.site.experiments.append(row)
            return 201, row
        if path.startswith("/studies/"):
            return 200, describe_study(int(path.split("/")[2]))
        return 200, {"id": int(path.split("/")[2]), "state": "cancelled"}

    def send_list(self, request: Request, rows: list[dict[str, Any]]) -> None:
        size = min(int(request.query["limit"][0]), self.site.page_size)
        start = int(request.query.get("cursor", ["0"])[0])
        more = start + size < len(rows)
        following = f"{request.path}?limit={size}&cursor={start + size}" if more else None
        self.send_json(200, {"items": rows[start : start + size], "next": following})

    def send_comparison(self, request: Request) -> None:
        etag = f'"{self.site.exit_word}"'
        if request.headers.get("If-None-Match") == etag:
            return self.send(304, b"", "application/json", {"ETag": etag})
        document = {"exit_word": self.site.exit_word, "comparison": [ROW], "waiting": ""}
        return self.send_json(200, document, {"ETag": etag})

    def send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        self.send(status, json.dumps(value).encode(), "application/json", headers)

    def send_problem(self, status: int, detail: str, headers: dict[str, str] | None = None) -> None:
        problem = {"type": "about:blank", "title": "No", "status": status, "detail": detail}
        kind = "application/problem+json"
        self.send(status, json.dumps(problem).encode(), kind, headers)

    def send(
        self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def describe_experiment(key: int) -> dict[str, Any]:
    return {
        "id": key,
        "question": "Does Apptainer slow ResNet-50 down?",
        "state": "running",
        "is_draft": False,
        "cluster": "hpc1",
        "owner": "ada",
        "created_at": "2026-11-27T00:00:00Z",
        "launched_at": None,
        "page": f"/experiments/{key}/",
    }


def describe_study(key: int) -> dict[str, Any]:
    return {
        "id": key,
        "name": "Containers on three machines",
        "question": "What do containers cost?",
        "owner": "ada",
        "experiments": [MEMBER],
        "created_at": "2026-11-27T00:00:00Z",
        "page": f"/studies/{key}/",
    }


def describe_study_progress(exit_word: str) -> dict[str, Any]:
    row = {**describe_progress(False), "id": MEMBER, "question": "Slower?", "cluster": "hpc1"}
    return {
        "is_alive": False,
        "runs": {"succeeded": 2},
        "seconds_left": None,
        "exit_word": exit_word,
        "experiments": [{**row, "exit_word": exit_word}],
    }


def describe_progress(is_alive: bool, **columns: Any) -> dict[str, Any]:
    return {
        "state": "running" if is_alive else "finished",
        "is_alive": is_alive,
        "runs": {"running": 1, "succeeded": 1} if is_alive else {"succeeded": 2},
        "seconds_left": 600 if is_alive else None,
        "waiting_for": [],
        "running": [],
        "verdicts": {},
        "exit_word": "unfinished",
        "sentence": "",
        **columns,
    }


def cut(handler: Handler) -> None:
    """Close the connection without a word."""
    handler.connection.close()
    handler.wfile = handler.rfile = open("/dev/null", "r+b", buffering=0)  # type: ignore[assignment]  # noqa: SIM115


def do_and_cut(handler: Handler) -> None:
    """Do what was asked, and close the connection before the answer."""
    request = handler.site.requests[-1]
    key = request.headers["Idempotency-Key"]
    made = handler.make(request.path.removeprefix("/api/v1"), request)
    handler.site.answers[key] = made
    cut(handler)


def cut_in_the_middle(handler: Handler) -> None:
    """Promise more than is sent."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"items": [')


def answer_status(
    status: int, detail: str = "It broke.", **headers: str
) -> Callable[[Handler], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda handler: handler.send_problem(status, detail, named)


def answer_text(
    text: bytes, kind: str = "application/json", status: int = 200, **headers: str
) -> Callable[[Handler], None]:
    return lambda handler: handler.send(status, text, kind, headers)


def answer_slowly(seconds: float) -> Callable[[Handler], None]:
    """Send a byte now and then: no single one is late."""

    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.end_headers()
        ends = time.monotonic() + seconds
        try:
            while time.monotonic() < ends:
                handler.wfile.write(b" ")
                time.sleep(0.02)
        except OSError:
            pass  # the client has gone, as it should

    return drip


def keep_silent(seconds: float) -> Callable[[Handler], None]:
    return lambda handler: time.sleep(seconds)


class QuietServer(ThreadingHTTPServer):
    """A server whose clients may go away before they are answered."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Print nothing: tests say what they expect."""


@contextmanager
def serve(tls: ssl.SSLContext | None = None) -> Iterator[Site]:
    """Serve on a free port of this machine until the block ends, encrypted with `tls`."""
    site = Site()
    handler = type("OneSite", (Handler,), {"site": site})
    server = QuietServer(("127.0.0.1", 0), handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    site.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
