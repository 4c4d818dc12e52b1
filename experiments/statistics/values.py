"""Values of a comparison: samples go in, a pair with its verdict and stamps comes out."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from experiments.statistics import numbers
from experiments.statistics.compared_facts import ComparedFacts
from experiments.statistics.extended import Extended
from experiments.statistics.margins import Goal, Margin

Better = Literal["lower", "higher"]
Interval = tuple[float, float]
ALPHA = 0.05
"""The level of every verdict, unless several interim analyses were planned."""
JOINT = " and "
"""Between the names of nodes that count as one."""
AMOUNTS = ("B", "J")
"""Units of what a run needs: memory and energy."""


class Verdict(StrEnum):
    """The conclusion about one environment and the baseline."""

    EQUIVALENT = "EQUIVALENT"
    NOT_SLOWER = "NOT SLOWER"
    """Not slower by more than the margin, where that alone was to be shown."""
    SLOWER = "SLOWER"
    FASTER = "FASTER"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_INFERENCE = "NO INFERENCE"
    NOT_SHOWN = "NOT SHOWN"
    """Of several decisive metrics together: at least one of them stood in the way."""
    NOT_ATTRIBUTABLE = "NOT ATTRIBUTABLE"
    """Both sides differed in more than the container, so gravely that the ratio is not its own."""
    NOT_JUDGED = "NOT JUDGED BY THE PLAN"
    """Of a decisive metric that comes after one that was not shown, in a fixed order."""


class Estimand(StrEnum):
    """What a verdict speaks of, by the plan: the nodes that it rests on, or their partition."""

    NODES = "nodes"
    PARTITION = "partition"


class Stamp(StrEnum):
    """A reservation that stands beside a verdict."""

    PROVISIONAL = "PROVISIONAL"
    FEW_NODES = "FEW NODES"
    CONFOUNDED = "CONFOUNDED"
    OUTLIER_SENSITIVE = "OUTLIER-SENSITIVE"
    TAIL = "TAIL"
    NO_STEADY_STATE = "NO STEADY STATE"
    NOT_AFTER_HOLM = "NOT AFTER HOLM"
    ROUNDING_SENSITIVE = "ROUNDING-SENSITIVE"
    OFF_BY_ONE = "OFF-BY-ONE FLOOR"
    ORDER_UNKNOWN = "ORDER OF RUNS UNKNOWN"
    ONE_PROCESS = "ONE PROCESS"
    STOPPED_EARLY = "STOPPED EARLY"
    EXTENDED = "EXTENDED"
    TRIED_AGAIN = "TRIED AGAIN AFTER A VERDICT"
    COLLECTED_AFTER = "COLLECTED AFTER A VERDICT"
    EXCLUDED = "EXCLUDED BY HAND"
    EXCLUDED_AFTER = "EXCLUDED AFTER A VERDICT"
    ACROSS_JOBS = "PAIRED ACROSS JOBS"
    WAIVED = "DIFFERENCES WAIVED"
    TRAINED_DIFFERENTLY = "TRAINED DIFFERENTLY"
    REJECTIONS_DIFFER = "REJECTIONS DIFFER"

    @property
    def label(self) -> str:
        """Return what pages and papers print; data files keep the value."""
        if self is Stamp.NOT_AFTER_HOLM:
            return "NOT SIGNIFICANT AFTER HOLM CORRECTION"
        return self.value


@dataclass(frozen=True)
class Measured:
    """The metric that is compared. The unit "1" means a plain number."""

    name: str
    unit: str
    better: Better | None
    """None where a table does not say which direction is better."""
    label: str

    @property
    def is_of_amounts(self) -> bool:
        """Return whether it is memory or energy, of which more is needed, not a speed."""
        return self.unit in AMOUNTS and self.better == "lower"


@dataclass(frozen=True)
class Sample:
    """The value of one metric in one run; `started` in seconds since the epoch."""

    run: str
    block: str
    environment: str
    value: float
    node: str = ""
    started: float | None = None
    repeat: int = 0
    """The number of its repeat, by which interim analyses choose runs."""
    settles: bool = True
    """False where its steps never reach a steady state."""
    source: str = ""
    """Where the value comes from, if Tare has measured it; "" if the program reported it."""
    nodes: tuple[str, ...] = ()
    """All nodes of its job, where it ran on several and they are known; `node` is the first."""


@dataclass(frozen=True, kw_only=True)
class InterimAnalysis:
    """An analysis of the data that was planned before there were any.

    `alpha` is the level of each, so that all together err no more often than one at 5 %. It
    decides by `ci_difference` (1 - alpha) and `ci_equivalence` (1 - 2 alpha). The `later_` fields
    are of all runs that came since: an estimate beside the verdict.
    """

    number: int
    of: int
    alpha: float
    ci_difference: Interval | None = None
    ci_equivalence: Interval | None = None
    later_ratio: float | None = None
    later_ci95: Interval | None = None
    later_size: str = ""

    @property
    def later(self) -> str:
        """Return a sentence about the runs since the verdict; "" if there are none."""
        if not self.later_size:
            return ""
        ratio = numbers.ratio(self.later_ratio, self.later_ci95)
        return (
            f"With all {self.later_size} that there are now the ratio is {ratio} (95 % CI): an "
            "estimate, which does not change the verdict."
        )


@dataclass(frozen=True, kw_only=True)
class Before:
    """A verdict as it is with the runs that persons have excluded."""

    runs: int
    """How many runs of this pair were excluded; 0 where only other pairs lost some."""
    verdict: Verdict
    stamps: tuple[Stamp, ...]
    size: str
    ratio: float | None
    ci_difference: Interval | None
    level: str
    """The level of `ci_difference`, as text: "95 %"."""
    p_difference: float | None
    p_equivalence: float | None
    p_difference_holm: float | None
    p_equivalence_holm: float | None
    before_verdict: int = 0
    after_interim: int = 0
    after_final: int = 0
    """How many were excluded before any verdict could be read, after an interim analysis, and after
    the final one: of this pair's runs, or of all others where this pair lost none."""
    blocks: int = 0
    """How many blocks the pair lacks without them."""
    problem: str = ""
    """Why nothing can be compared with them."""
    p_not_slower: float | None = None
    p_not_slower_holm: float | None = None

    @property
    def is_late(self) -> bool:
        """Return whether any run was excluded when a verdict could be read."""
        return self.after_interim + self.after_final > 0

    @property
    def moments(self) -> str:
        """Return when the runs were excluded, as part of a sentence, the worst first."""
        counts = {
            "after the final analysis": self.after_final,
            "after an interim analysis": self.after_interim,
            "before any verdict could be read": self.before_verdict,
        }
        known = {when: count for when, count in counts.items() if count}
        if len(known) == 1:
            return next(iter(known))
        return ", ".join(f"{count:,} {when}" for when, count in known.items())

    @property
    def description(self) -> str:
        """Return the verdict with its numbers and stamps, as part of a sentence."""
        known, decimals = [], numbers.ratio_decimals(self.ci_difference)
        if self.ratio is not None:
            known.append(f"ratio {numbers.fixed(self.ratio, decimals)}")
        if self.ci_difference:
            low, high = (numbers.fixed(end, decimals) for end in self.ci_difference)
            known.append(f"{self.level} CI {low} to {high}")
        stamped = f"; {', '.join(stamp.label for stamp in self.stamps)}" if self.stamps else ""
        return f"{self.verdict} ({', '.join([*known, self.problem or self.size])}{stamped})"

    @property
    def sentence(self) -> str:
        """Return a sentence with that verdict, and which runs it has that now are left out."""
        if not self.runs:
            who = "runs of other comparisons that were"
        else:
            who = "run that was" if self.runs == 1 else f"{self.runs:,} runs that were"
        return f"With the {who} excluded by hand ({self.moments}) it is {self.description}."


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One environment compared with the baseline, for one workload, scale and metric.

    `ratio` is environment / baseline (of geometric means) in the metric itself, whatever its
    direction; `cost` turns it into what the job pays. Whatever cannot be computed is None.
    Means and standard deviations are of the runs that were compared, in `unit`.
    """

    baseline: str
    environment: str
    unit: str
    better: Better | None
    """None where a table does not say; then nothing is inferred and nothing costs."""
    margin: float
    """Of slower, and of faster unless the goal or `margin_faster` say otherwise."""
    paired: bool
    goal: Goal = Goal.EQUIVALENCE
    margin_faster: float | None = None
    """The margin of what is faster, where it is another one."""
    estimand: Estimand | None = None
    """What the plan says that the verdict speaks of; None where it says nothing."""
    nodes: tuple[str, ...] = ()
    """The nodes of its runs; several that shared a block as one. Empty if any is not known."""
    n_nodes: int = 0
    """How many nodes these are; 0 if any is not known."""
    n_blocks: int = 0
    n_baseline: int = 0
    n_environment: int = 0
    baseline_mean: float | None = None
    baseline_sd: float | None = None
    environment_mean: float | None = None
    environment_sd: float | None = None
    ratio: float | None = None
    log_se: float | None = None
    """Standard error of ln(ratio), with `df` degrees of freedom."""
    df: float | None = None
    ci95: Interval | None = None
    ci90: Interval | None = None
    p_difference: float | None = None
    p_equivalence: float | None = None
    p_lower_bound: float | None = None
    """One-sided p of "the ratio is not above the margin's lower bound"; None without that bound."""
    p_upper_bound: float | None = None
    """One-sided p of "the ratio is not below the margin's upper bound"; None without that bound."""
    p_not_slower: float | None = None
    """One-sided p of "slower by the margin or more"; known where the goal is "not slower"."""
    smallest_margin: float | None = None
    verdict: Verdict = Verdict.NO_INFERENCE
    detail: str = ""
    claim: str = ""
    evidence: str = ""
    stamps: tuple[Stamp, ...] = ()
    reasons: tuple[str, ...] = ()
    """Why each of the stamps is there, in the same order."""
    dropped_blocks: tuple[str, ...] = ()
    """Blocks in which the baseline or the environment has no run."""
    dropped_nodes: tuple[str, ...] = ()
    """Nodes without runs of the baseline or of the environment, where means of nodes count."""
    p_difference_holm: float | None = None
    p_equivalence_holm: float | None = None
    p_not_slower_holm: float | None = None
    interim_analysis: InterimAnalysis | None = None
    """The one of several that gave the verdict; None where only one was planned."""
    software: str = ""
    """What was known of the software of both before the launch; "" if it was not recorded."""
    before: Before | None = None
    """The verdict with the runs that persons have excluded; None if they excluded none."""
    extension: Extended | None = None
    """The extension of its configuration; None where that was not extended."""
    facts: ComparedFacts | None = None
    """What the snapshots of both sides say; None where nothing was compared, as of tables."""
    verdict_by_numbers: Verdict | None = None
    """What the numbers alone would say, where the verdict is NOT ATTRIBUTABLE; else None."""

    @property
    def trained_differently(self) -> bool:
        """Return whether it compares the speed of trainings that did not learn the same."""
        return Stamp.TRAINED_DIFFERENTLY in self.stamps

    @property
    def is_of_amounts(self) -> bool:
        """Return whether memory or energy is compared, of which more is needed, not a speed."""
        return self.unit in AMOUNTS and self.better == "lower"

    @property
    def alpha(self) -> float:
        """Return the level at which the verdict was decided."""
        return self.interim_analysis.alpha if self.interim_analysis else ALPHA

    @property
    def margins(self) -> Margin:
        """Return the margin in both directions, by the goal."""
        return Margin.make(self.goal, self.margin, self.margin_faster)

    @property
    def p_goal(self) -> float | None:
        """Return the p of what was to be shown: of equivalence, or of "not slower"."""
        return self.p_not_slower if self.goal is Goal.NOT_SLOWER else self.p_equivalence

    @property
    def p_goal_holm(self) -> float | None:
        """Return `p_goal` after Holm's correction."""
        if self.goal is Goal.NOT_SLOWER:
            return self.p_not_slower_holm
        return self.p_equivalence_holm

    @property
    def ci_difference(self) -> Interval | None:
        """Return the interval that decides about a difference: 95 % if there is one analysis."""
        return self.interim_analysis.ci_difference if self.interim_analysis else self.ci95

    @property
    def ci_equivalence(self) -> Interval | None:
        """Return the interval that decides about equivalence: 90 % if there is one analysis."""
        return self.interim_analysis.ci_equivalence if self.interim_analysis else self.ci90

    @property
    def sentence(self) -> str:
        """Return the verdict sentence: the claim, then the evidence and the next step."""
        later = self.interim_analysis.later if self.interim_analysis else ""
        before = self.before.sentence if self.before else ""
        return " ".join(filter(None, (f"{self.claim}{self.evidence}", later, before)))

    @property
    def size(self) -> str:
        """Return how much data there are: "8 blocks", "5 runs each", "5 and 7 runs".

        A ratio without runs is one of published means.
        """
        if self.paired:
            return numbers.count(self.n_blocks, "block")
        if self.ratio is not None and not (self.n_baseline and self.n_environment):
            return "n not given"
        if self.n_baseline == self.n_environment:
            return f"{numbers.count(self.n_baseline, 'run')} each"
        return f"{self.n_baseline} and {self.n_environment} runs"

    @property
    def by_node(self) -> bool:
        """Return whether the means of its nodes are what was compared."""
        return self.estimand is Estimand.PARTITION

    @property
    def has_sets_of_nodes(self) -> bool:
        """Return whether each of its independent units is several nodes, that jobs had together."""
        return bool(self.nodes) and all(JOINT in name for name in self.nodes)

    @property
    def nodes_text(self) -> str:
        """Return how many nodes it rests on: "3 nodes", "3 sets of nodes"."""
        if self.has_sets_of_nodes:
            return f"{self.n_nodes:,} set{'s' * (self.n_nodes != 1)} of nodes"
        return numbers.count(self.n_nodes, "node")

    @property
    def size_on_nodes(self) -> str:
        """Return the size and the number of nodes, if it is known: "8 blocks on 3 nodes"."""
        return f"{self.size} on {self.nodes_text}" if self.n_nodes else self.size

    @property
    def count_to_infer(self) -> int:
        """Return how many independent values the verdict rests on, of the smaller side."""
        if self.by_node:
            return self.n_nodes
        return self.n_blocks if self.paired else min(self.n_baseline, self.n_environment)

    @property
    def nodes_as_independent(self) -> bool:
        """Return whether blocks (or runs) that share one of several nodes count as independent."""
        most = self.n_blocks if self.paired else max(self.n_baseline, self.n_environment)
        return not self.by_node and 1 < self.n_nodes < most

    @property
    def scope(self) -> str:
        """Return what it speaks of by the plan, such as "on this partition"; "" if not said."""
        if self.estimand is None:
            return ""
        if self.by_node:
            return "on this partition"
        is_one = self.n_nodes == 1 and not self.has_sets_of_nodes
        return "on this node" if is_one else "on these nodes"

    @property
    def cost(self) -> float | None:
        """Return how much longer the job takes than on the baseline: 0.054 is +5.4 %."""
        if self.ratio is None or self.better is None:
            return None
        return _cost(self.ratio, self.better)

    @property
    def cost_ci95(self) -> Interval | None:
        """Return the 95 % interval of `cost`."""
        return convert_to_cost(self.ci95, self.better)

    @property
    def cost_ci90(self) -> Interval | None:
        """Return the 90 % interval of `cost`."""
        return convert_to_cost(self.ci90, self.better)


def _cost(ratio: float, better: Better) -> float:
    return (ratio if better == "lower" else 1 / ratio) - 1


def convert_to_cost(interval: Interval | None, better: Better | None) -> Interval | None:
    """Return an interval of the ratio as one of the cost."""
    if interval is None or better is None:
        return None
    low, high = sorted(_cost(end, better) for end in interval)
    return low, high
