"""Comparisons, wherever their numbers come from, and the rows that are exported of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from experiments.comparisons.trainings import Trainings
from experiments.comparisons.warm_ups import WarmUps
from experiments.statistics import Measured, Pair, Sample, Verdict, numbers
from experiments.statistics.across_configurations import Everywhere, summarise_environments
from experiments.statistics.claims import Wording, choose_wording, quote_goal
from experiments.statistics.margins import Margin
from experiments.statistics.pooling import Pooled, pool_environments
from experiments.statistics.several_metrics import Overall
from experiments.statistics.training.outcomes import TrainingComparison
from experiments.statistics.values import ALPHA, Before

BEFORE_COLUMNS = (
    *("runs", "verdict", "stamps", "size", "ratio", "ci_difference", "level"),
    *("p_difference", "p_equivalence", "p_difference_holm", "p_equivalence_holm"),
)
"""Columns of the verdict with the excluded runs; their names begin with `before_exclusion_`."""

UNDECIDED = (Verdict.INCONCLUSIVE, Verdict.NO_INFERENCE, Verdict.NOT_ATTRIBUTABLE)
LAST_COLUMNS = (
    *("p_lower_bound", "p_upper_bound", "goal", "margin_faster", "p_not_slower"),
    "p_not_slower_holm",
)
"""Fields of a pair that files have after all others: those that came to them later."""

NEWER_COLUMNS = (
    *("extension_", "decisive_rank", "judged_by_plan", "metrics_rule", "overall_", "facts_"),
)
"""How columns begin that a table has after all others, also after those of all configurations: in
this order."""


@dataclass(frozen=True)
class Group:
    """One configuration in all its environments: the runs, and each pair with its result.

    Samples and pairs refer to environments by name: names are unique on a cluster and in a table.
    """

    configuration: Mapping[str, str]
    """Its labels: {"workload": "blas", "scale": "1x1"}; the labels of a table's row."""
    metric: Measured
    samples: Sequence[Sample]
    """Every single run; empty where only means are known."""
    pairs: list[Pair]
    problem: str = ""
    """Why nothing can be compared."""
    warm_ups: WarmUps | None = None
    """The start-ups of its runs; None where no steps were recorded, or they do not matter."""
    trained: Trainings | None = None
    """The ends of its trainings; None where no run recorded a loss."""
    unsteady: str = ""
    """What its runs did beside what is compared, where that left a verdict inconclusive."""

    @property
    def values(self) -> list[str]:
        """Return the configuration's values; a bare number has its name: "ResNet50", "gpus 4"."""
        return [
            f"{name} {value}" if value.replace(".", "").isdigit() else value
            for name, value in self.configuration.items()
            if value
        ]

    @property
    def name(self) -> str:
        """Return the configuration as a sentence names it: "blas, 1x1"."""
        return ", ".join(self.values)

    @property
    def compared_trainings(self) -> list[TrainingComparison]:
        """Return the results of its trainings, each compared with the baseline's."""
        known = self.trained or Trainings()
        trainings = (*known.losses, *known.accuracies)
        return [training for training in trainings if training.environment != training.baseline]

    @property
    def title(self) -> str:
        """Return the configuration with its metric, as a heading: "blas · 1x1 · step_time"."""
        return " · ".join(filter(None, (*self.values, self.metric.name)))

    @property
    def heading(self) -> str:
        """Return the same with the metric in words: "blas · 1x1 · time per step"."""
        words = self.metric.label or self.metric.name.replace("_", " ")
        if words[1:2].islower():  # no abbreviation, such as GPU
            words = words[:1].lower() + words[1:]
        return " · ".join(filter(None, (*self.values, words)))


