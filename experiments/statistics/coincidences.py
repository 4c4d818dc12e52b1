"""What the node's own samples show where values varied: in which state it was in the slow runs.

Held against each other are ranks: of how slow blocks were, and of what was sampled meanwhile. A
coincidence that chance seldom gives is told, in the direction in which it makes runs slow; it is no
proof of a cause, and decides nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.ranks import compute_ranks
from experiments.statistics.values import Better, Sample

P_CHANCE = 0.01
"""In one of so many experiments chance alone gives any coincidence that is told."""
LEAST_RANKS = 0.7
"""Spearman's correlation: less explains less than half of what varied."""
FEWEST_BLOCKS = 8
REARRANGEMENTS = 4_999
SEED = 20261126
MOST_TOLD = 3

Conditions = Mapping[str, float]
"""What was sampled in one run, by the names of `QUANTITIES`."""


@dataclass(frozen=True)
class Quantity:
    """Something that is sampled on a node and can make a run slow."""

    name: str
    noun: str
    """As a sentence begins."""
    sign: int
    """1 where more of it makes runs slow, -1 where less of it does."""
    write: Callable[[float], str]
    least: float = 0.0
    """A smaller difference between the slow blocks and the others is not told."""
    least_share: float = 0.0
    """The same, as a share of the larger of both."""

    def is_notable(self, slow: float, others: float) -> bool:
        """Return whether the slow blocks differ by enough, in the direction of slow runs."""
        more = self.sign * (slow - others)
        return more >= max(self.least, self.least_share * max(slow, others), 1e-12)


CPU, CLOCK, SLOWDOWN, HEAT, MEMORY, SWAPPED = (
    *("CPU use", "GPU clock", "slowdown", "GPU temperature", "memory", "swapped pages"),
)
OTHERS = "CPU use by others"
QUANTITIES = (
    Quantity(
        OTHERS,
        "CPU use of the node by others than the job",
        1,
        lambda value: f"{value:.0f} %",
        least=10.0,
    ),
    Quantity(
        CPU,
        "CPU use of the node, by all its processes and those of the run",
        1,
        lambda value: f"{value:.0f} %",
        least=10.0,
    ),
    Quantity(CLOCK, "GPU clocks", -1, lambda value: f"{value / 1e6:,.0f} MHz", least_share=0.05),
    Quantity(
        SLOWDOWN,
        "samples in which heat or the hardware slowed a GPU down",
        1,
        lambda value: f"{100 * value:.0f} %",
        least=0.1,
    ),
    Quantity(HEAT, "GPU temperatures", 1, lambda value: f"{value:.0f} °C", least=5.0),
    Quantity(
        MEMORY, "memory in use", 1, lambda value: f"{value / 2**30:,.1f} GiB", least_share=0.2
    ),
    Quantity(SWAPPED, "swapped pages", 1, lambda value: f"{value:,.0f}", least=1000.0),
)


@dataclass(frozen=True)
class Coincidence:
    """A quantity that was another one in the slow blocks, as a mean of these and of the others."""

    quantity: Quantity
    slow: float
    others: float
    ranks: float
    """Spearman's correlation, above 0 where slow blocks go along with what makes runs slow."""

    @property
    def text(self) -> str:
        write = self.quantity.write
        return f"{self.quantity.noun} ({write(self.slow)}, else {write(self.others)})"


@dataclass(frozen=True)
class Sampled:
    """What was looked at, and what of it goes along with slow blocks."""

    tested: tuple[str, ...]
    coincidences: tuple[Coincidence, ...]


NOTHING_SAMPLED = Sampled((), ())


