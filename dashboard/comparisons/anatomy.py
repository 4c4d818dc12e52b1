"""The panel Anatomy: where the time of a run goes, as bars and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.charts.phases import MEASURED, choose_css_class, describe_phase, sort_by_time
from experiments.comparisons.anatomy import Anatomy, Body
from experiments.statistics import numbers

ROUNDING = 1e-12  # of the longest in a column: what floating point leaves where nothing differs


@dataclass(frozen=True)
class Cell:
    """One phase of one environment."""

    seconds: str
    difference: str
    """From the baseline; empty for the baseline itself and where it has no such phase."""


@dataclass(frozen=True)
class Part:
    """One part of a bar."""

    name: str
    seconds: float
    width: float
    """Of the longest bar of the panel, in per cent."""
    css: str


@dataclass(frozen=True)
class Row:
    """One environment in the table of phases."""

    environment: str
    runs: int
    bar: list[Part]
    overhead: str
    """The bar's length in words."""
    cells: list[Cell]


@dataclass(frozen=True)
class Panel:
    """One workload at one scale."""

    title: str
    phases: list[tuple[str, str]]
    """Names in the order in which a program goes through them, with the class of their colour,
    empty for what no bar holds."""
    rows: list[Row]

    @property
    def columns(self) -> int:
        """Return the number of columns of the table: environment, runs, phases and the whole."""
        return len(self.phases) + 3


def prepare_panels(anatomies: Sequence[Anatomy]) -> list[Panel]:
    """Return what is shown of each workload at each scale."""
    return [_panel(anatomy) for anatomy in anatomies]


def _panel(anatomy: Anatomy) -> Panel:
    names = {
        name for body in anatomy.bodies for name, seconds in body.phases.items() if seconds > 0
    }
    order = sort_by_time(names)
    colours = {name: choose_css_class(name) for name in order if name not in MEASURED}
    longest = max(_overhead(body, colours) for body in anatomy.bodies) or 1.0
    base = anatomy.bodies[0]
    rows = [
        Row(
            body.environment,
            body.runs,
            [
                Part(describe_phase(name), seconds, 100 * seconds / longest, css)
                for name, css in colours.items()
                if (seconds := body.phases.get(name, 0.0)) > 0
            ],
            numbers.quantity(_overhead(body, colours), "s", significant=3),
            _cells(body, base, order, anatomy.bodies),
        )
        for body in anatomy.bodies
    ]
    headings = [(describe_phase(name), colours.get(name, "")) for name in order]
    return Panel(anatomy.title, headings, rows)


def _overhead(body: Body, names: Sequence[str] | dict[str, str]) -> float:
    return sum(body.phases.get(name, 0.0) for name in names)


def _cells(body: Body, base: Body, order: Sequence[str], bodies: Sequence[Body]) -> list[Cell]:
    """Return a cell for every phase, then one for the whole run."""
    columns: list[tuple[float | None, float | None, list[float | None]]] = [
        (body.phases.get(name), base.phases.get(name), [other.phases.get(name) for other in bodies])
        for name in order
    ]
    columns.append((body.total, base.total, [other.total for other in bodies]))
    return [
        Cell(
            numbers.beside(seconds, column, "s"),
            _difference(seconds - baseline_seconds, column)
            if body is not base and seconds is not None and baseline_seconds is not None
            else "",
        )
        for seconds, baseline_seconds, column in columns
    ]


def _difference(seconds: float, column: Sequence[float | None]) -> str:
    """Return a difference with its sign, in its column's unit; what rounding leaves is none."""
    longest = max(abs(phase_seconds) for phase_seconds in column if phase_seconds is not None)
    if abs(seconds) <= ROUNDING * longest:
        return "±0"
    return f"{'−' if seconds < 0 else '+'}{numbers.beside(abs(seconds), column, 's')}"
