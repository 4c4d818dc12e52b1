"""Imported runs as rows: an experiment that was not launched here, beside those that were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from experiments.access import audit
from experiments.comparisons.step_summaries import add_step_summary
from experiments.execution.lifecycle import record
from experiments.imports import ImportProblem, Logs
from experiments.imports.layout import (
    LONGEST_WORKLOAD,
    MOST_ENVIRONMENTS,
    Placed,
    arrange,
    differing_parameters,
    name_apart,
    natural,
    numbered,
    tool_of,
)
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Job,
    Measurement,
    Run,
    Series,
    Snapshot,
    User,
    Workload,
)
from experiments.statistics import numbers
from runners.workloads import KNOWN_WORKLOADS

KIND = KNOWN_WORKLOADS["tf_cnn_benchmarks"]
LONGEST_NAME = 100
BATCH = 500
WHY = "an import of logs"


class AlreadyImported(Exception):
    """The same logs, by their content, are an experiment of this person already."""

    def __init__(self, experiment: Experiment) -> None:
        super().__init__(f"These logs were imported before: {experiment.question}")
        self.experiment = experiment


def store(
    logs: Logs,
    *,
    environment: int,
    baseline: str,
    question: str,
    margin: float,
    owner: User,
    source: str,
    machine: str,
    metric: str = "",
    visibility: str = Experiment.Visibility.PRIVATE,
) -> Experiment:
    """Keep `logs` as an experiment, in one transaction.

    `environment` is the index of the part of the paths that names it, `source` where the logs came
    from. Raises AlreadyImported, or ImportProblem where nothing can be compared.
    """
    placed = arrange(logs.runs, environment)
    _check(placed, baseline)
    known = Experiment.objects.filter(owner=owner, import_hash=logs.sha256)
    try:
        with transaction.atomic():
            if existing := known.first():
                raise AlreadyImported(existing)
            cluster = _machine(machine, owner)
            environments = _environments(cluster, placed, owner)
            workloads = _workloads(placed, owner)
            experiment = Experiment.objects.create(
                question=question,
                cluster=cluster,
                baseline=environments[baseline],
                scales=sorted({one.scale for one in placed}, key=natural),
                repeats=max(one.repeat for one in placed),
                design=Experiment.Design.INDEPENDENT,
                margin=margin,
                primary_metric=metric,
                visibility=visibility,
                owner=owner,
                imported_at=timezone.now(),
                imported_from=source[:300],
                import_hash=logs.sha256,
            )
            experiment.workloads.set(set(workloads.values()))
            experiment.environments.set(environments.values())
            _create_runs(experiment, placed, environments, workloads)
            why = f"{numbers.count(len(placed), 'run')} from {source}, sha256 {logs.sha256}"
            record(experiment, "imported", why=why, by=owner)
    except IntegrityError:  # somebody was as fast
        if existing := known.first():
            raise AlreadyImported(existing) from None
        raise
    return experiment


def forget(experiment: Experiment, by: User | None = None) -> None:
    """Delete an imported experiment, and what only its logs had brought in.

    Raises ValueError for one that was not imported: what Tare has measured stays.
    """
    if experiment.imported_at is None:
        raise ValueError(f"{experiment} was not imported.")
    with transaction.atomic():
        snapshots = list(experiment.runs.values_list("snapshot", flat=True))
        workloads = list(experiment.workloads.values_list("pk", flat=True))
        cluster = experiment.cluster
        experiment.delete()
        Snapshot.objects.filter(pk__in=snapshots, runs=None).delete()
        unused = Workload.objects.filter(pk__in=workloads, kind=KIND.kind)
        unused.filter(experiments=None, runs=None).delete()
        if cluster.recorded and not cluster.experiments.exists():
            for row in (*cluster.environments.all(), cluster):
                audit.deleted(by, row, why=WHY)
                row.delete()


def _check(placed: Sequence[Placed], baseline: str) -> None:
    names = sorted({one.environment for one in placed})
    if len(names) < 2:
        raise ImportProblem(f"There is one environment only, {names[0]}: nothing to compare with.")
    if len(names) > MOST_ENVIRONMENTS:
        raise ImportProblem(f"{len(names)} environments are too many; {MOST_ENVIRONMENTS} fit.")
    if baseline not in names:
        raise ImportProblem(f"The baseline {baseline!r} is none of {', '.join(names)}.")
    for name in names:
        if len(name) > LONGEST_NAME:
            raise ImportProblem(f"{name[:40]}...: a name has at most {LONGEST_NAME} characters.")


def _machine(name: str, owner: User) -> Cluster:
    """Return the owner's record of the machine, new if need be; names are unique."""
    base = name.strip()[: LONGEST_NAME - 10] or "imported"
    taken = {row.name: row for row in Cluster.objects.filter(name__startswith=base)}
    count, name = 1, base
    while name in taken and not (taken[name].recorded and taken[name].owner_id == owner.pk):
        count += 1
        name = f"{base} ({count})"
    if name in taken:
        return taken[name]
    made = Cluster.objects.create(
        name=name,
        transport="local",
        scheduler="direct",
        work_directory="/",
        enabled=False,
        recorded=True,
        owner=owner,
    )
    audit.saved(owner, made, {}, why=WHY)
    return made


