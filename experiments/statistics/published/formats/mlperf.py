"""Logs of MLPerf Training: lines with `:::MLLOG {...}`. The time from run_start to run_stop."""

import json
from datetime import UTC, datetime
from typing import Any

from experiments.statistics.published.formats.base import (
    Format,
    get_object,
    load_json,
    make_text,
    rows_from,
    to_seconds,
)
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import Sheet

MARK = ":::MLLOG"
PLATFORM, BENCHMARK = "submission_platform", "submission_benchmark"
FACTS = {PLATFORM: "platform", BENCHMARK: "benchmark", "seed": "seed"}
TIME = "time_to_train (s)"
LATEST_MS = 4_102_444_800_000
"""The year 2100: a later time is no time in milliseconds."""


def _recognise(text: str) -> bool:
    return MARK in text


def _read(text: str, decimal: str) -> Sheet:
    runs: list[dict[str, str]] = []
    facts: dict[str, str] = {}
    started: int | None = None
    for number, event in _list_events(text):
        key = event.get("key")
        if key in FACTS:
            facts[FACTS[str(key)]] = make_text(event.get("value"))
        elif key == "run_start":
            if started is not None:
                runs.append(_make_run(facts, started, None, "no run_stop"))
            started = _time(event, number)
        elif key == "run_stop":
            if started is None:
                raise TableError(f"Line {number}: there is a run_stop and no run_start before it.")
            status = make_text(get_object(event.get("metadata")).get("status")) or "no status"
            runs.append(_make_run(facts, started, _time(event, number), status))
            started = None
    if started is not None:
        runs.append(_make_run(facts, started, None, "no run_stop"))
    if not runs:
        raise TableError(f"{FORMAT.name} without a run_start: there is no run in it.")
    header = ["benchmark", "platform", "run", "seed", "began_at", "state", TIME]
    rows = [run | {"run": str(number)} for number, run in enumerate(runs, 1)]
    return Sheet(
        header,
        rows_from(header, rows),
        format=FORMAT.name,
        roles={
            "benchmark": "label",
            "platform": "environment",
            "run": "run",
            "began_at": "began",
            "state": "state",
            TIME: "value",
        },
        notes=(
            "Each run is the time from run_start to run_stop; those that did not end with "
            "success do not count.",
            "Unit: seconds, from time_ms.",
        ),
    )


def _list_events(text: str) -> list[tuple[int, dict[str, Any]]]:
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        if MARK not in line:
            continue
        event = line.partition(MARK)[2].strip()
        if not (event.startswith("{") and event.endswith("}")):
            raise TableError(f"Line {number}: what follows {MARK} breaks off.")
        try:
            events.append((number, get_object(load_json(event))))
        except (TableError, json.JSONDecodeError) as error:
            raise TableError(f"Line {number}: {error}") from None
    return events


def _time(event: dict[str, Any], number: int) -> int:
    text = make_text(event.get("time_ms"))
    try:
        time = int(text[:20])
    except ValueError:
        raise TableError(f"Line {number}: time_ms is {text!r}, not milliseconds.") from None
    if not 0 < time < LATEST_MS:
        raise TableError(f"Line {number}: time_ms is {text}, not a time in milliseconds.")
    return time


def _make_run(facts: dict[str, str], start: int, stop: int | None, state: str) -> dict[str, str]:
    """Return the cells of a run. A negative duration stays one, and is refused as a number."""
    value = "" if stop is None else to_seconds(str(stop - start), "ms")
    began = datetime.fromtimestamp(start / 1000, UTC).isoformat()
    return {
        "platform": "",
        "benchmark": "",
        **facts,
        "began_at": began,
        "state": state,
        TIME: value,
    }


FORMAT = Format(
    "MLPerf's log (:::MLLOG)", "each run is the time from run_start to run_stop", _recognise, _read
)
