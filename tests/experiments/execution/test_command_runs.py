"""Runs of a user's own program: what it sends, what it reports, and what is left when it fails."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.models import Cluster, Environment, Experiment, SentFile, Workload
from runners.workloads import WORKLOADS
from tests.conftest import finish
from tests.factories import EnvironmentFactory, ExperimentFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

TRAIN = """
import sys
from tare import Recorder
recorder = Recorder()
for number in recorder.steps(30, burn_in=5):
    recorder.step(loss=1 / (number + 1))
    if number == 20 and "%s" == "broken":
        sys.exit("no more memory")
recorder.write()
"""


def sent(**files: str) -> dict[str, str]:
    """Keep files, whose names have no suffix here, and return what a workload says of them."""
    kept = {f"{name}.py": SentFile.objects.keep(text.encode()) for name, text in files.items()}
    return {name: row.sha256 for name, row in kept.items()}


def launched(here: Cluster, bare: Environment, parameters: dict[str, Any]) -> Experiment:
    workload = WorkloadFactory(
        name="mine", kind="command", parameters=WORKLOADS["command"].clean(parameters)
    )
    other = EnvironmentFactory(name="other", cluster=here, python=sys.executable)
    made: Experiment = ExperimentFactory(
        cluster=here,
        partition=None,
        baseline=bare,
        environments=[bare, other],
        workloads=[workload],
        scales=["1x0"],
        repeats=1,
    )
    lifecycle.launch(made, made.owner)
    return made


def test_a_script_with_five_lines_is_sent_run_and_compared(
    here: Cluster, bare: Environment
) -> None:
    files = sent(train=TRAIN % "sound")
    made = launched(here, bare, {"argv": ["{python}", "train.py"], "files": files})
    finish(made)
    assert {(run.state, run.message) for run in made.runs.all()} == {("succeeded", "")}
    for run in made.runs.all():
        series = run.series.get(metric="step_time")
        assert (len(series.values), series.burn_in) == (30, 5)
        assert series.shape, "somebody has looked for its warm-up"
        assert run.measurements.get(metric="wall_time").unit == "s"
    (group,) = compare_experiment(made).groups
    assert group.metric.name == "step_time"
    assert len(group.samples) == 2
    folder = Path(made.jobs.get().directory, "files")
    assert {path.name for path in folder.iterdir()} == {"train.py", "tare.py"}
    plan = made.plan["workloads"].values()
    assert [one["parameters"]["files"] for one in plan] == [files], "names and hashes, no contents"


def test_numbers_in_a_file_of_the_program_s_own_are_fetched(
    here: Cluster, bare: Environment
) -> None:
    script = "import json; json.dump({'speed': 7.5}, open('numbers.json', 'w'))"
    parameters = {
        "argv": ["{python}", "-c", script],
        "read": "json",
        "file": "numbers.json",
        "metrics": [
            {"name": "speed", "unit": "MB/s", "better": "higher", "find": "speed", "take": "last"}
        ],
    }
    made = launched(here, bare, parameters)
    finish(made)
    for run in made.runs.all():
        assert (run.state, run.message) == ("succeeded", "")
        assert run.measurements.get(metric="speed").value == 7.5


def test_the_steps_of_a_run_that_failed_are_kept_and_not_compared(
    here: Cluster, bare: Environment
) -> None:
    files = sent(train=TRAIN % "broken")
    made = launched(here, bare, {"argv": ["{python}", "train.py"], "files": files})
    finish(made)
    for run in made.runs.all():
        assert (run.state, run.reason) == ("failed", "crashed")
        assert run.message == "The program ended with exit code 1: no more memory"
        assert len(run.series.get(metric="loss").values) == 21
        assert not run.measurements.exists()
    (group,) = compare_experiment(made).groups
    assert (group.samples, group.warm_ups) == ([], None)
    job = made.jobs.get()
    assert job.state == "done"


def test_a_file_that_is_gone_is_named_and_nothing_is_sent(here: Cluster, bare: Environment) -> None:
    files = sent(train=TRAIN % "sound")
    made = launched(here, bare, {"argv": ["{python}", "train.py"], "files": files})
    SentFile.objects.all().delete()
    finish(made)
    assert "A file that mine sends is gone" in made.jobs.get().message


def test_the_same_bytes_are_kept_once() -> None:
    first, again = (SentFile.objects.keep(b"the same") for _ in range(2))
    assert first.sha256 == again.sha256
    assert SentFile.objects.contents({"a": first.sha256, "b": first.sha256}) == {
        "a": b"the same",
        "b": b"the same",
    }
    assert Workload.objects.count() == 0
