"""Facts, measurements, phases and traces of one run, in the order of its page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dashboard.charts import Figure, draw_accuracy_curves, draw_interval_trace, draw_step_trace
from dashboard.charts.phases import choose_css_class, describe_phase, sort_by_time
from dashboard.comparisons.metric_words import say_words
from experiments.comparisons.accuracies import get_target
from experiments.comparisons.series import ACCURACY, ACCURACY_TIME, FURTHER_SHARES
from experiments.comparisons.step_summaries import read_steady_state
from experiments.loaded_files import shorten_loaded
from experiments.models import Measurement, MeasureNotes, Run, Series
from experiments.models.compiled_rows import KEY, CompiledRows
from experiments.natural_order import make_natural_key, sort_naturally
from experiments.snapshots import flatten, shorten_patches
from experiments.statistics import numbers
from experiments.statistics.steps import Curve
from runners.workloads import KNOWN_WORKLOADS

EVALUATED_AT = ("accuracy_step", ACCURACY_TIME)
"""Series that hold the positions (steps or times) of another series' values."""

MEASUREMENTS = CompiledRows(lambda run: Measurement.objects.filter(run=run), KEY)


@dataclass(frozen=True)
class Fact:
    """One line of the snapshot; a side that has no such fact is empty."""

    name: str
    outside: str
    inside: str

    @property
    def differs(self) -> bool:
        return bool(self.outside and self.inside and self.outside != self.inside)


def search_facts(content: Mapping[str, Any], search_text: str = "") -> list[Fact]:
    """Return the facts outside and inside the container that contain all words of `search_text`.

    Of a text of many lines, such as /proc/cpuinfo, only the matching lines are shown.
    """
    outside = dict(flatten(content.get("outside") or {}))
    # Loaded files have a list of their own on the page: here they are found, not listed.
    inside_content = shorten_patches(shorten_loaded(content.get("inside") or {}))
    if not search_text.strip():
        inside_content.pop("loaded", None)
    inside = dict(flatten(inside_content))
    # Where other processes of the run differ from the first one: "rank 1.hostname".
    inside |= dict(flatten(content.get("others") or {}))
    known_sections = ("outside", "inside", "others")
    rest = {name: content[name] for name in content if name not in known_sections}
    outside |= dict(flatten(rest))
    search_words = search_text.lower().split()
    facts = []
    for name in sort_naturally(outside.keys() | inside.keys()):
        sides = outside.get(name, ""), inside.get(name, "")
        matching_lines = [_find_lines(search_words, name, text) for text in sides]
        if any(matching_lines):
            facts.append(
                Fact(
                    name,
                    *(_cut_to_lines(*side) for side in zip(sides, matching_lines, strict=True)),
                )
            )
    return facts


def _find_lines(search_words: list[str], name: str, text: str) -> list[str]:
    """Return the lines that, with the fact's name before them, contain every word."""
    lines = text.splitlines()
    return [
        line for line in lines if all(word in f"{name} {line}".lower() for word in search_words)
    ]


def _cut_to_lines(text: str, matching_lines: list[str]) -> str:
    """Return a text of several lines cut to those that match; one of one line stays whole."""
    return "\n".join(matching_lines) if "\n" in text else text


@dataclass(frozen=True)
class Number:
    """A measurement with the label of its metric."""

    metric: str
    label: str
    value: float
    unit: str
    is_primary: bool
    source: str = ""
    """Where Tare has it from; "" for what the program reported."""
    detail: str = ""
    """What limits it, such as the time between samples."""


@dataclass(frozen=True)
class MissingNumber:
    """A metric that every run has, and why this one has no value."""

    metric: str
    label: str
    reason: str
    is_primary: bool


def list_measurements(run: Run) -> list[Number]:
    """Return the run's measurements in the order in which its workload declares them."""
    labels, primary = _label_metrics(run)
    order = list(labels)
    notes: MeasureNotes | None = getattr(run, "measure_notes", None)
    details = notes.details if notes else {}
    rows = [
        Number(
            row.metric,
            labels.get(row.metric, ""),
            row.value,
            row.unit,
            row.metric == primary,
            row.source,
            details.get(row.metric, ""),
        )
        for row in MEASUREMENTS.read(run.pk)
    ]
    return sorted(rows, key=lambda row: order.index(row.metric) if row.metric in order else 99)


def list_missing_measurements(run: Run) -> list[MissingNumber]:
    """Return the metrics of every run that this one lacks; none of a run from before them."""
    notes: MeasureNotes | None = getattr(run, "measure_notes", None)
    labels, primary = _label_metrics(run)
    return [
        MissingNumber(name, labels[name], notes.missing[name], name == primary)
        for name in labels
        if notes and name in notes.missing
    ]


