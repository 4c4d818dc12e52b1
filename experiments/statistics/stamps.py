"""Stamps: the reservations that a reviewer would have about a verdict."""

import math
from collections.abc import Iterator, Sequence
from statistics import median

from experiments.statistics.arms import Arms, take_logs
from experiments.statistics.claims import SPEED, Wording
from experiments.statistics.estimates import Estimate
from experiments.statistics.margins import Margin
from experiments.statistics.values import ALPHA, Better, Pair, Sample, Stamp, Verdict
from experiments.statistics.verdicts import FEWEST, decide

ROBUST_SDS = 5
MAD_TO_SD = 1.4826
NAMED = 8
"""More runs than this are counted, not named."""


def list_stamps(
    arms: Arms,
    estimate: Estimate,
    verdict: Verdict,
    *,
    margin: float | Margin,
    better: Better | None,
    alpha: float = ALPHA,
    differences: Sequence[str] = (),
    wording: Wording = SPEED,
) -> Iterator[tuple[Stamp, str]]:
    """Yield each stamp with its reason."""
    fewest = _count_fewest(arms, estimate)
    if fewest < FEWEST:
        yield (
            Stamp.PROVISIONAL,
            f"{fewest} {'blocks' if arms.paired else 'runs'} are few; "
            f"from {FEWEST} on the spread is known well enough.",
        )
    if confounded := [*_confounded(arms), *differences]:
        yield Stamp.CONFOUNDED, "; ".join(confounded) + "."
    if changing := _decisive(arms, verdict, margin, better, alpha):
        yield (
            Stamp.OUTLIER_SENSITIVE,
            f"Without {changing[0]}{' (or others)' if changing[1:] else ''} "
            "the verdict would be another one.",
        )
    slower = Margin.of(margin).slower
    slow = [*_tail(arms.baseline, slower, better), *_tail(arms.environment, slower, better)]
    if unsettled := [s for s in (*arms.baseline, *arms.environment) if not s.settles]:
        yield Stamp.NO_STEADY_STATE, _unsettled(unsettled, arms)
    if slow:
        much, rare = (
            ("Needed much more", "runs that need much")
            if wording.is_need
            else ("Much slower", "slow runs")
        )
        yield (
            Stamp.TAIL,
            f"{much} than the others of their environment: {', '.join(slow)}. "
            f"Rare {rare} are a cost that so few runs cannot measure.",
        )


def list_node_stamps(pair: Pair) -> Iterator[tuple[Stamp, str]]:
    """Yield FEW NODES, with its reason, where nodes are too few for what the verdict says."""
    if pair.by_node and pair.n_nodes < FEWEST:
        yield (
            Stamp.FEW_NODES,
            f"The verdict speaks of the partition and rests on {pair.nodes_text}; from "
            f"{FEWEST} on it is known well enough how much nodes differ.",
        )
    if pair.nodes_as_independent:
        yield (
            Stamp.FEW_NODES,
            f"{pair.size} on {pair.nodes_text} count as independent, so the verdict speaks of "
            "these nodes: if the ratio differs from node to node, it does not hold for others.",
        )


def _count_fewest(arms: Arms, estimate: Estimate) -> float:
    """Return the number of blocks, or of runs of the smaller arm. Without runs an estimate says."""
    if not arms.by_node:
        return min(arm.n for arm in estimate.arms)
    return len(arms.blocks) if arms.paired else min(len(arms.baseline), len(arms.environment))


def _unsettled(samples: Sequence[Sample], arms: Arms) -> str:
    count, total = len(samples), len(arms.baseline) + len(arms.environment)
    named = [f"run {sample.run} ({sample.environment})" for sample in samples[:NAMED]]
    more = f" and {count - NAMED} more" if count > NAMED else ""
    return (
        f"{count} of {total} runs never settle{'s' * (count == 1)}: {', '.join(named)}{more}. "
        f"{'It counts' if count == 1 else 'They count'} like the others, so what is compared is "
        "not only a steady state."
    )


def _ran_apart(first: Sample, second: Sample) -> bool:
    """Return whether two runs ran on different nodes; on several, by all where they are known."""
    if first.nodes and second.nodes:
        return set(first.nodes) != set(second.nodes)
    return first.node != second.node


def _join_nodes(samples: Sequence[Sample]) -> set[str]:
    return {name for sample in samples for name in (sample.node, *sample.nodes) if name}


def _confounded(arms: Arms) -> Iterator[str]:
    runs_b = {sample.block: sample for sample in arms.baseline if sample.node}
    runs_e = {sample.block: sample for sample in arms.environment if sample.node}
    if arms.paired:
        both = [block for block in arms.blocks if block in runs_b and block in runs_e]
        if apart := [block for block in both if _ran_apart(runs_b[block], runs_e[block])]:
            yield f"Different nodes within block {', '.join(apart)}"
    elif runs_b and runs_e and not _join_nodes(arms.baseline) & _join_nodes(arms.environment):
        yield "No node ran both environments"
    times_b = [sample.started for sample in arms.baseline if sample.started is not None]
    times_e = [sample.started for sample in arms.environment if sample.started is not None]
    if 0 < len(times_b) == len(arms.baseline) and 0 < len(times_e) == len(arms.environment):
        if max(times_b) < min(times_e):
            yield "All runs of the baseline came before the others"
        if max(times_e) < min(times_b):
            yield "All runs of the baseline came after the others"


def _decisive(
    arms: Arms, verdict: Verdict, margin: float | Margin, better: Better | None, alpha: float
) -> list[str]:
    """Return the blocks or runs without which the verdict would be another one."""
    return [
        name
        for name, estimate in arms.leave_one_out()
        if decide(estimate, margin, better, alpha)[0] is not verdict
    ]


def _tail(samples: Sequence[Sample], margin: float, better: Better | None) -> Iterator[str]:
    """Yield the runs slower than the median of their arm by the margin and by 5 robust SDs.

    Below 5 runs the robust SD is a matter of luck (at n = 3 one clean pair in six would be
    stamped), and the verdict is provisional anyway.
    """
    if len(samples) < FEWEST:
        return
    costs = [-log for log in take_logs(samples)] if better == "higher" else take_logs(samples)
    centre = median(costs)
    robust_sd = MAD_TO_SD * median(abs(cost - centre) for cost in costs)
    limit = max(math.log1p(margin), ROBUST_SDS * robust_sd)
    for sample, cost in zip(samples, costs, strict=True):
        if cost - centre > limit:
            yield f"run {sample.run} ({sample.environment})"
