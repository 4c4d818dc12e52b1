"""Two environments of an experiment side by side: what they are, and what was measured in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dashboard.comparisons.mean_texts import describe_mean
from dashboard.comparisons.paired_facts import (
    PairedFact,
    PairedFacts,
    Side,
    make_paired_facts,
    name_values,
    pair_facts,
    pair_values,
)
from dashboard.comparisons.panel_base import ExperimentPanel
from dashboard.typed_requests import OpenRequest, parse_whole_number
from experiments.comparisons import ExperimentComparison, Group
from experiments.comparisons.environment_facts import read_environment_facts
from experiments.comparisons.judged_samples import list_compared_samples, list_judged_samples
from experiments.comparisons.kept_rows import read_column
from experiments.models import Environment
from experiments.statistics import Pair, Sample, numbers


@dataclass(frozen=True)
class Measured:
    """What was measured on one side in one configuration."""

    text: str
    """Mean and standard deviation with the number of runs."""
    pair: Pair | None
    """Its comparison with the baseline; None for the baseline, and where there is none."""


@dataclass(frozen=True)
class Line:
    """One configuration on both sides."""

    name: str
    metric: str
    left: Measured
    right: Measured

    @property
    def sides(self) -> tuple[Measured, Measured]:
        return self.left, self.right


@dataclass(frozen=True)
class Choice:
    """An environment that a side may show; addresses name it by its number, from 1."""

    number: int
    name: str


@dataclass(frozen=True)
class Sides:
    """Two environments, ready to be shown."""

    choices: list[Choice]
    left: Choice
    right: Choice
    facts: PairedFacts
    sides: tuple[Side, Side]
    lines: list[Line]

    @property
    def has_baseline(self) -> bool:
        return 1 in (self.left.number, self.right.number)

    @property
    def metric(self) -> str:
        """Return the metric that all configurations share; empty where they differ."""
        metrics = {line.metric for line in self.lines}
        return metrics.pop() if len(metrics) == 1 else ""


class SideBySide(ExperimentPanel):
    """Two environments of the reader's choice, `?left=` and `?right=`, with their differences."""

    name = "sides"
    heading = "Side by side"

    def compute(self, comparison: ExperimentComparison, request: OpenRequest) -> Sides | None:
        if not self.is_offered(comparison):
            return None
        choices = [
            Choice(number, name) for number, name in enumerate(comparison.environments, start=1)
        ]
        left, right = (
            _choose(choices, request.GET.get(side, ""), default)
            for side, default in (("left", 1), ("right", 2))
        )
        facts = _list_facts(comparison, left.name, right.name, request.user.is_authenticated)
        return Sides(
            choices,
            left,
            right,
            make_paired_facts(facts),
            (
                Side(left.name, comparison.marks[left.name]),
                Side(right.name, comparison.marks[right.name]),
            ),
            [
                Line(
                    group.name or group.title,
                    group.metric.label,
                    *measure_all(comparison, group, (left.name, right.name)),
                )
                for group in comparison.groups
            ],
        )

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return len(comparison.environments) > 1


def _choose(choices: list[Choice], asked: str, default: int) -> Choice:
    number = parse_whole_number(asked)
    known = number is not None and 1 <= number <= len(choices)
    return choices[(number if known and number else default) - 1]


def _list_facts(
    comparison: ExperimentComparison, left: str, right: str, is_member: bool
) -> Iterator[PairedFact]:
    """Yield what the catalogue, the runs' nodes and their snapshots say of both sides."""
    rows = comparison.experiment.environments.filter(name__in={left, right})
    by_name = {
        row.name: row for row in rows.select_related("runtime", "staged_image__image").order_by()
    }
    settings = [
        dict(describe_settings(by_name[name], is_member)) if name in by_name else {}
        for name in (left, right)
    ]
    yield from pair_facts(*settings)
    nodes = (_list_nodes(comparison, name) for name in (left, right))
    yield PairedFact("Nodes of its runs", *nodes)
    software = read_environment_facts(comparison.experiment)
    yield from pair_values(software.get(left, {}), software.get(right, {}))


def describe_settings(row: Environment, is_member: bool) -> Iterator[tuple[str, str]]:
    """Yield the settings of an environment; variables and lines of a shell only to members."""
    runtime, staged = row.runtime, row.staged_image
    if runtime:
        text = f"{runtime.get_kind_display()} {runtime.version} {row.mode}"
    else:
        text = row.recorded_tool or "bare metal"
    yield "Runtime", text.strip()
    yield "Image", str(staged.image) if staged else "none"
    yield "Form of the image", str(staged.form) if staged else "none"
    yield "Digest of the image", (staged.image.digest or numbers.MISSING) if staged else "none"
    yield "Interpreter", row.python or numbers.MISSING
    if is_member:
        yield "Bound folders", ", ".join(map(str, row.binds)) or "none"
        variables = (f"{name}={value}" for name, value in sorted(row.variables.items()))
        yield "Variables", ", ".join(variables) or "none"
        yield "Lines before the program", row.setup_lines.strip() or "none"


def _list_nodes(comparison: ExperimentComparison, environment: str) -> str:
    nodes = set[str]()
    for group in comparison.groups:
        columns = (read_column(group.samples, name) for name in ("environment", "node", "nodes"))
        for name, node, all_nodes in set(zip(*columns, strict=True)):
            if name == environment:
                nodes.update((node, *all_nodes))
    return name_values(nodes - {""})


def measure_all(
    comparison: ExperimentComparison, group: Group, environments: Sequence[str]
) -> list[Measured]:
    """Return what the runs of each environment have measured in a configuration.

    These are the runs from which the shown pair was computed. Runs after an interim analysis would
    tell the next one's ratio before its time.
    """
    compared: dict[int, Sequence[Sample]] = {}
    """The samples of each pair by its identity: those of baseline and environment are the same."""
    all_measured = []
    for environment in environments:
        pair = next((pair for pair in group.pairs if pair.environment == environment), None)
        # Of the baseline, those of the pair that was judged last.
        judging = pair or max(group.pairs, key=lambda pair: pair.n_baseline, default=None)
        if judging and id(judging) not in compared:
            # Where one of both has no run, there is no ratio to be told.
            compared[id(judging)] = list_compared_samples(
                comparison, group, judging
            ) or list_judged_samples(comparison, group, judging)
        samples = compared[id(judging)] if judging else group.samples
        values = [sample.value for sample in samples if sample.environment == environment]
        all_measured.append(_describe(values, pair, group))
    return all_measured


def _describe(values: Sequence[float], pair: Pair | None, group: Group) -> Measured:
    if not group.pairs and not group.problem:
        # Both means would tell the ratio before its time.
        return Measured(f"n = {len(values)}; the mean comes with the verdict", None)
    if not values:
        return Measured("no run", pair)
    return Measured(describe_mean(values, group.metric.unit) or f"n = {len(values)}", pair)
