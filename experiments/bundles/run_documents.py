"""The documents of a bundle about runs: each run with its numbers, its steps, script and output."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import islice
from operator import add
from typing import Any

from django.db.models import F, Func, IntegerField, Prefetch, Sum, TextField
from django.db.models.functions import Cast

from experiments.bundles.plain_json import make_canonical, make_document, make_number
from experiments.bundles.stored_documents import describe_left
from experiments.comparisons.exclusions import list_exclusions
from experiments.comparisons.rows_by_key import iterate_rows
from experiments.comparisons.run_rows import describe_run
from experiments.models import (
    Experiment,
    Job,
    MeasureNotes,
    Run,
    RunFile,
    Series,
    Snapshot,
    StoredRecord,
)
from experiments.models.segment import count_most_segments
from experiments.snapshot_facts import list_facts

AT_ONCE = 100
MOST_BYTES = 2_000_000
"""Of steps and records that are read at once, as the database keeps them; or of a single run."""
MEANS_AGREE = 1e-9
"""How far the mean of the steps may be from a reported one to be called the same."""
SUMMARY = ("shape", "block_steps", "warm_up", "settled_mean")
AS_STORED = "facts_as_stored.json"
UNREAD = (
    *("spec", "job__script", "job__repairs__script", "workload__parameters", "workload__swept"),
    *("environment__binds", "environment__variables", "environment__setup_lines"),
)
"""Columns that no run's document has, some of them JSON, which would be read for each run."""
PARTS = ((Series.objects, ("values",)), (StoredRecord.objects, ("output", "files")))
"""What is measured before it is read, and in which columns it is large."""
NOT_FINITE = re.compile(r"-?(?:NaN|Infinity)")


@dataclass(frozen=True)
class RunFacts:
    """What the crate says of a run, after its documents were written."""

    uid: str
    workload: str
    environment: str
    scale: str
    repeat: int
    state: str
    began_at: str | None
    ended_at: str | None
    job: str
    has_steps: bool
    left: tuple[str, ...]
    """The names of the files in its folder about what it printed and left."""
    reason: str


