"""Two runs side by side: what differs between them, and what each has measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, Q, QuerySet, Value, When

from dashboard.comparisons.paired_facts import (
    PairedFact,
    PairedFacts,
    Side,
    make_paired_facts,
    pair_facts,
)
from dashboard.environment_symbols import assign_symbols
from dashboard.execution.run_facts import list_measurements, list_phases
from experiments.comparisons import (
    ExperimentComparison,
    Group,
    choose_primary_metric,
    read_latest,
)
from experiments.comparisons.judged_samples import list_compared_runs
from experiments.comparisons.latest import Latest
from experiments.loaded_files import shorten_loaded
from experiments.models import Experiment, Run
from experiments.planning.workloads import describe_parameters, format_value
from experiments.snapshots import flatten, replace_paths, shorten_patches
from experiments.statistics import Pair, numbers

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
    counts: bool | None
    """Whether the verdicts rest on its value, or will do so; None while they are being computed."""
    latest: Latest
    """How new the verdicts are that are shown."""

    @property
    def is_baseline(self) -> bool:
        return bool(self.run.environment_id == self.run.experiment.baseline_id)


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
        _explain_other_metrics(*sides),
    )


def make_heads(left: Run, right: Run) -> tuple[Side, Side]:
    """Return the heads of both runs: their names, symbols and addresses."""
    symbols = {row.experiment_id: assign_symbols(row.experiment) for row in (left, right)}
    marks = [symbols[row.experiment_id][row.environment.name] for row in (left, right)]
    if marks[0] == marks[1]:
        marks = [0, 1]  # their lines could not be told apart otherwise
    heads = [
        Side(f"{row.environment.name}, run {row.uid[:8]}", mark, row.get_absolute_url())
        for row, mark in zip((left, right), marks, strict=True)
    ]
    return heads[0], heads[1]


def _make_sides(left: Run, right: Run) -> tuple[RunSide, RunSide]:
    comparisons: dict[int, tuple[ExperimentComparison, Latest]] = {}
    sides = []
    for row, head in zip((left, right), make_heads(left, right), strict=True):
        if row.experiment_id not in comparisons:
            comparisons[row.experiment_id] = read_latest(row.experiment)
        comparison, latest = comparisons[row.experiment_id]
        group = _find_group(comparison, row)
        name = row.environment.name
        # Without numbers its pairs show only what the plan shows, and no verdict.
        pairs = group.pairs if group and comparison.has_numbers else []
        pair = next((pair for pair in pairs if pair.environment == name), None)
        counts = None
        if not latest.is_missing:
            counts = group is not None and _is_compared(comparison, group, pair, row)
        sides.append(RunSide(row, head, group, pair, counts, latest))
    return sides[0], sides[1]


def _is_compared(
    comparison: ExperimentComparison, group: Group, pair: Pair | None, run: Run
) -> bool:
    """Return whether a run is among those of its pair; of the baseline, among those of any pair."""
    if pair:
        return run.uid in list_compared_runs(comparison, group, pair.environment)
    if group.pairs and run.environment_id == run.experiment.baseline_id:
        return run.uid in list_compared_runs(comparison, group)
    return any(sample.run == run.uid for sample in group.samples)


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
    left_rows, right_rows = (
        {row.metric: row for row in list_measurements(side.run)} for side in (left, right)
    )
    for name in {**left_rows, **right_rows}:
        rows = left_rows.get(name), right_rows.get(name)
        known = [row for row in rows if row]
        texts = [_write(row.value, row.unit) if row else numbers.MISSING for row in rows]
        difference = ""
        if rows[0] and rows[1] and rows[0].unit == rows[1].unit:
            difference = _describe_difference(rows[0].value, rows[1].value)
            if rows[0].source != rows[1].source:
                difference = "measured in two ways"
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
    left_seconds, right_seconds = (
        {phase.name: phase.seconds for phase in list_phases(run)} for run in (left, right)
    )
    for name in {**left_seconds, **right_seconds}:
        seconds = left_seconds.get(name), right_seconds.get(name)
        texts = [numbers.duration(duration) for duration in seconds]
        difference = ""
        if seconds[0] is not None and seconds[1] is not None:
            more = seconds[1] - seconds[0]
            difference = f"{'+' if more >= 0 else '−'}{numbers.duration(abs(more))}"
        yield NumberLine(name, "", texts[0], texts[1], difference)


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
    inside = shorten_patches(shorten_loaded(content.get("inside") or {}))
    return dict(flatten({**content, "inside": inside}))


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
