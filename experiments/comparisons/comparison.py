"""What is compared, wherever its numbers come from, and the rows that are exported of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar

from experiments.comparisons.trainings import Trainings
from experiments.comparisons.warm_ups import WarmUps
from experiments.statistics import Measured, Pair, Sample, Verdict, numbers
from experiments.statistics.everywhere import Everywhere, everywhere
from experiments.statistics.training.equivalence import Alike
from experiments.statistics.values import ALPHA


@dataclass(frozen=True)
class Group:
    """One cell in all its environments: what is compared with each other, and how it came out.

    Samples and pairs name environments by their names, which are unique on a cluster and in a
    table.
    """

    cell: Mapping[str, str]
    """What is alike in the group: {"workload": "blas", "scale": "1x1"}; a table has its labels."""
    metric: Measured
    samples: list[Sample]
    """Every single run; empty where only means are known."""
    pairs: list[Pair]
    problem: str = ""
    """Why nothing can be compared, in words."""
    warm_ups: WarmUps | None = None
    """How its runs start; None where nobody has seen their steps, or where these do not matter."""
    trained: Trainings | None = None
    """How its trainings ended; None where no run recorded a loss."""

    @property
    def values(self) -> list[str]:
        """The cell in words; a bare number says what it counts: "ResNet50", "gpus 4"."""
        return [
            f"{name} {value}" if value.replace(".", "").isdigit() else value
            for name, value in self.cell.items()
            if value
        ]

    @property
    def name(self) -> str:
        """The cell as a sentence names it: "blas, 1x1"."""
        return ", ".join(self.values)

    @property
    def held(self) -> list[Alike]:
        """What its trainings were, each held against the baseline's."""
        known = self.trained or Trainings()
        both = (*known.losses, *known.accuracies)
        return [one for one in both if one.environment != one.baseline]

    @property
    def title(self) -> str:
        """The cell with its metric, as a heading: "blas · 1x1 · step_time"."""
        return " · ".join(filter(None, (*self.values, self.metric.name)))


@dataclass(frozen=True)
class Comparison:
    """What every comparison is, wherever its numbers come from: pages and exports show these."""

    runs_have_pages: ClassVar = False
    """Whether a sample's `run` is the uid of a run in the database."""
    key: str
    """What its files and plots are called by."""
    question: str
    margin: float
    paired: bool
    environments: list[str]
    """By name, the baseline first: the order of their symbols and colours."""
    groups: list[Group]

    @property
    def baseline(self) -> str:
        return self.environments[0]

    @property
    def pairs(self) -> list[Pair]:
        return [pair for group in self.groups for pair in group.pairs]

    @property
    def verdicts(self) -> dict[str, int]:
        """How many pairs have which verdict, the most frequent first."""
        return _ranked(pair.verdict for pair in self.pairs)

    @property
    def stamps(self) -> dict[str, int]:
        """How many pairs have which stamp, the most frequent first."""
        return _ranked(stamp for pair in self.pairs for stamp in pair.stamps)

    @cached_property
    def everywhere(self) -> list[Everywhere]:
        """What all groups together say about each environment; empty where there is one."""
        return everywhere(self.pairs)

    @property
    def alpha(self) -> float:
        """The level of every verdict."""
        return next((pair.alpha for pair in self.pairs), ALPHA)

    @property
    def levels(self) -> tuple[str, str]:
        """Of the intervals that decide about a difference and about equivalence: 95 % and 90 %."""
        return numbers.level(1 - self.alpha), numbers.level(1 - 2 * self.alpha)

    @cached_property
    def marks(self) -> dict[str, int]:
        """Environment's name -> the index by which it keeps its symbol and colour."""
        return {name: index for index, name in enumerate(self.environments)}

    @property
    def about(self) -> dict[str, Any]:
        """What each exported row begins with."""
        return {"question": self.question}

    @property
    def warm_up_rules(self) -> list[str]:
        """What is compared of each run's steps, in sentences; empty where nobody has seen them."""
        rules = {group.name: group.warm_ups.rule for group in self.groups if group.warm_ups}
        if len(set(rules.values())) == 1:
            return list(rules.values())[:1]
        return [f"{name}: {rule}" for name, rule in rules.items()]

    @property
    def trained(self) -> list[Group]:
        """The groups whose runs have losses."""
        return [group for group in self.groups if group.trained]

    @property
    def has_runs(self) -> bool:
        """Whether single runs are known, and not only means."""
        return any(group.samples for group in self.groups)

    @property
    def has_numbers(self) -> bool:
        """Whether there is anything to look at, be it one run."""
        return any(group.samples or group.pairs for group in self.groups)


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one flat row a pair, with every number of the page, for CSV and JSON."""
    return [
        _row(comparison.about, group, pair) for group in comparison.groups for pair in group.pairs
    ]


def everywhere_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one flat row for each environment that several cells say something about."""
    return [
        {**comparison.about, **_flat(asdict(one)), "sentence": one.sentence}
        for one in comparison.everywhere
    ]


def _ranked(words: Iterable[str]) -> dict[str, int]:
    return dict(Counter(words).most_common())


def _row(about: Mapping[str, Any], group: Group, pair: Pair) -> dict[str, Any]:
    rest = {
        "metric": group.metric.name,
        **_flat(asdict(pair)),
        "cost": pair.cost,
        **_flat({"cost_ci95": pair.cost_ci95, "cost_ci90": pair.cost_ci90}),
        "sentence": pair.sentence,
        **(group.warm_ups.columns(pair) if group.warm_ups else {}),
        **(group.trained.columns(pair.environment) if group.trained else {}),
    }
    # A table's labels may be called like a column of ours.
    taken = about.keys() | rest.keys()
    cell = {f"{name} (label)" if name in taken else name: v for name, v in group.cell.items()}
    return {**about, **cell, **rest}


def is_decided(pair: Pair) -> bool:
    return pair.verdict not in (Verdict.INCONCLUSIVE, Verdict.NO_INFERENCE)


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Spread intervals over two columns; join lists of words."""
    row: dict[str, Any] = {}
    for name, value in values.items():
        if name == "look":
            row |= _flat({f"look_{key}": part for key, part in (value or {}).items()})
        elif name == "before":
            row |= _flat({f"before_exclusion_{key}": part for key, part in (value or {}).items()})
        elif not {"ci", "ci95", "ci90"}.isdisjoint(name.split("_")):
            row[f"{name}_low"], row[f"{name}_high"] = value or (None, None)
        elif name in {"claim", "evidence"} or (name == "software" and not value):
            continue
        elif isinstance(value, tuple):
            row[name] = "; ".join(map(str, value))
        else:
            row[name] = value
    return row
