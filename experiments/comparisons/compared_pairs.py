"""Compares the environments of one group, and stamps the pairs for what happened to their runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.comparisons.comparison import Group, is_decided
from experiments.comparisons.exclusions import Exclusion, stamp_excluded
from experiments.comparisons.extended_pairs import make_extended, stamp_extended
from experiments.comparisons.node_conditions import find_sampled_coincidences
from experiments.comparisons.nodes_of_jobs import stamp_first_nodes
from experiments.comparisons.repaired import SecondJob, why_across_jobs
from experiments.comparisons.run_facts import CompareFacts
from experiments.comparisons.trainings import Trainings
from experiments.comparisons.warm_ups import WarmUps
from experiments.models import Experiment
from experiments.planning.interim import Judgement, Stage
from experiments.software import frozen_parity
from experiments.statistics import Estimand, Measured, Pair, Sample, Stamp, Verdict, compare
from experiments.statistics.attribution import attribute
from experiments.statistics.margins import Margin
from experiments.statistics.unsteadiness import describe_unsteadiness, find_unsteadiness
from experiments.statistics.values import InterimAnalysis
from runners.workloads.run_metrics import RUN_METRIC_NAMES

TRIED_AGAIN = "tried again after a verdict"
"""The event of a failed job that is tried again although its verdict could be read."""
WHY_AGAIN = (
    "A failed job was tried again after a verdict could be read here: whether it was, may have "
    "depended on the verdict."
)
COLLECTED_AFTER = "collected after a verdict"
"""The event of files that arrive so late that a verdict could be read without them."""
WHY_LATE = (
    "Files of a run arrived after a verdict could be read here: it counts now, and did not then."
)


def compare_group(
    experiment: Experiment,
    stage: Stage,
    configuration: Mapping[str, str],
    metric: Measured,
    environments: list[str],
    samples: list[Sample],
    compare_facts: CompareFacts,
    program_descriptions: Mapping[str, str],
    starts: WarmUps | None,
    parity: Mapping[str, Mapping[str, Any]],
    trained: Trainings | None,
    *,
    tried_again: bool,
    collected_late: bool,
    second_jobs: Mapping[str, SecondJob],
    margin: Margin,
) -> Group:
    """Compare the environments of one workload at one scale, by its `samples`.

    `compare_facts` compares what the runs' snapshots say: a verdict is stamped for those of the
    repeats alone that it rests on. `margin` is that of the metric.
    """
    has_times = not experiment.imported_at or all(sample.started is not None for sample in samples)
    untimed = [] if has_times else ["the logs do not say when the runs ran"]

    def judge(judgement: Judgement, judged_environments: Sequence[str]) -> list[Pair]:
        planned = len(stage.after_repeats)
        alpha = stage.get_level_of(judgement)
        analysis = InterimAnalysis(number=judgement.number, of=planned, alpha=alpha)
        samples_until_then = [
            sample
            for sample in samples
            if judgement.repeats is None or sample.repeat <= judgement.repeats
        ]
        pairs = compare(
            samples_until_then,
            baseline=experiment.baseline.name,
            environments=judged_environments,
            margin=margin,
            better=metric.better,
            paired=experiment.is_paired,
            unit=metric.unit,
            differences={
                name: [*compared.first_sentences, *untimed]
                for name, compared in compare_facts(judgement.repeats).items()
            },
            interim_analysis=analysis if planned > 1 else None,
            estimand=Estimand(experiment.estimand) if experiment.estimand else None,
            counted=f"measured {metric.name}" if metric.name in RUN_METRIC_NAMES else "run",
            extension=make_extended(stage),
        )
        pairs = [
            stamp_first_nodes(pair, configuration["scale"], samples_until_then) for pair in pairs
        ]
        if not judgement.number:
            pairs = [_add_stamp(pair, Stamp.STOPPED_EARLY, stage.why_early) for pair in pairs]
        return pairs

    try:
        pairs = _keep_first_verdicts(list(stage.judgements), environments[1:], judge)
    except ValueError as error:  # the chosen metric may be zero or negative
        return Group(configuration, metric, samples, [], str(error), starts, trained)
    pairs = [
        attribute(
            pair, compare_facts(_find_repeats(pair, stage.after_repeats)).get(pair.environment)
        )
        for pair in pairs
    ]
    if tried_again:
        pairs = [_add_stamp(pair, Stamp.TRIED_AGAIN, WHY_AGAIN) for pair in pairs]
    if collected_late:
        pairs = [_add_stamp(pair, Stamp.COLLECTED_AFTER, WHY_LATE) for pair in pairs]
    if second_jobs and experiment.is_paired:
        pairs = [_stamp_across_jobs(pair, samples, second_jobs) for pair in pairs]
    pairs = [
        _add_software(
            pair, parity.get(pair.environment), program_descriptions.get(pair.environment, "")
        )
        for pair in pairs
    ]
    if trained:
        pairs = [_stamp_trained_differently(pair, trained) for pair in pairs]
    last = max(stage.judgements, key=lambda judgement: judgement.number, default=None)
    unsteady = _describe_unsteadiness(pairs, samples, metric, last.repeats if last else 0)
    return Group(
        configuration,
        metric,
        samples,
        pairs,
        warm_ups=starts,
        trained=trained,
        unsteady=unsteady,
    )


def _describe_unsteadiness(
    pairs: Sequence[Pair], samples: Sequence[Sample], metric: Measured, repeats: int | None
) -> str:
    """Return what was unsteady in the runs that were judged, where a pair is inconclusive; or "".

    Those of the first `repeats`, or all: later ones would tell of verdicts before their time.
    """
    open_pairs = [pair for pair in pairs if pair.verdict is Verdict.INCONCLUSIVE]
    if not open_pairs:
        return ""
    baseline = open_pairs[0].baseline
    names = {baseline, *(pair.environment for pair in open_pairs)}
    judged = [
        sample
        for sample in samples
        if sample.environment in names and (repeats is None or sample.repeat <= repeats)
    ]
    unsteady = find_unsteadiness(judged, baseline)
    if unsteady is None:
        return ""
    sampled = find_sampled_coincidences(judged, metric)
    return describe_unsteadiness(unsteady, baseline, metric, sampled)


def _keep_first_verdicts(
    judgements: Sequence[Judgement],
    environments: Sequence[str],
    judge: Callable[[Judgement, Sequence[str]], list[Pair]],
) -> list[Pair]:
    """Return each environment's pair at the first judgement with a verdict, else at the last one.

    Runs that came after the analysis that decided add an estimate beside its verdict.
    """
    pairs: dict[str, Pair] = {}
    for judgement in judgements:
        for pair in judge(judgement, environments):
            earlier = pairs.get(pair.environment)
            if earlier and earlier.interim_analysis and is_decided(earlier):
                pairs[pair.environment] = _add_later_estimate(
                    earlier, earlier.interim_analysis, pair
                )
            elif judgement.decides:
                pairs[pair.environment] = stamp_extended(pair, earlier)
    return list(pairs.values())


def _add_later_estimate(pair: Pair, analysis: InterimAnalysis, now: Pair) -> Pair:
    if now.size == pair.size:
        return pair
    analysis = replace(analysis, later_ratio=now.ratio, later_ci95=now.ci95, later_size=now.size)
    return replace(pair, interim_analysis=analysis)


def _add_software(pair: Pair, parity: Mapping[str, Any] | None, program: str) -> Pair:
    """Return the pair with the parity report of its plan; a waived difference adds a stamp.

    `program` describes the user's own program as the runs found it; "" where they had none.
    """
    if parity is None:
        return replace(pair, software=program)
    known = frozen_parity.describe_known_differences(parity, own_program=bool(program))
    pair = replace(pair, software=f"{known} {program}".strip())
    why = frozen_parity.describe_waivers(parity)
    return _add_stamp(pair, Stamp.WAIVED, why) if why else pair


def _stamp_across_jobs(
    pair: Pair, samples: Sequence[Sample], second_jobs: Mapping[str, SecondJob]
) -> Pair:
    """Return the pair, stamped if runs of one block are of two jobs: they are further apart."""
    why = why_across_jobs(pair, samples, second_jobs)
    return _add_stamp(pair, Stamp.ACROSS_JOBS, why) if why else pair


def _stamp_trained_differently(pair: Pair, trained: Trainings) -> Pair:
    """Return the pair, stamped if its environment trained differently: wrong runs are not fast."""
    for why in trained.reasons_to_stamp(pair.environment)[:1]:
        pair = _add_stamp(pair, Stamp.TRAINED_DIFFERENTLY, why)
    return pair


def stamp_exclusions(
    group: Group,
    before: Group,
    own: Sequence[Exclusion],
    others: Sequence[Exclusion],
    after_repeats: Sequence[int],
) -> Group:
    """Return the group, its verdicts stamped where exclusions took part in them.

    `own` are those of its configuration, `others` those of all other ones, and `before` is the
    same group with all of them undone. `after_repeats` are those of the interim analyses: a verdict
    rests on no later run.
    """
    pairs_before = {pair.environment: pair for pair in before.pairs}
    pairs = [
        stamp_excluded(
            pair,
            pairs_before.get(pair.environment),
            [
                row
                for row in own
                if row.environment in (pair.environment, pair.baseline)
                and row.repeat <= _find_last_repeat(pair, after_repeats)
            ],
            [*others, *(row for row in own if row.environment != pair.environment)],
            problem=before.problem,
        )
        for pair in group.pairs
    ]
    return replace(group, pairs=pairs)


def _find_last_repeat(pair: Pair, after_repeats: Sequence[int]) -> float:
    """Return the last repeat on which the pair's verdict rests; infinity for all."""
    return _find_repeats(pair, after_repeats) or math.inf


def _find_repeats(pair: Pair, after_repeats: Sequence[int]) -> int | None:
    """Return the number of repeats on which the pair's verdict rests; None for all."""
    number = pair.interim_analysis.number if pair.interim_analysis else 0
    return after_repeats[number - 1] if 0 < number < len(after_repeats) else None


def _add_stamp(pair: Pair, stamp: Stamp, reason: str) -> Pair:
    return replace(pair, stamps=(*pair.stamps, stamp), reasons=(*pair.reasons, reason))
