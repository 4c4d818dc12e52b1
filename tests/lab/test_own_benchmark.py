"""A user's own loop with five added lines, entered by the form and run on bare metal and in a
container, up to its steps and its comparison."""

from __future__ import annotations

import pytest
from webtest import Upload

from experiments.models import Cluster, Experiment, Run, Workload
from tests.conftest import tick_until
from tests.lab.by_forms import Person
from tests.lab.test_presets import BARE, researcher

__all__ = ["researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.django_db(transaction=True)]

LOOP = b"""
import numpy

weights = numpy.zeros(8)
random = numpy.random.default_rng(1)
for number in range(40):
    images = random.standard_normal((64, 8))
    wrong = images @ weights - images.sum(axis=1)
    weights -= 0.05 * images.T @ wrong / 64
print("distance", float(abs(weights - 1).max()))
"""
REPORT = b'recorder.metric("distance", float(abs(weights - 1).max()))\nrecorder.write()\n'
FIVE_LINES = (
    (b"import numpy\n", b"import numpy\nfrom tare import Recorder\n"),
    (b"for number in range(40):", b"recorder = Recorder()\nfor number in recorder.steps(40, 4):"),
    (b"wrong / 64\n", b"wrong / 64\n    recorder.step(loss=float((wrong**2).mean()))\n"),
    (b"print(", REPORT + b"print("),
)


def with_five_lines(loop: bytes) -> bytes:
    for before, after in FIVE_LINES:
        assert before in loop
        loop = loop.replace(before, after)
    return loop


def test_a_script_with_five_added_lines_reports_its_steps(
    researcher: Person, registered: Cluster
) -> None:
    page = researcher.get("workload_new", kind="command")
    researcher.send(
        page,
        "?kind=command",
        name="my loop",
        argv="{python} loop.py",
        time_limit_seconds="60",
        uploads=[Upload("loop.py", with_five_lines(LOOP))],
    )
    workload = Workload.objects.get(name="my loop")
    environments = registered.environments
    bare = environments.get(name__startswith=BARE, python__contains="numpy")
    container = environments.get(
        runtime__kind="apptainer",
        staged_image__format="sif",
        staged_image__image__reference__contains="numpy",
    )
    answer = researcher.send(
        researcher.get("experiment_new", cluster=registered.pk),
        "",
        question="What does a container cost my loop?",
        workloads=[str(workload.pk)],
        environments=[str(bare.pk), str(container.pk)],
        baseline=str(bare.pk),
        scales="1x0",
        repeats="1",
    )
    assert not [
        one.get_text(" ", strip=True) for one in answer.html.select(".problem, .note.error")
    ]
    made = Experiment.objects.get()
    alive = Run.objects.exclude(state__in=Run.FINAL)
    tick_until(registered, lambda: not alive.exists(), seconds=300)
    assert {(run.state, run.message) for run in made.runs.all()} == {("succeeded", "")}
    for run in made.runs.all():
        assert len(run.series.get(metric="loss").values) == 40
        assert run.series.get(metric="step_time").burn_in == 4
        shown = researcher.app.get(run.get_absolute_url(), user=researcher.name)
        assert "step time" in shown
        assert "distance" in shown
    losses = {tuple(run.series.get(metric="loss").values) for run in made.runs.all()}
    assert len(losses) == 1, "it computed the same on both sides"
    comparison = researcher.get("comparison", made.pk, section="all")
    assert container.name in comparison
    assert "step_time" in comparison
