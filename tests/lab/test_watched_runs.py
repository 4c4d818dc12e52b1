"""The page of a run that runs in a container on the cluster shows its steps and what it prints."""

from __future__ import annotations

import pytest
from webtest import Upload

from experiments.execution import lifecycle
from experiments.models import Cluster, Experiment, LiveReading, Run, Workload
from tests.conftest import tick_until
from tests.lab.by_forms import Person
from tests.lab.test_presets import BARE, researcher

__all__ = ["researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

LONG_LOOP = b"""
import time
from tare import Recorder

recorder = Recorder()
for number in recorder.steps(2000, burn_in=2):
    time.sleep(0.1)
    recorder.step(loss=1 / (number + 1))
    print("epoch", number, flush=True)
"""


def test_a_run_in_a_container_is_watched_while_it_runs(
    researcher: Person, registered: Cluster
) -> None:
    researcher.send(
        researcher.get("workload_new", kind="command"),
        "?kind=command",
        name="a long loop",
        argv="{python} loop.py",
        time_limit_seconds="300",
        uploads=[Upload("loop.py", LONG_LOOP)],
    )
    workload = Workload.objects.get(name="a long loop")
    container = registered.environments.get(
        runtime__kind="apptainer",
        staged_image__format="sif",
        staged_image__image__reference__contains="numpy",
    )
    bare = registered.environments.get(name__startswith=BARE, python__contains="numpy")
    researcher.send(
        researcher.get("experiment_new", cluster=registered.pk),
        "",
        question="What does it do now?",
        workloads=[str(workload.pk)],
        environments=[str(bare.pk), str(container.pk)],
        baseline=str(bare.pk),
        scales="1x0",
        repeats="1",
        design="independent",
    )
    experiment = Experiment.objects.get()
    run = experiment.runs.get(environment=container)

    def read_page() -> str:
        return str(researcher.app.get(run.get_absolute_url(), user=researcher.name).text)

    try:
        running = Run.objects.filter(pk=run.pk, state=Run.State.RUNNING)
        tick_until(registered, running.exists, seconds=300)
        assert "is being read on the cluster" in read_page()
        tick_until(registered, lambda: 'class="curve"' in read_page())
        page = read_page()
        assert "epoch 1" in page
        first = LiveReading.objects.get(run=run).report["curves"]["loss"]["count"]
        assert first >= 2
        tick_until(
            registered,
            lambda: (
                "after the warm-up" in read_page()
                and LiveReading.objects.get(run=run).report["curves"]["loss"]["count"] > first
            ),
        )
    finally:
        lifecycle.cancel(experiment, experiment.owner)
        alive = Run.objects.exclude(state__in=Run.FINAL)
        tick_until(registered, lambda: not alive.exists(), seconds=300)
    assert "every few seconds while this page is" not in read_page()
