"""Runs of tf_cnn_benchmarks, read from their log files."""

from __future__ import annotations

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from experiments.imports import sanity
from experiments.imports.benchmark_logger import (
    AVERAGE,
    Info,
    Metrics,
    read_evaluation,
    read_info,
    read_metrics,
)
from experiments.imports.lengths import keep_lengths
from experiments.imports.problems import ImportProblem
from experiments.imports.reading import File
from experiments.imports.standard_output import PRINTED_STEP, Output, read_output
from runners.workloads.running_rates import (
    compute_seconds_per_step,
    is_fine_enough,
    join_whole_intervals,
)

OUTPUT_SUFFIXES = (".log", ".txt", ".out", ".stdout")
OUTPUT_NAMES = ("stdout", "output", "out")
WORKLOAD_PARAMETERS = (
    "model",
    "dataset",
    "mode",
    "batch_size_per_device",
    "num_epochs",
    "num_batches",
    "data_format",
    "optimizer",
)
"""Parameters that agree if two runs did the same work, however many GPUs they had.

Of epochs and batches only the one that was requested is kept.
"""
MOST_RUNS = 5000


@dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """One run. A run with a `reason` has failed: it has no measurements."""

    path: str
    parts: tuple[str, ...]
    scale: str
    workload: dict[str, Any]
    """The `WORKLOAD_PARAMETERS` that were logged."""
    snapshot: dict[str, Any]
    measurements: dict[str, float] = field(default_factory=dict)
    step_times: Sequence[float] = ()
    """Seconds per step on the mean of each interval; empty if not known."""
    intervals: Sequence[int] = ()
    """The last step of each interval in `step_times`."""
    losses: Sequence[float] = ()
    steps: Sequence[int] = ()
    """The step of each loss."""
    phases: dict[str, float] = field(default_factory=dict)
    began_at: datetime | None = None
    ended_at: datetime | None = None
    reason: str = ""
    message: str = ""
    tail: str = ""


@dataclass(frozen=True)
class Logs:
    """All runs in an archive or folder of logs, in the order of their paths."""

    runs: list[LoggedRun]
    left_out: int
    """Files that are no logs of tf_cnn_benchmarks."""
    sha256: str
    """Of all logs and their paths below the shared folder: the same for a folder and its zip."""


@dataclass
class _Folder:
    info: Info | None = None
    metrics: Metrics | None = None
    evaluated: Info | None = None
    evaluation: dict[str, float] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)


def read_logs(log_files: Iterable[File]) -> Logs:
    """Read every run in the files of `archive.files`. Raises ImportProblem if any is unreadable."""
    folders: defaultdict[str, _Folder] = defaultdict(_Folder)
    hashes: list[tuple[str, str]] = []
    left_out = 0
    for file in log_files:
        path = PurePosixPath(file.path)
        if _read_file(file, folders[str(path.parent)]):
            hashes.append((file.path, file.sha256))
        else:
            left_out += 1
    runs = [
        run for folder, held in sorted(folders.items()) for run in _runs_of_folder(folder, held)
    ]
    if len(runs) > MOST_RUNS:
        raise ImportProblem(f"There are {len(runs):,} runs; import at most {MOST_RUNS:,} at once.")
    if not runs:
        raise ImportProblem(
            "No run of tf_cnn_benchmarks was found: neither benchmark.log with metric.log, nor a "
            "standard output with lines such as “10 images/sec: 51.2 ...”."
        )
    workloads = keep_lengths([run.workload for run in runs])
    runs = [replace(run, workload=workload) for run, workload in zip(runs, workloads, strict=True)]
    return Logs(runs, left_out, _content_hash(hashes))


