"""What one run left behind, in the order in which its page tells it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dashboard.charts import Figure, accuracy_curves, interval_trace, step_trace
from dashboard.charts.phases import css_of, in_order
from experiments.comparisons.accuracies import target_of
from experiments.comparisons.series import ACCURACY, ACCURACY_TIME
from experiments.comparisons.step_summaries import read_steady_state
from experiments.models import Run, Series
from experiments.snapshots import flatten
from experiments.statistics import numbers
from experiments.statistics.steps import Curve
from runners.workloads import KNOWN_WORKLOADS

EVALUATED_AT = ("accuracy_step", ACCURACY_TIME)
"""Series that say where the values of another one belong."""


@dataclass(frozen=True)
class Fact:
    """One line of the snapshot; a side that does not know it is empty."""

    name: str
    outside: str
    inside: str

    @property
    def differs(self) -> bool:
        return bool(self.outside and self.inside and self.outside != self.inside)


def both_sides(content: Mapping[str, Any], words: str = "") -> list[Fact]:
    """Return the facts of both sides of the container wall that hold all of `words`.

    Of a text of many lines, such as /proc/cpuinfo, a search shows the lines that it is about.
    """
    outside = dict(flatten(content.get("outside") or {}))
    inside = dict(flatten(content.get("inside") or {}))
    # What other processes of the run saw otherwise than the first: "rank 1.hostname".
    inside |= dict(flatten(content.get("others") or {}))
    told = ("outside", "inside", "others")
    rest = {name: content[name] for name in content if name not in told}
    outside |= dict(flatten(rest))
    asked = words.lower().split()
    facts = []
    for name in sorted(outside.keys() | inside.keys()):
        sides = outside.get(name, ""), inside.get(name, "")
        found = [_lines_with(asked, name, text) for text in sides]
        if any(found):
            facts.append(Fact(name, *(_shown(*side) for side in zip(sides, found, strict=True))))
    return facts


def _lines_with(words: list[str], name: str, text: str) -> list[str]:
    """Return the lines that, with the fact's name before them, hold every word."""
    lines = text.splitlines()
    return [line for line in lines if all(word in f"{name} {line}".lower() for word in words)]


def _shown(text: str, found: list[str]) -> str:
    """One line stands beside its other side whatever was found; more are cut to what was."""
    return "\n".join(found) if "\n" in text else text


@dataclass(frozen=True)
class Number:
    """A measurement with what its metric means."""

    metric: str
    label: str
    value: float
    unit: str
    is_primary: bool


def measurements(run: Run) -> list[Number]:
    """Return the run's measurements in the order in which its workload declares them."""
    kind = KNOWN_WORKLOADS[run.workload.kind]
    labels = {one.name: one.label for one in kind.metrics_of(run.workload.parameters)}
    order = list(labels)
    primary = run.experiment.primary_metric or kind.primary_of(run.workload.parameters)
    rows = [
        Number(row.metric, labels.get(row.metric, ""), row.value, row.unit, row.metric == primary)
        for row in run.measurements.all()
    ]
    return sorted(rows, key=lambda row: order.index(row.metric) if row.metric in order else 99)


@dataclass(frozen=True)
class Phase:
    name: str
    seconds: float
    share: float
    """Of the whole, in per cent."""
    css: str


def phases(run: Run) -> list[Phase]:
    """Return how the run's time was spent, in order; phases that took no time are left out."""
    total = sum(run.phases.values())
    # PostgreSQL keeps no order of keys.
    spent = in_order(name for name, seconds in run.phases.items() if seconds > 0)
    return [
        Phase(name, run.phases[name], 100 * run.phases[name] / total, css_of(name))
        for name in spent
    ]


@dataclass(frozen=True)
class Trace:
    """The steps of one series; `id` can be an element's."""

    id: str
    figure: Figure
    words: str
    """What is drawn, and what was found in it."""


def traces(run: Run, mark: int) -> list[Trace]:
    """Return a trace for each series of the run, what the comparison rests on first."""
    kind = KNOWN_WORKLOADS[run.workload.kind]
    primary = run.experiment.primary_metric or kind.primary_of(run.workload.parameters)
    burn_in = int(run.spec.get("workload", {}).get("parameters", {}).get("burn_in") or 0)
    first = (primary, "step_time")
    rows = sorted(run.series.all(), key=lambda row: (row.metric not in first, row.metric))
    places = {row.metric: row for row in rows if row.metric in EVALUATED_AT}
    return [
        _evaluations(row, places[ACCURACY_TIME], run, mark)
        if row.metric == ACCURACY and ACCURACY_TIME in places
        else _trace(row, burn_in if row.burn_in is None else row.burn_in, mark)
        for row in rows
        if row.metric not in places
    ]


def _evaluations(row: Series, times: Series, run: Run, mark: int) -> Trace:
    """The accuracy has no value a step: it is measured now and then."""
    name = run.environment.name
    figure = accuracy_curves(
        [Curve(name, times.values, row.values)],
        metric="accuracy",
        marks={name: mark},
        target=target_of(run.workload.parameters) or None,
    )
    words = (
        "Each point is an evaluation on images that were not trained on, against the time in "
        "steps until then."
    )
    return Trace(f"series-{row.pk}", figure, words)


def _trace(row: Series, burn_in: int, mark: int) -> Trace:
    found = read_steady_state(row)
    words: dict[str, Any] = {"unit": row.unit, "metric": row.metric.replace("_", " "), "mark": mark}
    if row.steps and found is None:
        figure = interval_trace(row.values, row.steps, **words)
    else:
        figure = step_trace(row.values, burn_in=burn_in, found=found, ends=row.steps, **words)
    said = [found.sentence, found.trend_sentence, _left(row, burn_in)] if found else []
    said.append("Steps of this run: for looking, never tested.")
    return Trace(f"series-{row.pk}", figure, " ".join(filter(None, said)))


def _left(row: Series, burn_in: int) -> str:
    """What the fixed burn-in leaves above the mean after the warm-up; empty if nobody knows."""
    counted = row.values[burn_in:]
    if row.steps or not row.settled_mean or not counted:
        return ""
    bias = fmean(counted) / row.settled_mean - 1
    return (
        f"The fixed burn-in of {burn_in:,} step{'s' * (burn_in != 1)} leaves "
        f"{numbers.cost(bias, decimals=2)}."
    )
