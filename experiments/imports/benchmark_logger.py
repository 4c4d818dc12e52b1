"""Readers of the files of TensorFlow's BenchmarkLogger: `benchmark.log` (and `eval.log`) describe
the run and its machine, `metric.log` has one JSON object a line for every number."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from experiments.imports.problems import ImportProblem, make_line_problem
from experiments.imports.reading import Line
from runners.workloads.results import LARGEST

CUMULATED = "current_examples_per_sec"
AVERAGE = "average_examples_per_sec"
TAIL = 20
"""Last lines that are kept as they are."""
LONGEST_TEXT = 2000
YEARS = range(2015, 2100)


@dataclass(frozen=True, kw_only=True)
class Info:
    """The content of `benchmark.log`; whatever it leaves out is empty or None."""

    parameters: dict[str, Any]
    machine: dict[str, Any]
    variables: dict[str, str]
    tensorflow: str = ""
    tensorflow_commit: str = ""
    date: datetime | None = None
    test: str = ""


@dataclass
class Metrics:
    """The content of `metric.log`: a value for every step displayed, and the final values."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    rates: array[float] = field(default_factory=lambda: array("d"))
    """Images per second on the mean of all steps so far: cumulated, as TensorFlow logs it."""
    losses: array[float] = field(default_factory=lambda: array("d"))
    """As long as `steps`; NaN where none was logged."""
    average: float | None = None
    """Images per second by the wall clock, over the whole training."""
    evaluation: dict[str, float] = field(default_factory=dict)
    began_at: datetime | None = None
    """When the first of `steps` had been made."""
    stepped_at: datetime | None = None
    """When the last of `steps` had been made."""
    trained_at: datetime | None = None
    ended_at: datetime | None = None
    diverged_at: int | None = None
    """The line where the loss is not a number any more."""
    cut_at: int | None = None
    """The line in which the writer was cut off."""
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL))


def read_info(path: str, lines: Iterable[Line]) -> Info:
    """Read `benchmark.log`: one JSON object. Raises ImportProblem."""
    info = read_evaluation(path, lines)[0]
    if info is None:
        raise ImportProblem(f"{path} says nothing of a run.")
    return info


def read_evaluation(path: str, lines: Iterable[Line]) -> tuple[Info | None, dict[str, float]]:
    """Read `eval.log`: one JSON object, and perhaps numbers as in `metric.log`."""
    info: Info | None = None
    numbers: dict[str, float] = {}
    for number, document in _objects(path, lines):
        if document is None:
            raise make_line_problem(path, number, "it is cut off.")
        name = _text(document.get("name"))
        if name.startswith("eval_"):
            numbers[name.removeprefix("eval_")] = _number(path, number, document)
        elif info:
            raise make_line_problem(path, number, "a second run begins here; a file holds one run.")
        else:
            info = _info(path, number, document)
    return info, numbers


def _info(path: str, number: int, document: dict[str, Any]) -> Info:
    machine = _object_at(path, number, document, "machine_config")
    version = _object_at(path, number, document, "tensorflow_version")
    return Info(
        parameters={
            name: _value(entry)
            for name, entry in _entries_at(path, number, document, "run_parameters")
        },
        machine={
            name: _plain(table.get(key))
            for name, table, key in (
                ("cpu", _object_at(path, number, machine, "cpu_info"), "cpu_info"),
                ("cpu_cores", _object_at(path, number, machine, "cpu_info"), "num_cores"),
                ("gpu_model", _object_at(path, number, machine, "gpu_info"), "model"),
                ("gpus_visible", _object_at(path, number, machine, "gpu_info"), "count"),
                ("memory_total_bytes", machine, "memory_total"),
                ("memory_available_bytes", machine, "memory_available"),
            )
            if table.get(key) is not None
        },
        variables={
            name: _text(entry.get("value"))
            for name, entry in _entries_at(
                path, number, document, "tensorflow_environment_variables"
            )
        },
        tensorflow=_text(version.get("version")),
        tensorflow_commit=_text(version.get("git_hash")),
        date=_time(path, number, document.get("run_date")),
        test=_text(document.get("test_id")),
    )


def read_metrics(path: str, lines: Iterable[Line]) -> Metrics:
    """Read `metric.log`. Raises ImportProblem.

    A run that died while it wrote leaves a last line without an end: then `cut_at` is its number.
    """
    metrics = Metrics()
    for number, document in _objects(path, _remember_tail(lines, metrics.tail)):
        if document is None:
            metrics.cut_at = number
            break
        name = _text(document.get("name"))
        moment = _time(path, number, document.get("timestamp"))
        if name == CUMULATED:
            _add_step(path, number, document, metrics)
            metrics.began_at = metrics.began_at or moment
            metrics.stepped_at = moment or metrics.stepped_at
        elif name == AVERAGE:
            if metrics.average is not None:
                raise make_line_problem(path, number, f"a second {AVERAGE}; a file holds one run.")
            metrics.average = _positive(path, number, document)
        elif name.startswith("eval_"):
            metrics.evaluation[name.removeprefix("eval_")] = _number(path, number, document)
        if moment:
            metrics.ended_at = moment
            if name in (CUMULATED, AVERAGE):
                metrics.trained_at = moment
    return metrics


