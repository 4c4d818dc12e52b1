"""Rows of imported runs: an experiment that was run elsewhere, saved beside Tare's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from experiments.access import audit
from experiments.comparisons.step_summaries import add_step_summary
from experiments.execution.moves import record_event
from experiments.imports import ImportProblem, Logs
from experiments.imports.layout import (
    LONGEST_WORKLOAD,
    MOST_ENVIRONMENTS,
    Placed,
    arrange,
    find_tool,
    list_differing_parameters,
    name_apart,
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
from experiments.natural_order import make_natural_key, sort_naturally
from experiments.planning.free_names import add_number
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
    """Save `logs` as an experiment, in one transaction.

    `environment` is the index of the part of the paths that names it, `source` where the logs came
    from. Raises AlreadyImported, or ImportProblem where nothing can be compared.
    """
    placed = arrange(logs.runs, environment)
    _check_names(placed, baseline)
    known = Experiment.objects.filter(owner=owner, import_hash=logs.sha256)
    try:
        with transaction.atomic():
            if existing := known.first():
                raise AlreadyImported(existing)
            cluster = _get_or_create_cluster(machine, owner)
            environments = _get_or_create_environments(cluster, placed, owner)
            workloads = _get_or_create_workloads(placed, owner)
            experiment = Experiment.objects.create(
                question=question,
                cluster=cluster,
                baseline=environments[baseline],
                scales=sort_naturally({logged.scale for logged in placed}),
                repeats=max(logged.repeat for logged in placed),
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
            record_event(experiment, "imported", why=why, by=owner)
    except IntegrityError:  # the same logs were imported at the same moment
        if existing := known.first():
            raise AlreadyImported(existing) from None
        raise
    return experiment


def forget(experiment: Experiment, by: User | None = None) -> None:
    """Delete an imported experiment, and all rows that only its import had created.

    Raises ValueError for one that was not imported: what Tare has measured stays.
    """
    if experiment.imported_at is None and not experiment.is_from_bundle:
        raise ValueError(f"{experiment} was not imported.")
    with transaction.atomic():
        snapshots = [
            *experiment.runs.values_list("snapshot", flat=True),
            *experiment.jobs.values_list("snapshot", flat=True),
        ]
        workloads = list(experiment.workloads.values_list("pk", flat=True))
        cluster = experiment.cluster
        experiment.delete()
        Snapshot.objects.filter(pk__in=snapshots, runs=None, jobs=None).delete()
        is_recorded = Q(kind=KIND.kind) | Q(recorded=True)
        unused = Workload.objects.filter(is_recorded, pk__in=workloads)
        for row in unused.filter(experiments=None, runs=None):
            audit.delete(by, row, why=WHY)
        if cluster.recorded and not cluster.experiments.exists():
            copies_first = cluster.environments.order_by(F("copy_of").desc(nulls_last=True))
            for row in (*copies_first, cluster):
                audit.delete(by, row, why=WHY)


def _check_names(placed: Sequence[Placed], baseline: str) -> None:
    names = sort_naturally({logged.environment for logged in placed})
    if len(names) < 2:
        raise ImportProblem(f"There is one environment only, {names[0]}: nothing to compare with.")
    if len(names) > MOST_ENVIRONMENTS:
        raise ImportProblem(f"{len(names)} environments are too many; {MOST_ENVIRONMENTS} fit.")
    if baseline not in names:
        raise ImportProblem(f"The baseline {baseline!r} is none of {', '.join(names)}.")
    for name in names:
        if len(name) > LONGEST_NAME:
            raise ImportProblem(f"{name[:40]}...: a name has at most {LONGEST_NAME} characters.")


def _get_or_create_cluster(name: str, owner: User) -> Cluster:
    """Return the owner's recorded cluster of this name, a new one if need be; names are unique."""
    base = name.strip()[: LONGEST_NAME - 10] or "imported"
    taken = {row.name: row for row in Cluster.objects.filter(name__startswith=base)}
    count, name = 1, base
    while name in taken and not (taken[name].recorded and taken[name].owner_id == owner.pk):
        count += 1
        name = f"{base} ({count})"
    if name in taken:
        return taken[name]
    cluster = Cluster(
        name=name,
        transport="local",
        scheduler="direct",
        work_directory="/",
        enabled=False,
        recorded=True,
        owner=owner,
    )
    with audit.log_change(owner, cluster, why=WHY):
        cluster.save()
    return cluster


