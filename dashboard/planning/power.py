"""Statistical power: what an experiment's repeats can show, as text before its launch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from experiments.models import Cluster, User, Workload
from experiments.planning.past_spread import History, Spread, measure_past_spread
from experiments.statistics import numbers
from experiments.statistics.estimates import Estimate
from experiments.statistics.interim_analyses import (
    count_most_analyses,
    get_level,
    schedule,
    simulate_course,
)
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.planner import (
    FEWEST_TO_INFER,
    compute_equivalence_power,
    compute_smallest_margin,
    compute_upper_bound_factor,
    count_repeats_needed,
    count_repeats_to_detect,
    expect_estimate,
)
from experiments.statistics.values import ALPHA
from experiments.statistics.verdicts import FEWEST, MOST
from runners.workloads import WORKLOADS

USUAL_CV = 0.01
"""From run to run, where a cluster has no history: about the median of published GPU runs."""
MOST_PROPOSED = 30
"""Repeats that a draft begins with, however much runs vary."""
WELL_KNOWN = 20
"""Degrees of freedom from which on a spread is believed as it was seen."""


@dataclass(frozen=True)
class Outlook:
    """`sentence` says what can be proved; `notes` what that rests on and what else it takes.

    `savings` says what interim analyses save; "" where none are planned or the repeats are few.
    """

    sentence: str
    notes: str
    savings: str = ""


Asked = tuple[str, str, Workload | None]
"""A kind of workload and a metric that it reports; a program of a user's own is one by itself."""


def list_asked(workloads: Sequence[Workload], metric: str) -> list[Asked]:
    """Return each kind of workload that reports `metric` once; empty is each kind's own."""
    asked: dict[Asked, None] = {}
    for workload in workloads:
        declared, given = WORKLOADS[workload.kind], workload.parameters
        name = metric or declared.choose_primary_metric(given)
        if name in {each.name for each in declared.list_all_metrics(given)}:
            program = workload.parent or workload  # of all variants one
            asked[workload.kind, name, program if declared.is_the_users else None] = None
    return list(asked)


def estimate_outlooks(
    *,
    cluster: Cluster,
    workloads: Sequence[Workload],
    metric: str,
    repeats: int,
    analyses: int = 1,
    margin: float | Margin,
    paired: bool,
    comparisons: int,
    reader: User,
    nodes: int | None = None,
    histories: dict[Asked, History] | None = None,
) -> Iterator[Outlook]:
    """Yield one for each kind of workload that reports `metric`; empty is each kind's own.

    `nodes`: on how many the blocks are to run, where verdicts are to speak of the partition: then
    the means of nodes are what counts. Of programs that users have brought there is one each: they
    have nothing in common. What was read of past runs is put into `histories`.
    """
    margin = Margin.of(margin)
    goal = margin.goal
    asked = list_asked(workloads, metric)
    count, pairs = (repeats, paired) if nodes is None else (nodes, True)
    what = f"{numbers.count(repeats, 'block' if paired else 'run')}{'' if paired else ' of each'}"
    if nodes is not None:
        what = numbers.count(nodes, "node")
    for kind, name, only in asked:
        past = measure_past_spread(kind, cluster, name, reader, only=only)
        if histories is not None:
            histories[kind, name, only] = past
        whose = only.name if only else kind
        cv, given, doubt = expect_spread(
            past, whose, paired=paired, blocks_a_node=repeats / nodes if nodes else None
        )
        sentence = (
            f"{given}, {what} can {_provable(cv, count, pairs, goal)}; {margin.text} "
            f"needs {describe_repeats(count_repeats_needed(cv, margin, paired=pairs))}."
        )
        notes = (
            f"{doubt} To find a true difference of {numbers.margin(margin.slower)} takes "
            f"{describe_repeats(count_repeats_to_detect(cv, margin.slower, paired=pairs))}."
        )
        if comparisons > 1:
            corrected = count_repeats_needed(cv, margin, paired=pairs, alpha=ALPHA / comparisons)
            shown = "“Not slower”" if goal is Goal.NOT_SLOWER else "Equivalence"
            notes += f" {shown} that survives Holm among {comparisons} comparisons takes "
            notes += f"{describe_repeats(corrected)}."
        saved = ""
        if 1 < analyses <= count_most_analyses(repeats) and count == repeats:
            saved = _saved(expect_estimate(cv, count, paired=pairs), margin, repeats, analyses)
        yield Outlook(sentence, notes, saved)


