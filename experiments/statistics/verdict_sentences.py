"""Verdict sentences: the claim, its evidence and the next step."""

from collections.abc import Sequence

from experiments.statistics import numbers
from experiments.statistics.claims import (
    Wording,
    choose_wording,
    claim_difference,
    claim_shown,
    describe_margin,
)
from experiments.statistics.estimates import TOO_FEW, Estimate
from experiments.statistics.margins import describe_bounds
from experiments.statistics.values import JOINT, InterimAnalysis, Interval, Pair, Verdict
from experiments.statistics.verdicts import (
    BEYOND,
    DETECTABLE,
    DETECTED_FASTER,
    FEWEST,
    MOST,
    PROVED,
    TAIL,
    count_more_needed,
    find_likely_range,
)

ONE_NODE = "one node"
NODES_UNKNOWN = "nodes not known"


def claim_and_evidence(pair: Pair, estimate: Estimate | None) -> tuple[str, str]:
    """Return the claim (which a page may print bold) and the rest of the sentence."""
    wording = choose_wording([pair])
    if estimate is None or pair.verdict is Verdict.NO_INFERENCE:
        claim, evidence = "No inference", f": {_why_none(pair)}"
    elif pair.verdict is Verdict.INCONCLUSIVE:
        claim, evidence = "Inconclusive", f": {_what_is_open(pair, estimate)}"
    elif pair.verdict in PROVED.values():
        claim = claim_shown(
            pair.environment, pair.baseline, pair.goal, wording, margin=pair.margins
        ) + _scope(pair)
        evidence = f" ({_numbers(pair, 1 - 2 * pair.alpha, pair.ci_equivalence)})."
        evidence += _describe_detected(pair, wording)
    else:
        difference = claim_difference(pair.verdict, wording, _percent(pair, pair.ratio or 1))
        claim = f"{pair.environment} {difference} than {pair.baseline}{_scope(pair)}"
        evidence = f" ({_numbers(pair, 1 - pair.alpha, pair.ci_difference)}); " + (
            f"beyond {_margin(pair)}."
            if pair.detail == BEYOND
            else f"whether beyond {_margin(pair)} is open."
        )
    if pair.interim_analysis:
        evidence += f" {describe_analysis(pair, pair.interim_analysis)}".rstrip()
    if pair.dropped_blocks:
        count = numbers.count(len(pair.dropped_blocks), "incomplete block")
        evidence += f" {count} {_be(pair.dropped_blocks)} left out."
    if pair.dropped_nodes and pair.ratio is not None:
        count = numbers.count(len(pair.dropped_nodes), "node")
        evidence += f" {count} without runs of both {_be(pair.dropped_nodes)} left out."
    return claim, evidence


def _describe_detected(pair: Pair, wording: Wording) -> str:
    """Return a sentence on a difference beside what was shown; "" if none is detected."""
    if pair.detail == DETECTED_FASTER:
        difference = claim_difference(Verdict.FASTER, wording)
        return f" It {difference} (p of a difference {numbers.p_value(pair.p_difference)})."
    if pair.detail != DETECTABLE:
        return ""
    if pair.verdict is Verdict.EQUIVALENT:
        return " A difference can be detected, but it is smaller than the margin."
    difference = claim_difference(Verdict.SLOWER, wording)
    return f" That it {difference} can be detected, but by less than the margin."


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _scope(pair: Pair) -> str:
    """Return what the plan says that the verdict speaks of, after a space; "" if it does not."""
    return f" {pair.scope}" if pair.scope else ""


def _size(pair: Pair) -> str:
    """Return how much data there are and on how many nodes, a single one by its name."""
    if pair.n_nodes == 1:
        (name,) = pair.nodes
        return f"{pair.size} on node{'s' * (JOINT in name)} {name}"
    if pair.nodes_as_independent:
        return f"{pair.size_on_nodes}, counted as independent"
    return pair.size_on_nodes


def describe_analysis(pair: Pair, analysis: InterimAnalysis) -> str:
    """Return which of the planned analyses it was, as text; "" if it was none of them."""
    open_still = pair.verdict in (Verdict.INCONCLUSIVE, Verdict.NO_INFERENCE)
    if pair.extension:
        return pair.extension.describe_judgement(analysis.number, is_open=open_still)
    if not analysis.number:
        return ""
    start = "This was" if open_still else "Decided at"
    return f"{start} interim analysis {analysis.number} of {analysis.of}."


