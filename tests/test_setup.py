"""A machine on the first day: no site yet, another apt at work, a proxy with its own authority."""

from __future__ import annotations

import fcntl
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

BASE = Path(__file__).resolve().parent.parent
TABLE = """environment,mean_s,sd_s,n
bare metal,100.0,1.0,5
container,101.0,1.0,5
"""
SITE = {"SECRET_KEY", "CREDENTIAL_KEYS", "DATABASE_URL", "REDIS_URL"}


def manage(*argv: str | Path) -> subprocess.CompletedProcess[str]:
    """Run manage.py as on a machine on which no site was ever set up."""
    environment = {name: value for name, value in os.environ.items() if name not in SITE}
    command = [sys.executable, BASE / "manage.py", *argv]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_a_published_table_is_compared_without_a_site(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text(TABLE)
    done = manage("compare_table", table, "--baseline", "bare metal")
    assert (done.returncode, done.stderr) == (0, "")
    assert "container" in done.stdout


@pytest.mark.parametrize("argv", [(), ("help",), ("new_credential_key",), ("calibrate", "--help")])
def test_what_needs_no_site_runs_without_one(argv: tuple[str, ...]) -> None:
    done = manage(*argv)
    assert (done.returncode, done.stderr) == (0, "")
    if argv in [(), ("help",)]:
        assert "compare_table" in done.stdout, "the help lists our own commands"


def test_what_needs_a_site_says_so_in_one_line() -> None:
    if (BASE / "var" / "environment").exists():
        pytest.fail("A demo has run in this checkout; remove var/ to try what a fresh clone says.")
    done = manage("clock")
    assert done.returncode == 1
    assert done.stderr.startswith("manage.py: SECRET_KEY is not set.")
    assert done.stderr.count("\n") == 1


def test_an_installation_waits_for_another_apt(tmp_path: Path) -> None:
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    (tmp_path / "apt.conf").write_text(
        f'Dir::State::lists "{lists}"; Dir::Cache "{tmp_path}";'
        'Dir::Etc::sourcelist "/dev/null"; Dir::Etc::sourceparts "/dev/null";'
    )
    with (lists / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(
            [BASE / "lab" / "apt-get", "-q", "update"],
            env=os.environ | {"APT_CONFIG": str(tmp_path / "apt.conf")},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert waiting.stderr
        assert waiting.stderr.readline() == "Waiting for another apt-get to end ...\n"
        assert waiting.poll() is None
    assert waiting.wait(60) == 0, waiting.stderr.read()


def test_an_apt_that_fails_for_another_reason_does_not_wait(tmp_path: Path) -> None:
    done = subprocess.run(
        [BASE / "lab" / "apt-get", "no-such-verb"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 100
    assert "Invalid operation no-such-verb" in done.stderr


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """A certificate for localhost that no public authority has signed, with its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "localhost.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def index(tmp_path: Path, authority: Path) -> Iterator[str]:
    """Return the address of a package index that has one package, without files, over TLS."""
    folder = tmp_path / "index"
    (folder / "nothing").mkdir(parents=True)
    (folder / "nothing" / "index.html").write_text("<!DOCTYPE html><html><body></body></html>")

    class Quiet(SimpleHTTPRequestHandler):
        def __init__(self, *args: object) -> None:
            super().__init__(*args, directory=str(folder))  # type: ignore[arg-type]

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"https://localhost:{server.server_port}/"
    server.shutdown()


def test_uv_trusts_the_authorities_that_the_system_trusts(
    tmp_path: Path, authority: Path, index: str
) -> None:
    """A namespace of its own has the authority among the system's; root on Debian is needed."""
    system = Path("/etc/ssl/certs/ca-certificates.crt")
    (tmp_path / "bundle.crt").write_text(system.read_text() + authority.read_text())
    ask = f"probe: ; @$(UV) pip install --dry-run --python .venv --index-url {index} nothing"
    script = 'mount --bind "$1" "$2" && exec make --no-print-directory --eval="$3" probe'
    words = ["sh", "-c", script, "sh", tmp_path / "bundle.crt", system, ask]
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("UV_", "SSL_CERT", "MAKE", "PIP_", "HTTP", "http", "ALL_PROXY"))
    }
    done = subprocess.run(
        ["unshare", "--mount", *words],
        cwd=BASE,
        env=environment | {"NO_PROXY": "localhost", "UV_NO_CONFIG": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "no versions of nothing" in done.stderr, "the index was read, and has no version of it"
