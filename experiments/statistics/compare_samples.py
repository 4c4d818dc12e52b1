"""Comparison of samples: the entry point that returns a verdict for each environment."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from experiments.statistics.arms import Arms, check
from experiments.statistics.estimates import Estimate
from experiments.statistics.stamps import list_stamps
from experiments.statistics.values import Better, InterimAnalysis, Pair, Sample, Stamp, Verdict
from experiments.statistics.verdict_sentences import claim_and_evidence
from experiments.statistics.verdicts import decide


def compare(
    samples: Sequence[Sample],
    *,
    baseline: str,
    environments: Sequence[str],
    margin: float,
    better: Better | None,
    paired: bool,
    unit: str,
    differences: Mapping[str, Sequence[str]] | None = None,
    interim_analysis: InterimAnalysis | None = None,
) -> list[Pair]:
    """Compare each environment with the baseline: one workload, one scale, one metric in `unit`.

    `differences` names, by environment, whatever else was not alike ("Driver 535.1 and 550.2"); it
    stamps the verdict. The baseline itself is skipped where `environments` holds it. With
    `interim_analysis` the samples are those of one of several, and its level decides.
    ValueError names the run whose value is not positive and finite.
    """
    if not 0 < margin < math.inf:
        raise ValueError(f"A margin is a positive fraction such as 0.02, not {margin}.")
    check(samples)
    return [
        _pair(
            Arms.of(
                [sample for sample in samples if sample.environment == baseline],
                [sample for sample in samples if sample.environment == environment],
                paired=paired,
            ),
            Pair(
                baseline=baseline,
                environment=environment,
                unit=unit,
                better=better,
                margin=margin,
                paired=paired,
                interim_analysis=interim_analysis,
            ),
            (differences or {}).get(environment, ()),
        )
        for environment in environments
        if environment != baseline
    ]


def correct_by_holm(pairs: Sequence[Pair]) -> list[Pair]:
    """Return the pairs with Holm's (1979) adjusted p values, for each question on its own.

    The family is all pairs of an experiment; those without inference do not count. A verdict that
    its adjusted p no longer supports keeps its word and is stamped NOT AFTER HOLM.
    """
    difference = _adjust([pair.p_difference for pair in pairs])
    equivalence = _adjust([pair.p_equivalence for pair in pairs])
    family = sum(p is not None for p in difference)
    adjusted = []
    for pair, p_difference, p_equivalence in zip(pairs, difference, equivalence, strict=True):
        deciding = {
            Verdict.EQUIVALENT: p_equivalence,
            Verdict.SLOWER: p_difference,
            Verdict.FASTER: p_difference,
        }.get(pair.verdict)
        pair = replace(pair, p_difference_holm=p_difference, p_equivalence_holm=p_equivalence)
        if deciding is not None and deciding > pair.alpha:
            reason = f"Among {family} comparisons the adjusted p is {deciding:.2g}."
            pair = replace(
                pair,
                stamps=(*pair.stamps, Stamp.NOT_AFTER_HOLM),
                reasons=(*pair.reasons, reason),
            )
        adjusted.append(pair)
    return adjusted


def _pair(arms: Arms, pair: Pair, differences: Sequence[str]) -> Pair:
    """Return the pair with all numbers that the arms give."""
    values_b = [sample.value for sample in arms.baseline]
    values_e = [sample.value for sample in arms.environment]
    pair = replace(
        pair,
        n_blocks=len(arms.blocks),
        n_baseline=len(values_b),
        n_environment=len(values_e),
        baseline_mean=_mean(values_b),
        baseline_sd=_sd(values_b),
        environment_mean=_mean(values_e),
        environment_sd=_sd(values_e),
        dropped_blocks=arms.dropped,
    )
    estimate = arms.estimate()
    if estimate is None:
        pair = replace(pair, detail=_missing(pair))
    else:
        verdict, detail = decide(estimate, pair.margin, pair.better, pair.alpha)
        pair = replace(pair, ratio=estimate.ratio, verdict=verdict, detail=detail)
        if not estimate.flaw:
            reserved = list(
                list_stamps(
                    arms,
                    estimate,
                    verdict,
                    margin=pair.margin,
                    better=pair.better,
                    alpha=pair.alpha,
                    differences=differences,
                )
            )
            pair = replace(
                pair,
                log_se=estimate.se,
                df=estimate.df,
                ci95=estimate.interval(0.95),
                ci90=estimate.interval(0.90),
                p_difference=estimate.p_difference,
                p_equivalence=estimate.p_equivalence(pair.margin),
                smallest_margin=estimate.provable_margin(pair.alpha),
                interim_analysis=_with_intervals(pair.interim_analysis, estimate),
                stamps=tuple(stamp for stamp, _ in reserved),
                reasons=tuple(reason for _, reason in reserved),
            )
    claim, evidence = claim_and_evidence(pair, estimate)
    return replace(pair, claim=claim, evidence=evidence)


def _with_intervals(analysis: InterimAnalysis | None, estimate: Estimate) -> InterimAnalysis | None:
    """Return the analysis with the intervals that decide at its level."""
    return analysis and replace(
        analysis,
        ci_difference=estimate.interval(1 - analysis.alpha),
        ci_equivalence=estimate.interval(1 - 2 * analysis.alpha),
    )


def _missing(pair: Pair) -> str:
    if pair.dropped_blocks:
        return f"no block with runs of both {pair.environment} and {pair.baseline}"
    return f"no run of {pair.baseline if not pair.n_baseline else pair.environment}"


def _adjust(ps: Sequence[float | None]) -> list[float | None]:
    """Return p values adjusted by Holm's step-down; None stays None."""
    ordered = sorted((p, i) for i, p in enumerate(ps) if p is not None)
    adjusted: list[float | None] = [None] * len(ps)
    largest = 0.0
    for rank, (p, i) in enumerate(ordered):
        largest = max(largest, min(1.0, p * (len(ordered) - rank)))
        adjusted[i] = largest
    return adjusted


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _sd(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