def write_runs(
    experiment: Experiment, facts: list[RunFacts]
) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the name and the pieces of each run's documents; `facts` gets an entry for each run.

    Steps and records are read of a few runs at a time.
    """
    exclusions = {exclusion.run: exclusion for exclusion in list_exclusions(experiment)}
    frozen = (experiment.plan or {}).get("workloads", {})
    runs = (
        experiment.runs.select_related("job__repairs", "workload", "environment", "measure_notes")
        .annotate(snapshot_hash=F("snapshot__content_hash"))
        .annotate(job_snapshot_hash=F("job__snapshot__content_hash"))
        .prefetch_related("measurements", Prefetch("files", RunFile.objects.order_by("path")))
        .defer(*UNREAD)
        .order_by("job__block", "position", "pk")
    )
    for run, series, stored in _add_parts(iterate_rows(runs, AT_ONCE)):
        folder = f"data/runs/{run.uid}"
        measured = {row.metric: row.value for row in run.measurements.all()}
        workload = frozen.get(experiment.get_workload_key(run.workload_id), {})
        burn_in = workload.get("parameters", {}).get("burn_in")
        texts, summaries = _describe_steps(series, measured, burn_in)
        exclusion = exclusions.get(run.uid)
        notes: MeasureNotes | None = getattr(run, "measure_notes", None)
        document = {
            **describe_run(run),
            "workload_key": experiment.get_workload_key(run.workload_id),
            "environment_key": experiment.get_environment_key(run.environment_id),
            "job_facts": _describe_job(run.job),
            "nodes": run.job.nodes,
            "job_ended_at": _write_time(run.job.ended_at),
            "snapshot": getattr(run, "snapshot_hash"),  # noqa: B009 - annotated
            "job_snapshot": getattr(run, "job_snapshot_hash"),  # noqa: B009
            "command": run.command,
            "phases": run.phases,
            "measurements": {
                row.metric: {
                    "value": make_number(row.value),
                    "unit": row.unit,
                    "source": row.source,
                }
                for row in run.measurements.all()
            },
            "not_measured": dict(sorted(notes.missing.items())) if notes else {},
            "measured_within": dict(sorted(notes.details.items())) if notes else {},
            "steps": summaries,
            **(_list_segments(run) if count_most_segments(workload) > 1 else {}),
            "exclusion": exclusion
            and {
                "by": exclusion.by,
                "at": _write_time(exclusion.at),
                "because": exclusion.why,
                "moment": str(exclusion.moment),
            },
            "files_left_on_the_cluster": [
                {"path": file.path, "size_bytes": file.size_bytes, "sha256": file.sha256}
                for file in run.files.all()
            ],
        }
        yield f"{folder}/run.json", iter([make_document(document)])
        if texts:
            yield f"{folder}/steps.json", _write_steps(texts)
        left = describe_left(run, stored)
        for name, content in left.items():
            yield f"{folder}/{name}", iter([content])
        facts.append(
            RunFacts(
                uid=run.uid,
                workload=experiment.get_workload_key(run.workload_id),
                environment=experiment.get_environment_key(run.environment_id),
                scale=run.scale,
                repeat=run.repeat,
                state=run.state,
                began_at=_write_time(run.began_at),
                ended_at=_write_time(run.ended_at),
                job=run.job.uid,
                has_steps=bool(texts),
                left=tuple(left),
                reason=run.reason,
            )
        )


def _describe_job(job: Job) -> dict[str, Any]:
    """Return what is known of a job beside its name: each of its runs repeats it."""
    return {
        "state": job.state,
        "reason": job.reason,
        "message": job.message,
        "exit_code": job.exit_code,
        "submitted_at": _write_time(job.submitted_at),
        "started_at": _write_time(job.started_at),
        "node": job.node,
        "excluded_nodes": job.excluded_nodes,
    }


RunParts = tuple[Run, list[dict[str, Any]], StoredRecord | None]
"""A run, its series with their arrays as texts, and its record."""


def _add_parts(runs: Iterable[Run]) -> Iterator[RunParts]:
    """Yield each run with its series and its record."""
    for part in _split(runs, AT_ONCE):
        keys = [run.pk for run in part]
        sizes = Counter[int]()
        for rows, columns in PARTS:
            size = Sum(reduce(add, map(_measure, columns)))
            parts = rows.order_by().filter(run__in=keys).values_list("run")
            sizes.update(dict(parts.annotate(size=size)))
        waiting: list[Run] = []
        for run in part:
            waiting.append(run)
            if sum(sizes[row.pk] for row in waiting) > MOST_BYTES:
                yield from _read_parts(waiting)
                waiting = []
        yield from _read_parts(waiting)


def _measure(column: str) -> Func:
    return Func(F(column), function="pg_column_size", output_field=IntegerField())


def _split(runs: Iterable[Run], count: int) -> Iterator[list[Run]]:
    rest = iter(runs)
    while part := list(islice(rest, count)):
        yield part


def _read_parts(runs: list[Run]) -> Iterator[RunParts]:
    rows = (
        Series.objects.filter(run__in=[run.pk for run in runs])
        .order_by("metric")
        .annotate(values_text=Cast("values", TextField()), steps_text=Cast("steps", TextField()))
        .values("run", "metric", "unit", "values_text", "steps_text", "burn_in", "digest", *SUMMARY)
    )
    by_run: dict[int, list[dict[str, Any]]] = {}
    for row in rows if runs else ():
        by_run.setdefault(row["run"], []).append(dict(row))
    stored = {row.run_id: row for row in StoredRecord.objects.filter(run__in=runs)}
    for run in runs:
        yield run, by_run.pop(run.pk, []), stored.pop(run.pk, None)


def _describe_steps(
    series: list[dict[str, Any]], measured: Mapping[str, float], burn_in: int | None
) -> tuple[dict[str, tuple[str, str, str]], dict[str, Any]]:
    """Return the steps of a run by metric, as JSON texts, and what is known of them."""
    texts, summaries = {}, {}
    for row in series:
        values, metric = _make_list(row["values_text"]), row["metric"]
        steps = "null" if row["steps_text"] is None else _make_list(row["steps_text"])
        texts[metric] = (json.dumps(row["unit"]), steps, values)
        left_out = burn_in if row["burn_in"] is None else row["burn_in"]
        is_mean = (
            steps == "null"
            and left_out is not None
            and metric in measured
            and _has_mean(values, int(left_out), measured[metric])
        )
        summaries[metric] = {
            "unit": row["unit"],
            **{name: row[name] for name in SUMMARY},
            "burn_in": row["burn_in"],
            "summarised": bool(row["shape"] or row["digest"]),
            "mean_after": left_out if is_mean else None,
        }
    return texts, summaries


def _make_list(text: str) -> str:
    """Return an array as PostgreSQL writes it, with all its digits, as a list in JSON."""
    numbers = text[1:-1]
    if "N" in numbers or "I" in numbers:
        numbers = NOT_FINITE.sub(lambda word: f'"{word[0]}"', numbers)
    return f"[{numbers}]"


def _has_mean(values: str, left_out: int, mean: float) -> bool:
    """Return whether a reported mean is that of all steps after so many."""
    numbers = [float(value) for value in json.loads(values)[left_out:]]
    return bool(numbers) and math.isclose(
        math.fsum(numbers) / len(numbers), mean, rel_tol=MEANS_AGREE
    )


def _write_steps(texts: Mapping[str, tuple[str, str, str]]) -> Iterator[bytes]:
    before = "{"
    for metric, (unit, steps, values) in texts.items():
        name = json.dumps(metric, ensure_ascii=False)
        yield f'{before}\n{name}: {{"unit": {unit}, "steps": {steps}, "values": '.encode()
        yield values.encode()
        yield b"}"
        before = ","
    yield b"\n}\n"


def write_jobs(experiment: Experiment) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield the script of each job that was sent, as it was sent."""
    jobs = experiment.jobs.exclude(script="").only("uid", "script").order_by("block", "pk")
    for job in iterate_rows(jobs, AT_ONCE):
        yield f"data/jobs/{job.uid}/job.sh", iter([job.script.encode()])


