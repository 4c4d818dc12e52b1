"""What the page of a recurring experiment shows: its figure, and a row for each recurrence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from dashboard.comparisons.figure_kinds import count_pages
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.axes_pages import break_rows, estimate_around
from dashboard.drawings.control_charts import describe_control_charts
from dashboard.typed_requests import OpenRequest, parse_whole_number
from experiments.models import Recurrence, RecurringExperiment
from experiments.recurring import History
from experiments.statistics import numbers
from experiments.statistics.control_charts import ChartPoint, ControlChart
from experiments.statistics.values import Stamp

WIDTHS = (180, 88)
SMALLEST, LARGEST = 1e-15, 1e15


class FileName:
    """What the files of a recurring experiment are named after."""

    def __init__(self, row: RecurringExperiment) -> None:
        self.key = f"recurring-{row.pk}"
        self.question = row.question


@dataclass(frozen=True)
class ShownFigure:
    """The control charts of one configuration as the page shows them."""

    described: AxesFigure
    pages: list[tuple[int, int, int]]
    """The number of each page, and about how tall it is in two columns and in one."""

    themes = (("light", "for-light"), ("dark", "for-dark"))


@dataclass(frozen=True)
class Cell:
    """The value of one chart in one recurrence, in words."""

    head: str
    text: str
    limits: str
    problem: str
    is_outside: bool
    verdict: str
    """Of a ratio, with its stamps."""


@dataclass(frozen=True)
class Row:
    """One recurrence as the table shows it."""

    recurrence: Recurrence
    cells: list[Cell]
    outside: list[str]
    """Charts of all configurations whose limits it left."""

    @property
    def is_judged(self) -> bool:
        """Return whether any of its values could be judged by limits."""
        return any(cell.limits for cell in self.cells)


@dataclass(frozen=True)
class Choice:
    """The configuration and the metric of which the page shows charts; "" where there are none."""

    configuration: str
    metric: str
    charts: list[ControlChart]
    metrics: list[str]
    """All metrics that are charted of the configuration."""
    query: str
    """Chooses the same in addresses."""


def choose_charts(request: OpenRequest, history: History) -> Choice:
    """Return the charts of the configuration and metric that the address names by their numbers.

    Where it names none, or none that there is, those of the first one.
    """
    number, configuration = _choose(request, "configuration", history.configurations)
    charts = [chart for chart in history.charts if chart.configuration == configuration]
    metrics = list(dict.fromkeys(chart.metric for chart in charts))
    place, metric = _choose(request, "metric", metrics)
    query = urlencode({"configuration": number, "metric": place})
    shown = [chart for chart in charts if chart.metric == metric]
    return Choice(configuration, metric, shown, metrics, query)


def _choose(request: OpenRequest, name: str, names: Sequence[str]) -> tuple[int, str]:
    """Return the number and the name that the address chooses, from 1; else the first."""
    number = parse_whole_number(request.GET.get(name, "")) or 1
    number = number if 1 <= number <= len(names) else 1
    return number, names[number - 1] if names else ""


def describe_figure(charts: Sequence[ControlChart], history: History) -> AxesFigure | None:
    """Return the figure of one configuration; None where nothing has a value yet."""
    return describe_control_charts(charts, marks=_number_environments(history.charts))


def make_figure(charts: Sequence[ControlChart], history: History) -> ShownFigure | None:
    """Return the figure as the page shows it, with about how tall each of its pages is."""
    described = describe_figure(charts, history)
    if described is None:
        return None
    wide, narrow = (_estimate_heights(described, width) for width in WIDTHS)
    narrow += [narrow[-1]] * (len(wide) - len(narrow))
    count = count_pages(described, WIDTHS[0])
    return ShownFigure(described, [(page + 1, wide[page], narrow[page]) for page in range(count)])


def _estimate_heights(figure: AxesFigure, width: int) -> list[int]:
    around = estimate_around(figure, width)
    return [round(sum(row.height for row in rows) + around) for rows in break_rows(figure, width)]


def _number_environments(charts: Sequence[ControlChart]) -> dict[str, int]:
    """Return the index of each environment's symbol and colour, the baseline first."""
    baselines = [chart.baseline for chart in charts if chart.is_ratio]
    names = [*baselines, *(chart.environment for chart in charts)]
    return {name: place for place, name in enumerate(dict.fromkeys(names))}


def make_rows(history: History, charts: Sequence[ControlChart]) -> list[Row]:
    """Return a row for each recurrence, the newest first, with the values of these charts."""
    cells: dict[int, list[Cell]] = {}
    for chart in charts:
        for point in chart.points:
            cells.setdefault(point.number, []).append(_make_cell(chart, point))
    return [
        Row(each, cells.get(each.number, []), history.outside.get(each.number, []))
        for each in reversed(history.recurrences)
    ]


def _make_cell(chart: ControlChart, point: ChartPoint) -> Cell:
    ends: tuple[float, ...] = (point.limits.low, point.limits.high) if point.limits else ()
    decimals = numbers.ratio_decimals(ends or None)
    value, *limits = (_write(chart, each, decimals) for each in (point.value, *ends))
    labels = [Stamp(stamp).label if stamp in list(Stamp) else stamp for stamp in point.stamps]
    verdict = "; ".join(filter(None, (point.verdict, ", ".join(labels))))
    return Cell(chart.title, value, _join(limits), point.problem, point.is_outside, verdict)


def _join(limits: Sequence[str]) -> str:
    """Return both limits, with the unit that they share once: "22.05 to 22.09 ms"."""
    if not limits:
        return ""
    low, high = limits
    number, _, unit = low.rpartition(" ")
    return f"{number if number and high.endswith(f' {unit}') else low} to {high}"


def _write(chart: ControlChart, value: float | None, decimals: int) -> str:
    if value is None:
        return numbers.MISSING
    if not SMALLEST <= value <= LARGEST:  # ends of absurdly wide limits have hundreds of digits
        return f"{value:.3g} {chart.unit}".strip()
    return numbers.fixed(value, decimals) if chart.is_ratio else numbers.quantity(value, chart.unit)
