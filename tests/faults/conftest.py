"""A site for the tests of faults, and a cluster without network or scheduler."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError

from experiments.models import Experiment, Run
from lab.client import ensure_lab, stop_lab
from tests.factories import AdminFactory, ClusterFactory
from tests.faults.cluster import Breakable
from tests.faults.site import Load, Site, launch, run_site, use_site

ASKED_FOR = ("faults", "soak")
"""Marks of tests that run only where `-m` names them."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    expression = config.getoption("-m")
    left_out = [mark for mark in ASKED_FOR if mark not in expression]
    deselected = [item for item in items if any(map(item.get_closest_marker, left_out))]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]


@pytest.fixture(scope="session")
def running_site(
    tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any
) -> Iterator[Site]:
    with django_db_blocker.unblock(), run_site(tmp_path_factory.mktemp("site")) as site:
        yield site


@pytest.fixture
def site(running_site: Site, django_db_blocker: Any) -> Iterator[Site]:
    """The servers, without processes that visit clusters; those of a test end with it."""
    for log in running_site.folder.glob("*.log"):
        log.unlink()
    with django_db_blocker.unblock(), use_site(running_site):
        yield running_site
        with suppress(DatabaseError):  # pytest shows it beside a failure
            print_what_went_wrong()
        running_site.end_processes()
        running_site.start_servers()


def print_what_went_wrong() -> None:
    """Print why runs of the newest experiment failed, and its events if a job was tried again."""
    experiment = Experiment.objects.order_by("pk").last()
    if experiment is None:
        return
    for run in experiment.runs.filter(state=Run.State.FAILED).select_related("job"):
        print(run.job, run, run.folder, run.reason, run.message)  # noqa: T201
    if experiment.jobs.filter(attempt__gt=1).exists():
        for event in experiment.events.filter(run=None).select_related("job").order_by("pk"):
            print(event.at, event.job, event.what, event.why)  # noqa: T201


@pytest.fixture
def make_load(site: Site, tmp_path: Path) -> Callable[..., Load]:
    """Launch an experiment of two jobs of a run each on this machine, without a scheduler."""

    def make(blocks: int = 1) -> Load:
        cluster = ClusterFactory(
            owner=AdminFactory(),
            work_directory=str(tmp_path / "work"),
            poll_seconds=0,
            max_live_jobs=100,
        )
        return launch(cluster, tmp_path, str(tmp_path), blocks=blocks, paired=False)

    return make


@pytest.fixture(scope="session")
def brought_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Breakable]:
    directory = tmp_path_factory.mktemp("lab")
    yield Breakable(ensure_lab(directory))
    stop_lab(directory)
    shutil.rmtree(directory)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """Show the end of slurmctld's log beside a failure on a cluster."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("brought_up")
    if report.failed and cluster:
        log = cluster.root / "var/log/slurm/slurmctld.log"
        lines = log.read_text(errors="replace").splitlines()[-150:]
        report.sections.append(("slurmctld.log", "\n".join(lines)))
    return report