def _environments(
    cluster: Cluster, placed: Sequence[Placed], owner: User
) -> dict[str, Environment]:
    found = {row.name: row for row in cluster.environments.all()}
    for name in sorted({one.environment for one in placed}):
        if name not in found:
            tool = tool_of(name)
            found[name] = Environment.objects.create(
                name=name,
                cluster=cluster,
                recorded_tool="" if tool == "bare metal" else tool,
                python="",
                owner=owner,
            )
            audit.saved(owner, found[name], {}, why=WHY)
    return {one.environment: found[one.environment] for one in placed}


def _workloads(placed: Sequence[Placed], owner: User) -> dict[str, Workload]:
    """Return the catalogue's row for each workload: an old one if it says the same.

    A name that another one has gets what differs from that; a number where that is taken as well.
    """
    wanted = {one.workload: one.run.workload for one in placed}
    found = {}
    for name, parameters in sorted(wanted.items()):
        rows = Workload.objects.filter(name__startswith=name[:LONGEST_WORKLOAD])
        taken = {row.name: row for row in rows}
        others = {row.name for row in rows if not _is_same(row, parameters)}
        free = name
        if name in others:
            known = taken[name]
            alike = [known.parameters, parameters] if known.kind == KIND.kind else []
            differing = differing_parameters(alike)
            free = numbered(name_apart(name, parameters, differing), others)
        found[name] = taken.get(free) or Workload.objects.create(
            name=free, kind=KIND.kind, parameters=parameters, owner=owner
        )
    return found


def _is_same(row: Workload, parameters: dict[str, Any]) -> bool:
    return row.kind == KIND.kind and row.parameters == parameters


def _create_runs(
    experiment: Experiment,
    placed: Sequence[Placed],
    environments: dict[str, Environment],
    workloads: dict[str, Workload],
) -> None:
    """Write jobs, runs and their numbers, in the order in which the runs began."""
    order = sorted(placed, key=lambda one: (_began(one), natural(one.run.path)))
    jobs = Job.objects.bulk_create(
        (
            Job(
                experiment=experiment,
                cluster_id=experiment.cluster_id,
                workload=workloads[one.workload],
                scale=one.scale,
                repeat=one.repeat,
                block=block,
                state=Job.State.DONE,
                directory=one.run.path,
                started_at=one.run.began_at,
                ended_at=one.run.ended_at,
            )
            for block, one in enumerate(order)
        ),
        batch_size=BATCH,
    )
    snapshots = Snapshot.objects.keep_all([one.run.snapshot for one in order])
    runs = Run.objects.bulk_create(
        (
            Run(
                experiment=experiment,
                job=job,
                workload_id=job.workload_id,
                environment=environments[one.environment],
                scale=one.scale,
                repeat=one.repeat,
                position=0,
                spec={"workload": {"kind": KIND.kind, "parameters": one.run.workload}},
                state=Run.State.FAILED if one.run.reason else Run.State.SUCCEEDED,
                reason=one.run.reason,
                message=one.run.message,
                began_at=one.run.began_at,
                ended_at=one.run.ended_at,
                output_tail=one.run.tail,
                snapshot=snapshot,
                phases=one.run.phases,
            )
            for job, one, snapshot in zip(jobs, order, snapshots, strict=True)
        ),
        batch_size=BATCH,
    )
    units = {metric.name: metric.unit for metric in KIND.metrics}
    Measurement.objects.bulk_create(
        (
            Measurement(run=run, metric=metric, value=value, unit=units[metric])
            for run, one in zip(runs, order, strict=True)
            for metric, value in one.run.measurements.items()
        ),
        batch_size=BATCH,
    )
    Series.objects.bulk_create(
        (
            add_step_summary(
                Series(
                    run=run,
                    metric=metric,
                    unit=unit,
                    values=list(values),
                    steps=list(steps),
                )
            )
            for run, one in zip(runs, order, strict=True)
            for metric, unit, values, steps in (
                ("step_time", "s", one.run.step_times, one.run.intervals),
                ("loss", "1", one.run.losses, one.run.steps),
            )
            # A loss that is missing or no number anywhere is no series.
            if len(values) and all(value == value for value in values)
        ),
        batch_size=BATCH,
    )


def _began(one: Placed) -> tuple[bool, float]:
    began = one.run.began_at
    return began is None, began.timestamp() if began else 0.0
