"""One running lab for all tests that go through Tare itself, and its rows in the database."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator

import pytest

from experiments import demo, execution
from experiments.models import Cluster, Experiment, Job
from lab.client import Lab, ensure_lab, stop_lab
from tests.factories import AdminFactory


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=("numpy", "tensorflow"))
    stop_lab(directory)
    shutil.rmtree(directory)


@pytest.fixture
def registered(lab: Lab, db: None) -> Cluster:
    """The lab in the catalogue, as `make demo` registers it."""
    owner = AdminFactory(username="demo")
    facts = json.loads((lab.directory / "lab.json").read_text())
    cluster = demo.register_lab(facts, owner)
    for image in ("numpy", "tensorflow"):
        demo.register_image(cluster, facts["images"][image], owner)
    Cluster.objects.update(poll_seconds=0)
    cluster.refresh_from_db()
    return cluster


def tick_until(cluster: Cluster, done: Callable[[], bool], seconds: float = 120) -> None:
    """Visit the cluster until `done()`; it must come true within `seconds`."""
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, (
            cluster.__class__.objects.get(pk=cluster.pk).last_error,
            list(cluster.jobs.values_list("state", "reason", "message", "scheduler_state")),
        )
        execution.tick(cluster.pk)
        time.sleep(0.1)


def finish(experiment: Experiment, seconds: float = 300) -> None:
    """Visit until every job has ended."""
    alive = experiment.jobs.exclude(state__in=Job.FINAL)
    tick_until(experiment.cluster, lambda: not alive.exists(), seconds)
