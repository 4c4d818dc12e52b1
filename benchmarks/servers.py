"""Servers of their own for benchmarks: PostgreSQL, and Valkey where one is needed."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.fernet import Fernet

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
