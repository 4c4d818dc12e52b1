"""The end of a run's training, and what comes of comparing the ends of two environments."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from experiments.statistics.values import Better


class Outcome(StrEnum):
    """The result of comparing two trainings; values are those of data files."""

    EQUAL = "equal to the bit"
    WITHIN = "within the noise between seeds"
    BEYOND = "beyond the noise between seeds"
    WORSE = "worse by far"
    UNKNOWN = "noise between seeds unknown"
    ALONE = "nothing to compare with"

    @property
    def text(self) -> str:
        """Return what pages print; data files keep the value, which others have stored."""
        return "bitwise equal" if self is Outcome.EQUAL else str(self)


@dataclass(frozen=True)
class Ending:
    """The end of one run's training: its last loss or accuracy, and what its seed was."""

    run: str
    environment: str
    draw: str
    """Runs with the same draw are paired: the seed, or the repeat where the seed is unknown."""
    last: float
    first: float | None = None
    digest: str = ""
    """A hash of all its losses; empty where only the last one was read."""
    block: str = ""
    repeat: int = 0
    """The number of its repeat, by which interim analyses choose runs."""

    def equals(self, other: Ending) -> bool:
        """Return whether all losses are bitwise the same; the last where not all are known."""
        if self.digest and other.digest:
            return self.digest == other.digest
        return self.last == other.last


@dataclass(frozen=True, kw_only=True)
class TrainingComparison:
    """One environment's training against the baseline's; for the baseline, against itself.

    Differences and spreads are of logs, and so relative, if `is_relative`; else they have the unit
    of the value.
    """

    environment: str
    baseline: str
    what: str
    """ "loss" or "accuracy"."""
    better: Better
    outcome: Outcome
    runs: int = 0
    """Runs that have a counterpart in the baseline."""
    equal: int = 0
    """Runs that are the same as their counterpart, bitwise."""
    seeds: int = 0
    """Seeds that both have; for the baseline, all its seeds."""
    seeds_known: bool = True
    is_relative: bool = False
    rms: float | None = None
    """The root mean square of the differences."""
    largest: float | None = None
    """The largest difference."""
    shift: float | None = None
    """The mean difference: environment - baseline."""
    baseline_seeds: int = 0
    seed_sd: float | None = None
    """The standard deviation between the seeds of the baseline."""
    apart: float | None = None
    """The distance in units of that between two seeds of the baseline."""
    lacks: float | None = None
    """The share of the baseline's fall missing here; None if the baseline learnt nothing."""
    p: float | None = None
    """The p of "trained alike"; None where the noise is unknown or nothing differs."""
    p_holm: float | None = None
    """Adjusted for all environments and configurations of the study."""

    @property
    def is_amiss(self) -> bool:
        """Return whether the difference is grave enough to put a stamp on the verdict."""
        return self.outcome in (Outcome.BEYOND, Outcome.WORSE)
