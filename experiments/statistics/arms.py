"""Arms: the runs of the baseline and of one environment that are compared."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from experiments.statistics.estimates import (
    Estimate,
    estimate_paired,
    estimate_paired_without_each,
    estimate_unpaired,
    estimate_unpaired_without_each,
)
from experiments.statistics.values import Sample


@dataclass(frozen=True)
class Arms:
    """The runs of baseline and environment that may be compared; if paired, of the same blocks."""

    baseline: tuple[Sample, ...]
    environment: tuple[Sample, ...]
    paired: bool
    dropped: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, baseline: Sequence[Sample], environment: Sequence[Sample], *, paired: bool
    ) -> "Arms":
        """Return the arms; if paired, only with blocks in which both have a run."""
        if not paired:
            return cls(tuple(baseline), tuple(environment), paired=False)
        blocks_b = {sample.block for sample in baseline}
        blocks_e = {sample.block for sample in environment}
        return cls(
            tuple(sample for sample in baseline if sample.block in blocks_e),
            tuple(sample for sample in environment if sample.block in blocks_b),
            paired=True,
            dropped=tuple(sorted(blocks_b ^ blocks_e)),
        )

    @property
    def blocks(self) -> list[str]:
        return sorted({sample.block for sample in self.baseline}) if self.paired else []

    def values(self, scale: Callable[[float], float] = math.log) -> tuple[list[float], list[float]]:
        """Return the independent values of both arms on a scale: one a block, or one a run."""
        if self.paired:
            # Repeats inside a block are not independent: one value per block, its mean.
            return _by_block(self.baseline, scale), _by_block(self.environment, scale)
        arms = (self.baseline, self.environment)
        baseline, environment = ([scale(sample.value) for sample in arm] for arm in arms)
        return baseline, environment

    def estimate(self, scale: Callable[[float], float] = math.log) -> Estimate | None:
        """Return the estimate on a scale, by default of logs; None where an arm is empty."""
        if not self.baseline or not self.environment:
            return None
        return (estimate_paired if self.paired else estimate_unpaired)(*self.values(scale))

    def leave_one_out(self) -> Iterator[tuple[str, Estimate]]:
        """Yield each block (paired) or run (unpaired) by name, with the estimate without it.

        Nothing where fewer than 2 values would be left.
        """
        baseline, environment = self.values()
        if self.paired:
            names = [f"block {block}" for block in self.blocks]
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


def _by_block(samples: Sequence[Sample], scale: Callable[[float], float]) -> list[float]:
    blocks: dict[str, list[float]] = {}
    for sample in samples:
        blocks.setdefault(sample.block, []).append(scale(sample.value))
    return [statistics.fmean(blocks[block]) for block in sorted(blocks)]