def _get_or_create_environments(
    cluster: Cluster, placed: Sequence[Placed], owner: User
) -> dict[str, Environment]:
    environments = {row.name: row for row in cluster.environments.all()}
    for name in sorted({run.environment for run in placed}):
        if name not in environments:
            tool = find_tool(name)
            environments[name] = Environment(
                name=name,
                cluster=cluster,
                recorded_tool="" if tool == "bare metal" else tool,
                python="",
                owner=owner,
            )
            with audit.log_change(owner, environments[name], why=WHY):
                environments[name].save()
    return {run.environment: environments[run.environment] for run in placed}


def _get_or_create_workloads(placed: Sequence[Placed], owner: User) -> dict[str, Workload]:
    """Return the catalogue's workload for each name in the logs, an existing one if it is the same.

    Where another workload has the name, the parameters that differ from it are added to the name;
    a number where that name is taken too.
    """
    parameters_by_name = {logged.workload: logged.run.workload for logged in placed}
    workloads = {}
    for name, parameters in sorted(parameters_by_name.items()):
        rows = Workload.objects.filter(name__startswith=name[:LONGEST_WORKLOAD])
        taken = {row.name: row for row in rows}
        others = {row.name for row in rows if not _has_parameters(row, parameters)}
        free = name
        if name in others:
            known = taken[name]
            alike = [known.parameters, parameters] if known.kind == KIND.kind else []
            differing = list_differing_parameters(alike)
            free = add_number(name_apart(name, parameters, differing), others)
        workload = taken.get(free)
        if workload is None:
            workload = Workload(name=free, kind=KIND.kind, parameters=parameters, owner=owner)
            with audit.log_change(owner, workload, why=WHY):
                workload.save()
        workloads[name] = workload
    return workloads


def _has_parameters(workload: Workload, parameters: dict[str, Any]) -> bool:
    is_alike = workload.kind == KIND.kind and workload.parameters == parameters
    return is_alike and not workload.recorded


def _create_runs(
    experiment: Experiment,
    placed: Sequence[Placed],
    environments: dict[str, Environment],
    workloads: dict[str, Workload],
) -> None:
    """Write jobs, runs and their numbers, in the order in which the runs began."""
    order = sorted(
        placed, key=lambda logged: (_sort_key_of_start(logged), make_natural_key(logged.run.path))
    )
    jobs = Job.objects.bulk_create(
        (
            Job(
                experiment=experiment,
                cluster_id=experiment.cluster_id,
                workload=workloads[logged.workload],
                scale=logged.scale,
                repeat=logged.repeat,
                block=block,
                state=Job.State.DONE,
                directory=logged.run.path,
                started_at=logged.run.began_at,
                ended_at=logged.run.ended_at,
            )
            for block, logged in enumerate(order)
        ),
        batch_size=BATCH,
    )
    snapshots = Snapshot.objects.keep_all([logged.run.snapshot for logged in order])
    runs = Run.objects.bulk_create(
        (
            Run(
                experiment=experiment,
                job=job,
                workload_id=job.workload_id,
                environment=environments[logged.environment],
                scale=logged.scale,
                repeat=logged.repeat,
                position=0,
                spec={"workload": {"kind": KIND.kind, "parameters": logged.run.workload}},
                state=Run.State.FAILED if logged.run.reason else Run.State.SUCCEEDED,
                reason=logged.run.reason,
                message=logged.run.message,
                began_at=logged.run.began_at,
                ended_at=logged.run.ended_at,
                output_tail=logged.run.tail,
                snapshot=snapshot,
                phases=logged.run.phases,
            )
            for job, logged, snapshot in zip(jobs, order, snapshots, strict=True)
        ),
        batch_size=BATCH,
    )
    units = {metric.name: metric.unit for metric in KIND.metrics}
    Measurement.objects.bulk_create(
        (
            Measurement(run=run, metric=metric, value=value, unit=units[metric])
            for run, logged in zip(runs, order, strict=True)
            for metric, value in logged.run.measurements.items()
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
            for run, logged in zip(runs, order, strict=True)
            for metric, unit, values, steps in (
                ("step_time", "s", logged.run.step_times, logged.run.intervals),
                ("loss", "1", logged.run.losses, logged.run.steps),
            )
            # A loss that is missing or no number anywhere is no series.
            if len(values) and all(value == value for value in values)
        ),
        batch_size=BATCH,
    )


def _sort_key_of_start(logged: Placed) -> tuple[bool, float]:
    began = logged.run.began_at
    return began is None, began.timestamp() if began else 0.0