def write_snapshots(experiment: Experiment) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield each snapshot that a run or its job refers to: their names are their hashes.

    Then the facts of those that an earlier version of Tare has stored otherwise than this one
    would: comparisons rest on what is stored.
    """
    as_stored: dict[str, Any] = {}
    keys = {
        *experiment.runs.exclude(snapshot=None).values_list("snapshot", flat=True).distinct(),
        *Job.objects.filter(experiment=experiment)
        .exclude(snapshot=None)
        .values_list("snapshot", flat=True)
        .distinct(),
    }
    rows = Snapshot.objects.filter(pk__in=keys).order_by("content_hash")
    for snapshot in iterate_rows(rows, AT_ONCE):
        name = f"data/snapshots/{snapshot.content_hash}.json"
        yield name, iter([make_canonical(snapshot.content)])
        if snapshot.facts != list_facts(snapshot.content):
            as_stored[snapshot.content_hash] = snapshot.facts
    if as_stored:
        yield f"data/{AS_STORED}", iter([make_document(as_stored)])


def _write_time(moment: datetime | None) -> str | None:
    return moment.isoformat() if moment else None


def _list_segments(run: Run) -> dict[str, Any]:
    """Return the jobs that a run took one after the other."""
    return {"segments": [row.describe() for row in run.segments.select_related("job")]}
