"""A pytest plug-in: a real PostgreSQL and a real Valkey for the whole session.

Loaded with `-p tests.services`, before pytest-django reads the settings. DATABASE_URL and
REDIS_URL, where they are set, win. Processes of one session (`-n 2`) share both servers:
pytest-django gives each a database of its own in the one, the line below in the other.
"""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.fernet import Fernet

from standalone.postgres import Postgres
from standalone.valkey import Valkey

# Names a file that says that the database of DATABASE_URL, which is the tests' own, is migrated.
MIGRATED_ONCE = "TARE_TESTS_MIGRATED"


def with_database(url: str, number: int) -> str:
    """Return the address of another of the server's databases."""
    if url.startswith("unix:"):
        return f"{url.partition('?')[0]}?db={number}"
    return urlsplit(url)._replace(path=f"/{number}").geturl()


def start() -> None:
    folder = Path(tempfile.mkdtemp(prefix="tare-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if "DATABASE_URL" not in os.environ:
        postgres = Postgres(folder / "postgres", quick=True)
        postgres.start()
        atexit.register(postgres.stop)
        os.environ["DATABASE_URL"] = postgres.url
        os.environ[MIGRATED_ONCE] = str(folder / "migrated")
    if "REDIS_URL" not in os.environ:
        valkey = Valkey(folder / "valkey")
        valkey.start()
        atexit.register(valkey.stop)
        os.environ["REDIS_URL"] = valkey.url
    if number := os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw"):
        os.environ["REDIS_URL"] = with_database(os.environ["REDIS_URL"], int(number))
    # Tests never take the settings of a demo that happens to run from this folder.
    os.environ["SECRET_KEY"] = secrets.token_urlsafe(32)
    os.environ["CREDENTIAL_KEYS"] = Fernet.generate_key().decode()
    os.environ["DEBUG"] = "0"
    os.environ["SUPERVISOR_FILE"] = ""
    # Playwright runs an event loop in the thread that also talks to the database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"


start()