def _remember_tail(lines: Iterable[Line], tail: deque[str]) -> Iterator[Line]:
    for line in lines:
        tail.append(clean(line.content.decode("utf-8", "replace")))
        yield line


def _add_step(path: str, number: int, document: dict[str, Any], metrics: Metrics) -> None:
    step = document.get("global_step")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 < step < 2**31:
        raise make_line_problem(path, number, f"the step is {step!r}, not a whole number from 1.")
    if metrics.steps and step <= metrics.steps[-1]:
        raise make_line_problem(
            path,
            number,
            f"step {step} after step {metrics.steps[-1]}: a file holds one run, from its start.",
        )
    loss = _loss(path, number, document)
    if loss is not None and not abs(loss) <= LARGEST and metrics.diverged_at is None:
        metrics.diverged_at = number
    metrics.steps.append(step)
    metrics.rates.append(_positive(path, number, document))
    metrics.losses.append(math.nan if loss is None else loss)


def _loss(path: str, number: int, document: dict[str, Any]) -> float | None:
    """Return the loss logged together with a speed; None if there is none."""
    for entry in document.get("extras") or []:
        if isinstance(entry, dict) and entry.get("name") == "loss":
            try:
                return float(entry.get("value", ""))
            except (TypeError, ValueError):
                raise make_line_problem(
                    path, number, f"the loss is {entry.get('value')!r}."
                ) from None
    return None


def _objects(path: str, lines: Iterable[Line]) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield each line's number and object; None for a last line that was cut off."""
    for line in lines:
        if not line.content.strip():
            continue
        try:
            document = json.loads(line.content.decode("utf-8"))
        except (ValueError, RecursionError):
            if not line.ended:
                yield line.number, None
                return
            raise make_line_problem(
                path, line.number, "this is not JSON, as BenchmarkLogger writes it."
            ) from None
        if not isinstance(document, dict):
            raise make_line_problem(path, line.number, "this is not a JSON object.")
        yield line.number, document


def _object_at(path: str, number: int, document: dict[str, Any], name: str) -> dict[str, Any]:
    table = document.get(name)
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise make_line_problem(path, number, f"{name} is not an object.")
    return table


def _entries_at(
    path: str, number: int, document: dict[str, Any], key: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries of a list of {"name": ..., a value} by their names."""
    for entry in document.get(key) or []:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise make_line_problem(path, number, f"{key} is not a list of names with values.")
        yield entry["name"], entry


def _value(entry: dict[str, Any]) -> Any:
    """Return the value of an entry: 64 of {"name": "batch_size", "long_value": 64}."""
    return _plain(next((value for key, value in entry.items() if key.endswith("_value")), None))


def _plain(value: Any) -> Any:
    """Return `value` as one that the database's JSON accepts."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    return _text(value)


def _text(value: Any) -> str:
    return "" if value is None else clean(str(value))


def clean(text: str) -> str:
    """Return `text` as a database accepts it: no NUL, no half characters, and not too long."""
    return text[:LONGEST_TEXT].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _number(path: str, number: int, document: dict[str, Any]) -> float:
    value = document.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise make_line_problem(path, number, f"{document.get('name')} is {value!r}, not a number.")
    try:
        parsed = float(value)
    except OverflowError:
        parsed = math.inf
    if not math.isfinite(parsed):
        raise make_line_problem(
            path, number, f"{document.get('name')} is {parsed}, not a finite number."
        )
    if abs(parsed) > LARGEST:
        raise make_line_problem(
            path, number, f"{document.get('name')} is {parsed:g}, more than is ever measured."
        )
    return parsed


def _positive(path: str, number: int, document: dict[str, Any]) -> float:
    speed = _number(path, number, document)
    if speed <= 0:
        raise make_line_problem(
            path, number, f"{document.get('name')} is {speed:g}; a speed is above zero."
        )
    return speed


def _time(path: str, number: int, value: Any) -> datetime | None:
    """Read a time, as UTC where it names no zone: BenchmarkLogger writes UTC."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"Z$", "+00:00", str(value)))
    except ValueError:
        raise make_line_problem(
            path, number, f"{value!r} is not a time such as 2019-03-25T10:03:36Z."
        ) from None
    if moment.year not in YEARS:
        raise make_line_problem(
            path, number, f"the year {moment.year} is not one in which TensorFlow ran."
        )
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
