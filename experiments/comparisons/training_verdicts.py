"""Verdicts on the ends of trainings, by the margins of the plan and the runs that it judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from django.db.models import Count, Q

from experiments.comparisons.step_summaries import LOSS
from experiments.models import Experiment, Run
from experiments.planning.interim import Judgement, Stage
from experiments.statistics.training.end_pairs import EndPair
from experiments.statistics.training.end_verdicts import compare_ends
from experiments.statistics.training.outcomes import Ending

ACCURACY = "accuracy"
GroupKey = tuple[int, str]
"""A group in the database: the workload's primary key and the scale."""
BROKEN = r"\mloss\M[^\n]*not (a )?finite"
"""What our programs and the sanity check write of a loss that is NaN or infinite."""


def find_judgement(stage: Stage) -> Judgement | None:
    """Return the judgement that gives verdicts on training; None before its time.

    There is one: when no further analysis of the plan is to come. Until then what is seen of
    trainings is a check, without any interval. While an extension runs the one of the planned runs
    stands, as the verdict on speed does.
    """
    if stage.waits and not (stage.extended_by and stage.taken):
        return None
    deciding = [judgement for judgement in stage.judgements if judgement.decides]
    return deciding[-1] if deciding else None


def choose_judged(endings: Sequence[Ending], judgement: Judgement) -> list[Ending]:
    """Return the ends of the runs that a judgement takes."""
    return [
        ending
        for ending in endings
        if judgement.repeats is None or ending.repeat <= judgement.repeats
    ]


def count_diverged(experiment: Experiment, stage: Stage) -> dict[GroupKey, dict[str, int]]:
    """Return how many runs diverged, by group and environment; no query where no run failed.

    They failed because their loss was no number any more, and so are in no comparison.
    """
    if not stage.states[Run.State.FAILED]:
        return {}
    failed = Run.objects.filter(experiment=experiment, state=Run.State.FAILED).filter(
        Q(reason="loss is not a number") | Q(message__iregex=BROKEN) | Q(output_tail__iregex=BROKEN)
    )
    rows = failed.order_by("environment__name").values_list(
        "workload_id", "scale", "environment__name"
    )
    counts: dict[GroupKey, dict[str, int]] = {}
    for workload, scale, name, count in rows.annotate(count=Count("pk")):
        counts.setdefault((workload, scale), {})[name] = count
    return counts


def judge_ends(
    experiment: Experiment,
    stage: Stage,
    endings: Mapping[str, Sequence[Ending]],
    environments: Sequence[str],
    *,
    seeds_known: Mapping[str, bool],
    diverged: Mapping[str, int],
    excluded: Mapping[str, int],
) -> list[EndPair]:
    """Return the verdicts on one group's losses and accuracies; none before their time.

    A pair whose margin the plan does not fix has its interval, and no verdict. An imported
    experiment has no plan: its margins were chosen when the data had been taken.
    """
    judgement = find_judgement(stage)
    if judgement is None:
        return []
    margins = get_margins_by_what(experiment)
    return [
        pair
        if (margin := margins[what]) is None
        else pair.judge(margin, afterwards=experiment.launched_at is None)
        for what, ends in endings.items()
        for pair in compare_ends(
            choose_judged(ends, judgement),
            baseline=environments[0],
            environments=environments,
            what=what,
            seeds_known=seeds_known[what],
            paired=experiment.is_paired,
            alpha=stage.level,
            diverged=diverged,
            excluded=excluded,
            stopped_early=not judgement.number,
        )
        if ends
    ]


def get_margins_by_what(experiment: Experiment) -> dict[str, float | None]:
    """Return the margins of the plan; None where it has none."""
    return {LOSS: experiment.loss_margin, ACCURACY: experiment.accuracy_margin}


def judge_afterwards(pairs: Sequence[EndPair], margins: Mapping[str, float]) -> Iterator[EndPair]:
    """Yield the pairs; those without a verdict have one by a margin chosen now, if there is any."""
    for pair in pairs:
        margin = margins.get(pair.what)
        if pair.verdict is None and margin is not None:
            yield pair.judge(margin, afterwards=True)
        else:
            yield pair