def _read_file(file: File, folder: _Folder) -> bool:
    """Read a file into `folder` and return True; False for one that is no log."""
    path = PurePosixPath(file.path)
    if path.name.startswith("._") or "__MACOSX" in path.parts:
        return False
    if path.name == "benchmark.log":
        folder.info = read_info(file.path, file.lines())
    elif path.name == "metric.log":
        folder.metrics = read_metrics(file.path, file.lines())
    elif path.name == "eval.log":
        folder.evaluated, folder.evaluation = read_evaluation(file.path, file.lines())
    elif path.suffix in OUTPUT_SUFFIXES or path.name in OUTPUT_NAMES:
        output = read_output(file.path, file.lines())
        if not output.is_benchmark:
            return False
        folder.outputs[path.name] = output
    else:
        return False
    return True


def _runs_of_folder(folder: str, held: _Folder) -> Iterable[LoggedRun]:
    """Yield the run of BenchmarkLogger's files, or one run for each standard output."""
    if held.info or held.metrics:
        if len(held.outputs) > 1:
            names = " and ".join(sorted(held.outputs))
            raise ImportProblem(f"{folder} holds one run's log and the outputs {names}.")
        output = next(iter(held.outputs.values()), None)
        yield _logged_run(folder, held, output)
        return
    for name, output in sorted(held.outputs.items()):
        stem = PurePosixPath(name).stem
        own = (stem,) if len(held.outputs) > 1 or stem.isdecimal() else ()
        path = str(PurePosixPath(folder, name))
        yield _printed_run(path, (*PurePosixPath(folder).parts, *own), output)


def _logged_run(folder: str, held: _Folder, output: Output | None) -> LoggedRun:
    metric_log = str(PurePosixPath(folder, "metric.log"))
    if held.info is None:
        raise ImportProblem(
            f"{metric_log} has no benchmark.log beside it, which would say its batch size, its "
            "machine and its parameters."
        )
    info, metrics = held.info, held.metrics or Metrics()
    path = str(PurePosixPath(folder, "benchmark.log"))
    batch, gpus = sanity.find_batch(path, info.parameters), sanity.count_gpus(path, info.parameters)
    sanity.check_devices(path, info.parameters, batch)
    sanity.check_clock(metric_log, metrics, batch)
    reason, message = sanity.describe_failure(
        metric_log, metrics, info.parameters, exists=bool(held.metrics)
    )
    evaluation = {**held.evaluation, **metrics.evaluation}
    times = compute_seconds_per_step(metrics.steps, metrics.rates, batch)
    sanity.check_times(metric_log, metrics.steps, times)
    intervals, times = join_whole_intervals(metrics.steps, times)
    inside: dict[str, Any] = {
        **info.machine,
        "packages": {"tensorflow": info.tensorflow} if info.tensorflow else {},
        "tensorflow_commit": info.tensorflow_commit,
        "tensorflow_variables": info.variables,
        "threads": _threads(info.parameters),
        "parameters": info.parameters,
        "test_id": info.test,
    }
    if held.evaluated and (seen := held.evaluated.machine.get("gpus_visible")) is not None:
        inside["gpus_visible_in_evaluation"] = seen
    began_at = info.date or metrics.began_at
    return LoggedRun(
        path=folder,
        parts=PurePosixPath(folder).parts,
        scale=f"1x{gpus}",
        workload=_workload(info.parameters),
        snapshot=_snapshot(inside, began_at),
        measurements={}
        if reason
        else _measurements(metrics, evaluation, batch) | _start_up(info.date, metrics),
        step_times=times,
        intervals=intervals,
        losses=metrics.losses,
        steps=metrics.steps,
        phases=_phases(info.date, metrics),
        began_at=began_at,
        ended_at=metrics.ended_at,
        reason=reason,
        message=message,
        tail="\n".join(output.tail if output else metrics.tail),
    )


