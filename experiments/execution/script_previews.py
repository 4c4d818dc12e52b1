"""The job script of any block of an experiment that has not been launched, as it would be sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.design import Scale, plan_blocks
from experiments.execution.planned_jobs import make_job, make_runs
from experiments.execution.specs import make_job_spec
from experiments.models import Environment, Experiment, Job, Workload
from experiments.planning.freeze import freeze_environment, freeze_workload
from experiments.planning.frozen_data import find_copies
from runners.schedulers import SCHEDULERS
from runners.scripts import render
from runners.workloads import ParameterError

NO_UID = "0" * 32
"""Stands for the names of jobs and runs, which are drawn when they are stored."""


@dataclass(frozen=True)
class ScriptPreview:
    """The script of one block, or the problem for which there is none."""

    number: int
    blocks: int
    job: Job
    environments: tuple[Environment, ...]
    """In the order in which this job would run them."""
    script: str = ""
    problem: str = ""


def preview_script(
    experiment: Experiment,
    *,
    workloads: Sequence[Workload],
    environments: Sequence[Environment],
    scales: Sequence[str],
    number: int,
) -> ScriptPreview:
    """Return the script of block `number`, from 1 on; the nearest one where there is none such.

    The experiment need not be stored. Its order is drawn at the launch: until then each repeat has
    an order that its number gives, so that a preview does not change while somebody reads it.
    """
    sizes = [Scale.parse(text) for text in scales]
    a_repeat = len(workloads) * len(sizes)
    if not experiment.is_paired:
        a_repeat *= len(environments)
    blocks = a_repeat * experiment.repeats
    number = min(max(number, 1), blocks)
    repeat, place = (number - 1) // a_repeat + 1, (number - 1) % a_repeat
    planned = plan_blocks(
        workloads, environments, sizes, 1, seed=repeat, paired=experiment.is_paired
    )[place]
    members = planned.environments
    block: dict[str, Any] = {
        "workload": str(planned.workload.pk),
        "scale": str(planned.scale),
        "repeat": repeat,
        "environments": [str(environment.pk) for environment in members],
    }
    job = make_job(experiment, planned.workload, block, number - 1, "")
    job.uid = NO_UID
    shown: dict[str, Any] = {
        "number": number,
        "blocks": blocks,
        "job": job,
        "environments": members,
    }
    copies = find_copies([planned.workload], experiment.cluster)
    try:
        plan = {
            "workloads": {block["workload"]: freeze_workload(planned.workload, copies)},
            "environments": {str(row.pk): freeze_environment(row) for row in members},
        }
        runs = make_runs(experiment, job, block, plan)
        for run in runs:
            run.uid = NO_UID
        spec = make_job_spec(job, runs)
        script = render(spec, SCHEDULERS[job.cluster.scheduler]())
    except ParameterError as problem:
        return ScriptPreview(**shown, problem=f"{planned.workload}: {problem}")
    except ValueError as problem:  # what cannot be written safely in a script
        return ScriptPreview(**shown, problem=str(problem))
    return ScriptPreview(**shown, script=script)