def _numbers(pair: Pair, level: float, interval: Interval | None) -> str:
    low, high = interval or (1.0, 1.0)
    decimals = numbers.ratio_decimals(interval)
    ratio, start, end = (numbers.fixed(value, decimals) for value in (pair.ratio or 1.0, low, high))
    return f"ratio {ratio}, {numbers.level(level)} CI {start} to {end}, {_size(pair)}"


def _percent(pair: Pair, ratio: float) -> str:
    """Return how far a ratio is from 1 in per cent, with the ratio's digits in brackets.

    Of the metric itself: a throughput of 1.761 times as much is 76.1 % faster.
    """
    decimals = numbers.ratio_decimals(pair.ci_difference)
    # The rounded ratio, so that what is printed twice is printed alike.
    return numbers.percent(abs(round(ratio, decimals) - 1), decimals=decimals - 2)


def _margin(pair: Pair) -> str:
    """The margin with its limits: 2 % are as much below 1 as above on the scale of logarithms."""
    bounds = pair.margins.find_bounds(pair.better)
    text = describe_margin(pair.margins, choose_wording([pair]))
    return f"the margin of {text} ({describe_bounds(bounds)})"


def _what_is_open(pair: Pair, estimate: Estimate) -> str:
    low, high = pair.ci_equivalence or (1.0, 1.0)
    wording = choose_wording([pair])
    below, above = wording.sides[::-1] if pair.better == "higher" else wording.sides
    if low < 1 < high:
        ends = [f"{_percent(pair, low)} {below}", f"{_percent(pair, high)} {above}"]
        between = " and ".join(ends if below == wording.less else ends[::-1])
    else:
        nearer, farther = sorted((low, high), key=lambda end: abs(end - 1))
        side = above if low >= 1 else below
        between = f"{_percent(pair, nearer)} and {_percent(pair, farther)} {side}"
    level = numbers.level(1 - 2 * pair.alpha)
    next_step = f"{_next_step(pair, estimate)} at {describe_margin(pair.margins, wording)}"
    return (
        f"{pair.environment} {wording.verb} between {between} than {pair.baseline}{_scope(pair)} "
        f"({level} CI, {_size(pair)}); {next_step}."
    )


def _next_step(pair: Pair, estimate: Estimate) -> str:
    more = count_more_needed(estimate, pair.margins, pair.alpha, pair.better)
    if more is None:
        return f"even {MOST:,} more {_units(pair, MOST)} would hardly decide"
    low, high = (_round_up(end) for end in find_likely_range(estimate, more))
    about, level = _round_up(more), numbers.level(1 - 2 * TAIL)
    units = f"{_units(pair, about)} ({level} interval {low} to {high})"
    return f"about {about} more {units} would decide"


def _round_up(count: int) -> int:
    """Return a rough number without the digits that say nothing."""
    return -(-count // 10) * 10 if count > 100 else count


def _units(pair: Pair, count: int) -> str:
    s = "s" * (count != 1)
    if pair.by_node:
        return f"set{s} of nodes" if pair.has_sets_of_nodes else f"node{s}"
    return f"block{s}" if pair.paired else f"run{s} of each"


def _why_none(pair: Pair) -> str:
    if pair.detail == "identical values":
        return (
            f"{pair.environment} and {pair.baseline} show no spread at all ({pair.size}); "
            "was the log rounded?"
        )
    if pair.detail == NODES_UNKNOWN:
        return (
            f"the node of some runs is not known ({pair.size}), and without it nothing can be said "
            "of the partition."
        )
    if pair.detail == ONE_NODE:
        return (
            f"{_size(pair)} cannot show how much the nodes of the partition differ; "
            f"{FEWEST - 1} more {_units(pair, FEWEST - 1)} are needed."
        )
    if pair.detail == TOO_FEW:
        more = FEWEST - pair.count_to_infer
        return (
            f"{pair.size} of {pair.environment} and {pair.baseline} cannot show how much runs "
            f"vary; {more} more {_units(pair, more)} are needed."
        )
    if pair.ratio is not None:
        return (
            f"the ratio of {pair.environment} to {pair.baseline} is {numbers.ratio(pair.ratio)}, "
            f"but there is {pair.detail}."
        )
    return f"there is {pair.detail}."
