"""The rule of the verdicts and the family of comparisons, for paragraphs on methods."""

from __future__ import annotations

from experiments.comparisons import Comparison
from experiments.statistics import numbers
from experiments.statistics.claims import describe_margin, name_goal
from experiments.statistics.margins import Goal
from experiments.statistics.values import Interval


def describe_rule(comparison: Comparison) -> str:
    """Return by which rule the main metric's verdicts are given."""
    wide, narrow = comparison.levels
    margins, wording = comparison.margins, comparison.wording
    margin = describe_margin(margins, wording)
    otherwise = f"{'it needs ' * wording.is_need}{wording.more} or {wording.less}"
    if margins.goal is Goal.NOT_SLOWER:
        return _describe_one_sided_rule(comparison)
    if not margins.is_symmetric:
        return (
            f"An environment is called equivalent when the {narrow} interval lies within "
            f"{margin}, of times between 1/(1 + {numbers.margin(margins.faster)}) and "
            f"1 + {numbers.margin(margins.slower)} (of rates their inverses), which is two "
            f"one-sided tests at {comparison.alpha_text} of the logarithm of the ratio "
            "(p of equivalence is the larger of theirs; standard errors are on the log scale); "
            f"otherwise {otherwise} when the {wide} interval does not contain 1, and "
            "inconclusive when neither holds."
        )
    return (
        f"An environment is called equivalent when the {narrow} interval lies between 1/(1 + m) "
        f"and 1 + m with m = {numbers.margin(comparison.margin)}, which is two one-sided tests at "
        f"{comparison.alpha_text} of the logarithm of the ratio (p of equivalence is the "
        f"larger of theirs; standard errors are on the log scale); otherwise {otherwise} when the "
        f"{wide} interval does not contain 1, and inconclusive when neither holds."
    )


def _describe_one_sided_rule(comparison: Comparison) -> str:
    """Return the rule where only "not slower", or "not more", is to be shown."""
    wide, narrow = comparison.levels
    wording = comparison.wording
    margin = describe_margin(comparison.margins, wording)
    if wording.is_need:
        called = f"said not to need {wording.more} when the upper end of its {narrow} interval"
        side, ratios = "", "a ratio below 1 + m"
        open_side = f"{wording.less} it may need"
        otherwise = f"it needs {wording.more} when the {wide} interval lies above 1"
    else:
        called = f"called not {wording.more} when the end of its {narrow} interval"
        side = f" on the {wording.more} side"
        ratios = "a ratio of times below 1 + m, or of rates above 1/(1 + m)"
        open_side = f"{wording.less} it may be"
        otherwise = f"{wording.more} when the {wide} interval lies on the {wording.more} side of 1"
    return (
        f"An environment is {called}{side} lies within the margin of {margin}: {ratios}, with "
        f"m = {margin}. That is one one-sided test at {comparison.alpha_text} of the logarithm of "
        f"the ratio (standard errors are on the log scale); how much {open_side} was not asked. "
        f"Otherwise {otherwise}, and inconclusive when neither holds."
    )


def describe_family(comparison: Comparison) -> str:
    """Return how many comparisons were made, and how their p were corrected."""
    count = len(comparison.decisive) or len(comparison.pairs)
    if not count:
        return "No comparison has been made yet."
    of_metrics = f" of {len(comparison.by_metric)} decisive metrics" * bool(comparison.decisive)
    text = (
        f"{numbers.count(count, 'comparison')}{of_metrics} {'was' if count == 1 else 'were'} made; "
        "p after Holm’s correction stands in brackets."
    )
    if not comparison.everywhere:
        return text
    shown = name_goal(comparison.margins.goal, comparison.wording).capitalize()
    which = " Of the main metric," if comparison.decisive else ""
    return (
        f"{text}{which} “{shown} in all configurations” is an intersection-union "
        "test: its p is the "
        "largest and needs no correction. The geometric mean of the ratios takes the "
        "configurations as independent; none is given where the ratios differ (Welch’s F test at "
        f"5 %) by more than the margin.{_describe_exceptions(comparison)}{_pooling(comparison)}"
    )


def _describe_exceptions(comparison: Comparison) -> str:
    """Return where the mean takes configurations for dependent, and where there is none of them."""
    shared = [row.environment for row in comparison.everywhere if row.shares_nodes and row.ratio]
    without = [row.environment for row in comparison.everywhere if row.not_attributable]
    text = ""
    if shared:
        text = (
            f" Not so of {numbers.listed(shared)}, whose configurations ran on the same nodes: the "
            "standard error of its mean is the mean of theirs, the largest that it can be."
        )
    if without:
        text += (
            f" Of {numbers.listed(without)} there is none, nor that p: not every ratio is "
            "attributable to the container."
        )
    return text


def _pooling(comparison: Comparison) -> str:
    """Return how ratios were pooled in the forest plot, with the numbers; "" where none was."""
    pooled = [mean for mean in comparison.pooled if mean.ratio is not None]
    if not pooled:
        return ""
    level = numbers.level(pooled[0].level)
    named = "; ".join(
        f"{mean.environment} {numbers.ratio(mean.ratio, mean.interval)}"
        + (f", prediction interval {_interval(mean.prediction)}" if mean.prediction else "")
        for mean in pooled
    )
    return (
        " Diamonds of the forest plot are means by random effects (variance between configurations "
        "by Paule and Mandel 1982; standard error by Hartung and Knapp 2001, never below the usual "
        f"one; t with k − 1 degrees of freedom), at {level}: {named}."
    )


def _interval(interval: Interval) -> str:
    return " to ".join(numbers.fixed(end, 3) for end in interval)
