"""A receiver of webhooks for tests: a real HTTP(S) server that answers, drips or hangs as told."""

from __future__ import annotations

import contextlib
import json
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nthanks"


def write_answer(status: int, body: bytes = b"", headers: str = "") -> bytes:
    """Return the bytes of an answer."""
    head = f"HTTP/1.1 {status} It\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


@dataclass
class Taken:
    """A request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """The server's port, what came, and how it answers."""

    port: int = 0
    scheme: str = "http"
    answer: bytes = OK
    """Empty: it hangs until the server is closed."""
    drips: bytes = b""
    """What follows the answer, a byte every few milliseconds, again and again."""
    taken: list[Taken] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"{self.scheme}://localhost:{self.port}/hook?from=tare"


class Conversation(socketserver.StreamRequestHandler):
    """One request."""

    def handle(self) -> None:
        receiver = cast("Server", self.server).receiver
        line = self.rfile.readline().decode().strip()
        headers = {}
        while row := self.rfile.readline().decode().strip():
            name, _, value = row.partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        receiver.taken.append(Taken(line, headers, body))
        with contextlib.suppress(OSError):
            if receiver.answer:
                self.wfile.write(receiver.answer)
            else:
                receiver.closing.wait(60)
            while receiver.drips and not receiver.closing.wait(0.005):
                self.wfile.write(receiver.drips)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    receiver: Receiver
    context: ssl.SSLContext | None = None

    def get_request(self) -> Any:
        sock, address = super().get_request()
        if self.context:
            sock.settimeout(20)  # a client that trusts nobody leaves in the middle
            sock = self.context.wrap_socket(sock, server_side=True)
        return sock, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients break off in many tests."""


@contextmanager
def serve_webhook(certificate: Path | None = None) -> Iterator[Receiver]:
    """Yield a receiver that listens on 127.0.0.1, with TLS where there is a certificate."""
    with Server(("127.0.0.1", 0), Conversation) as server:
        server.receiver = Receiver(server.server_address[1])
        if certificate:
            server.receiver.scheme = "https"
            server.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            server.context.load_cert_chain(certificate)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.receiver
        finally:
            server.receiver.closing.set()
            server.shutdown()
            thread.join()


def write_certificate(path: Path, *names: str) -> Path:
    """Write a key with a certificate that it has signed itself, for hosts and addresses."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    spelled = [
        x509.IPAddress(ip_address(text)) if text[0].isdigit() else x509.DNSName(text)
        for text in names
    ]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(spelled), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path
