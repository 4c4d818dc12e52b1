"""Reads what a program has reported, with validation: one JSON document, or JSON lines, or both.

The recorder writes the document at its end and lines until then; programs in other languages write
lines alone::

    {"step": {"step_time": 0.012, "loss": 2.31}}
    {"metric": "accuracy", "value": 0.71, "unit": "1"}
    {"phase": "evaluation", "seconds": 1.2}
    {"series": "loss", "unit": "1", "from": 0, "values": [2.31, 2.30]}
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from runners.untrusted import has_many_parts
from runners.workloads.results import (
    SanityError,
    check_count,
    check_schema,
    parse,
    parse_name,
    parse_number,
)

STEP_TIME = "step_time"
KNOWN = {"metric", "step", "series", "phase", "phases", "facts"}
"""A line has at least one of these."""


class Report:
    """All reported values, not yet validated; `build_document` returns them like `result.json`."""

    def __init__(self, units: Mapping[str, str]) -> None:
        """Begin an empty report; `units` are those of series whose lines have none."""
        self.known_units = {STEP_TIME: "s", **units}
        self.units: dict[str, str] = {}
        self.metrics: dict[str, dict[str, Any]] = {}
        self.values: dict[str, list[Any]] = {}
        self.phases: dict[str, Any] = {}
        self.facts: dict[str, Any] = {}

    def build_document(self) -> dict[str, Any]:
        """Return all values in the form of `result.json`. Raises SanityError for bad names."""
        check_count(self.metrics, "metrics")
        check_count(self.values, "series")
        for name in (*self.metrics, *self.values, *self.phases):
            parse_name(name)  # again, for those of documents: databases take no control characters
        return {
            "schema": 1,
            "metrics": self.metrics,
            "series": {
                name: {"unit": self._choose_unit(name), "values": values}
                for name, values in self.values.items()
            },
            "phases": self.phases,
            "facts": self.facts,
        }

    def _choose_unit(self, name: str) -> str:
        return self.units.get(name) or self.known_units.get(name, "1")

    def add_document(self, document: Mapping[str, Any]) -> None:
        check_schema(document, "report")
        for name in ("metrics", "series", "phases", "facts"):
            if not isinstance(document.get(name, {}), dict):
                raise SanityError(f"the report's {name} are not a table")
        self.metrics |= document.get("metrics", {})
        self.phases |= document.get("phases", {})
        self.facts |= document.get("facts", {})
        for name, series in document.get("series", {}).items():
            if not isinstance(series, dict) or not isinstance(series.get("values"), list):
                raise SanityError(f"the series {name!r} is not a list of numbers with a unit")
            self._add_series({"series": name, "from": 0, **series})

    def add_line(self, line: Mapping[str, Any]) -> None:
        """Add a line. Raises SanityError if it is no line of a report."""
        if not line.keys() & KNOWN:
            raise SanityError(f"it has none of {', '.join(sorted(KNOWN))}")
        if "metric" in line:
            self._add_metric(line)
        if "step" in line:
            self._add_step(line)
        if "series" in line:
            self._add_series(line)
        if "phase" in line:
            self._add_phase(line)
        for name, table in (("phases", self.phases), ("facts", self.facts)):
            if isinstance(line.get(name), dict):
                table |= line[name]

    def _add_metric(self, line: Mapping[str, Any]) -> None:
        name = parse_name(line["metric"])
        unit = line.get("unit") or self.known_units.get(name, "1")
        self.metrics[name] = {"value": line.get("value"), "unit": unit}

    def _add_step(self, line: Mapping[str, Any]) -> None:
        if not isinstance(line["step"], dict):
            raise SanityError('a step is a table, such as {"step": {"step_time": 0.012}}')
        for name, value in line["step"].items():
            self.values.setdefault(parse_name(name), []).append(value)

    def _add_series(self, line: Mapping[str, Any]) -> None:
        name, new = parse_name(line["series"]), line.get("values", [])
        if not isinstance(new, list):
            raise SanityError(f"the values of {name!r} are not a list of numbers")
        if line.get("unit"):
            self.units[name] = line["unit"]
        known = self.values.setdefault(name, [])
        first = line.get("from", len(known))
        if isinstance(first, bool) or not isinstance(first, int) or not 0 <= first <= len(known):
            raise SanityError(f"{name!r} goes on at {first!r}, and has {len(known)} values so far")
        known[first:] = new

    def _add_phase(self, line: Mapping[str, Any]) -> None:
        name = parse_name(line["phase"])
        seconds = parse_number(line.get("seconds"), f"the length of the phase {name!r}")
        self.phases[name] = self.phases.get(name, 0.0) + seconds


def read_report(
    run_files: Mapping[str, bytes], file: str, units: Mapping[str, str], *, strict: bool = True
) -> dict[str, Any]:
    """Return what was reported into `file`, and into the lines beside it, as one document.

    Raises SanityError. If not `strict`, a line that is cut off, as a killed program leaves it, and
    all after it are left out.
    """
    report = Report(units)
    content = run_files.get(file)
    if content is None and file + "l" not in run_files:
        raise SanityError("the program reported nothing")
    if content is not None:
        document = _parse_document(content)
        if document is not None:
            report.add_document(document)
        else:
            _add_lines(report, file, content, strict=strict)
    if file + "l" in run_files:
        _add_lines(report, file + "l", run_files[file + "l"], strict=strict)
    return report.build_document()


def _parse_document(content: bytes) -> dict[str, Any] | None:
    """Return the document, or None if the content is lines."""
    if has_many_parts(content):
        return None
    with suppress(ValueError, RecursionError):
        document = json.loads(content)
        if isinstance(document, dict) and document.keys() & {"schema", "metrics"}:
            return document
    return None


def _add_lines(report: Report, file: str, content: bytes, *, strict: bool) -> None:
    for number, line in _number_lines(content):
        try:
            report.add_line(parse(line))
        except SanityError as error:
            if not strict:
                return
            raise SanityError(f"line {number} of {file} is not one of a report: {error}") from None


def _number_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(content.splitlines(), start=1):
        if line.strip():
            yield number, line


def read_partial_series(
    run_files: Mapping[str, bytes], file: str, units: Mapping[str, str]
) -> dict[str, tuple[str, list[float]]]:
    """Return the steps that a program had reported when it was killed or failed. Never raises.

    Each series ends before its first value that is no finite number.
    """
    series_by_name: dict[str, tuple[str, list[float]]] = {}
    with suppress(SanityError):
        for name, series in read_report(run_files, file, units, strict=False)["series"].items():
            values = []
            with suppress(SanityError):
                for value in series["values"]:
                    values.append(parse_number(value, name))
            if values:
                unit = str(series["unit"])[:30]
                series_by_name[name] = (unit if unit.isprintable() else "1", values)
    return series_by_name
