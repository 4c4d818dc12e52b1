"""The runs of an experiment as rows of a file: enough to recompute every comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.db.models import F, Prefetch

from experiments.comparisons.compared_runs import (
    choose_primary_metric,
    list_baseline_first,
    read_samples,
)
from experiments.comparisons.exclusions import list_exclusions
from experiments.comparisons.rows_by_key import iterate_rows
from experiments.comparisons.typed_tables import ROWS_AT_ONCE
from experiments.comparisons.warm_ups import collect_warm_ups
from experiments.models import Experiment, MeasureNotes, Run, Segment
from experiments.models.segment import add_up_segments, count_most_segments
from runners.ends import name_cause


def list_run_rows(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Yield one row for each run with its measurements: enough to recompute every comparison.

    `compared` is the value that the comparison uses, in the metric and after the warm-up of its
    plan.
    """
    workloads = list(experiment.workloads.all())
    metrics = {workload.pk: choose_primary_metric(experiment, workload) for workload in workloads}
    starts = collect_warm_ups(experiment, workloads, metrics, list_baseline_first(experiment))
    samples = read_samples(experiment, metrics, starts)
    compared = {sample.run: sample.value for group in samples.values() for sample in group}
    exclusions = {exclusion.run: exclusion for exclusion in list_exclusions(experiment)}
    start_of_run = {uid: start for group in starts.values() for uid, start in group.starts.items()}
    runs = experiment.runs.select_related(
        "job__repairs", "workload", "environment", "measure_notes"
    )
    runs = runs.annotate(snapshot_hash=F("snapshot__content_hash"))
    several = any(count_most_segments({"parameters": row.parameters}) > 1 for row in workloads)
    further = [Prefetch("segments", Segment.objects.select_related("job"))] if several else []
    ordered = runs.prefetch_related("measurements", *further).order_by(
        "job__block", "position", "pk"
    )
    for run in iterate_rows(ordered, ROWS_AT_ONCE):
        numbers = {
            f"{number.metric} ({number.unit})": number.value for number in run.measurements.all()
        }
        sources = {row.metric: row.source for row in run.measurements.all() if row.source}
        notes: MeasureNotes | None = getattr(run, "measure_notes", None)
        yield {
            **describe_run(run),
            "snapshot": run.snapshot_hash,
            **numbers,
            "compared": compared.get(run.uid),
            **(exclusions[run.uid].columns if run.uid in exclusions else {}),
            **(start_of_run[run.uid].columns if run.uid in start_of_run else {}),
            **({"excluded_when": exclusions[run.uid].moment} if run.uid in exclusions else {}),
            **({"sources": _write_texts(sources)} if sources else {}),
            **({"not_measured": _write_texts(notes.missing)} if notes and notes.missing else {}),
            **({"nodes": " ".join(run.job.nodes)} if run.job.nodes else {}),
            **(add_up_segments(run.segments.all()) if several else {}),
        }


def _write_texts(texts: Mapping[str, str]) -> str:
    """Return texts by metric as one: "queue_time: clocks; run_time: clock of the job script"."""
    return "; ".join(f"{name}: {text}" for name, text in sorted(texts.items()))


def describe_run(run: Run) -> dict[str, Any]:
    """Return what files say of a run and its job beside its numbers. Asks nothing if the run has
    been read with `job__repairs`, `workload` and `environment`.
    """
    return {
        "run": run.uid,
        "job": run.job.uid,
        "block": run.job.number,
        "position": run.position,
        "repeat": run.repeat,
        "workload": run.workload.name,
        "environment": run.environment.name,
        "scale": run.scale,
        "state": run.state,
        "reason": run.reason,
        "cause": name_cause(run.reason),
        "message": run.message,
        "exit_code": run.exit_code,
        "node": run.node,
        "began_at": run.began_at.isoformat() if run.began_at else None,
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "attempt": run.job.attempt,
        "repairs_job": run.job.repairs.uid if run.job.repairs else None,
        "scheduler_id": run.job.scheduler_id,
    }
