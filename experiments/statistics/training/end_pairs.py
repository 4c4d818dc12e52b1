"""Values of what is inferred from the ends of trainings: a verdict in the unit of the values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.margins import Margin
from experiments.statistics.values import ALPHA, Interval, Verdict
from experiments.statistics.verdicts import (
    FEWEST,
    count_more_needed,
    decide,
    find_likely_range,
)

DIVERGED = "runs diverged"
"""Why nothing is called equivalent: the trainings that ended are not all there were."""


@dataclass(frozen=True)
class DifferenceMargin(Margin):
    """A margin of a difference, in the unit of the values, as large in both directions.

    Verdicts, chances and numbers of further runs are those of a margin of ratios: all of them ask
    for bounds on the scale on which the mean was taken, which here is that of the values.
    """

    @classmethod
    def of_size(cls, size: float) -> DifferenceMargin:
        return cls(size, size)

    @property
    def log_cost_bounds(self) -> Interval:
        """Return the bounds of the difference."""
        return -self.faster, self.slower


class TrainingVerdict(StrEnum):
    """The conclusion about the ends of two environments' trainings."""

    EQUIVALENT = "EQUIVALENT"
    DIFFERENT = "DIFFERENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_INFERENCE = "NO INFERENCE"


OF_SPEED = {
    Verdict.EQUIVALENT: TrainingVerdict.EQUIVALENT,
    Verdict.SLOWER: TrainingVerdict.DIFFERENT,
    Verdict.FASTER: TrainingVerdict.DIFFERENT,
    Verdict.INCONCLUSIVE: TrainingVerdict.INCONCLUSIVE,
    Verdict.NO_INFERENCE: TrainingVerdict.NO_INFERENCE,
}
"""The verdicts by the rules of speed: which side is better does not matter here."""


class TrainingStamp(StrEnum):
    """A reservation beside a verdict on training."""

    PROVISIONAL = "PROVISIONAL"
    AFTERWARDS = "MARGIN CHOSEN AFTER THE DATA"
    ONE_SEED = "ONE SEED"
    DIVERGED = "RUNS DIVERGED"
    EXCLUDED = "EXCLUDED BY HAND"
    STOPPED_EARLY = "STOPPED EARLY"
    TRIED_AGAIN = "TRIED AGAIN AFTER A VERDICT"
    COLLECTED_AFTER = "COLLECTED AFTER A VERDICT"
    NOT_AFTER_HOLM = "NOT SIGNIFICANT AFTER HOLM CORRECTION"


class ComparedBy(StrEnum):
    """What is one independent value: a seed or a block that both have, or a run."""

    SEED = "seed"
    BLOCK = "block"
    RUN = "run"


