"""The mean ratio of an environment over configurations, by random effects, where it is honest.

A diamond in a forest plot looks like the answer. So it is drawn only where configurations are many
enough, each of them is known well enough, and none of them is known to be biased.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from experiments.statistics import numbers
from experiments.statistics.across_configurations import share_nodes, summarise_environments
from experiments.statistics.values import Interval, Pair, Stamp

FEWEST = 3
"""Of fewer configurations nothing tells how much they differ."""
FEWEST_FOR_PREDICTION = 5
BIASED = (Stamp.CONFOUNDED, Stamp.TRAINED_DIFFERENTLY, Stamp.REJECTIONS_DIFFER)
"""What more configurations do not average away."""
MOST_STEPS = 1000
ENOUGH = 1e-12


@dataclass(frozen=True)
class RandomEffects:
    """The mean of effects that differ by more than their standard errors explain."""

    mean: float
    se: float
    tau2: float
    """The variance of the true effects."""
    count: int

    def interval(self, level: float) -> Interval:
        """Return the interval of the mean, by t with k - 1 degrees of freedom."""
        return self._reach(level, self.count - 1, self.se)

    def predict(self, level: float) -> Interval:
        """Return where the effect of one more configuration lies (Higgins et al. 2009).

        By t with k - 2 degrees of freedom; at least three effects.
        """
        return self._reach(level, self.count - 2, math.hypot(math.sqrt(self.tau2), self.se))

    def _reach(self, level: float, df: int, se: float) -> Interval:
        from experiments.statistics.special_functions import stdtrit  # lazily, as in estimates

        half = float(stdtrit(df, (1 + level) / 2)) * se
        return self.mean - half, self.mean + half


def estimate_random_effects(
    effects: Sequence[float], standard_errors: Sequence[float]
) -> RandomEffects:
    """Return the mean of two effects or more, with positive standard errors.

    The variance between them is Paule and Mandel's (1982), with which the weighted squares add up
    to k - 1; the mean's standard error is Hartung and Knapp's (2001), never below the usual one
    (Knapp and Hartung 2003). The same as `rma(yi, sei=, method="PM", test="adhoc")` in R's metafor.
    """
    # Relative to the smallest, so that tiny standard errors do not overflow.
    least = min(standard_errors)
    variances = [(se / least) ** 2 for se in standard_errors]
    centre = math.fsum(effects) / len(effects)
    values = [(effect - centre) / least for effect in effects]
    df = len(values) - 1
    tau2 = 0.0
    # The weighted squares fall with tau2 and are convex: these steps never go too far.
    for _ in range(MOST_STEPS):
        mean, squares, slope = _weigh(values, variances, tau2)
        if squares <= df * (1 + ENOUGH) or not slope:
            break
        tau2 += (squares - df) / slope
    mean, squares, _ = _weigh(values, variances, tau2)
    weights = math.fsum(1 / (variance + tau2) for variance in variances)
    se = math.sqrt(max(1.0, squares / df) / weights)
    return RandomEffects(centre + least * mean, least * se, least**2 * tau2, len(values))


def _weigh(
    values: Sequence[float], variances: Sequence[float], tau2: float
) -> tuple[float, float, float]:
    """Return the weighted mean, the weighted squares around it, and how fast these fall."""
    weights = [1 / (variance + tau2) for variance in variances]
    mean = math.fsum(w * value for w, value in zip(weights, values, strict=True))
    mean /= math.fsum(weights)
    squares = [w * (value - mean) ** 2 for w, value in zip(weights, values, strict=True)]
    slope = math.fsum(w * square for w, square in zip(weights, squares, strict=True))
    return mean, math.fsum(squares), slope


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """The mean ratio of one environment to the baseline over all configurations.

    Without `ratio` there is none, and `why_not` says why: part of a sentence.
    """

    noun: ClassVar = "configuration"
    nouns: ClassVar = "configurations"
    """What it is the mean of."""
    environment: str
    configurations: int
    level: float
    """Of both intervals: 0.9, unless several interim analyses were planned."""
    blocks: int = 0
    ratio: float | None = None
    interval: Interval | None = None
    prediction: Interval | None = None
    """Where the ratio of one more such configuration lies; None below 5 configurations."""
    tau: float | None = None
    """The standard deviation of the true log-ratios."""
    why_not: str = ""

    @property
    def sentence(self) -> str:
        """Return why there is no mean; "" where there is one."""
        return f"{self.environment} is not pooled: {self.why_not}." if self.why_not else ""


def pool_environments(pairs: Sequence[Pair], metrics: int = 1) -> list[Pooled]:
    """Return the pooled ratio of each environment, or why it has none.

    Nothing where no environment has two configurations. `metrics` is how many different ones the
    pairs have.
    """
    names = dict.fromkeys(pair.environment for pair in pairs)
    of_names = {name: [pair for pair in pairs if pair.environment == name] for name in names}
    if all(len(own) < 2 for own in of_names.values()):
        return []
    differing = {
        summary.environment: (summary.smallest_ratio, summary.largest_ratio)
        for summary in summarise_environments(pairs)
        if summary.ratios_differ
    }
    return [_pool(name, own, metrics, differing.get(name)) for name, own in of_names.items()]


def _pool(name: str, pairs: Sequence[Pair], metrics: int, ends: Interval | None) -> Pooled:
    count, level = len(pairs), 1 - 2 * pairs[0].alpha
    if why_not := _explain_refusal(pairs, metrics, ends):
        return Pooled(environment=name, configurations=count, level=level, why_not=why_not)
    mean = estimate_random_effects(
        [math.log(pair.ratio or 1.0) for pair in pairs], [pair.log_se or 1.0 for pair in pairs]
    )
    prediction = mean.predict(level) if count >= FEWEST_FOR_PREDICTION else None
    return Pooled(
        environment=name,
        configurations=count,
        level=level,
        blocks=sum(pair.n_blocks if pair.paired else pair.n_environment for pair in pairs),
        ratio=convert_to_ratio(mean.mean),
        interval=convert_to_ratios(mean.interval(level)),
        prediction=convert_to_ratios(prediction) if prediction else None,
        tau=math.sqrt(mean.tau2),
    )


def _explain_refusal(pairs: Sequence[Pair], metrics: int, ends: Interval | None) -> str:
    """Return why a mean of these would not be honest, the weightiest reason first; "" if it is."""
    count = len(pairs)
    without = sum(not has_interval(pair) for pair in pairs)
    few = sum(has_too_few_runs(pair) for pair in pairs)
    biased = list_biases(pairs)
    early = sum(has_stopped_early(pair) for pair in pairs)
    extended = sum(pair.extension is not None for pair in pairs)
    if extended:
        return (
            f"{_part(extended, count)} further blocks that were added because the verdict was "
            "open, and with those a ratio depends on what it was before"
        )
    if metrics > 1 or len({(pair.better, pair.margin, pair.alpha) for pair in pairs}) > 1:
        return "its configurations do not have one metric and one margin"
    if without:
        return f"{_part(without, count)} no interval"
    if count < FEWEST:
        return f"{count} configurations do not tell how much configurations differ"
    if biased:
        return f"a mean would hide that comparisons are stamped {numbers.listed(biased)}"
    if few:
        return f"{_part(few, count)} too few runs to know how uncertain each ratio is"
    if share_nodes(pairs):
        return (
            "its verdicts speak of the partition from the same nodes, and pooling takes their "
            "errors for independent"
        )
    if early:
        return (
            f"{_part(early, count)} a verdict from an interim analysis, and ratios at which one "
            "stops are on average too far from 1"
        )
    if ends:
        return (
            f"its ratios differ, from {numbers.ratio(ends[0])} to {numbers.ratio(ends[1])}, and a "
            "mean would describe none of them"
        )
    return ""


def has_interval(pair: Pair) -> bool:
    """Return whether there are a ratio, its standard error and its interval."""
    known = (pair.ratio, pair.log_se)
    return pair.ci95 is not None and all(value and math.isfinite(value) for value in known)


def has_too_few_runs(pair: Pair) -> bool:
    """Return whether its standard error is itself too uncertain to be taken for known."""
    return Stamp.PROVISIONAL in pair.stamps or (pair.by_node and Stamp.FEW_NODES in pair.stamps)


def has_stopped_early(pair: Pair) -> bool:
    """Return whether its verdict is that of an interim analysis before the last one."""
    analysis = pair.interim_analysis
    return analysis is not None and analysis.number < analysis.of


def list_biases(pairs: Sequence[Pair]) -> list[Stamp]:
    """Return the stamps of these pairs that a mean would hide."""
    return [stamp for stamp in BIASED if any(stamp in pair.stamps for pair in pairs)]


def _part(part: int, count: int) -> str:
    return f"{part} of {count} configurations {'has' if part == 1 else 'have'}"


def convert_to_ratio(log: float) -> float:
    """Return the ratio of a log-ratio, always finite."""
    return math.exp(min(max(log, -700.0), 700.0))


def convert_to_ratios(interval: Interval) -> Interval:
    """Return an interval of the ratio for one of its logarithm."""
    return convert_to_ratio(interval[0]), convert_to_ratio(interval[1])
