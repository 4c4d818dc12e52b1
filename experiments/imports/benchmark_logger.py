"""The files of TensorFlow's BenchmarkLogger: `benchmark.log` (and `eval.log`) say what ran where,
`metric.log` has one JSON object a line for every number."""

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

from experiments.imports.problems import ImportProblem, at
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
    """What `benchmark.log` says of a run; whatever it leaves out is empty or None."""

    parameters: dict[str, Any]
    machine: dict[str, Any]
    variables: dict[str, str]
    tensorflow: str = ""
    tensorflow_commit: str = ""
    date: datetime | None = None
    test: str = ""


@dataclass
class Metrics:
    """What `metric.log` says: a value for every step that was displayed, and those of the end."""

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
            raise at(path, number, "it is cut off.")
        name = _text(document.get("name"))
        if name.startswith("eval_"):
            numbers[name.removeprefix("eval_")] = _number(path, number, document)
        elif info:
            raise at(path, number, "a second run begins here; a file holds one run.")
        else:
            info = _info(path, number, document)
    return info, numbers


def _info(path: str, number: int, document: dict[str, Any]) -> Info:
    machine = _table(path, number, document, "machine_config")
    version = _table(path, number, document, "tensorflow_version")
    return Info(
        parameters={
            name: _value(entry) for name, entry in _named(path, number, document, "run_parameters")
        },
        machine={
            name: _plain(table.get(key))
            for name, table, key in (
                ("cpu", _table(path, number, machine, "cpu_info"), "cpu_info"),
                ("cpu_cores", _table(path, number, machine, "cpu_info"), "num_cores"),
                ("gpu_model", _table(path, number, machine, "gpu_info"), "model"),
                ("gpus_visible", _table(path, number, machine, "gpu_info"), "count"),
                ("memory_total_bytes", machine, "memory_total"),
                ("memory_available_bytes", machine, "memory_available"),
            )
            if table.get(key) is not None
        },
        variables={
            name: _text(entry.get("value"))
            for name, entry in _named(path, number, document, "tensorflow_environment_variables")
        },
        tensorflow=_text(version.get("version")),
        tensorflow_commit=_text(version.get("git_hash")),
        date=_time(path, number, document.get("run_date")),
        test=_text(document.get("test_id")),
    )


def read_metrics(path: str, lines: Iterable[Line]) -> Metrics:
    """Read `metric.log`. Raises ImportProblem.

    A last line without its end is what a run leaves that died while it wrote: `cut_at` says so.
    """
    found = Metrics()
    for number, document in _objects(path, _kept(lines, found.tail)):
        if document is None:
            found.cut_at = number
            break
        name = _text(document.get("name"))
        moment = _time(path, number, document.get("timestamp"))
        if name == CUMULATED:
            _add_step(path, number, document, found)
            found.began_at = found.began_at or moment
            found.stepped_at = moment or found.stepped_at
        elif name == AVERAGE:
            if found.average is not None:
                raise at(path, number, f"a second {AVERAGE}; a file holds one run.")
            found.average = _positive(path, number, document)
        elif name.startswith("eval_"):
            found.evaluation[name.removeprefix("eval_")] = _number(path, number, document)
        if moment:
            found.ended_at = moment
            if name in (CUMULATED, AVERAGE):
                found.trained_at = moment
    return found


def _kept(lines: Iterable[Line], tail: deque[str]) -> Iterator[Line]:
    for line in lines:
        tail.append(clean(line.content.decode("utf-8", "replace")))
        yield line


def _add_step(path: str, number: int, document: dict[str, Any], found: Metrics) -> None:
    step = document.get("global_step")
    if isinstance(step, bool) or not isinstance(step, int) or not 0 < step < 2**31:
        raise at(path, number, f"the step is {step!r}, not a whole number from 1.")
    if found.steps and step <= found.steps[-1]:
        raise at(
            path,
            number,
            f"step {step} after step {found.steps[-1]}: a file holds one run, from its start.",
        )
    loss = _loss(path, number, document)
    if loss is not None and not abs(loss) <= LARGEST and found.diverged_at is None:
        found.diverged_at = number
    found.steps.append(step)
    found.rates.append(_positive(path, number, document))
    found.losses.append(math.nan if loss is None else loss)


def _loss(path: str, number: int, document: dict[str, Any]) -> float | None:
    """The loss that stands beside a speed; None if there is none."""
    for entry in document.get("extras") or []:
        if isinstance(entry, dict) and entry.get("name") == "loss":
            try:
                return float(entry.get("value", ""))
            except (TypeError, ValueError):
                raise at(path, number, f"the loss is {entry.get('value')!r}.") from None
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
            raise at(path, line.number, "this is not JSON, as BenchmarkLogger writes it.") from None
        if not isinstance(document, dict):
            raise at(path, line.number, "this is not a JSON object.")
        yield line.number, document


def _table(path: str, number: int, document: dict[str, Any], name: str) -> dict[str, Any]:
    table = document.get(name)
    if table is None:
        return {}
    if not isinstance(table, dict):
        raise at(path, number, f"{name} is not an object.")
    return table


def _named(
    path: str, number: int, document: dict[str, Any], key: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the entries of a list of {"name": ..., a value} by their names."""
    for entry in document.get(key) or []:
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise at(path, number, f"{key} is not a list of names with values.")
        yield entry["name"], entry


def _value(entry: dict[str, Any]) -> Any:
    """{"name": "batch_size", "long_value": 64} -> 64."""
    return _plain(next((value for key, value in entry.items() if key.endswith("_value")), None))


def _plain(value: Any) -> Any:
    """A value that the database's JSON takes."""
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
    """Return `text` as a database takes it: no NUL, no half characters, and not too long."""
    return text[:LONGEST_TEXT].replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _number(path: str, number: int, document: dict[str, Any]) -> float:
    value = document.get("value")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise at(path, number, f"{document.get('name')} is {value!r}, not a number.")
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):
        raise at(path, number, f"{document.get('name')} is {found}, not a finite number.")
    if abs(found) > LARGEST:
        raise at(path, number, f"{document.get('name')} is {found:g}, more than is ever measured.")
    return found


def _positive(path: str, number: int, document: dict[str, Any]) -> float:
    found = _number(path, number, document)
    if found <= 0:
        raise at(path, number, f"{document.get('name')} is {found:g}; a speed is above zero.")
    return found


def _time(path: str, number: int, value: Any) -> datetime | None:
    """A time in UTC: BenchmarkLogger writes UTC, with or without saying so."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(re.sub(r"Z$", "+00:00", str(value)))
    except ValueError:
        raise at(path, number, f"{value!r} is not a time such as 2019-03-25T10:03:36Z.") from None
    if found.year not in YEARS:
        raise at(path, number, f"the year {found.year} is not one in which TensorFlow ran.")
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
