"""Bands of a calibration: promises with what was measured, and how much is simulated."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

import numpy as np

from experiments.statistics.vectorised import Array

BATCH = 500


@dataclass(frozen=True)
class Effort:
    """The number of experiments to simulate, and how much chance the bands allow for."""

    data_sets: int
    heavy_data_sets: int
    """For methods that need a thousand numbers for each run; a multiple of BATCH."""
    runs: int
    """Single runs in which start-ups are detected, and sets of studies."""
    standard_errors: float
    """Monte-Carlo standard errors by which the bands are widened; those of controls never are."""


FULL = Effort(data_sets=100_000, heavy_data_sets=4_000, runs=4_000, standard_errors=0)
QUICK = Effort(data_sets=10_000, heavy_data_sets=1_000, runs=400, standard_errors=3)


@dataclass(frozen=True)
class Band:
    """A promise, the measured shares, and limits that they must keep (a control: must break).

    The limits are those of the specification; `slack` allows for chance on top.
    """

    promise: str
    shares: Mapping[str, float]
    low: float | None = None
    high: float | None = None
    slack: float = 0
    control: bool = False

    @property
    def worst(self) -> str:
        """Return the name of the share that is farthest out, or nearest to a limit."""
        return max(self.shares, key=lambda name: self._beyond(self.shares[name]))

    @property
    def value(self) -> float:
        return self.shares[self.worst]

    @property
    def ok(self) -> bool:
        beyond = self._beyond(self.value)
        return beyond > 0 if self.control else beyond <= self.slack

    def _beyond(self, share: float) -> float:
        """Return how far a share lies outside; negative inside."""
        return max(
            -1 if self.low is None else self.low - share,
            -1 if self.high is None else share - self.high,
        )


def compute_share(hits: Array) -> float:
    """Return the share of data sets that are hits."""
    return float(np.mean(hits))


def compute_slack(limit: float, effort: Effort, count: int = 0) -> float:
    """Return what chance may add to a share of `count` (by default, of all) data sets."""
    count = count or effort.data_sets
    return effort.standard_errors * sqrt(limit * (1 - limit) / count)
