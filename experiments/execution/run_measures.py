"""Measures of runs, whatever their programs report: taken from records, and stored with sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from experiments.design import Scale
from experiments.execution.journals import find_journal_line
from experiments.models import Measurement, MeasureNotes, Run
from runners.gpu_measures import measure_gpu_energy, measure_peak_gpu_memory
from runners.host_energy import measure_host_energy
from runners.node_samples import RAPL, Samples
from runners.records import Record, RunRecord
from runners.run_measures import (
    Measure,
    NotMeasured,
    believe_record_seconds,
    measure_host_memory,
    measure_queue_time,
    measure_run_time,
)
from runners.workloads import WORKLOADS
from runners.workloads.run_metrics import (
    GPU_ENERGY,
    HOST_ENERGY,
    PEAK_GPU_MEMORY,
    PEAK_HOST_MEMORY,
    QUEUE_TIME,
    RUN_TIME,
)

if TYPE_CHECKING:
    from experiments.execution.run_ends import RunEnd


@dataclass(frozen=True)
class Measures:
    """The measures of one run by the names of their metrics, and why it lacks the others."""

    values: Mapping[str, Measure] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def measure_run(
    run: Run, run_record: RunRecord, record: Record, record_seconds: float = 0.0
) -> Measures:
    """Return what can be measured of a run by what its job left.

    `record_seconds` is what its payload took to write down what had run, after all it measures.
    Metrics that its program reports by the same name are left to the program.
    """
    takers: dict[str, Callable[[], Measure]] = {
        RUN_TIME.name: lambda: measure_run_time(
            find_journal_line(record, "run began", run.uid),
            find_journal_line(record, "program ended", run.uid),
            record_seconds,
        ),
        QUEUE_TIME.name: lambda: _measure_queue_time(run, record),
        PEAK_HOST_MEMORY.name: lambda: measure_host_memory(run_record.memory),
        PEAK_GPU_MEMORY.name: lambda: measure_peak_gpu_memory(*_require_gpus(run, record)),
        GPU_ENERGY.name: lambda: measure_gpu_energy(
            *_leave_out_record(*_require_gpus(run, record), record_seconds),
            find_journal_line(record, "counters before", run.uid),
            find_journal_line(record, "counters after", run.uid),
        ),
        HOST_ENERGY.name: lambda: measure_host_energy(
            record.samples.get(RAPL, b""), *_require_one_node(run, record)
        ),
    }
    workload = run.spec["workload"]
    own = WORKLOADS[workload["kind"]].list_metrics(workload["parameters"])
    values: dict[str, Measure] = {}
    missing: dict[str, str] = {}
    for name in takers.keys() - {metric.name for metric in own}:
        try:
            values[name] = takers[name]()
        except NotMeasured as error:
            missing[name] = str(error)
    if run_record.page_cache and (whole := values.get(RUN_TIME.name)):
        detail = "; ".join(filter(None, (whole.detail, run_record.page_cache)))
        values[RUN_TIME.name] = replace(whole, detail=detail)
    return Measures(values, missing)


def _require_one_node(run: Run, record: Record) -> tuple[float, float]:
    """Return between which moments what is known of a node is of the run's program."""
    nodes = Scale.parse(run.scale).nodes
    if nodes > 1:
        raise NotMeasured(f"of the {nodes} nodes of the run the first alone is sampled")
    began, ended = (
        find_journal_line(record, event, run.uid).get("time")
        for event in ("run began", "program ended")
    )
    if began is None or ended is None or not ended > began:
        raise NotMeasured("the job's journal does not say when the program began and ended")
    return began, ended


def _require_gpus(run: Run, record: Record) -> tuple[Samples, float, float]:
    """Return the samples of the run's GPUs, and between which moments they are of its program."""
    scale = Scale.parse(run.scale)
    if scale.gpus_per_node == 0:
        raise NotMeasured("the run has no GPU")
    began, ended = _require_one_node(run, record)
    sampled = {gpu for (_, gpu) in record.node_samples.tracks if gpu is not None}
    if sampled and len(sampled) != scale.gpus_per_node:
        raise NotMeasured(
            f"{len(sampled)} GPUs were sampled, and the run has {scale.gpus_per_node}"
        )
    return record.node_samples, began, ended


def _leave_out_record(
    samples: Samples, began: float, ended: float, record_seconds: float
) -> tuple[Samples, float, float]:
    """Return the samples, and between which moments the program ran without the record of it.

    Counters are read after both, so they count the record's share of a second too.
    """
    return samples, began, ended - believe_record_seconds(record_seconds, ended - began)


def _measure_queue_time(run: Run, record: Record) -> Measure:
    submitted = run.job.submitted_at
    return measure_queue_time(
        record.snapshot.get("scheduler", ""),
        submitted.timestamp() if submitted else None,
        find_journal_line(record, "job started").get("time"),
    )


def keep_measures(ends: Sequence[RunEnd]) -> None:
    """Store the measures of runs that have succeeded, with their sources and what they lack."""
    measured = [end for end in ends if end.result]
    Measurement.objects.bulk_create(
        Measurement(
            run=end.run, metric=name, value=measure.value, unit=measure.unit, source=measure.source
        )
        for end in measured
        for name, measure in end.measures.values.items()
    )
    MeasureNotes.objects.bulk_create(
        (
            MeasureNotes(
                run=end.run,
                missing=dict(end.measures.missing),
                details={
                    name: measure.detail
                    for name, measure in end.measures.values.items()
                    if measure.detail
                },
            )
            for end in measured
        ),
        update_conflicts=True,
        unique_fields=["run"],
        update_fields=["missing", "details"],
    )
