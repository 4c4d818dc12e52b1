"""Two experiments side by side: what differs between them, and what each has found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from django.db.models import Q, prefetch_related_objects

from dashboard.comparisons.paired_facts import (
    PairedFact,
    PairedFacts,
    Side,
    make_paired_facts,
    pair_facts,
    pair_values,
)
from dashboard.comparisons.paired_names import (
    PairedName,
    join_names,
    pair_by_short_names,
    pair_names,
    shorten_names,
)
from dashboard.comparisons.sides import Measured, describe_settings, measure_all
from dashboard.comparisons.verdict_matrix import Bar, Scale, choose_scale, make_bar
from experiments.comparisons import ExperimentComparison, Group, Latest, read_all_latest
from experiments.comparisons.environment_facts import read_facts_of_all
from experiments.execution.progress import Status, measure_progress
from experiments.models import Experiment, Workload
from experiments.models.experiment import ExperimentQuerySet
from experiments.natural_order import sort_items_naturally, sort_naturally
from experiments.planning.decisive_metrics import describe_further
from experiments.planning.goals import describe_training_margins, get_margins
from experiments.planning.workloads import describe_settings as describe_workload
from experiments.statistics import numbers

MOST_CANDIDATES = 20
LONGEST_HEAD = 80
BASELINE, OTHERS = slice(1), slice(1, None)
"""Parts of the names of environments, of which the baseline is the first."""


@dataclass(frozen=True)
class ExperimentSide:
    """One of the two experiments."""

    experiment: Experiment
    comparison: ExperimentComparison
    latest: Latest
    status: Status
    head: Side


@dataclass(frozen=True)
class SideCell:
    """What one experiment says of an environment in a configuration."""

    measured: Measured | None
    bar: Bar | None
    scale: Scale
    mark: int


@dataclass(frozen=True)
class EnvironmentLine:
    """One environment on both sides."""

    name: str
    cells: tuple[SideCell, SideCell]


@dataclass(frozen=True)
class ConfigurationLines:
    """One configuration with its environments."""

    number: int
    name: str
    metric: str
    lines: list[EnvironmentLine]


@dataclass(frozen=True)
class TwoExperiments:
    """Two experiments, ready to be shown."""

    left: ExperimentSide
    right: ExperimentSide
    environments: list[PairedName]
    configurations: list[ConfigurationLines]
    pairs: list[tuple[Group | None, Group | None]]
    """The configurations of both sides, in the same order."""

    @property
    def both(self) -> tuple[ExperimentSide, ExperimentSide]:
        return self.left, self.right

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.left.head, self.right.head

    @property
    def is_same(self) -> bool:
        return self.left.experiment.pk == self.right.experiment.pk

    @property
    def unpaired_environments(self) -> list[str]:
        """Return the names of the environments that one side alone has, the last one apart."""
        names = [pair.label for pair in self.environments if not all(pair.names)]
        return [", ".join(names[:-1]), names[-1]] if len(names) > 2 else names

    @property
    def metrics(self) -> set[str]:
        return {group.metric.label for pair in self.pairs for group in pair if group}


def make_two_experiments(left: Experiment, right: Experiment) -> TwoExperiments:
    """Return two experiments side by side, with the comparisons that their pages show."""
    progress = measure_progress([left, right])
    sides = []
    for row, (comparison, latest) in zip(
        (left, right), read_all_latest([left, right]), strict=True
    ):
        question = row.question
        name = question if len(question) <= LONGEST_HEAD else f"{question[:LONGEST_HEAD]}…"
        head = Side(
            name, address=row.get_absolute_url(), title=question if name != question else ""
        )
        sides.append(ExperimentSide(row, comparison, latest, progress[row.pk].status, head))
    comparisons = [side.comparison for side in sides]
    environments = _pair_environments(left, right, comparisons)
    pairs = _pair_groups(*comparisons)
    scale = choose_scale([*comparisons[0].pairs, *comparisons[1].pairs], 0.0)
    furthest = choose_scale([], max(get_margins(row).largest for row in (left, right)))
    scale = replace(scale, low=min(scale.low, furthest.low), high=max(scale.high, furthest.high))
    scales = [
        replace(scale, bounds=choose_scale(comparison.pairs, comparison.margins).bounds)
        for comparison in comparisons
    ]
    return TwoExperiments(
        sides[0],
        sides[1],
        environments,
        [
            _make_lines(number, pair, environments, comparisons, scales)
            for number, pair in enumerate(pairs, start=1)
        ],
        pairs,
    )


def _pair_environments(
    left: Experiment, right: Experiment, comparisons: Sequence[ExperimentComparison]
) -> list[PairedName]:
    """Pair the baselines, and the other environments by their names without those of clusters."""
    sides = [
        [*shorten_names(comparison.environments, row.cluster.name).items()]
        for row, comparison in zip((left, right), comparisons, strict=True)
    ]
    baselines, others = ([dict(side[part]) for side in sides] for part in (BASELINE, OTHERS))
    return [*pair_by_short_names(*baselines), *pair_by_short_names(*others)]


def _pair_groups(
    left: ExperimentComparison, right: ExperimentComparison
) -> list[tuple[Group | None, Group | None]]:
    left_groups, right_groups = (
        {group.name: group for group in side.groups} for side in (left, right)
    )
    return [
        (left_groups.get(left_name), right_groups.get(right_name))
        for left_name, right_name in pair_names([*left_groups], [*right_groups])
    ]


def _make_lines(
    number: int,
    pair: tuple[Group | None, Group | None],
    environments: list[PairedName],
    comparisons: Sequence[ExperimentComparison],
    scales: Sequence[Scale],
) -> ConfigurationLines:
    lines = []
    for environment in environments:
        cells = []
        for side in (0, 1):
            group, name, scale = pair[side], environment.names[side], scales[side]
            known = group is not None and name
            measured = None
            if group is not None and name:
                (measured,) = measure_all(comparisons[side], group, [name])
            if measured and not comparisons[side].has_numbers:
                measured = Measured("no run", None)  # its pairs show only what the plan shows
            bar = make_bar(measured.pair, scale) if measured and measured.pair else None
            mark = comparisons[side].marks[name] if known else 0
            cells.append(SideCell(measured, bar, scale, mark))
        lines.append(EnvironmentLine(environment.label, (cells[0], cells[1])))
    groups = [group for group in pair if group]
    name = join_names((pair[0].name if pair[0] else "", pair[1].name if pair[1] else ""))
    metrics = dict.fromkeys(group.metric.label for group in groups)
    return ConfigurationLines(number, name, " and ".join(metrics), lines)


def list_experiment_facts(
    two: TwoExperiments, *, is_member: bool, search_text: str = ""
) -> PairedFacts:
    """Return what is known of both: their designs, environments, workloads and software."""
    rows = two.left.experiment, two.right.experiment
    prefetch_related_objects(rows, "workloads")
    workloads = [sorted(row.workloads.all(), key=attrgetter("natural_key")) for row in rows]
    settings = [_read_environments(row, is_member) for row in rows]
    designs = zip(rows, settings, workloads, strict=True)
    facts = pair_facts(*(_describe_briefly(*design) for design in designs))
    facts += _pair_workloads(*workloads)
    facts_of_both = read_facts_of_all([row.pk for row in rows])
    software = [facts_of_both.get(row.pk, {}) for row in rows]
    for environment in two.environments:
        names, label = environment.names, environment.label
        if not all(names) and not search_text:
            continue  # hundreds of facts beside as many dashes: the page names what stands alone
        both = pair_facts(*(settings[side].get(names[side], {}) for side in (0, 1)))
        both += pair_values(*(software[side].get(names[side], {}) for side in (0, 1)))
        facts += [
            PairedFact(f"{label}: {fact.name}", fact.left, fact.right)
            for fact in both
            if all(names) or fact.differs
        ]
    return make_paired_facts(facts, search_text)


def _describe_briefly(
    row: Experiment, environments: Iterable[str], workloads: Iterable[Workload]
) -> dict[str, str]:
    """Return what the plan says, with the short names of its environments."""
    short = shorten_names(environments, row.cluster.name)
    names = {
        "Baseline": short.get(row.baseline.name, row.baseline.name),
        "Environments": ", ".join(short.values()),
    }
    return dict(describe_design(row, environments, workloads)) | names


def describe_design(
    row: Experiment, environments: Iterable[str], workloads: Iterable[Workload]
) -> Iterator[tuple[str, str]]:
    """Yield what the plan of an experiment says, fact by fact."""
    yield "Cluster", row.cluster.name
    yield "Partition", row.partition.name if row.partition else ""
    yield "Baseline", row.baseline.name
    yield "Environments", ", ".join(environments)
    yield "Workloads", ", ".join(workload.name for workload in workloads)
    yield "Scales", ", ".join(row.scales)
    added = f", {row.extended_repeats} added" if row.extended_repeats else ""
    yield "Repeats", f"{row.repeats}{added}"
    yield "Design", row.get_design_display()
    yield "Interim analyses", str(row.looks)
    yield "To be shown", row.get_goal_display()
    yield "Margin", get_margins(row).text
    yield "Verdicts speak of", row.get_estimand_display()
    yield "One block a node", "yes" if row.spreads_nodes else "no"
    yield "Primary metric", row.primary_metric or "each workload's own"
    yield "Further decisive metrics", describe_further(row)
    yield "Margins of training", describe_training_margins(row)
    yield "Warm-up", row.get_warm_up_display()
    yield "Cool-down", numbers.duration(float(row.cooldown_seconds))
    yield "Output kept of a run", f"{row.output_mib} MiB"
    yield "Rules that reject runs", "; ".join(row.rejection_texts) or "none"
    yield "Imported from", row.imported_from


def _pair_workloads(left: Iterable[Workload], right: Iterable[Workload]) -> list[PairedFact]:
    """Return the kinds and parameters of the workloads of both, and of one that differs alone."""
    left_rows, right_rows = ({row.name: row for row in side} for side in (left, right))
    facts = []
    for names in pair_names(sort_naturally(left_rows), sort_naturally(right_rows)):
        if not all(names):
            continue
        pair = (left_rows[names[0]], right_rows[names[1]])
        texts = []
        for row in pair:
            if pair[0].kind != pair[1].kind:  # each kind has parameters of its own
                texts.append({"kind": row.kind})
                continue
            settings = describe_workload(row)
            both = (*settings.differing, *settings.others)
            texts.append({"kind": row.kind} | {setting.label: setting.value for setting in both})
        label = join_names(names)
        facts += [
            PairedFact(f"{label}: {fact.name}", fact.left, fact.right)
            for fact in pair_facts(*texts)
        ]
    return facts


def _read_environments(row: Experiment, is_member: bool) -> dict[str, dict[str, str]]:
    rows = row.environments.select_related("runtime", "staged_image__image").order_by()
    described = {each.name: dict(describe_settings(each, is_member)) for each in rows}
    return dict(sort_items_naturally(described))


def list_candidates(user: Any, experiment: Experiment, search_text: str) -> ExperimentQuerySet:
    """Return the newest experiments with results that may stand beside one."""
    rows = Experiment.objects.visible_to(user).with_results().dated().exclude(pk=experiment.pk)
    rows = rows.select_related("cluster", "baseline").without_plan()
    if search_text:
        rows = rows.filter(Q(question__icontains=search_text) | Q(tags__contains=[search_text]))
    return rows.newest_first()[:MOST_CANDIDATES]
