"""A real registry of our own (Debian's docker-registry), and small things to break on purpose."""

import base64
import http.server
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urljoin, urlsplit

import bcrypt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.runners.made_images import Image, sha256
from tests.runners.sshd import free_port, wait_until_open

PROGRAM = Path("/usr/bin/docker-registry")
USER, PASSWORD = "jo", "it's a secret"
LISTED = ["http://127.0.0.1"]  # what a site lists that asks these registries


@dataclass(frozen=True)
class Certificate:
    """A key and a certificate that it has signed itself, for localhost."""

    key: rsa.RSAPrivateKey
    certificate: x509.Certificate

    def write(self, folder: Path) -> None:
        pem = self.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        (folder / "key.pem").write_bytes(pem)
        (folder / "certificate.pem").write_bytes(self.certificate.public_bytes(Encoding.PEM))


def make_certificate() -> Certificate:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Certificate(key, made)


@contextmanager
def serve(folder: Path, store: Path, *, auth: str = "", tls: bool = False) -> Iterator[str]:
    """A registry; its host and port. `auth` is "basic" (a password) or "token" (of a server)."""
    if not PROGRAM.exists():
        pytest.fail(f"{PROGRAM} is missing: apt-get install docker-registry")
    port = free_port()
    certificate = make_certificate() if tls or auth == "token" else None
    http_part: dict[str, Any] = {"addr": f"127.0.0.1:{port}"}
    if certificate:
        certificate.write(folder)
    if tls:
        pair = {"certificate": str(folder / "certificate.pem"), "key": str(folder / "key.pem")}
        http_part["tls"] = pair
    configuration: dict[str, Any] = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(store)}},
        "http": http_part,
    }
    tokens = None
    if auth == "basic":
        hashed = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
        (folder / "passwords").write_text(f"{USER}:{hashed}\n")
        path = str(folder / "passwords")
        configuration["auth"] = {"htpasswd": {"realm": "tests", "path": path}}
    if auth == "token":
        assert certificate
        tokens = answering(token_answers(certificate))
        host = tokens.__enter__()
        configuration["auth"] = {
            "token": {
                "realm": f"http://{host}/token",
                "service": "tests",
                "issuer": "tests",
                "rootcertbundle": str(folder / "certificate.pem"),
            }
        }
    (folder / "config.yml").write_text(json.dumps(configuration))  # JSON is YAML
    log = folder / "log"
    process = subprocess.Popen([PROGRAM, "serve", folder / "config.yml"], stderr=log.open("wb"))
    try:
        wait_until_open(port, process, log)
        yield f"localhost:{port}" if tls else f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
        if tokens:
            tokens.__exit__(None, None, None)


def push(host: str, repository: str, tag: str, image: Image) -> None:
    base = f"http://{host}/v2/{repository}"
    for blob in (*image.blobs, image.config):
        started = request(f"{base}/blobs/uploads/", "POST")
        place = urljoin(base, started.headers["Location"])
        request(f"{place}&digest=sha256:{sha256(blob)}", "PUT", blob)
    kind = json.loads(image.manifest)["mediaType"]
    request(f"{base}/manifests/{tag}", "PUT", image.manifest, kind)


def push_index(host: str, repository: str, tag: str, **images: Image) -> bytes:
    """A list of images by their architectures."""
    entries = [
        {
            "mediaType": json.loads(image.manifest)["mediaType"],
            "digest": image.digest,
            "size": len(image.manifest),
            "platform": {"os": "linux", "architecture": architecture},
        }
        for architecture, image in images.items()
    ]
    for image in images.values():
        push(host, repository, image.digest, image)
    kind = "application/vnd.oci.image.index.v1+json"
    content = {"schemaVersion": 2, "mediaType": kind, "manifests": entries}
    written = json.dumps(content).encode()
    request(f"http://{host}/v2/{repository}/manifests/{tag}", "PUT", written, kind)
    return written


def request(address: str, method: str, content: bytes = b"", kind: str = "") -> Any:
    headers = {"Content-Type": kind or "application/octet-stream"}
    made = urllib.request.Request(address, content, headers, method=method)
    return urllib.request.urlopen(made, timeout=10)


Answer = tuple[int, dict[str, str], bytes]


@contextmanager
def answering(answer: Callable[[str, dict[str, str]], Answer]) -> Iterator[str]:
    """A web server that says what it is told to: (path, headers) -> status, headers, content."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version: ClassVar[str] = "HTTP/1.1"  # type: ignore[misc]

        def do_GET(self) -> None:
            status, headers, content = answer(self.path, dict(self.headers))
            self.send_response(status)
            for name, value in ({"Content-Length": str(len(content))} | headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            if int(headers.get("Content-Length", len(content))) != len(content):
                self.close_connection = True

        def log_message(self, *arguments: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def token_answers(certificate: Certificate) -> Callable[[str, dict[str, str]], Answer]:
    """A token server: everybody may read what is called public, our user everything."""

    def answer(path: str, headers: dict[str, str]) -> Answer:
        asked = parse_qs(urlsplit(path).query)
        _, name, actions = asked["scope"][0].split(":")
        basic = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        given = headers.get("Authorization")
        if given and given != basic:
            return 401, {}, b'{"errors": [{"code": "UNAUTHORIZED", "message": "wrong password"}]}'
        allowed = actions.split(",") if given or "public" in name else []
        now = int(time.time())
        claims = {
            "iss": "tests", "sub": USER, "aud": "tests", "exp": now + 60, "nbf": now - 5,
            "iat": now, "jti": "1",
            "access": [{"type": "repository", "name": name, "actions": allowed}],
        }  # fmt: skip
        der = certificate.certificate.public_bytes(Encoding.DER)
        head = {"typ": "JWT", "alg": "RS256", "x5c": [base64.b64encode(der).decode()]}
        signed = b".".join(unpadded(json.dumps(part).encode()) for part in (head, claims))
        signature = certificate.key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        token = (signed + b"." + unpadded(signature)).decode()
        return 200, {}, json.dumps({"token": token}).encode()

    return answer


def unpadded(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")
