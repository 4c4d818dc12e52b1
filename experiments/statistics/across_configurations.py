"""Summary of one environment over all configurations: equivalence in all, and a geometric mean."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.claims import (
    SPEED,
    Wording,
    choose_wording,
    claim_shown,
    name_goal,
    quote_goal,
)
from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.values import ALPHA, JOINT, Better, Interval, Pair, Verdict

EXCLUDED_AFTER = (
    " Runs were excluded after verdicts could be read; each comparison says what it is with them."
)
EXTENDED = (
    " Some were judged once more after an extension, and their stamps say how often both verdicts "
    "are wrong."
)
SHARED_NODES = (
    " Its configurations ran on the same nodes, so its standard error is the mean of theirs: the "
    "largest that it can be."
)
NO_COLUMNS = ("excluded_by_hand", "extended", "wording", "shares_nodes", "not_attributable")
EXCLUDED = " Runs were excluded by hand; each comparison says what it is with them."


@dataclass(frozen=True, kw_only=True)
class Everywhere:
    """One environment against the baseline in all configurations of an experiment.

    "Equivalent in all configurations" holds if it holds in each: an intersection-union test, whose
    p is the largest and needs no correction. The geometric mean of the ratios takes them as
    independent; its standard error and degrees of freedom are Satterthwaite's. Verdicts on a
    partition from the same nodes are not: then they are those of `average_dependent`. There is no
    mean where the ratios plainly differ (Welch's F at 5 %, and by more than the margin), nor where
    any of them is not attributable to the container.
    """

    baseline: str
    environment: str
    margin: float
    configurations: int
    better: Better
    """Direction of `geometric_mean_ratio`; those of the other one enter it by their inverse."""
    equivalent_in_all: bool
    largest_p_equivalence: float | None
    """None where the goal is "not slower", or a pair is not attributable."""
    smallest_ratio: float
    largest_ratio: float
    p_same_ratio: float
    """The p of "the ratio is the same in all configurations", by Welch's F."""
    ratios_differ: bool
    """If the ratios plainly differ there is no mean: what follows of it is None."""
    alpha: float
    """The level at which the configurations were decided."""
    geometric_mean_ratio: float | None = None
    log_ratio: float | None = None
    log_se: float | None = None
    df: float | None = None
    ci95: Interval | None = None
    ci90: Interval | None = None
    ci_difference: Interval | None = None
    """At the level `alpha`, like `ci_equivalence`; both as in a `Pair`."""
    ci_equivalence: Interval | None = None
    p_difference: float | None = None
    p_equivalence: float | None = None
    excluded_after_verdict: bool = False
    """True if any of the pairs lacks runs that were excluded after its verdict could be read."""
    excluded_by_hand: bool = False
    """True if any of the pairs lacks runs that a person has excluded, whenever that was."""
    extended: bool = False
    """True if any of the pairs was judged after an extension that was not planned."""
    goal: Goal = Goal.EQUIVALENCE
    margin_faster: float | None = None
    not_slower_in_all: bool = False
    p_not_slower: float | None = None
    largest_p_not_slower: float | None = None
    wording: Wording = SPEED
    """The words for the metrics of all configurations."""
    shares_nodes: bool = False
    """Whether verdicts speak of a partition and rest on some nodes in common."""
    not_attributable: int = 0
    """How many of the pairs are not attributable: with any there is no mean and no p."""

    @property
    def columns(self) -> dict[str, Any]:
        """Return all fields under the names that they have in data files; `excluded_by_hand` is
        a column of its own at the end, `extended` is told by the pairs' columns, `wording`
        follows from the metric, `shares_nodes` from the nodes, and the sentence says how many are
        not attributable.
        """
        return {
            "cells" if name == "configurations" else name: value
            for name, value in asdict(self).items()
            if name not in NO_COLUMNS
        }

    @property
    def margins(self) -> Margin:
        """Return the margin in both directions, by the goal."""
        return Margin.make(self.goal, self.margin, self.margin_faster)

    @property
    def is_shown_in_all(self) -> bool:
        """Return whether what was to be shown is shown in all configurations."""
        return self.equivalent_in_all or self.not_slower_in_all

    @property
    def p_goal(self) -> float | None:
        """Return the p of what was to be shown, of the mean."""
        return self.p_not_slower if self.goal is Goal.NOT_SLOWER else self.p_equivalence

    @property
    def largest_p_goal(self) -> float | None:
        """Return the largest p of what was to be shown."""
        if self.goal is Goal.NOT_SLOWER:
            return self.largest_p_not_slower
        return self.largest_p_equivalence

    @property
    def ratio(self) -> float | None:
        return self.geometric_mean_ratio

    @property
    def cost(self) -> float | None:
        """Return how much longer the jobs take on the mean, as a fraction."""
        if self.ratio is None:
            return None
        return (self.ratio if self.better == "lower" else 1 / self.ratio) - 1

    @property
    def shown(self) -> str:
        """Return what was to be shown as a word: "equivalent", "not slower"."""
        return name_goal(self.goal, self.wording)

    @property
    def goal_text(self) -> str:
        """Return what was to be shown as a noun: "equivalence", "“not slower”"."""
        return quote_goal(self.goal, self.wording)

    @property
    def claim(self) -> str:
        """Return the sentence's first part: whether equivalence is shown everywhere."""
        claim = claim_shown(
            self.environment,
            self.baseline,
            self.goal,
            self.wording,
            margin=self.margins,
            is_shown=self.is_shown_in_all,
        )
        return f"{claim} in {numbers.all_of(self.configurations, 'configuration')} compared"

    @property
    def evidence(self) -> str:
        """Return the sentence's second part: the p of the claim, and the mean ratio."""
        excluded = EXCLUDED if self.excluded_by_hand else ""
        if self.excluded_after_verdict:
            excluded = EXCLUDED_AFTER
        extended = EXTENDED if self.extended else ""
        if self.not_attributable:
            be = "is" if self.not_attributable == 1 else "are"
            return (
                f": {self.not_attributable} of them {be} not attributable to the container, so "
                f"there is no p and no mean of all.{extended}{excluded}"
            )
        if self.ratios_differ:
            mean = (
                f"The ratios differ, from {numbers.ratio(self.smallest_ratio)} to "
                f"{numbers.ratio(self.largest_ratio)} (p of one common ratio "
                f"{numbers.p_value(self.p_same_ratio)}): their mean would describe none of them."
            )
        else:
            mean = (
                "Geometric mean of the ratios "
                f"{numbers.ratio(self.geometric_mean_ratio, self.ci_difference)} "
                f"({numbers.level(1 - self.alpha)} CI; p of {self.goal_text} "
                f"{numbers.p_value(self.p_goal)}).{SHARED_NODES * self.shares_nodes}"
            )
        largest = numbers.p_value(self.largest_p_goal)
        return f" (largest p of {self.goal_text} {largest}). {mean}{extended}{excluded}"

    @property
    def sentence(self) -> str:
        return self.claim + self.evidence


def summarise_environments(pairs: Sequence[Pair]) -> list[Everywhere]:
    """Summarise each environment that has two configurations or more, all with an inference."""
    return list(_summaries(pairs))


def _summaries(pairs: Sequence[Pair]) -> Iterator[Everywhere]:
    for name in dict.fromkeys(pair.environment for pair in pairs):
        own_pairs = [pair for pair in pairs if pair.environment == name]
        estimates = [estimate for pair in own_pairs if (estimate := make_estimate(pair))]
        if len(own_pairs) < 2 or len(estimates) < len(own_pairs):
            continue
        better: Better = "higher" if {pair.better for pair in own_pairs} == {"higher"} else "lower"
        signs = [1 if pair.better == better else -1 for pair in own_pairs]
        alpha, margin = min(pair.alpha for pair in own_pairs), own_pairs[0].margin
        ratios = [
            math.exp(s * estimate.log_ratio) for s, estimate in zip(signs, estimates, strict=True)
        ]
        p_same = compute_p_same_ratio(estimates, signs)
        differ = p_same < ALPHA and max(ratios) / min(ratios) > 1 + margin
        is_one_sided = own_pairs[0].goal is Goal.NOT_SLOWER
        not_attributable = sum(pair.verdict is Verdict.NOT_ATTRIBUTABLE for pair in own_pairs)
        largest_p = None if not_attributable else max(pair.p_goal or 0.0 for pair in own_pairs)
        summary = Everywhere(
            baseline=own_pairs[0].baseline,
            environment=name,
            margin=margin,
            configurations=len(own_pairs),
            better=better,
            equivalent_in_all=all(pair.verdict is Verdict.EQUIVALENT for pair in own_pairs),
            largest_p_equivalence=None if is_one_sided else largest_p,
            smallest_ratio=min(ratios),
            largest_ratio=max(ratios),
            p_same_ratio=p_same,
            ratios_differ=differ,
            alpha=alpha,
            excluded_after_verdict=any(pair.before and pair.before.is_late for pair in own_pairs),
            excluded_by_hand=any(pair.before for pair in own_pairs),
            extended=any(pair.extension for pair in own_pairs),
            goal=own_pairs[0].goal,
            margin_faster=own_pairs[0].margin_faster,
            not_slower_in_all=all(pair.verdict is Verdict.NOT_SLOWER for pair in own_pairs),
            largest_p_not_slower=largest_p if is_one_sided else None,
            wording=choose_wording(own_pairs),
            shares_nodes=share_nodes(own_pairs),
            not_attributable=not_attributable,
        )
        if not differ and not not_attributable:
            average = average_dependent if summary.shares_nodes else _geometric_mean
            summary = _with_mean(summary, average(estimates, signs))
        yield summary


def _with_mean(summary: Everywhere, mean: Estimate) -> Everywhere:
    p = max(mean.compute_p_of_bounds(summary.margins.find_log_bounds(summary.better)))
    is_one_sided = summary.goal is Goal.NOT_SLOWER
    return replace(
        summary,
        geometric_mean_ratio=mean.ratio,
        log_ratio=mean.log_ratio,
        log_se=mean.se,
        df=mean.df,
        ci95=mean.interval(0.95),
        ci90=mean.interval(0.90),
        ci_difference=mean.interval(1 - summary.alpha),
        ci_equivalence=mean.interval(1 - 2 * summary.alpha),
        p_difference=mean.p_difference,
        p_equivalence=None if is_one_sided else p,
        p_not_slower=p if is_one_sided else None,
    )


def share_nodes(pairs: Sequence[Pair]) -> bool:
    """Return whether two of these verdicts speak of a partition and rest on a node in common.

    What such a node adds is then in both errors: nodes are the sample, and it is the same one.
    """
    seen: set[str] = set()
    for pair in pairs:
        names = {name for node in pair.nodes if pair.by_node for name in node.split(JOINT)}
        if names & seen:
            return True
        seen |= names
    return False


def compute_p_same_ratio(estimates: Sequence[Estimate], signs: Sequence[int]) -> float:
    """Return p of "all ratios are the same": Welch's F for means with unequal variances (1951).

    Cochran's Q would take the standard errors for known, which those of a few runs are not. With
    two configurations it is Welch's t test of their log-ratios.
    """
    from experiments.statistics.special_functions import fdtrc  # lazily, as in estimates

    logs = [sign * estimate.log_ratio for sign, estimate in zip(signs, estimates, strict=True)]
    # Relative to the smallest, so that tiny standard errors do not overflow.
    least = min(estimate.se for estimate in estimates)
    weights = [(least / estimate.se) ** 2 for estimate in estimates]
    total, groups = math.fsum(weights), len(estimates)
    centre = math.fsum(w * log for w, log in zip(weights, logs, strict=True)) / total
    between = math.fsum(w * (log - centre) ** 2 for w, log in zip(weights, logs, strict=True))
    doubt = math.fsum(
        (1 - w / total) ** 2 / estimate.df for w, estimate in zip(weights, estimates, strict=True)
    )
    scale = 1 + 2 * (groups - 2) / (groups**2 - 1) * doubt
    f = between / least**2 / (groups - 1) / scale
    return float(fdtrc(groups - 1, (groups**2 - 1) / (3 * doubt), f))


def make_estimate(pair: Pair) -> Estimate | None:
    """Return a pair as a single arm with its own degrees of freedom; None without an inference.

    Satterthwaite's formula gives the same over such arms as over the arms of all pairs.
    """
    if pair.ratio is None or pair.log_se is None or pair.df is None:
        return None
    return Estimate(math.log(pair.ratio), (Arm(pair.log_se**2 * (pair.df + 1), pair.df + 1),))


def _geometric_mean(estimates: Sequence[Estimate], signs: Sequence[int]) -> Estimate:
    """Return the mean of independent ratios; a sign of -1 takes a ratio's inverse."""
    count = len(estimates)
    logs = (sign * estimate.log_ratio for sign, estimate in zip(signs, estimates, strict=True))
    return Estimate(
        math.fsum(logs) / count,
        tuple(
            Arm(arm.variance / count**2, arm.n) for estimate in estimates for arm in estimate.arms
        ),
    )


def average_dependent(estimates: Sequence[Estimate], signs: Sequence[int]) -> Estimate:
    """Return the mean of ratios whose errors have something in common, nobody knows how much.

    The standard error is the mean of theirs: the largest that it can be, as if they were one and
    the same error. The degrees of freedom are the smallest.
    """
    count = len(estimates)
    logs = (sign * estimate.log_ratio for sign, estimate in zip(signs, estimates, strict=True))
    se = math.fsum(estimate.se for estimate in estimates) / count
    df = min(estimate.df for estimate in estimates)
    # A single arm that has this standard error and these degrees of freedom.
    return Estimate(math.fsum(logs) / count, (Arm(se**2 * (df + 1), df + 1),))