def propose_repeats(
    cluster: Cluster, workload: Workload | None, *, margin: float, reader: User
) -> int:
    """Return the fewest blocks that are expected to prove equivalence, by the spread seen there.

    At least as many as leave no verdict provisional, at most what a first test is worth: the form
    says what more would take.
    """
    if workload is None:
        return FEWEST
    kind = WORKLOADS[workload.kind]
    metric = kind.choose_primary_metric(workload.parameters)
    past = measure_past_spread(workload.kind, cluster, metric, reader)
    cv, _, _ = expect_spread(past, workload.kind, paired=True)
    needed = count_repeats_needed(cv, margin, paired=True) or MOST_PROPOSED
    return min(max(needed, FEWEST), MOST_PROPOSED)


def expect_spread(
    past: History, whose: str, *, paired: bool, blocks_a_node: float | None = None
) -> tuple[float, str, str]:
    """Return the CV to plan with, the words that begin the sentence, and what that rests on.

    `blocks_a_node`: on the mean, where the means of nodes are to be compared.
    """
    by_node = blocks_a_node is not None
    if blocks_a_node and (of_means := past.expect_node_means(blocks_a_node)):
        cv, given, doubt = _believed(of_means, whose)
        basis = "The CV is that of the ratio, from node to node."
        if past.within_nodes:
            basis += f" It is for {numbers.count(round(blocks_a_node), 'block')} on each."
        elif blocks_a_node > 1:
            basis += " What several blocks on each would change is not known here yet."
        return cv, given, doubt + basis
    cv, given, doubt = _believed((paired and past.of_ratios) or past.of_runs, whose)
    basis = "The CV is from run to run."
    if paired and past.of_ratios:
        basis = "The CV is that of the ratio, from block to block."
    elif paired or by_node:
        cv *= math.sqrt(2)
        basis = "The CV is from run to run, and taken as if runs of one block shared nothing."
    if by_node:
        basis += (
            " How much the ratio differs from node to node is not known here yet; where it does, "
            "more nodes are needed."
        )
    return cv, given, doubt + basis


def _believed(spread: Spread | None, kind: str) -> tuple[float, str, str]:
    """Return the CV to plan with, the words that begin the sentence, and what to note about it."""
    if spread is None:
        return USUAL_CV, f"No runs of {kind} to go by here yet: with the usual CV of 1 %", ""
    source = f"({spread.runs} runs of {kind} on this cluster)"
    if spread.df >= WELL_KNOWN:
        return spread.sd, f"With CV {_percent(spread.sd)} {source}", ""
    bound = spread.sd * compute_upper_bound_factor(spread.df)
    note = (
        f"{_percent(spread.sd)} was seen, but so few runs tend to underestimate it: "
        f"{_percent(bound)} is its 80 % upper bound. "
    )
    return bound, f"With CV up to {_percent(bound)} {source}", note


def _saved(truth: Estimate, margin: Margin, repeats: int, analyses: int) -> str:
    """Return a sentence on what interim analyses save, beside the fixed number of repeats."""
    *first, last = schedule(repeats, analyses)
    plan = simulate_course(truth, margin, repeats=repeats, analyses=analyses)
    once = compute_equivalence_power(truth, margin)
    after = f"{', '.join(map(str, first))} and {last}"
    return (
        f"With interim analyses after {after} repeats, each at {get_level(analyses):g}, it ends "
        f"after {plan.repeats:.1f} on average if there is truly no difference, and proves "
        f"{_describe_goal(margin)} in {_of_100(plan.equivalent)} of 100 such experiments; judged "
        f"once it takes {last} and proves it in {_of_100(once)}."
    )


def _describe_goal(margin: Margin) -> str:
    return f"{'“not slower” at ' * (margin.goal is Goal.NOT_SLOWER)}{margin.text}"


def _of_100(share: float) -> str:
    return "more than 99" if share > 0.995 else f"{100 * share:.0f}"


def _provable(cv: float, repeats: int, paired: bool, goal: Goal) -> str:
    """Return what can be proved; the margin is rounded up so that the printed one can be."""
    if repeats < FEWEST_TO_INFER:
        return "prove nothing"
    margin = compute_smallest_margin(cv, repeats, paired=paired, goal=goal)
    unit = 10.0 ** (math.floor(math.log10(margin)) - 1)
    text = numbers.margin(math.ceil(margin / unit) * unit)
    return f"prove “not slower” at {text}" if goal is Goal.NOT_SLOWER else f"prove {text}"


def _percent(fraction: float) -> str:
    return f"{float(f'{100 * fraction:.2g}'):g} %"


def describe_repeats(repeats: int | None) -> str:
    """Return a number of repeats as text; None is more than are searched."""
    return f"more than {MOST:,}" if repeats is None else str(repeats)
