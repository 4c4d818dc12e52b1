"""Bitwise reproducibility: whether losses are the same numbers, to the last bit.

A finding of its own. Trainings that are identical need no statistics; trainings that are not may
still be equivalent, and say nothing about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.training.outcomes import Ending


@dataclass(frozen=True, kw_only=True)
class Reproducibility:
    """Pairs of runs with one seed: of one environment, or of an environment and the baseline."""

    environment: str
    other: str
    """The baseline; the environment itself where its own runs are compared with each other."""
    seeds_known: bool = True
    pairs: int = 0
    identical: int = 0
    """Pairs of which all losses are the same, bitwise, and as many."""
    other_repeats: bool = True
    """Whether no two runs of the baseline with one seed are known to differ."""
    first_step: int | None = None
    """The earliest step at which any pair differs; None where none does, or nobody has looked."""

    @property
    def is_own(self) -> bool:
        return self.environment == self.other

    @property
    def columns(self) -> dict[str, Any]:
        """Return the finding as a flat row for files."""
        return {
            "environment": self.environment,
            "compared_with": self.other,
            "pairs_of_one_seed": self.pairs,
            "identical_pairs": self.identical,
            "first_step_that_differs": self.first_step,
            "sentence": describe_reproducibility(self),
        }


def list_pairs(
    endings: Sequence[Ending], *, environment: str, other: str
) -> list[tuple[Ending, Ending]]:
    """Return pairs of runs with one seed: each run with the first one of `other` of that seed.

    Where both are the same environment the first run of each seed is no pair. Only runs of which
    all losses are known.
    """
    firsts: dict[str, Ending] = {}
    for ending in endings:
        if ending.environment == other and ending.digest:
            firsts.setdefault(ending.draw, ending)
    return [
        (ending, firsts[ending.draw])
        for ending in endings
        if ending.environment == environment
        and ending.digest
        and ending.draw in firsts
        and ending is not firsts[ending.draw]
    ]


def compare_bitwise(
    endings: Sequence[Ending],
    *,
    baseline: str,
    environments: Sequence[str],
    seeds_known: bool = True,
) -> list[Reproducibility]:
    """Return for each environment with runs its own reproducibility, and that of the baseline's.

    By the hashes of the losses alone: which step differs first is for whoever reads them.
    """
    names = {ending.environment for ending in endings}
    findings = []
    own = list_pairs(endings, environment=baseline, other=baseline) if seeds_known else []
    repeats = all(run.digest == first.digest for run, first in own)
    for name in environments:
        for other in dict.fromkeys((name, baseline)):
            if name not in names:
                continue
            pairs = list_pairs(endings, environment=name, other=other) if seeds_known else []
            findings.append(
                Reproducibility(
                    environment=name,
                    other=other,
                    seeds_known=seeds_known,
                    other_repeats=repeats or name == other,
                    pairs=len(pairs),
                    identical=sum(run.digest == first.digest for run, first in pairs),
                )
            )
    return findings


def find_first_difference(values: Sequence[float], others: Sequence[float]) -> int | None:
    """Return the index of the first value that is not the same, bitwise; None where all are.

    Of a series that ends sooner it is the index of its end. A NaN equals the same NaN; the sign
    of a zero counts for nothing, because the database drops it.
    """
    import numpy as np  # lazily, as in estimates

    both = min(len(values), len(others))
    bits = [
        (np.asarray(series[:both], dtype=np.float64) + 0.0).view(np.int64)
        for series in (values, others)
    ]
    differing = np.flatnonzero(bits[0] != bits[1])
    if len(differing):
        return int(differing[0])
    return None if len(values) == len(others) else both


def describe_reproducibility(finding: Reproducibility) -> str:
    """Return the sentence about a finding, without the environment's name."""
    whose = "itself" if finding.is_own else finding.other
    if not finding.seeds_known:
        return f"with {whose}: not known, because the seeds are not."
    if not finding.pairs:
        missing = "no two runs of it have" if finding.is_own else f"no run of {whose} has"
        return f"with {whose}: not known, because {missing} the same seed."
    head = f"with {whose}: identical to the last bit in"
    if finding.identical == finding.pairs:
        return f"{head} {finding.identical} of {numbers.count(finding.pairs, 'pair')}."
    step = ""
    if finding.first_step is not None:
        each = "" if finding.pairs - finding.identical == 1 else " at the earliest"
        step = f"; differs from step {finding.first_step:,} on{each}"
    why = ""
    if not finding.other_repeats:
        why = f". {whose} does not repeat itself either, so that is no effect of the environment"
    return f"{head} {finding.identical} of {numbers.count(finding.pairs, 'pair')}{step}{why}."
