"""Comparison of samples: the entry point that returns a verdict for each environment."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.statistics.arms import Arms, check
from experiments.statistics.claims import choose_wording
from experiments.statistics.estimates import TOO_FEW, Estimate
from experiments.statistics.extended import Extended
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.sources import explain_different_sources
from experiments.statistics.stamps import list_node_stamps, list_stamps
from experiments.statistics.values import Better, Estimand, InterimAnalysis, Pair, Sample
from experiments.statistics.verdict_sentences import NODES_UNKNOWN, ONE_NODE, claim_and_evidence
from experiments.statistics.verdicts import decide


def compare(
    samples: Sequence[Sample],
    *,
    baseline: str,
    environments: Sequence[str],
    margin: float | Margin,
    better: Better | None,
    paired: bool,
    unit: str,
    differences: Mapping[str, Sequence[str]] | None = None,
    interim_analysis: InterimAnalysis | None = None,
    estimand: Estimand | None = None,
    counted: str = "run",
    extension: Extended | None = None,
) -> list[Pair]:
    """Compare each environment with the baseline: one workload, one scale, one metric in `unit`.

    `differences` names, by environment, whatever else was not alike ("Driver 535.1 and 550.2"); it
    stamps the verdict. The baseline itself is skipped where `environments` holds it. With
    `interim_analysis` the samples are those of one of several, and its level decides. `estimand` is
    what the verdicts speak of: for a partition the means of its nodes are what is compared.
    `counted` names what an environment without samples has none of. With an `extension` the
    analysis is the one before it or the one after it.
    ValueError names the run whose value is not positive and finite.
    """
    margin = Margin.of(margin)
    check(samples)
    return [
        _pair(
            Arms.of(
                [sample for sample in samples if sample.environment == baseline],
                [sample for sample in samples if sample.environment == environment],
                paired=paired,
                estimand=estimand,
            ),
            Pair(
                baseline=baseline,
                environment=environment,
                unit=unit,
                better=better,
                margin=margin.slower,
                goal=margin.goal,
                margin_faster=None
                if margin.is_symmetric or margin.goal is Goal.NOT_SLOWER
                else margin.faster,
                paired=paired,
                interim_analysis=interim_analysis,
                estimand=estimand,
                extension=extension,
            ),
            (differences or {}).get(environment, ()),
            counted,
        )
        for environment in environments
        if environment != baseline
    ]


def _pair(arms: Arms, pair: Pair, differences: Sequence[str], counted: str) -> Pair:
    """Return the pair with all numbers that the arms give."""
    values_b = [sample.value for sample in arms.baseline]
    values_e = [sample.value for sample in arms.environment]
    pair = replace(
        pair,
        nodes=tuple(arms.nodes),
        n_nodes=len(arms.nodes),
        n_blocks=len(arms.blocks),
        n_baseline=len(values_b),
        n_environment=len(values_e),
        baseline_mean=_mean(values_b),
        baseline_sd=_sd(values_b),
        environment_mean=_mean(values_e),
        environment_sd=_sd(values_e),
        dropped_blocks=arms.dropped,
        dropped_nodes=arms.dropped_nodes,
    )
    estimate = arms.estimate()
    if why := explain_different_sources(arms.baseline, arms.environment):
        estimate = None
        pair = replace(pair, detail=why)
    elif estimate is None:
        pair = replace(pair, detail=_missing(pair, counted))
    else:
        verdict, detail = decide(estimate, pair.margins, pair.better, pair.alpha)
        if pair.by_node and estimate.flaw == TOO_FEW:
            detail = ONE_NODE if pair.n_nodes else NODES_UNKNOWN
        pair = replace(pair, ratio=estimate.ratio, verdict=verdict, detail=detail)
        if not estimate.flaw:
            reserved = [
                *list_stamps(
                    arms,
                    estimate,
                    verdict,
                    margin=pair.margins,
                    better=pair.better,
                    alpha=pair.alpha,
                    differences=differences,
                    wording=choose_wording([pair]),
                ),
                *list_node_stamps(pair),
            ]
            pair = replace(
                pair,
                log_se=estimate.se,
                df=estimate.df,
                ci95=estimate.interval(0.95),
                ci90=estimate.interval(0.90),
                p_difference=estimate.p_difference,
                **compute_p_values(estimate, pair),
                smallest_margin=estimate.provable_margin(pair.alpha, _find_side(pair)),
                interim_analysis=_with_intervals(pair.interim_analysis, estimate),
                stamps=tuple(stamp for stamp, _ in reserved),
                reasons=tuple(reason for _, reason in reserved),
            )
    claim, evidence = claim_and_evidence(pair, estimate)
    return replace(pair, claim=claim, evidence=evidence)


def compute_p_values(estimate: Estimate, pair: Pair) -> dict[str, Any]:
    """Return the p of what was to be shown, and of each bound that the margin has."""
    bounds = pair.margins.find_log_bounds(pair.better)
    lower, upper = estimate.compute_p_of_bounds(bounds)
    p = max(lower, upper)
    is_one_sided = pair.goal is Goal.NOT_SLOWER
    return {
        "p_equivalence": None if is_one_sided else p,
        "p_not_slower": p if is_one_sided else None,
        "p_lower_bound": None if bounds[0] == -math.inf else lower,
        "p_upper_bound": None if bounds[1] == math.inf else upper,
    }


def _find_side(pair: Pair) -> Better | None:
    """Return the direction of the metric where only one end of the interval decides."""
    return pair.better if pair.goal is Goal.NOT_SLOWER else None


def _with_intervals(analysis: InterimAnalysis | None, estimate: Estimate) -> InterimAnalysis | None:
    """Return the analysis with the intervals that decide at its level."""
    return analysis and replace(
        analysis,
        ci_difference=estimate.interval(1 - analysis.alpha),
        ci_equivalence=estimate.interval(1 - 2 * analysis.alpha),
    )


def _missing(pair: Pair, counted: str) -> str:
    if pair.dropped_nodes:
        return f"no node with runs of both {pair.environment} and {pair.baseline}"
    if pair.dropped_blocks:
        return f"no block with runs of both {pair.environment} and {pair.baseline}"
    return f"no {counted} of {pair.baseline if not pair.n_baseline else pair.environment}"


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _sd(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None
