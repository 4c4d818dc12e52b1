"""How new a comparison's page is, and what tells its live part that there is news."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from experiments.comparisons import Latest
from experiments.execution.progress import Tally
from experiments.models import Experiment
from experiments.statistics import numbers

EMPTY = "empty-"
"""How the text begins that identifies what a page without numbers shows."""
SEPARATOR = "~"


@dataclass(frozen=True)
class Following:
    """What a page that follows its experiment shows, and how far that is behind."""

    latest: Latest
    is_alive: bool
    ended: int
    planned: int
    data: str
    """A text that is another one as soon as a run or an exclusion changes the comparison."""

    @property
    def goes_on(self) -> bool:
        """Return whether there may be news: runs live, or what has ended is not counted yet."""
        return self.is_alive or self.latest.is_behind

    @property
    def counted(self) -> str:
        """Return from how many runs the numbers are: "19,980 of 20,000 runs"."""
        row = self.latest.row
        ended = row.ended_runs if row and self.latest.is_behind else self.ended
        return f"{ended:,} of {numbers.count(self.planned, 'run')}"

    @property
    def computed_at(self) -> datetime | None:
        """Return of when the numbers are; None where they are of now."""
        row = self.latest.row
        return row.kept_at if row and self.latest.is_behind and not self.latest.is_missing else None

    @property
    def failed_at(self) -> datetime | None:
        """Return when it failed to compute them anew; None where it did not."""
        return self.latest.row.failed_at if self.latest.row and self.latest.problem else None

    @property
    def identity(self) -> str:
        """Return a text that is another one as soon as the numbers are."""
        row = self.latest.row
        return row.kept_at.isoformat() if row and row.is_slow else self.data

    @property
    def shown(self) -> str:
        """Return a text that is another one as soon as anything of the page is."""
        if not self.goes_on:
            return ""
        failed_at = self.failed_at.isoformat() if self.failed_at else ""
        is_due = "due" if self.latest.is_behind and self.latest.due_at is None else ""
        return SEPARATOR.join((self.identity, self.data, failed_at, is_due))

    def has_same_numbers(self, shown: str) -> bool:
        """Return whether a page that shows the text `shown` has these numbers."""
        return shown.partition(SEPARATOR)[0] == self.identity


def follow(experiment: Experiment, tally: Tally, latest: Latest) -> Following:
    """Return how new the page of an experiment's comparison is."""
    if not tally.alive and not latest.is_behind:
        return Following(latest, False, tally.ended, tally.total, "")
    last = experiment.find_last_event().pk
    counts = "-".join(f"{count}{state}" for state, count in sorted(tally.states.items()))
    return Following(latest, tally.alive, tally.ended, tally.total, f"{last or 0}-{counts}")