def _label_metrics(run: Run) -> tuple[dict[str, str], str]:
    """Return the labels of the run's metrics by name, and the name of the primary one."""
    kind, parameters = KNOWN_WORKLOADS[run.workload.kind], run.workload.parameters
    labels = {metric.name: metric.label for metric in kind.list_all_metrics(parameters)}
    return labels, run.experiment.primary_metric or kind.choose_primary_metric(parameters)


@dataclass(frozen=True)
class Phase:
    """One phase of a run, with its share of the run's time."""

    name: str
    seconds: float
    share: float
    """In per cent of the whole run."""
    css: str


def list_phases(run: Run) -> list[Phase]:
    """Return the phases of the run in order; phases that took no time are left out."""
    return list_phases_of(run.phases)


def list_phases_of(seconds_by_name: Mapping[str, float]) -> list[Phase]:
    """Return phases in the order of time; those that took no time are left out."""
    total = sum(seconds_by_name.values())
    # PostgreSQL keeps no order of keys.
    spent = sort_by_time(name for name, seconds in seconds_by_name.items() if seconds > 0)
    return [
        Phase(describe_phase(name), seconds, 100 * seconds / total, choose_css_class(name))
        for name in spent
        for seconds in [seconds_by_name[name]]
    ]


@dataclass(frozen=True)
class Trace:
    """The plot of one series; `id` is that of its element."""

    id: str
    figure: Figure
    caption: str
    """What is drawn, and what was detected in it."""
    title: str = ""


def draw_traces(run: Run, mark: int) -> list[Trace]:
    """Return a trace for each series of the run, those that are compared first."""
    fixed_warm_up = choose_fixed_warm_up(run)
    return [
        _trace_of_steps(row, fixed_warm_up if row.burn_in is None else row.burn_in, mark)
        if times is None
        else _trace_of_evaluations(row, times, run, mark)
        for row, times in list_series(run)
    ]


def choose_fixed_warm_up(run: Run) -> int:
    """Return how many steps the run's parameters leave out."""
    parameters = run.spec.get("workload", {}).get("parameters", {})
    return int(parameters.get("burn_in") or 0)


def list_series(run: Run) -> list[tuple[Series, Series | None]]:
    """Return the series of a run, those that are compared first, each with its times if it has any.

    These are of evaluations between the steps; all others are against the steps.
    """
    kind = KNOWN_WORKLOADS[run.workload.kind]
    primary = run.experiment.primary_metric or kind.choose_primary_metric(run.workload.parameters)
    first = (primary, "step_time")
    rows = sorted(
        run.series.all(), key=lambda row: (row.metric not in first, make_natural_key(row.metric))
    )
    evaluated_at = {row.metric: row for row in rows if row.metric in EVALUATED_AT}
    times = evaluated_at.get(ACCURACY_TIME)
    return [
        (row, times if row.metric in (ACCURACY, *FURTHER_SHARES) else None)
        for row in rows
        if row.metric not in evaluated_at
    ]


def _trace_of_evaluations(row: Series, times: Series, run: Run, mark: int) -> Trace:
    """Return the plot of what is measured between steps, against time. A target is top-1's."""
    name = run.environment.name
    target = get_target(run.workload.parameters) if row.metric == ACCURACY else 0
    figure = draw_accuracy_curves(
        [Curve(name, times.values, row.values)],
        metric=row.metric.replace("_", " "),
        marks={name: mark},
        target=target or None,
    )
    caption = (
        "Each point is an evaluation on images that were not trained on, against the time in "
        "steps until then."
    )
    return Trace(f"series-{row.pk}", figure, caption, say_words(row.metric))


def _trace_of_steps(row: Series, fixed_warm_up: int, mark: int) -> Trace:
    steady_state = read_steady_state(row)
    options: dict[str, Any] = {
        "unit": row.unit,
        "metric": row.metric.replace("_", " "),
        "mark": mark,
    }
    if row.steps and steady_state is None:
        figure = draw_interval_trace(row.values, row.steps, **options)
    else:
        figure = draw_step_trace(
            row.values,
            fixed_warm_up=fixed_warm_up,
            steady_state=steady_state,
            ends=row.steps,
            **options,
        )
    sentences = (
        [
            steady_state.sentence,
            steady_state.trend_sentence,
            _describe_residual_bias(row, fixed_warm_up),
        ]
        if steady_state
        else []
    )
    sentences.append("Steps of this run: for looking, never tested.")
    caption = " ".join(filter(None, sentences))
    return Trace(f"series-{row.pk}", figure, caption, say_words(row.metric))


def _describe_residual_bias(row: Series, fixed_warm_up: int) -> str:
    """Return a sentence on the bias that the fixed warm-up leaves; "" where it is not known."""
    counted = row.values[fixed_warm_up:]
    if row.steps or not row.settled_mean or not counted:
        return ""
    bias = fmean(counted) / row.settled_mean - 1
    return (
        f"The fixed warm-up of {fixed_warm_up:,} step{'s' * (fixed_warm_up != 1)} leaves "
        f"{numbers.cost(bias, decimals=2)}."
    )
