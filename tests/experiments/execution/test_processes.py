"""Promise 3 with real processes: workers and Redis die, the job is executed once."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from experiments import notify, valkey_pause
from experiments.models import Cluster, Experiment, Job
from standalone import children
from standalone.valkey import Valkey
from tests.experiments.execution.test_execution import script, starts

pytestmark = pytest.mark.django_db(transaction=True)

Make = Callable[..., Experiment]


def wait_until(done: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.05)


class Site:
    """The worker and the clock of a site, on the test's own database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.valkey = Valkey(folder / "valkey")
        self.valkey.start()
        database = connection.settings_dict
        self.environment = os.environ | {
            "DATABASE_URL": f"postgresql://{database['USER']}:{database['PASSWORD']}"
            f"@{database['HOST']}:{database['PORT']}/{database['NAME']}",
            "REDIS_URL": self.valkey.url,
        }
        self.family: list[subprocess.Popen[bytes]] = []

    def start(self, command: str) -> subprocess.Popen[bytes]:
        argv = [sys.executable, settings.BASE_DIR / "manage.py", command]
        child = children.start(argv, log=self.folder / command, env=self.environment)
        self.family.append(child)
        return child

    def stop(self) -> None:
        for child in self.family:
            children.terminate(child)
        children.wait_or_kill(self.family, seconds=3)
        self.valkey.stop()


@pytest.fixture
def site(tmp_path: Path, home: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


def ended(experiment: Experiment) -> bool:
    return not experiment.jobs.exclude(state__in=Job.FINAL).exists()


def test_a_worker_that_is_killed_loses_nothing(
    site: Site, experiment: Make, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    waits = f'until [ -e {gate} ]; do sleep 0.1; done; exec {sys.executable} "$@"'
    made = experiment(python=script(tmp_path, waits))
    Cluster.objects.update(poll_seconds=1)
    worker = site.start("worker")
    site.start("clock")
    wait_until(made.runs.filter(state="running", environment__name="other").exists)
    worker.kill()
    worker.wait()
    gate.touch()
    site.start("worker")
    wait_until(lambda: ended(made))
    assert starts(made.jobs.get()) == 1
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


def test_redis_is_only_a_doorbell(site: Site, experiment: Make) -> None:
    made = experiment()
    Cluster.objects.update(poll_seconds=1)
    site.start("clock")
    site.start("worker")
    wait_until(made.jobs.exclude(state="planned").exists)
    site.valkey.stop()
    site.valkey.start()  # with nothing of what was in it
    site.start("worker")  # the first one ends, or comes back by itself after a pause
    wait_until(lambda: ended(made))
    assert starts(made.jobs.get()) == 1
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


def test_a_click_without_redis_is_no_error(
    monkeypatch: pytest.MonkeyPatch, experiment: Make
) -> None:
    made = experiment()
    url = f"redis://127.0.0.1:{children.find_free_port()}"
    monkeypatch.setitem(settings.RQ_QUEUES["default"], "URL", url)
    notify.enqueue_tick(made.cluster.pk)
    assert valkey_pause.is_paused()


def test_clicks_wait_for_a_valkey_that_hangs_once_and_briefly(
    monkeypatch: pytest.MonkeyPatch, experiment: Make
) -> None:
    made = experiment()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setitem(settings.RQ_QUEUES["default"], "URL", url)
        began_at = time.monotonic()
        for _ in range(3):
            notify.enqueue_tick(made.cluster.pk)
            notify.enqueue_keep(made.pk)
    assert time.monotonic() - began_at < 3 * notify.LONGEST_WAIT
