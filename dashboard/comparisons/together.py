"""Sentences on several decisive metrics together: the head of a page, and methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from experiments.comparisons import Comparison, ExperimentComparison
from experiments.planning.decisive_metrics import get_rule, list_further
from experiments.statistics import numbers
from experiments.statistics.claims import (
    Wording,
    choose_wording,
    describe_margin,
    name_goal,
)
from experiments.statistics.metric_rules import MetricsRule
from experiments.statistics.several_metrics import Overall

MOST_NAMED = 3
"""Environments that each have a part of the sentence; of more, the verdicts are counted."""


def describe_together(overalls: Sequence[Overall]) -> tuple[str, str]:
    """Return one sentence on all decisive metrics of all comparisons: the claim, and the rest."""
    if len(overalls) == 1:
        return overalls[0].claim, overalls[0].evidence
    environments = list(dict.fromkeys(overall.environment for overall in overalls))
    if len(environments) > MOST_NAMED:
        shown = sum(overall.is_shown for overall in overalls)
        word = overalls[0].goal_text
        claim = f"{word[0].upper()}{word[1:]} in all {len(overalls[0].parts)} decisive metrics is "
        return f"{claim}shown in {shown} of {numbers.count(len(overalls), 'comparison')}", "."
    first, *others = [
        _describe_environment([each for each in overalls if each.environment == name])
        for name in environments
    ]
    return first[0].upper() + first[1:], "".join(f"; {part}" for part in others) + "."


def _describe_environment(overalls: Sequence[Overall]) -> str:
    """Return in how many configurations an environment is shown to be equivalent, or what stood
    in the way.
    """
    shown = [overall for overall in overalls if overall.is_shown]
    example = shown[0] if shown else overalls[0]
    if len(shown) == len(overalls) or not shown:
        where = numbers.all_of(len(overalls), "configuration") if len(overalls) > 1 else ""
    else:
        where = f"{len(shown)} of {len(overalls)} configurations"
    text = f"{example.claim}{where and f', in {where}'}"
    obstacles = Counter(part.name for overall in overalls for part in overall.in_the_way)
    if obstacles:
        named = numbers.listed([f"{name} in {count}" for name, count in obstacles.most_common()])
        text += f" (in the way: {named})"
    return text


def choose_all_wording(comparison: Comparison) -> Wording:
    """Return the words for all decisive metrics of a comparison together."""
    return choose_wording(group.metric for groups in comparison.by_metric for group in groups)


def describe_metrics_rule(comparison: Comparison) -> Iterator[str]:
    """Yield how the plan judges several decisive metrics together; nothing where it has one."""
    if not isinstance(comparison, ExperimentComparison) or not comparison.further:
        return
    experiment = comparison.experiment
    word = name_goal(comparison.margins.goal, choose_all_wording(comparison))
    named = numbers.listed(
        [
            f"{further.name} within {describe_margin(further.margin, wording)}"
            for further, groups in zip(list_further(experiment), comparison.further, strict=True)
            for wording in [choose_wording(group.metric for group in groups)]
        ]
    )
    text = f"Beside the main metric the plan has further decisive metrics, in this order: {named}. "
    if get_rule(experiment) is MetricsRule.ALL:
        text += (
            f"An environment is called {word} only if it is on every metric: an intersection-union "
            "test, each metric at the full level, whose p is the largest and needs no correction "
            "for the number of metrics. "
            "Over the comparisons Holm’s correction takes that largest p; the p of each metric are "
            "corrected over the comparisons of that metric."
        )
    else:
        text += (
            "They are judged in this fixed order, each at the full level, and only as long as all "
            "before it were shown: what follows is an estimate, not judged by the plan. Over the "
            "comparisons each has an equal share of the level, which goes to the other comparisons "
            "when all of its metrics are shown (Bretz et al. 2009)."
        )
    yield text + " The p of differences are corrected as one family of all comparisons and metrics."