def find_coincidences(
    samples: Sequence[Sample],
    deviations: Mapping[str, float],
    conditions: Mapping[str, Conditions],
    better: Better | None,
) -> Sampled:
    """Return which sampled quantities were others in the slow blocks.

    `deviations` are logarithms of the runs less the mean of their environment on their node, and
    `conditions` what was sampled in each run. Of all quantities together chance gives any in one of
    a hundred experiments (Bonferroni), if blocks would be the same in any other order.
    """
    if better is None:
        return NOTHING_SAMPLED
    slower = 1 if better == "lower" else -1
    known = [sample for sample in samples if sample.run in deviations]
    tested: list[tuple[Quantity, list[float], list[float], list[float]]] = []
    for quantity in QUANTITIES:
        if quantity.name == CPU and any(each[0].name == OTHERS for each in tested):
            continue  # it is that of others and the run's own, which is slow for whatever reason
        own = [one for one in known if quantity.name in conditions.get(one.run, {})]
        values = {one.run: conditions[one.run][quantity.name] for one in own}
        if len(own) < len(known) or not all(map(math.isfinite, values.values())):
            continue  # of some runs nothing is known: which of them is no chance
        centred = _center(own, values)
        slowness = _average_blocks(own, {run: slower * dev for run, dev in deviations.items()})
        amounts = _average_blocks(own, centred)
        if len(slowness) >= FEWEST_BLOCKS and len(set(amounts)) > 1 and len(set(slowness)) > 1:
            tested.append((quantity, slowness, amounts, _average_blocks(own, values)))
    coincidences = [
        coincidence
        for quantity, slowness, amounts, raw in tested
        if (coincidence := _test(quantity, slowness, amounts, raw, len(tested)))
    ]
    coincidences.sort(key=lambda each: -each.ranks)
    return Sampled(tuple(each[0].noun for each in tested), tuple(coincidences[:MOST_TOLD]))


def describe_coincidences(sampled: Sampled, *, is_one_change: bool) -> str:
    """Return sentences on what goes along with slow blocks; "" where nothing was sampled.

    `is_one_change`: values drifted or changed at one moment, and did not go to and fro.
    """
    if not sampled.tested:
        return ""
    if not sampled.coincidences:
        return (
            "Nothing that was sampled on the node goes along with it clearly: "
            f"{numbers.listed(sampled.tested)}."
        )
    names = "; ".join(each.text for each in sampled.coincidences)
    doubt = (
        "Both changed once, so this is a single coincidence and no proof of a cause."
        if is_one_change
        else "Chance alone gives this in fewer than 1 of 100 experiments; it proves no cause."
    )
    return f"In the slowest third of the blocks other means were sampled: {names}. {doubt}"


def _center(samples: Sequence[Sample], values: Mapping[str, float]) -> dict[str, float]:
    """Return the values less the mean of their environment on their node."""
    cells: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for sample in samples:
        cells[sample.environment, sample.node].append(sample.run)
    centred: dict[str, float] = {}
    for runs in cells.values():
        mean = math.fsum(values[run] for run in runs) / len(runs)
        centred |= {run: values[run] - mean for run in runs}
    return centred


def _average_blocks(samples: Sequence[Sample], values: Mapping[str, float]) -> list[float]:
    """Return the mean of each block, in the order of their names: its runs are not independent."""
    blocks: defaultdict[str, list[float]] = defaultdict(list)
    for sample in samples:
        blocks[sample.block].append(values[sample.run])
    return [math.fsum(blocks[name]) / len(blocks[name]) for name in sorted(blocks)]


def _test(
    quantity: Quantity,
    slowness: Sequence[float],
    amounts: Sequence[float],
    raw: Sequence[float],
    tests: int,
) -> Coincidence | None:
    """Return the coincidence, if ranks agree and by more than in random orders."""
    import numpy as np

    slow_ranks, ranks = (np.array(compute_ranks(values)) for values in (slowness, amounts))
    slow_ranks -= slow_ranks.mean()
    ranks = quantity.sign * (ranks - ranks.mean())
    scale = math.sqrt(float((slow_ranks**2).sum() * (ranks**2).sum()))
    agreement = float(slow_ranks @ ranks) / scale
    if agreement < LEAST_RANKS:
        return None
    draw: Any = np.random.default_rng(SEED)
    shuffled = draw.permuted(np.tile(ranks, (REARRANGEMENTS, 1)), axis=1)
    as_large = int((shuffled @ slow_ranks / scale >= agreement - 1e-12).sum())
    if (as_large + 1) / (REARRANGEMENTS + 1) > P_CHANCE / tests:
        return None
    order = np.argsort(slowness)
    third = max(len(order) // 3, 1)
    slow, others = (float(np.mean(np.take(raw, part))) for part in (order[-third:], order[:-third]))
    if not quantity.is_notable(slow, others):
        return None
    return Coincidence(quantity, slow, others, agreement)
