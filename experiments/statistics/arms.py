"""The runs of the baseline and of one environment that may be compared."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from experiments.statistics.estimates import Estimate, paired, unpaired
from experiments.statistics.values import Sample


@dataclass(frozen=True)
class Arms:
    """Paired arms hold the same blocks; what had to be left out for that is in `dropped`."""

    baseline: tuple[Sample, ...]
    environment: tuple[Sample, ...]
    paired: bool
    dropped: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, baseline: Sequence[Sample], environment: Sequence[Sample], *, paired: bool
    ) -> "Arms":
        """Paired: only blocks in which both have a run count."""
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

    def estimate(self, scale: Callable[[float], float] = math.log) -> Estimate | None:
        """Of the values on a scale, by default of their logs; None where an arm is empty."""
        if not self.baseline or not self.environment:
            return None
        if self.paired:
            # Repeats inside a block are not independent: one value per block, its mean.
            return paired(_by_block(self.baseline, scale), _by_block(self.environment, scale))
        arms = ([scale(run.value) for run in arm] for arm in (self.baseline, self.environment))
        return unpaired(*arms)

    def leave_one_out(self) -> Iterator[tuple[str, "Arms"]]:
        """Each block (paired) or run (unpaired) by name, and the arms without it."""
        if self.paired:
            for block in self.blocks:
                rest = [
                    tuple(sample for sample in arm if sample.block != block)
                    for arm in (self.baseline, self.environment)
                ]
                yield f"block {block}", Arms(rest[0], rest[1], paired=True)
            return
        for i, sample in enumerate(self.baseline):
            rest_b = self.baseline[:i] + self.baseline[i + 1 :]
            yield f"run {sample.run}", Arms(rest_b, self.environment, paired=False)
        for i, sample in enumerate(self.environment):
            rest_e = self.environment[:i] + self.environment[i + 1 :]
            yield f"run {sample.run}", Arms(self.baseline, rest_e, paired=False)


def logs(samples: Sequence[Sample]) -> list[float]:
    return [math.log(sample.value) for sample in samples]


def check(samples: Sequence[Sample]) -> None:
    """ValueError that names the run whose value has no logarithm."""
    for sample in samples:
        if not (math.isfinite(sample.value) and sample.value > 0):
            raise ValueError(
                f"Run {sample.run} ({sample.environment}, block {sample.block}) has the value "
                f"{sample.value}; only positive, finite values can be compared."
            )


def _by_block(samples: Sequence[Sample], scale: Callable[[float], float]) -> list[float]:
    blocks: dict[str, list[float]] = {}
    for sample in samples:
        blocks.setdefault(sample.block, []).append(scale(sample.value))
    return [statistics.fmean(blocks[block]) for block in sorted(blocks)]
