"""Arms: the runs of the baseline and of one environment that are compared."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from experiments.statistics.estimates import (
    Arm,
    Estimate,
    estimate_paired,
    estimate_paired_without_each,
    estimate_unpaired,
    estimate_unpaired_without_each,
)
from experiments.statistics.nodes import average_by_name, name_nodes
from experiments.statistics.values import Estimand, Sample


@dataclass(frozen=True)
class Arms:
    """The runs of baseline and environment that may be compared; if paired, of the same blocks.

    For a partition the means of its nodes are compared, and only nodes on which both have runs.
    """

    baseline: tuple[Sample, ...]
    environment: tuple[Sample, ...]
    paired: bool
    dropped: tuple[str, ...] = ()
    estimand: Estimand | None = None
    dropped_nodes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        baseline: Sequence[Sample],
        environment: Sequence[Sample],
        *,
        paired: bool,
        estimand: Estimand | None = None,
    ) -> "Arms":
        """Return the arms; if paired, only with blocks in which both have a run."""
        if not paired:
            arms = cls(tuple(baseline), tuple(environment), paired=False, estimand=estimand)
            return arms._keep_shared_nodes() if arms.by_node and arms.node_names else arms
        blocks_b = {sample.block for sample in baseline}
        blocks_e = {sample.block for sample in environment}
        return cls(
            tuple(sample for sample in baseline if sample.block in blocks_e),
            tuple(sample for sample in environment if sample.block in blocks_b),
            paired=True,
            dropped=tuple(sorted(blocks_b ^ blocks_e)),
            estimand=estimand,
        )

    def _keep_shared_nodes(self) -> "Arms":
        """Return the arms with only the nodes on which both have runs."""
        names = self.node_names
        nodes_b, nodes_e = (
            {names[sample.node] for sample in arm} for arm in (self.baseline, self.environment)
        )
        return Arms(
            tuple(sample for sample in self.baseline if names[sample.node] in nodes_e),
            tuple(sample for sample in self.environment if names[sample.node] in nodes_b),
            paired=False,
            estimand=self.estimand,
            dropped_nodes=tuple(sorted(nodes_b ^ nodes_e)),
        )

    @property
    def by_node(self) -> bool:
        """Return whether the mean of each node is one value, as for a partition."""
        return self.estimand is Estimand.PARTITION

    @cached_property
    def node_names(self) -> dict[str, str]:
        """Return what each node counts as; empty if the node of any run is not known."""
        return name_nodes((*self.baseline, *self.environment), paired=self.paired)

    @property
    def nodes(self) -> list[str]:
        """Return the nodes, those that count as one by one name; empty if any is not known."""
        return sorted(set(self.node_names.values()))

    @property
    def blocks(self) -> list[str]:
        return sorted({sample.block for sample in self.baseline}) if self.paired else []

    def values(self, scale: Callable[[float], float] = math.log) -> tuple[list[float], list[float]]:
        """Return the independent values of both arms on a scale: one a block, a run or a node."""
        arms = (self.baseline, self.environment)
        baseline, environment = (self._values_of(arm, scale) for arm in arms)
        return baseline, environment

    def _values_of(self, samples: Sequence[Sample], scale: Callable[[float], float]) -> list[float]:
        means_by_node = self.by_node and bool(self.node_names)
        if not self.paired:
            if not means_by_node:
                return [scale(sample.value) for sample in samples]
            nodes = ((self.node_names[run.node], scale(run.value)) for run in samples)
            return list(average_by_name(nodes).values())
        # Repeats inside a block are not independent: one value per block, its mean.
        blocks = average_by_name((run.block, scale(run.value)) for run in samples)
        if not means_by_node:
            return list(blocks.values())
        # Each node counts once, however many blocks the scheduler gave it.
        node_of_block = {run.block: self.node_names[run.node] for run in samples}
        nodes = ((node_of_block[block], value) for block, value in blocks.items())
        return list(average_by_name(nodes).values())

    def estimate(self, scale: Callable[[float], float] = math.log) -> Estimate | None:
        """Return the estimate on a scale, by default of logs; None where an arm is empty."""
        if not self.baseline or not self.environment:
            return None
        if self.by_node and not self.node_names:
            baseline, environment = self.values(scale)
            # A ratio, of which nobody knows how many nodes are behind it.
            return Estimate(statistics.fmean(environment) - statistics.fmean(baseline), UNKNOWN)
        pairs = self.paired or self.by_node
        return (estimate_paired if pairs else estimate_unpaired)(*self.values(scale))

    def leave_one_out(self) -> Iterator[tuple[str, Estimate]]:
        """Yield each block, run (unpaired) or node by name, with the estimate without it.

        Nothing where fewer than 2 values would be left.
        """
        baseline, environment = self.values()
        if self.paired or self.by_node:
            names = [f"block {block}" for block in self.blocks]
            if self.by_node:
                names = [f"node {node}" for node in self.nodes]
            estimates = estimate_paired_without_each(baseline, environment)
        else:
            names = [f"run {run.run}" for arm in (self.baseline, self.environment) for run in arm]
            estimates = estimate_unpaired_without_each(baseline, environment)
        if min(len(baseline), len(environment)) < 2:
            return
        for name, estimate in zip(names, estimates, strict=True):
            # With too few left to infer anything there is no other verdict to compare with.
            if min(arm.n for arm in estimate.arms) > 1:
                yield name, estimate


UNKNOWN = (Arm(variance=0.0, n=1),)
LARGEST = 1e100  # its squares can still be summed; measurements are far below


def take_logs(samples: Sequence[Sample]) -> list[float]:
    """Return the natural logarithm of each sample's value."""
    return [math.log(sample.value) for sample in samples]


def check(samples: Sequence[Sample]) -> None:
    """Raise ValueError, naming the run, where a value has no logarithm or is too large."""
    for sample in samples:
        if not 0 < sample.value <= LARGEST:
            raise ValueError(
                f"Run {sample.run} ({sample.environment}, block {sample.block}) has the value "
                f"{sample.value}; only positive, finite values up to {LARGEST:g} can be compared."
            )
