"""A cluster that needs no network: this machine, without a scheduler. Everything else is real."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import django_rq
import pytest
from django.conf import settings as site_settings
from django.core.management import call_command
from django.db import connection
from django.test import override_settings
from hypothesis import settings as hypothesis_settings
from pytest_django import Settings

from dashboard.comparisons import export_limit
from experiments import execution, valkey_pause
from experiments.execution import lifecycle
from experiments.models import Cluster, Environment, Experiment, Job, Workload
from lab.host import hold_lock
from tests.factories import (
    ClusterFactory,
    EnvironmentFactory,
    ExperimentFactory,
    WorkloadFactory,
)
from tests.services import MIGRATED_ONCE

# How long an example takes says how busy the machine is, not whether the promise holds. `make test`
# and `make test-all` try the same examples each time, so that a change is blamed for what it breaks
# and for nothing else; `make explore` draws new ones, ten times as many.
hypothesis_settings.register_profile("repeat", deadline=None, derandomize=True, max_examples=30)
hypothesis_settings.register_profile("all", deadline=None, derandomize=True, max_examples=100)
hypothesis_settings.register_profile("explore", deadline=None, max_examples=1000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "repeat")
hypothesis_settings.load_profile(PROFILE)
EXPLORES = PROFILE == "explore"
"""Whether this is `make explore`: sweeps try all pairs, where otherwise each part is tried once."""

QUICK = {"steps": 6, "burn_in": 1, "matrix_size": 16, "decomposition_size": 8}


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings: None, django_db_blocker: Any
) -> None:
    """Have each process's database copied from one that the first of them migrates.

    The migrations take seconds. A server that is not the tests' own is left as it is.
    """
    if MIGRATED_ONCE not in os.environ:
        return
    migrated = Path(os.environ[MIGRATED_ONCE])
    with hold_lock(migrated.with_suffix(".lock")), django_db_blocker.unblock():
        if not migrated.exists():
            call_command("migrate", verbosity=0)
            connection.close()  # what is copied must have no visitors
            migrated.touch()
        connection.settings_dict["TEST"]["TEMPLATE"] = connection.settings_dict["NAME"]


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Tests that commit are cleaned up after by TRUNCATE, which the audit log refuses."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE experiments_auditentry DISABLE TRIGGER audit_refuses_truncation"
        )


@pytest.fixture(scope="session", autouse=True)
def _home_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the login profile of whoever runs the tests out of them: it may take a minute, and wait
    for files that a job which was killed in it has left."""
    with pytest.MonkeyPatch.context() as patch:
        caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        patch.setenv("XDG_CACHE_HOME", caches)  # the lab's is kept between runs
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _plain_and_quick() -> Iterator[None]:
    """Do without the manifest that collectstatic makes, and hash passwords quickly; what the site's
    own way has hashed can be read. Static files are looked for when one is asked for: a client of
    a test makes the middleware anew, which would otherwise list them all each time.

    These hold for the whole session: a server that still answers the page of the test before would
    see them change, and keep what it has made of the half that it saw.
    """
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    quick = "django.contrib.auth.hashers.MD5PasswordHasher"
    with override_settings(
        STORAGES={**site_settings.STORAGES, "staticfiles": plain},
        PASSWORD_HASHERS=[quick, *site_settings.PASSWORD_HASHERS],
        WHITENOISE_AUTOREFRESH=True,
    ):
        yield


@pytest.fixture(autouse=True)
def _store_of_its_own(tmp_path: Path, settings: Settings) -> None:
    settings.IMAGE_STORE = str(tmp_path / "images")


@pytest.fixture(autouse=True)
def _no_file_is_being_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Free the places of files that tests before have fetched and not read."""
    free = deque(range(export_limit.MOST_AT_ONCE))
    monkeypatch.setattr(export_limit, "_free", free)


@pytest.fixture(autouse=True)
def _valkey_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget that Valkey did not answer the test before."""
    monkeypatch.setattr(valkey_pause, "_ends_at", 0.0)


@pytest.fixture
def roomy_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave half of every disk free, however full that of the tests' machine is."""
    disk = mock.Mock(free=500 * 10**9, total=10**12)
    monkeypatch.setattr("experiments.health.storage.shutil.disk_usage", lambda path: disk)


@pytest.fixture
def empty_queues() -> None:
    """Drop the tasks that other tests have left, which no worker will ever take."""
    django_rq.get_queue().connection.flushdb()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory for one test, which may write a login profile."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def renewed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No visit renews its lease, however long it takes: the statements can be counted."""
    monkeypatch.setattr("experiments.execution.lease.RENEWED_SECONDS", float("inf"))


@pytest.fixture
def here(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster on this machine, whose visits look at the live jobs once, before they send any.

    Where sending takes longer than a second a visit looks again, and jobs that it has just sent may
    run by then: whether they do would depend on how busy the machine is.
    """
    visits = sys.modules["experiments.execution.tick"]
    monkeypatch.setattr(visits, "LEAST_SECONDS", float("inf"))
    return ClusterFactory(
        name="here", work_directory=str(tmp_path / "work"), poll_seconds=0, max_live_jobs=100
    )


@pytest.fixture
def bare(here: Cluster) -> Environment:
    return EnvironmentFactory(name="bare metal", cluster=here, python=sys.executable)


@pytest.fixture
def quick() -> Workload:
    return WorkloadFactory(name="blas", kind="blas", parameters=QUICK)


@pytest.fixture
def experiment(here: Cluster, bare: Environment, quick: Workload) -> Callable[..., Experiment]:
    """Make a launched experiment; `python` is the interpreter of the second environment."""

    def make(*, python: str = sys.executable, repeats: int = 1, **columns: Any) -> Experiment:
        other = EnvironmentFactory(name="other", cluster=here, python=python)
        made: Experiment = ExperimentFactory(
            cluster=here,
            partition=None,
            baseline=bare,
            environments=[bare, other],
            workloads=[quick],
            scales=["1x0"],
            repeats=repeats,
            **columns,
        )
        lifecycle.launch(made, made.owner)
        return made

    return make


def pause_longer() -> Iterator[None]:
    """Pause for a moment, and longer each time: asking takes the processor from what is awaited."""
    seconds = 0.05
    while True:
        time.sleep(seconds)
        yield
        seconds = min(seconds * 1.3, 0.5)


def tick_until(cluster: Cluster, done: Callable[[], bool], seconds: float = 120) -> None:
    """Visit the cluster until `done()`; it must come true within `seconds`."""
    deadline, pauses = time.monotonic() + seconds, pause_longer()
    while not done():
        assert time.monotonic() < deadline, list(
            cluster.jobs.values_list("state", "reason", "message", "scheduler_state")
        )
        execution.tick(cluster.pk)
        next(pauses)


def finish(experiment: Experiment, seconds: float = 300) -> None:
    """Visit until every job has ended."""
    alive = experiment.jobs.exclude(state__in=Job.FINAL)
    tick_until(experiment.cluster, lambda: not alive.exists(), seconds)


@contextmanager
def collecting_each(collect: Callable[..., object]) -> Iterator[None]:
    """Have visits collect each job alone, by `collect` in place of what does so otherwise."""
    # `experiments.execution.tick` is the function too.
    tick = sys.modules["experiments.execution.tick"]
    with (
        mock.patch.object(tick, "collect_together", lambda rows, runner: list(rows)),
        mock.patch.object(tick, "collect", collect),
    ):
        yield
