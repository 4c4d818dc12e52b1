"""The job script of a block before the launch is that which is sent after it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from experiments.execution import lifecycle
from experiments.execution.script_previews import NO_UID, ScriptPreview, preview_script
from experiments.execution.specs import make_job_spec
from experiments.models import Experiment, Job
from runners.schedulers import SCHEDULERS
from runners.scripts import render
from tests.factories import ExperimentFactory, WorkloadFactory

pytestmark = pytest.mark.django_db


def preview(experiment: Experiment, number: int, **changes: Any) -> ScriptPreview:
    asked = {
        "workloads": list(experiment.workloads.order_by("pk")),
        "environments": list(experiment.environments.order_by("pk")),
        "scales": experiment.scales,
    }
    return preview_script(experiment, **(asked | changes), number=number)


def sent(job: Job) -> str:
    """Return the script that is sent, with the names that are drawn left out."""
    script = render(make_job_spec(job), SCHEDULERS[job.cluster.scheduler]())
    names = [job.uid, *(run.uid for run in job.runs.all())]
    return re.sub("|".join(names), NO_UID, script)


@pytest.mark.parametrize("design", Experiment.Design.values)
def test_every_block_has_the_script_that_is_sent(design: str) -> None:
    workloads = [WorkloadFactory(), WorkloadFactory(kind="cnn")]
    experiment = ExperimentFactory(
        design=design, repeats=2, scales=["1x0", "1x1"], workloads=workloads, cooldown_seconds=7
    )
    unsaved = Experiment(
        cluster=experiment.cluster,
        partition=experiment.partition,
        design=design,
        repeats=2,
        cooldown_seconds=7,
    )
    asked = {
        "workloads": workloads,
        "environments": list(experiment.environments.order_by("pk")),
        "scales": experiment.scales,
    }
    count = preview(experiment, 1).blocks
    shown = [preview_script(unsaved, **asked, number=number + 1) for number in range(count)]
    lifecycle.launch(experiment, experiment.owner)
    jobs = list(experiment.jobs.all())
    assert len(jobs) == count

    def lines(script: str) -> list[str]:
        """In any order of the runs: it is drawn at the launch."""
        script = re.sub(r"(runs/)\d+-|# Run \d+", r"\1", script)
        return sorted(script.splitlines())

    def known(text: str) -> list[str]:
        return lines(text)

    assert sorted(known(one.script) for one in shown) == sorted(known(sent(job)) for job in jobs)


def test_a_block_that_is_not_there_is_the_nearest_one() -> None:
    experiment = ExperimentFactory(repeats=3)
    assert preview(experiment, -5).number == 1
    last = preview(experiment, 10**9)
    assert (last.number, last.blocks, last.job.repeat) == (3, 3, 3)


def test_a_preview_does_not_change_while_it_is_read_and_stores_nothing() -> None:
    experiment = ExperimentFactory(repeats=1000)
    assert preview(experiment, 999).script == preview(experiment, 999).script
    assert not Job.objects.exists()


def test_what_cannot_be_written_is_said() -> None:
    experiment = ExperimentFactory()
    stored = WorkloadFactory(kind="command", parameters={"argv": ["{python}", "trian.py"]})
    seen = preview(experiment, 1, workloads=[stored])
    assert seen.script == ""
    assert "starts trian.py" in seen.problem
