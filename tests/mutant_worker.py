"""A pytest plug-in of tests/mutants.py: quick tests first, and databases of its own for each run.

A mutant may leave anything behind in its database; the next one gets a new copy, and nothing of
what an earlier one, or one that is tried at the same time, has written to Valkey.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from redis import Redis

from tests.services import with_database


class OwnDatabase:
    """Overrides pytest-django's fixture, which would run all migrations for each mutant."""

    @pytest.fixture(scope="session")
    @classmethod
    def django_db_setup(
        cls, django_test_environment: None, django_db_blocker: Any
    ) -> Iterator[None]:
        original, own = os.environ["MUTANTS_DATABASE"], f"mutant_{os.getpid()}"
        with django_db_blocker.unblock():
            with connection._nodb_cursor() as cursor:
                cursor.execute(f'CREATE DATABASE "{own}" TEMPLATE "{original}"')
            connection.settings_dict["NAME"] = own
        yield
        with django_db_blocker.unblock():
            connection.close()
            connection.settings_dict["NAME"] = original
            with connection._nodb_cursor() as cursor:
                cursor.execute(f'DROP DATABASE "{own}" WITH (FORCE)')

    @pytest.fixture(scope="session", autouse=True)
    @classmethod
    def _own_valkey(cls) -> Iterator[None]:
        """Use an empty one of Valkey's 16 databases, whose lock this process holds."""
        for number in range(1, 16):
            with Path(f"valkey-{number}.lock").open("w") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                url = with_database(settings.REDIS_URL, number)
                Redis.from_url(url).flushdb()
                settings.REDIS_URL = os.environ["REDIS_URL"] = url
                for queue in settings.RQ_QUEUES.values():
                    queue["URL"] = url
                yield
                return
        raise RuntimeError("More than 15 mutants at the same time")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(OwnDatabase())  # after pytest-django, or its fixture would win


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the quick ones: the first that fails ends the run."""
    measured = Path("mutmut-stats.json")
    seconds = json.loads(measured.read_text())["duration_by_test"] if measured.exists() else {}
    items.sort(key=lambda item: seconds.get(item.nodeid, 0))