@dataclass(frozen=True, kw_only=True)
class EndPair:
    """The ends of one environment's trainings and those of the baseline.

    `difference` is environment - baseline; it and all that follows have the unit of the values:
    percentage points of an accuracy, the loss's own unit. None is what cannot be computed.
    """

    environment: str
    baseline: str
    what: str
    """ "loss", "accuracy"..."""
    by: ComparedBy
    n: int = 0
    """Seeds or blocks of both; of runs that nothing pairs, the smaller number of runs."""
    n_baseline: int = 0
    n_environment: int = 0
    baseline_mean: float | None = None
    baseline_sd: float | None = None
    environment_mean: float | None = None
    environment_sd: float | None = None
    """Of the runs that are compared; a standard deviation needs two."""
    alpha: float = ALPHA
    difference: float | None = None
    se: float | None = None
    df: float | None = None
    ci95: Interval | None = None
    ci90: Interval | None = None
    """That of 1 - 2 alpha, by which equivalence is decided; `ci95` is that of 1 - alpha."""
    p_difference: float | None = None
    smallest_margin: float | None = None
    """The smallest margin that these runs prove: the farther end of `ci90`."""
    flaw: str = ""
    """Why nothing can be inferred: "n = 1", "identical values"."""
    one_seed: bool = False
    diverged: int = 0
    """Runs of either side whose loss was no number any more; they have no end."""
    excluded: int = 0
    """Runs of either side that persons have excluded."""
    stopped_early: bool = False
    margin: float | None = None
    chosen_afterwards: bool = False
    """Whether the margin was chosen when the data could be seen."""
    verdict: TrainingVerdict | None = None
    """None without a margin."""
    detail: str = ""
    p_lower_bound: float | None = None
    p_upper_bound: float | None = None
    p_difference_holm: float | None = None
    p_equivalence_holm: float | None = None
    more: int | None = None
    """About how many more seeds, blocks or runs of each would decide; None if over a thousand, or
    if it is decided."""
    more_between: tuple[int, int] | None = None
    """Between what that number lies, by the 80 % interval of the spread."""
    stamps: tuple[TrainingStamp, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def p_equivalence(self) -> float | None:
        """Return the p of the two one-sided tests: the larger one."""
        if self.p_lower_bound is None or self.p_upper_bound is None:
            return None
        return max(self.p_lower_bound, self.p_upper_bound)

    @property
    def unit(self) -> str:
        """Return the unit of the difference as text; a loss has none."""
        return "" if self.what == "loss" else "points"

    def estimate(self) -> Estimate | None:
        """Return the difference as an estimate; None where nothing can be inferred."""
        if self.difference is None or self.se is None or self.df is None:
            return None
        if self.by is not ComparedBy.RUN:
            return Estimate(self.difference, (Arm(self.se**2 * self.n, self.n),))
        arms = (
            Arm((self.baseline_sd or 0.0) ** 2, self.n_baseline),
            Arm((self.environment_sd or 0.0) ** 2, self.n_environment),
        )
        return Estimate(self.difference, arms)

    def judge(self, margin: float, *, afterwards: bool) -> EndPair:
        """Return the pair with its verdict at a margin, in the unit of the difference.

        ValueError for what is no margin: not above zero, or not finite.
        """
        bounds = DifferenceMargin.of_size(margin)
        pair = replace(self, margin=margin, chosen_afterwards=afterwards)
        estimate = self.estimate()
        if estimate is None:
            verdict = TrainingVerdict.NO_INFERENCE
            pair = replace(pair, verdict=verdict, detail=self.flaw)
        else:
            of_speed, detail = decide(estimate, bounds, None, self.alpha)
            verdict = OF_SPEED[of_speed]
            if verdict is TrainingVerdict.INCONCLUSIVE:
                detail = ""  # on which side of the margin it certainly is matters to speed alone
            if verdict is TrainingVerdict.EQUIVALENT and self.diverged:
                verdict, detail = TrainingVerdict.INCONCLUSIVE, DIVERGED
            more = None
            if verdict is TrainingVerdict.INCONCLUSIVE and not detail:
                more = count_more_needed(estimate, bounds, self.alpha)
            lower, upper = estimate.compute_p_of_bounds(bounds.log_cost_bounds)
            pair = replace(
                pair,
                verdict=verdict,
                detail=detail,
                p_lower_bound=lower,
                p_upper_bound=upper,
                more=more,
                more_between=None if more is None else find_likely_range(estimate, more),
            )
        stamped = list(pair._list_stamps())
        return replace(
            pair,
            stamps=tuple(stamp for stamp, _ in stamped),
            reasons=tuple(reason for _, reason in stamped),
        )

    def add_stamp(self, stamp: TrainingStamp, reason: str) -> EndPair:
        """Return the pair with one reservation more."""
        return replace(self, stamps=(*self.stamps, stamp), reasons=(*self.reasons, reason))

    def _list_stamps(self) -> Iterator[tuple[TrainingStamp, str]]:
        """Yield each reservation with its reason."""
        if self.chosen_afterwards:
            yield (
                TrainingStamp.AFTERWARDS,
                "The plan has no margin for this: a person who chooses one when the data can be "
                "seen can choose the verdict.",
            )
        if self.diverged:
            yield (
                TrainingStamp.DIVERGED,
                f"{self.diverged} run{'s' * (self.diverged != 1)} of either side diverged and "
                f"{'have' if self.diverged != 1 else 'has'} no end to compare; so nothing is "
                "called equivalent.",
            )
        if self.excluded:
            yield (
                TrainingStamp.EXCLUDED,
                f"Persons excluded {self.excluded} run{'s' * (self.excluded != 1)} of either side: "
                "a person who can choose the runs can choose the verdict.",
            )
        if self.verdict is TrainingVerdict.NO_INFERENCE:
            return
        if self.n < FEWEST:
            yield (TrainingStamp.PROVISIONAL, f"It rests on fewer than {FEWEST} {self.by}s.")
        if self.one_seed:
            yield (
                TrainingStamp.ONE_SEED,
                "All runs had one seed: it speaks of this seed, and not of others.",
            )
        if self.stopped_early:
            yield (TrainingStamp.STOPPED_EARLY, "Not all planned runs were made.")

    @property
    def columns(self) -> dict[str, Any]:
        """Return the pair as a flat row for files."""
        low95, high95 = self.ci95 or (None, None)
        low90, high90 = self.ci90 or (None, None)
        return {
            "environment": self.environment,
            "baseline": self.baseline,
            "what": self.what,
            "unit": self.unit or "1",
            "verdict": None if self.verdict is None else str(self.verdict),
            "detail": self.detail,
            "stamps": "; ".join(self.stamps),
            "margin": self.margin,
            "margin_chosen_after_the_data": self.chosen_afterwards,
            "compared_by": str(self.by),
            "n": self.n,
            "n_baseline": self.n_baseline,
            "n_environment": self.n_environment,
            "baseline_mean": self.baseline_mean,
            "baseline_sd": self.baseline_sd,
            "environment_mean": self.environment_mean,
            "environment_sd": self.environment_sd,
            "difference": self.difference,
            "se": self.se,
            "df": self.df,
            "level_of_difference": 1 - self.alpha,
            "ci_difference_low": low95,
            "ci_difference_high": high95,
            "level_of_equivalence": 1 - 2 * self.alpha,
            "ci_equivalence_low": low90,
            "ci_equivalence_high": high90,
            "p_difference": self.p_difference,
            "p_lower_bound": self.p_lower_bound,
            "p_upper_bound": self.p_upper_bound,
            "p_equivalence": self.p_equivalence,
            "p_difference_holm": self.p_difference_holm,
            "p_equivalence_holm": self.p_equivalence_holm,
            "smallest_margin": self.smallest_margin,
            "runs_diverged": self.diverged,
            "runs_excluded_by_hand": self.excluded,
        }