def _printed_run(path: str, parts: tuple[str, ...], output: Output) -> LoggedRun:
    """Return a run of which only the standard output is known: no machine, and no times."""
    parameters, metrics = output.parameters, output.metrics
    batch = sanity.find_batch(path, parameters)
    gpus = sanity.count_gpus(path, parameters)
    parameters.setdefault("batch_size_per_device", batch / max(gpus, 1))
    reason, message = sanity.describe_failure(path, metrics, parameters, exists=True)
    intervals: list[int] = []
    times: list[float] = []
    if is_fine_enough(metrics.steps, metrics.rates, printed_step=PRINTED_STEP):
        times = compute_seconds_per_step(metrics.steps, metrics.rates, batch)
        sanity.check_times(path, metrics.steps, times)
        intervals, times = join_whole_intervals(metrics.steps, times)
    version = str(parameters.get("tensorflow", ""))
    inside = {
        "packages": {"tensorflow": version} if version else {},
        "parameters": parameters,
    }
    return LoggedRun(
        path=path,
        parts=parts,
        scale=f"1x{gpus}",
        workload=_workload(parameters),
        snapshot=_snapshot(inside, None),
        measurements={} if reason else _measurements(metrics, metrics.evaluation, batch),
        step_times=times,
        intervals=intervals,
        losses=metrics.losses,
        steps=metrics.steps,
        reason=reason,
        message=message,
        tail="\n".join(output.tail),
    )


def _snapshot(inside: dict[str, Any], began_at: datetime | None) -> dict[str, Any]:
    if began_at:
        inside["day"] = f"{began_at:%Y-%m-%d}"
    known = {name: value for name, value in inside.items() if value not in (None, "", {})}
    return {"schema": 1, "source": "logs of tf_cnn_benchmarks", "inside": known}


def _measurements(metrics: Metrics, evaluation: dict[str, float], batch: float) -> dict[str, float]:
    """Return the run's numbers by the names that the workload declares.

    The wall clock's mean is not that of the steps: what happens between steps is only in the first.
    """
    measurements: dict[str, float] = {}
    if metrics.average is not None:
        measurements["wall_images_per_second"] = metrics.average
    if metrics.steps:
        measurements["step_images_per_second"] = metrics.rates[-1]
        measurements["step_time"] = batch / metrics.rates[-1]
        if not math.isnan(metrics.losses[-1]):
            measurements["loss"] = metrics.losses[-1]
    for name in ("top_1_accuracy", "top_5_accuracy"):
        if name in evaluation:
            measurements[name] = evaluation[name]
    if (speed := evaluation.get(AVERAGE, 0.0)) > 0:
        measurements["evaluation_images_per_second"] = speed
    return measurements


def _start_up(date: datetime | None, metrics: Metrics) -> dict[str, float]:
    """Return the time from the beginning of the log to the end of the first step."""
    if date is None or metrics.began_at is None or metrics.steps[0] != 1:
        return {}
    seconds = (metrics.began_at - date).total_seconds()
    return {"time_to_first_step": seconds} if seconds > 0 else {}


def _phases(date: datetime | None, metrics: Metrics) -> dict[str, float]:
    """Return how the time was spent, in seconds, as far as the time stamps tell."""
    moments = (
        ("first step", date, metrics.began_at),
        ("training", metrics.began_at, metrics.trained_at),
        ("evaluation", metrics.trained_at, metrics.ended_at),
    )
    return {
        name: (end - begin).total_seconds()
        for name, begin, end in moments
        if begin and end and end > begin
    }


def _workload(parameters: dict[str, Any]) -> dict[str, Any]:
    workload = {name: parameters[name] for name in WORKLOAD_PARAMETERS if parameters.get(name)}
    if isinstance(batch := workload.get("batch_size_per_device"), float) and batch.is_integer():
        workload["batch_size_per_device"] = int(batch)
    return workload


def _threads(parameters: dict[str, Any]) -> dict[str, str]:
    """Return {"inter_op": "28", "intra_op": "1"} from TensorFlow's session configuration."""
    text = str(parameters.get("session_config", ""))
    return dict(re.findall(r"(\w+)_parallelism_threads: (\d{1,6})", text))


def _content_hash(hashes: list[tuple[str, str]]) -> str:
    parts = [PurePosixPath(path).parts for path, _ in hashes]
    shared = 0
    while all(len(part) > shared + 1 for part in parts) and len({p[shared] for p in parts}) == 1:
        shared += 1
    lines = sorted(
        f"{'/'.join(part[shared:])}\0{digest}\n"
        for part, (_, digest) in zip(parts, hashes, strict=True)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()