@dataclass(frozen=True)
class Comparison:
    """A comparison of environments, of any source, as pages and exports show it."""

    runs_have_pages: ClassVar = False
    """Whether a sample's `run` is the uid of a run in the database."""
    key: str
    """The part of the names of its files and plots that is its own."""
    question: str
    margin: float
    paired: bool
    environments: list[str]
    """Names, the baseline first: the order of their symbols and colours."""
    groups: list[Group]

    @property
    def baseline(self) -> str:
        return self.environments[0]

    @property
    def margins(self) -> Margin:
        """Return the margin in both directions, by the goal."""
        return Margin.of(self.margin)

    @property
    def wording(self) -> Wording:
        """Return the words by which its environments are compared: slower, or more."""
        return choose_wording(group.metric for group in self.groups)

    @property
    def goal_text(self) -> str:
        """Return what is to be shown as part of a heading: "equivalence", "“not slower”"."""
        return quote_goal(self.margins.goal, self.wording)

    @property
    def pairs(self) -> list[Pair]:
        return [pair for group in self.groups for pair in group.pairs]

    @property
    def training_verdicts(self) -> dict[str, int]:
        """Return how many ends of trainings have each verdict; empty without a margin for them."""
        return count_by_frequency(
            end.verdict
            for group in self.groups
            if group.trained
            for end in group.trained.ends
            if end.verdict is not None
        )

    @property
    def unsteady_groups(self) -> list[Group]:
        """Return the configurations whose machine varied so much that a verdict is inconclusive."""
        return [group for group in self.groups if group.unsteady]

    @property
    def verdicts(self) -> dict[str, int]:
        """Return how many pairs have each verdict, the most frequent first."""
        return count_by_frequency(pair.verdict for pair in self.pairs)

    @property
    def compared(self) -> int:
        """Return how many comparisons there are, each of all decisive metrics."""
        return sum(self.verdicts.values())

    @property
    def stamps(self) -> dict[str, int]:
        """Return how many pairs have each stamp, the most frequent first."""
        return count_by_frequency(stamp for pair in self.pairs for stamp in pair.stamps)

    def take_configuration(self, number: int) -> Self:
        """Return the comparison with one configuration alone, by its number from 1."""
        return replace(self, groups=[self.groups[number - 1]])

    @property
    def by_metric(self) -> list[list[Group]]:
        """Return the groups by each decisive metric, the main one first; most have one."""
        return [self.groups]

    @property
    def decisive(self) -> Mapping[tuple[int, str], Overall]:
        """Return what several decisive metrics show together; empty where one metric decides.

        By the number of the configuration, from 1, and the environment.
        """
        return {}

    @property
    def pairs_with_excluded_runs(self) -> int:
        """Return how many verdicts have another one beside them, with the excluded runs."""
        return sum(pair.before is not None for pair in self.pairs)

    @cached_property
    def everywhere(self) -> list[Everywhere]:
        """Return the result of all groups together for each environment; empty for one group."""
        return summarise_environments(self.pairs)

    @cached_property
    def pooled(self) -> list[Pooled]:
        """Return the mean ratio of each environment by random effects, or why it has none."""
        metrics = {(group.metric.name, group.metric.unit) for group in self.groups if group.pairs}
        return pool_environments(self.pairs, len(metrics))

    @property
    def alpha(self) -> float:
        """Return the level of every verdict."""
        return next((pair.alpha for pair in self.pairs), ALPHA)

    @property
    def levels(self) -> tuple[str, str]:
        """Return the levels of the intervals for difference and for equivalence: 95 %, 90 %.

        Where some verdicts are of an extension and some are not: "95 % or 97.06 %".
        """
        return numbers.levels(self._alphas), numbers.levels(self._alphas, sides=2)

    @property
    def alpha_text(self) -> str:
        """Return the level of the verdicts as text: "5 %", "5 % or 2.94 %"."""
        return " or ".join(numbers.level(alpha) for alpha in sorted(self._alphas, reverse=True))

    @property
    def _alphas(self) -> set[float]:
        return {pair.alpha for pair in self.pairs} or {self.alpha}

    @cached_property
    def marks(self) -> dict[str, int]:
        """Return the index of each environment's symbol and colour, by its name."""
        return {name: index for index, name in enumerate(self.environments)}

    @property
    def about(self) -> dict[str, Any]:
        """Return the columns with which each exported row begins."""
        return {"question": self.question}

    @property
    def warm_up_rules(self) -> list[str]:
        """Return sentences on which steps of runs are compared; empty where none were recorded."""
        rules = {group.name: group.warm_ups.rule for group in self.groups if group.warm_ups}
        if len(set(rules.values())) == 1:
            return list(rules.values())[:1]
        return [f"{name}: {rule}" for name, rule in rules.items()]

    @property
    def trained(self) -> list[Group]:
        """Return the groups whose runs have losses."""
        return [group for group in self.groups if group.trained]

    @property
    def has_runs(self) -> bool:
        """Return whether single runs are known, and not only means."""
        return any(group.samples for group in self.groups)

    @property
    def has_numbers(self) -> bool:
        """Return whether there is anything to show, be it a single run."""
        return any(group.samples or group.pairs for group in self.groups)


