"""The panel Anatomy: where the time of a run goes, as bars and as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.charts.phases import css_of, in_order
from experiments.comparisons.anatomy import Anatomy, Body
from experiments.statistics import numbers

ROUNDING = 1e-12  # of the longest in a column: what floating point leaves where nothing differs
MEASURED = ("steady state", "training")
"""What the verdicts are about; beside it nobody would see the rest of a bar."""


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
        """Of the table: environment, runs, phases and the whole."""
        return len(self.phases) + 3


def panels(found: Sequence[Anatomy]) -> list[Panel]:
    return [_panel(one) for one in found]


def _panel(one: Anatomy) -> Panel:
    names = {name for body in one.bodies for name, seconds in body.phases.items() if seconds > 0}
    order = in_order(names)
    colours = {name: css_of(name) for name in order if name not in MEASURED}
    longest = max(_overhead(body, colours) for body in one.bodies) or 1.0
    base = one.bodies[0]
    rows = [
        Row(
            body.environment,
            body.runs,
            [
                Part(name, seconds, 100 * seconds / longest, css)
                for name, css in colours.items()
                if (seconds := body.phases.get(name, 0.0)) > 0
            ],
            numbers.quantity(_overhead(body, colours), "s", significant=3),
            _cells(body, base, order, one.bodies),
        )
        for body in one.bodies
    ]
    return Panel(one.title, [(name, colours.get(name, "")) for name in order], rows)


def _overhead(body: Body, names: Sequence[str] | dict[str, str]) -> float:
    return sum(body.phases.get(name, 0.0) for name in names)


def _cells(body: Body, base: Body, order: Sequence[str], bodies: Sequence[Body]) -> list[Cell]:
    """Every phase, then the whole run."""
    columns: list[tuple[float | None, float | None, list[float | None]]] = [
        (body.phases.get(name), base.phases.get(name), [one.phases.get(name) for one in bodies])
        for name in order
    ]
    columns.append((body.total, base.total, [one.total for one in bodies]))
    return [
        Cell(
            numbers.beside(here, column, "s"),
            _difference(here - there, column)
            if body is not base and here is not None and there is not None
            else "",
        )
        for here, there, column in columns
    ]


def _difference(seconds: float, column: Sequence[float | None]) -> str:
    """With its sign, in its column's unit; what a subtraction leaves by rounding is none."""
    longest = max(abs(one) for one in column if one is not None)
    if abs(seconds) <= ROUNDING * longest:
        return "±0"
    return f"{'−' if seconds < 0 else '+'}{numbers.beside(abs(seconds), column, 's')}"
