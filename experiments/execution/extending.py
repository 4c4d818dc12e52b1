"""Extending an experiment whose verdict is inconclusive: further blocks, once."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.access.permissions import why_not_use
from experiments.comparisons import ExperimentComparison, compare_experiment
from experiments.comparisons.extension_offers import (
    explain_why_not,
    find_open_places,
    list_open_groups,
)
from experiments.design import compute_hash, draw_seed
from experiments.execution.further_attempts import NotDone
from experiments.execution.moves import record_event
from experiments.execution.planned_jobs import make_job, make_runs
from experiments.execution.sending_rights import ADDED
from experiments.images.startable import explain_not_startable
from experiments.models import Event, Experiment, Extension, Job, Run, User, Workload
from experiments.planning import rules
from experiments.planning.extension_plans import (
    NO_WORKLOADS,
    count_most_added,
    freeze_extension,
)
from experiments.planning.frozen_code import describe_unready_code
from experiments.planning.frozen_data import describe_unready_data, list_data_and_workloads

EXTENDED = "extended"
"""The event of an experiment that was extended; each job that this added has one of its own."""


def extend(experiment: Experiment, added: int, by: User) -> Extension:
    """Add `added` repeats to each configuration with an inconclusive comparison. Raises NotDone.

    The plan stays frozen: what is added has a plan and a hash of its own. Of several who ask at
    once the first one gets it.
    """
    with transaction.atomic():
        rows = Experiment.objects.select_for_update(of=("self",), no_key=True)
        row = (
            rows.select_related("cluster", "partition", "baseline").filter(pk=experiment.pk).first()
        )
        if row is None:
            raise NotDone("Not extended: the experiment was deleted.")
        comparison = compare_experiment(row)
        if why_not := explain_why_not(comparison) or _explain_obstacle(row, by):
            raise NotDone(f"Not extended. {why_not}")
        most = count_most_added(row, row.partition)
        if not 1 <= added <= most:
            raise NotDone(f"Not extended: 1 to {most} repeats can be added.")
        return _add(row, comparison, added, by)


def _explain_obstacle(experiment: Experiment, by: User) -> str:
    """Return what stands against sending further blocks now, as against a launch; "" if nothing."""
    environments = list(experiment.environments.select_related("staged_image__image__owner"))
    workloads = list(experiment.workloads.all())
    needed: list[Any] = [experiment.cluster, *list_data_and_workloads(experiment), *environments]
    reasons = [why_not_use(by, row) for row in needed]
    if not (experiment.plan or {}).get("workloads"):
        reasons.append(NO_WORKLOADS)
    partition = experiment.partition
    if partition and not partition.enabled:
        reasons.append(f"{partition.name} is not in service any more.")
    reasons += rules.describe_unready_images(environments)
    reasons += describe_unready_data(workloads, experiment.cluster)
    reasons += describe_unready_code(workloads, experiment.cluster)
    reasons += explain_not_startable(environments, experiment.cluster, partition)
    return " ".join(dict.fromkeys(filter(None, reasons)))


def _add(
    experiment: Experiment, comparison: ExperimentComparison, added: int, by: User
) -> Extension:
    """Store the extension's plan, its jobs and its runs; `experiment` is locked."""
    plan: dict[str, Any] = experiment.plan or {}
    seed = draw_seed()
    places = find_open_places(experiment.workloads.all(), list_open_groups(comparison))
    verdicts = [
        {
            **group.configuration,
            "environment": pair.environment,
            "verdict": pair.verdict.value,
            "sentence": pair.sentence,
        }
        for group in comparison.groups
        for pair in group.pairs
    ]
    extension_plan = freeze_extension(experiment, places, added, seed, verdicts)
    extension = Extension.objects.create(
        experiment=experiment,
        extended_by=by,
        extended_at=timezone.now(),
        plan=extension_plan,
        plan_hash=compute_hash(extension_plan),
    )
    columns: dict[str, Any] = {
        "extended_repeats": added,
        "extension_level": extension_plan["levels"][-1],
    }
    Experiment.objects.filter(pk=experiment.pk).update(**columns)
    for name, value in columns.items():
        setattr(experiment, name, value)
    jobs = _create_jobs(experiment, plan, extension_plan)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in comparison.verdicts.items())
    record_event(
        experiment,
        EXTENDED,
        why=f"by {added} repeat{'s' * (added != 1)}, {len(jobs)} job{'s' * (len(jobs) != 1)}, "
        f"after {counts}; plan {extension.plan_hash}, seed {seed}",
        by=by,
    )
    Event.objects.bulk_create(
        Event(experiment=experiment, job=job, what=ADDED, why="by the extension", actor=by)
        for job in jobs
    )
    return extension


def _create_jobs(
    experiment: Experiment, plan: dict[str, Any], extension_plan: dict[str, Any]
) -> list[Job]:
    """Create the jobs and runs of the added blocks, from the specs that the launch has frozen."""
    workloads: dict[int, Workload] = {row.pk: row for row in experiment.workloads.all()}
    for key, row in workloads.items():  # what was frozen counts, whatever became of it since
        row.time_limit_seconds = plan["workloads"][str(key)]["time_limit_seconds"]
    blocks = extension_plan["blocks"]
    jobs = Job.objects.bulk_create(
        make_job(
            experiment, workloads[int(block["workload"])], block, index, extension_plan["payload"]
        )
        for index, block in enumerate(blocks, start=len(plan["blocks"]))
    )
    Run.objects.bulk_create(
        (
            run
            for job, block in zip(jobs, blocks, strict=True)
            for run in make_runs(experiment, job, block, plan)
        ),
        batch_size=1000,
    )
    return jobs
