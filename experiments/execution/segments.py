"""Runs that take several jobs: what each of them did, when another follows, and their sums.

Inside, the payload leaves a checkpoint and ends with an exit code of its own. Here its job ends as
any other; in the same transaction a further job is planned for what has not come to its end, on the
same node, and the next payload finds the directories of those before it in its spec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.db.models import Prefetch

from experiments.execution.repairs import SecondJob, find_nodes, plan_second_jobs
from experiments.execution.run_measures import Measures
from experiments.execution.segment_facts import (
    CONTINUED,
    FILE,
    read_segment_facts,
)
from experiments.models import Job, NodeSamples, Run, RunFile, Segment, Series, StoredRecord
from experiments.models.segment import count_most_segments
from experiments.models.states import NOT_STARTED
from runners.ends import find_end
from runners.run_measures import Measure
from runners.workloads.run_metrics import (
    GPU_ENERGY,
    HOST_ENERGY,
    PEAK_GPU_MEMORY,
    PEAK_HOST_MEMORY,
    RUN_TIME,
)

if TYPE_CHECKING:
    from experiments.execution.run_ends import Ending, RunEnd

CUT_OFF = ("time-out", "time limit reached")
"""Reasons of runs that were ended from outside and may go on, beside those tried again by rule."""
ADDED = (RUN_TIME.name, GPU_ENERGY.name, HOST_ENERGY.name)
"""Measures that segments add up to, unless one was killed: part of it was done for nothing."""
LARGEST = (PEAK_HOST_MEMORY.name, PEAK_GPU_MEMORY.name)


def keep_segments(ends: Sequence[RunEnd]) -> list[RunEnd]:
    """Store the segments of ended runs; return the ends, with the measures of whole runs.

    No query where no run may take several jobs.
    """
    parts = [end for end in ends if _is_segment(end)]
    if not parts:
        return list(ends)
    runs = [end.run.pk for end in parts]
    earlier: dict[int, list[Segment]] = {key: [] for key in runs}
    for row in Segment.objects.filter(run__in=runs).order_by("number"):
        earlier[row.run_id].append(row)
    Segment.objects.bulk_create(_make_segment(end, len(earlier[end.run.pk]) + 1) for end in parts)
    return [
        replace(end, measures=add_up(earlier[end.run.pk], end.measures))
        if end.result and earlier.get(end.run.pk)
        else end
        for end in ends
    ]


def _is_segment(end: RunEnd) -> bool:
    """Return whether a run that may take several jobs has begun in this one."""
    return end.run_record is not None and count_most_segments(end.run.spec["workload"]) > 1


def _make_segment(end: RunEnd, number: int) -> Segment:
    run, columns = end.run, end.columns
    ended_as = columns.get("reason", "")
    reported = end.result or end.steps
    losses = reported.series.get("loss") if reported else None
    return Segment(
        run=run,
        number=number,
        job=run.job,
        directory=f"{run.job.directory}/{run.folder}",
        node=columns.get("node") or run.node,
        reason=ended_as,
        began_at=columns.get("began_at") or run.began_at,
        ended_at=columns.get("ended_at") or run.ended_at,
        facts=read_segment_facts(end.run_record),
        reported_steps=len(losses[1]) if losses else None,
        measures=_describe_measures(end.measures, ended_as),
    )


def _describe_measures(measures: Measures, reason: str) -> dict[str, Any]:
    """Return the measures of a segment as they are stored.

    One that was cut off did part of its work for nothing: its time and energy are not the run's.
    """
    values, missing = dict(measures.values), dict(measures.missing)
    if reason not in ("", CONTINUED):
        for name in ADDED:
            values.pop(name, None)
            missing[name] = f"it ended as {reason}, after its last checkpoint for nothing"
    return {
        "values": {
            name: {"value": measure.value, "unit": measure.unit, "source": measure.source}
            for name, measure in values.items()
        },
        "missing": missing,
    }


def add_up(earlier: Sequence[Segment], last: Measures) -> Measures:
    """Return the measures of a whole run: times and energies added, the largest peak of memory.

    What one of its segments lacks, or was measured from another source, the run lacks.
    """
    values: dict[str, Measure] = {}
    missing: dict[str, str] = {}
    for name in {*last.values, *last.missing}:
        parts: list[Measure] = []
        for segment in earlier:
            stored = segment.measures.get("values", {}).get(name)
            if stored is None:
                why = segment.measures.get("missing", {}).get(name, "it was not measured")
                missing[name] = f"of segment {segment.number}: {why}"
                break
            parts.append(Measure(stored["value"], stored["unit"], stored["source"]))
        else:
            if name not in last.values:
                missing[name] = last.missing[name]
                continue
            parts.append(last.values[name])
            sources = {part.source for part in parts}
            if len(sources) > 1:
                missing[name] = f"its segments have it from {' and '.join(sorted(sources))}"
                continue
            numbers = [part.value for part in parts]
            combined = max(numbers) if name in LARGEST else sum(numbers)
            how = "the largest" if name in LARGEST else "the sum"
            detail = f"{how} of {len(parts)} segments; {last.values[name].detail}".rstrip("; ")
            values[name] = replace(last.values[name], value=combined, detail=detail)
    return Measures(values, missing)


def plan_further_segments(endings: Sequence[Ending]) -> set[int]:
    """Plan a further job for runs that are not at their end; return the keys of the jobs before.

    It has those of one job that left a checkpoint, with those that the same end cut off before
    theirs or kept from starting, in the same order and on the same node: pairs are made within
    a node. No query where no program has left a segment.
    """
    keys = [
        ending.job.pk
        for ending in endings
        if any(FILE in run_record.files for run_record in ending.record.runs.values())
    ]
    if not keys:
        return set()
    failed = Run.objects.filter(state=Run.State.FAILED).select_related("environment")
    jobs = (
        Job.objects.filter(
            pk__in=keys,
            state__in=(Job.State.DONE, Job.State.FAILED),
            cancel_requested_at=None,
            experiment__cancelled_at=None,
        )
        .select_related("experiment", "workload")
        .defer("script", "experiment__plan")
        .prefetch_related(
            Prefetch("runs", failed.order_by("position").prefetch_related("segments"), "failed")
        )
        .order_by("pk")
    )
    nodes = find_nodes(jobs)
    plans = []
    for job in jobs:
        runs: list[Run] = job.failed
        going_on = [run for run in runs if _may_go_on(run)]
        if any(_has_checkpoint(run) for run in going_on):
            node = job.node or nodes.get(job.pk, "")
            cause, why = "stopped before the end", ", from the last checkpoint"
            plans.append(SecondJob(job, going_on, node, cause, why))
    plan_second_jobs(plans)
    moved = [run.pk for plan in plans for run in plan.runs]
    if moved:
        for model in (RunFile, StoredRecord, NodeSamples, Series):
            model._default_manager.filter(run__in=moved).delete()
    return {plan.first.pk for plan in plans}


def _may_go_on(run: Run) -> bool:
    """Return whether a failed run may have another job."""
    end = find_end(run.reason)
    was_cut_off = run.reason in (CONTINUED, NOT_STARTED, *CUT_OFF) or bool(end and end.by_rule)
    return was_cut_off and len(run.segments.all()) < count_most_segments(run.spec["workload"])


def _has_checkpoint(run: Run) -> bool:
    return any(segment.has_checkpoint for segment in run.segments.all())
