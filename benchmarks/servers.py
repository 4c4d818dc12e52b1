"""Servers of their own for benchmarks: PostgreSQL, and Valkey where one is needed."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.fernet import Fernet

from standalone import children
from standalone.postgres import Postgres
from standalone.valkey import Valkey


@contextmanager
def run_servers(*, with_valkey: bool = False) -> Iterator[Path]:
    """Run empty servers, name them in the environment for Django, and yield a folder to work in.

    All of it is gone after the block. Without Valkey nothing listens at its address.
    """
    folder = Path(tempfile.mkdtemp(prefix="tare-bench-"))
    postgres, valkey = Postgres(folder / "postgres"), Valkey(folder / "valkey")
    try:
        postgres.start()
        if with_valkey:
            valkey.start()
        os.environ |= {
            "DATABASE_URL": postgres.url,
            "REDIS_URL": valkey.url if with_valkey else "redis://localhost:1",
            "SECRET_KEY": secrets.token_urlsafe(32),
            "CREDENTIAL_KEYS": Fernet.generate_key().decode(),
            "DJANGO_SETTINGS_MODULE": "dashboard.settings",
        }
        yield folder
    finally:
        if with_valkey:
            valkey.stop()
        postgres.stop()
        shutil.rmtree(folder)


@contextmanager
def run_web(folder: Path) -> Iterator[tuple[str, int]]:
    """Run Tare's web server as in production, on the database that the environment names.

    Yields its address and the id of its process. Static files are collected first.
    """
    base = Path(__file__).resolve().parent.parent
    manage = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
    subprocess.run(manage, cwd=base, check=True)
    port = children.find_free_port()
    command = [
        *(sys.executable, "-m", "gunicorn", "dashboard.wsgi", "--bind", f"127.0.0.1:{port}"),
        *("--threads", "4", "--worker-tmp-dir", "/dev/shm", "--no-control-socket"),
    ]
    with run_server(command, f"http://127.0.0.1:{port}", "/healthz/", folder / "web") as pid:
        yield f"http://127.0.0.1:{port}", pid


@contextmanager
def run_server(
    command: list[str], address: str, ready_path: str, log: Path, **more: str
) -> Iterator[int]:
    """Run a web server until the block ends, and yield its process's id once it answers."""
    process = children.start(command, log=log, env=os.environ | more)

    def answers() -> bool:
        try:
            with urllib.request.urlopen(address + ready_path, timeout=5):
                return True
        except OSError:
            return False

    try:
        children.wait_until(answers, command[0], child=process, seconds=600)
        yield process.pid
    finally:
        process.terminate()
        process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what a server leaves of its children