def list_comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one flat row for each pair, with every number of the page, for CSV and JSON."""
    return [
        make_comparison_row(comparison, number, group, pair, rank)
        for number, groups in enumerate(zip(*comparison.by_metric, strict=True), start=1)
        for rank, group in enumerate(groups, start=1)
        for pair in group.pairs
    ]


def make_comparison_row(
    comparison: Comparison, number: int, group: Group, pair: Pair, rank: int = 1
) -> dict[str, Any]:
    """Return the flat row of one pair; `number` is of its configuration, `rank` of its metric."""
    overall = comparison.decisive.get((number, pair.environment))
    together = overall.make_columns(rank) if overall else {}
    return {**_row(comparison.about, group, pair), **together}


def put_newer_columns_last(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows of which a table has the columns of extensions and further metrics at its end.

    A table has the columns of all its rows in the order in which they come, and rows of all
    configurations follow those of pairs. The first row gets all of them, in order.
    """
    columns = dict.fromkeys(column for row in rows for column in row)
    newer = [column for prefix in NEWER_COLUMNS for column in columns if column.startswith(prefix)]
    if not newer:
        return rows
    order = [*(column for column in columns if column not in newer), *newer]
    return [{column: rows[0].get(column) for column in order}, *rows[1:]]


def list_everywhere_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one flat row for each environment that is compared in several configurations."""
    return [
        {
            **comparison.about,
            **_flat(summary.columns),
            "sentence": summary.sentence,
            "has_runs_excluded_by_hand": summary.excluded_by_hand,
        }
        for summary in comparison.everywhere
    ]


def list_pooled_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one flat row for each environment: its pooled ratio, or why it has none."""
    return [
        {
            **comparison.about,
            "environment": pooled.environment,
            "configurations": pooled.configurations,
            "pooled_ratio": pooled.ratio,
            "level": pooled.level,
            **_flat({"pooled_ci": pooled.interval, "prediction_ci": pooled.prediction}),
            "tau": pooled.tau,
            "why_not_pooled": pooled.why_not,
        }
        for pooled in comparison.pooled
    ]


def count_by_frequency(names: Iterable[str]) -> dict[str, int]:
    """Return how often each name occurs, the most frequent first."""
    return dict(Counter(names).most_common())


def _row(about: Mapping[str, Any], group: Group, pair: Pair) -> dict[str, Any]:
    fields = asdict(replace(pair, facts=None))
    del fields["facts"]
    last = {name: fields.pop(name) for name in LAST_COLUMNS}
    extension = fields.pop("extension") or {}
    by_numbers = fields.pop("verdict_by_numbers")
    rest = {
        "metric": group.metric.name,
        **_flat(fields),
        "cost": pair.cost,
        **_flat({"cost_ci95": pair.cost_ci95, "cost_ci90": pair.cost_ci90}),
        "sentence": pair.sentence,
        **(group.warm_ups.columns(pair) if group.warm_ups else {}),
        **(group.trained.columns(pair.environment) if group.trained else {}),
        **(_describe_excluded(pair.before) if pair.before else {}),
        **last,
        **{f"extension_{name}": value for name, value in extension.items()},
        **(pair.facts.columns | {"facts_verdict_by_numbers": by_numbers} if pair.facts else {}),
    }
    # A table's labels may have the name of an exported column.
    taken = about.keys() | rest.keys()
    labels = {
        f"{name} (label)" if name in taken else name: value
        for name, value in group.configuration.items()
    }
    return {**about, **labels, **rest}


def _describe_excluded(before: Before) -> dict[str, Any]:
    """Return how many runs persons have excluded, and when."""
    return {
        "excluded_by_hand": before.runs,
        "excluded_before_any_verdict": before.before_verdict,
        "excluded_after_an_interim_analysis": before.after_interim,
        "excluded_after_the_final_analysis": before.after_final,
        "excluded_blocks": before.blocks,
        "before_exclusion_problem": before.problem,
        "before_exclusion_p_not_slower": before.p_not_slower,
        "before_exclusion_p_not_slower_holm": before.p_not_slower_holm,
    }


def is_decided(pair: Pair) -> bool:
    """Return whether the pair has a verdict other than inconclusive."""
    return pair.verdict not in UNDECIDED


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with each interval in two columns and each tuple as one text."""
    row: dict[str, Any] = {}
    for name, value in values.items():
        if name == "interim_analysis":
            row |= _flat({f"look_{key}": part for key, part in (value or {}).items()})
        elif name == "before":
            # The newer ones stand at the end of the row.
            parts = {key: value[key] for key in BEFORE_COLUMNS} if value else {}
            row |= _flat({f"before_exclusion_{key}": part for key, part in parts.items()})
        elif not {"ci", "ci95", "ci90"}.isdisjoint(name.split("_")):
            row[f"{name}_low"], row[f"{name}_high"] = value or (None, None)
        elif name in {"claim", "evidence"} or (name == "software" and not value):
            continue
        elif isinstance(value, tuple):
            row[name] = "; ".join(map(str, value))
        else:
            row[name] = value
    return row
