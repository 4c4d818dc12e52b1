"""Two runs side by side: what differs between them, and what each has measured."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, Q, QuerySet, Value, When

from dashboard.charts import draw_paired_curves
from dashboard.comparisons.figures import Plot
from dashboard.comparisons.paired_facts import (
    PairedFact,
    PairedFacts,
    Side,
    make_paired_facts,
    pair_facts,
)
from dashboard.environment_symbols import assign_symbols
from dashboard.execution.run_facts import EVALUATED_AT, list_measurements, list_phases
from experiments.comparisons import (
    ExperimentComparison,
    Group,
    choose_primary_metric,
    read_latest,
)
from experiments.comparisons.series import ACCURACY, ACCURACY_TIME
from experiments.comparisons.step_summaries import LOSS
from experiments.models import Experiment, Run, Series
from experiments.planning.workloads import describe_parameters, format_value
from experiments.snapshots import flatten, replace_paths
from experiments.statistics import Pair, numbers
from experiments.statistics.steps import Curve

MOST_CANDIDATES = 20
ENVIRONMENT_LABELS = {
    "runtime": "Runtime",
    "executable": "Executable of the runtime",
    "options": "Options of the runtime",
    "mode": "Mode of the runtime",
    "image_format": "Form of the image",
    "image_path": "Path of the image",
    "image_digest": "Digest of the image",
    "python": "Interpreter",
    "binds": "Bound folders",
    "variables": "Variables",
    "setup_lines": "Lines before the program",
}
FOR_MEMBERS = ("binds", "variables", "setup_lines")


@dataclass(frozen=True)
class RunSide:
    """One of the two runs."""

    run: Run
    head: Side
    group: Group | None
    """Its configuration in the comparison of its experiment; None where nothing is compared."""
    pair: Pair | None
    """The verdict about its environment there; None for the baseline, and before its time."""

    @property
    def is_baseline(self) -> bool:
        return bool(self.run.environment_id == self.run.experiment.baseline_id)

    @property
    def counts(self) -> bool:
        """Return whether its value is among those that are compared."""
        return self.group is not None and any(
            sample.run == self.run.uid for sample in self.group.samples
        )


@dataclass(frozen=True)
class NumberLine:
    """One number of both runs, as text."""

    name: str
    label: str
    left: str
    right: str
    difference: str
    """What the right one is more or less than the left one; empty where that says nothing."""
    is_primary: bool = False


@dataclass(frozen=True)
class TwoRuns:
    """Two runs, ready to be shown."""

    left: RunSide
    right: RunSide
    numbers: list[NumberLine]
    phases: list[NumberLine]
    plots: list[Plot]
    problem: str
    """What is to be known before their numbers are compared; empty where nothing is."""

    @property
    def both(self) -> tuple[RunSide, RunSide]:
        return self.left, self.right

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left.head, self.right.head

    @property
    def is_same(self) -> bool:
        return self.left.run.pk == self.right.run.pk

    @property
    def is_alive(self) -> bool:
        return not (self.left.run.is_final and self.right.run.is_final)


def make_two_runs(left: Run, right: Run) -> TwoRuns:
    """Return two runs side by side; their snapshots are read by `list_paired_facts`."""
    sides = _make_sides(left, right)
    return TwoRuns(
        *sides,
        list(_pair_measurements(*sides)),
        list(_pair_phases(left, right)),
        _draw_curves(*sides),
        _explain_other_metrics(*sides),
    )


def _make_sides(left: Run, right: Run) -> tuple[RunSide, RunSide]:
    symbols = {row.experiment_id: assign_symbols(row.experiment) for row in (left, right)}
    marks = [symbols[row.experiment_id][row.environment.name] for row in (left, right)]
    if marks[0] == marks[1]:
        marks = [0, 1]  # their lines could not be told apart otherwise
    compared: dict[int, ExperimentComparison] = {}
    sides = []
    for row, mark in zip((left, right), marks, strict=True):
        if row.experiment_id not in compared:
            compared[row.experiment_id], _ = read_latest(row.experiment)
        comparison = compared[row.experiment_id]
        group = _find_group(comparison, row)
        name = row.environment.name
        # Without numbers its pairs show only what the plan shows, and no verdict.
        pairs = group.pairs if group and comparison.has_numbers else []
        sides.append(
            RunSide(
                row,
                Side(f"{name}, run {row.uid[:8]}", mark, row.get_absolute_url()),
                group,
                next((pair for pair in pairs if pair.environment == name), None),
            )
        )
    return sides[0], sides[1]


def _find_group(comparison: ExperimentComparison, run: Run) -> Group | None:
    wanted = {"workload": run.workload.name, "scale": run.scale}
    return next(
        (group for group in comparison.groups if wanted.items() <= group.configuration.items()),
        None,
    )


def _explain_other_metrics(left: RunSide, right: RunSide) -> str:
    metrics = [
        choose_primary_metric(side.run.experiment, side.run.workload).name for side in (left, right)
    ]
    if metrics[0] == metrics[1]:
        return ""
    return f"Different metrics are compared of these runs: {' and '.join(metrics)}."


def _pair_measurements(left: RunSide, right: RunSide) -> Iterator[NumberLine]:
    ours, theirs = ({row.metric: row for row in list_measurements(s.run)} for s in (left, right))
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        rows = ours.get(name), theirs.get(name)
        known = [row for row in rows if row]
        texts = [_write(row.value, row.unit) if row else numbers.MISSING for row in rows]
        difference = ""
        if rows[0] and rows[1] and rows[0].unit == rows[1].unit:
            difference = _describe_difference(rows[0].value, rows[1].value)
        is_primary = any(row.is_primary for row in known)
        yield NumberLine(name, known[0].label, texts[0], texts[1], difference, is_primary)


def _write(value: float, unit: str) -> str:
    return numbers.quantity(value, "" if unit == "1" else unit)


def _describe_difference(left: float, right: float) -> str:
    if not (math.isfinite(left) and math.isfinite(right)) or left <= 0 or right <= 0:
        return ""
    change = right / left - 1
    return numbers.cost(change, decimals=0 if change >= 1 else 1)


def _pair_phases(left: Run, right: Run) -> Iterator[NumberLine]:
    ours, theirs = ({row.name: row.seconds for row in list_phases(run)} for run in (left, right))
    for name in [*ours, *(name for name in theirs if name not in ours)]:
        seconds = ours.get(name), theirs.get(name)
        texts = [numbers.MISSING if each is None else numbers.duration(each) for each in seconds]
        difference = ""
        if seconds[0] is not None and seconds[1] is not None:
            more = seconds[1] - seconds[0]
            difference = f"{'+' if more >= 0 else '−'}{numbers.duration(abs(more))}"
        yield NumberLine(name, "", texts[0], texts[1], difference)


def _draw_curves(left: RunSide, right: RunSide) -> list[Plot]:
    """Return a plot for each number that the runs recorded step by step, those of both first."""
    recorded: dict[tuple[str, str], dict[str, Series]] = {}
    times: dict[str, Series] = {}
    for side in (left, right):
        for row in side.run.series.all():
            if row.metric == ACCURACY_TIME:
                times[side.head.name] = row
            if row.metric not in EVALUATED_AT:
                recorded.setdefault((row.metric, row.unit), {})[side.head.name] = row
    marks = {side.head.name: side.head.mark or 0 for side in (left, right)}
    order = sorted(recorded, key=lambda key: (-len(recorded[key]), key[0] != "step_time", key))
    return [
        _draw(metric, unit, recorded[metric, unit], times, marks, number)
        for number, (metric, unit) in enumerate(order)
    ]


def _draw(
    metric: str,
    unit: str,
    rows: Mapping[str, Series],
    times: Mapping[str, Series],
    marks: Mapping[str, int],
    number: int,
) -> Plot:
    by_time = metric == ACCURACY and all(
        name in times and len(times[name].values) == len(row.values) for name, row in rows.items()
    )
    curves = [
        Curve(
            name,
            times[name].values if by_time else row.steps or range(1, len(row.values) + 1),
            row.values,
        )
        for name, row in rows.items()
    ]
    warm_ups = {
        name: next((n for n in (row.warm_up, row.burn_in) if n is not None), 0)
        for name, row in rows.items()
        if not row.steps
    }
    figure, sentences = draw_paired_curves(
        curves,
        unit="" if unit == "1" else unit,
        metric=metric.replace("_", " "),
        marks=marks,
        warm_ups=warm_ups,
        log=metric == LOSS,
        x_title="time in steps (s)" if by_time else "step",
    )
    name = metric.replace("_", " ")
    caption = [f"{name[:1].upper()}{name[1:]} inside both runs."]
    if len(rows) == 1:
        caption = [f"{name[:1].upper()}{name[1:]} inside {next(iter(rows))}; the other has none."]
    caption += [*sentences, "For looking, never tested."]
    return Plot(f"curve-{number}", figure, " ".join(caption), name[:1].upper() + name[1:])


def list_paired_facts(
    left: Run, right: Run, *, is_member: bool, has_all: bool, search_text: str = ""
) -> PairedFacts:
    """Return what is known of both runs; with `has_all` every fact of their snapshots too."""
    facts: list[PairedFact] = pair_facts(
        dict(_describe_run(left, is_member)), dict(_describe_run(right, is_member))
    )
    facts += pair_facts(*(row.snapshot.facts if row.snapshot else {} for row in (left, right)))
    if has_all:
        facts += pair_facts(*(_flatten_snapshots(row) for row in (left, right)))
    return make_paired_facts(facts, search_text)


def _describe_run(run: Run, is_member: bool) -> Iterator[tuple[str, str]]:
    """Yield what was planned of a run, and how it ended; some only to members."""
    yield "Experiment", run.experiment.question
    yield "Cluster", run.job.cluster.name
    yield "Node", run.node
    yield "Workload", run.workload.name
    for name, text in describe_parameters(run.spec.get("workload", {})):
        yield f"Parameter {name}", text
    yield "Environment", run.environment.name
    environment = run.spec.get("environment", {})
    for name, label in ENVIRONMENT_LABELS.items():
        if name in environment and (is_member or name not in FOR_MEMBERS):
            value: Any = environment[name]
            if name == "variables":
                value = [f"{variable}={setting}" for variable, setting in value]
            yield label, "\n".join(value) if isinstance(value, list) else format_value(value)
    yield "Scale", run.scale
    yield "Repeat", str(run.repeat)
    yield "Block", "" if run.experiment.imported_at else str(run.job.number)
    yield "Run order", "" if run.experiment.imported_at else str(run.position + 1)
    yield "Attempt", "" if run.experiment.imported_at else str(run.job.attempt)
    yield "State", " ".join(filter(None, (run.state, run.reason)))
    yield "Exit code", "" if run.exit_code is None else str(run.exit_code)
    yield "Command", replace_paths(run.command, run.job.directory, run.folder)


def _flatten_snapshots(run: Run) -> dict[str, str]:
    """Return every fact of a run's snapshots by its path, with words for the run's directories."""
    content: dict[str, Any] = {}
    for snapshot in (run.job.snapshot, run.snapshot):
        content |= snapshot.content if snapshot else {}
    return dict(flatten(content))


def list_candidates(user: Any, run: Run, search_text: str) -> QuerySet[Run]:
    """Return runs that may stand beside a run: of its block first, then of its configuration."""
    rows = (
        Run.objects.filter(experiment__in=Experiment.objects.visible_to(user))
        .exclude(pk=run.pk)
        .select_related("experiment__baseline", "workload", "environment", "job")
        .defer("experiment__plan", "spec", "command", "output_tail", "job__script")
    )
    if search_text:
        rows = rows.filter(
            Q(uid__startswith=search_text)
            | Q(environment__name__icontains=search_text)
            | Q(workload__name__icontains=search_text)
            | Q(experiment__question__icontains=search_text)
            | Q(node=search_text)
        )
        return rows.order_by("-pk")[:MOST_CANDIDATES]
    same = rows.filter(experiment=run.experiment_id, workload=run.workload_id, scale=run.scale)
    in_block = Case(When(job=run.job_id, then=Value(0)), default=Value(1))
    return same.order_by(in_block, "job__block", "position")[:MOST_CANDIDATES]
