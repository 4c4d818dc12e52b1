"""What the page of a study shows: each experiment with its state, and the matrix of verdicts.

Verdicts are those of kept comparisons: nothing is computed for a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dashboard.comparisons.studies import COMPUTED_SOON, Studies, StudyRow, read_studies
from dashboard.comparisons.study_choice import StudyChoice
from dashboard.comparisons.verdict_matrix import Bar, Scale, choose_scale, make_bar
from dashboard.execution.matrix import estimate_all_left
from experiments.comparisons import Group, read_kept_verdicts
from experiments.execution.progress import Progress, Tally, measure_progress
from experiments.models import Experiment, Study, User
from experiments.statistics import Pair, Verdict
from experiments.statistics.several_metrics import Overall
from experiments.studies.study_members import Members, read_members

NOT_YET = "no verdict yet"
BEING_COMPUTED = "Its verdicts are being computed by a worker."
SHOWN_AT_ONCE = 2
"""Configurations of a cell that stand open; of more, only how many have which verdict."""


@dataclass(frozen=True)
class ProgressRow:
    """An experiment of the study, and how far it is."""

    experiment: Experiment
    progress: Progress
    seconds_left: float | None
    verdicts: Mapping[str, int]


@dataclass(frozen=True)
class StudyProgress:
    """How far the experiments of a study are, of those that the reader may view."""

    rows: list[ProgressRow]
    hidden: int

    @property
    def tally(self) -> Tally:
        """Return the runs of all experiments together, by state."""
        states: Counter[str] = Counter()
        for row in self.rows:
            states.update(row.progress.tally.states)
        return Tally(states)

    @property
    def alive(self) -> set[int]:
        """Return the keys of the experiments that still run."""
        return {
            row.experiment.pk
            for row in self.rows
            if row.progress.tally.alive and not row.experiment.is_draft
        }

    @property
    def is_alive(self) -> bool:
        return bool(self.alive)

    @property
    def drafts(self) -> int:
        return sum(row.experiment.is_draft for row in self.rows)

    @property
    def can_pause(self) -> bool:
        return any(self._lives(row) and not row.experiment.paused_at for row in self.rows)

    @property
    def can_continue(self) -> bool:
        return any(self._lives(row) and row.experiment.paused_at for row in self.rows)

    @property
    def can_cancel(self) -> bool:
        return any(self._lives(row) for row in self.rows)

    @property
    def seconds_left(self) -> float | None:
        """Return when the last experiment ends: they run beside each other.

        None while that of one that is alive is not known yet: it may be the longest.
        """
        left = [row.seconds_left for row in self.rows if row.experiment.pk in self.alive]
        known = [seconds for seconds in left if seconds]
        return max(known) if known and len(known) == len(left) else None

    @staticmethod
    def _lives(row: ProgressRow) -> bool:
        experiment = row.experiment
        is_over = experiment.is_draft or experiment.cancelled_at is not None
        return row.progress.tally.alive and not is_over


@dataclass(frozen=True)
class Entry:
    """One configuration of an experiment in one environment."""

    number: int
    """Of the configuration in its comparison, from 1."""
    name: str
    environment: str
    mark: int
    pair: Pair
    bar: Bar | None
    overall: Overall | None

    @property
    def verdict(self) -> Verdict:
        return (self.overall or self.pair).verdict


@dataclass(frozen=True)
class StudyCell:
    """An experiment in all environments of one kind."""

    label: str
    index: int
    entries: list[Entry]
    text: str = ""
    """What stands there instead."""

    @property
    def is_open(self) -> bool:
        return len(self.entries) <= SHOWN_AT_ONCE

    @cached_property
    def verdicts(self) -> dict[Verdict, int]:
        """Return how many configurations have each verdict, the most frequent first."""
        counts: dict[Verdict, int] = {}
        for entry in self.entries:
            counts[entry.verdict] = counts.get(entry.verdict, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict that tints the cell: one that all configurations have."""
        return next(iter(self.verdicts)) if len(self.verdicts) == 1 else None


@dataclass(frozen=True)
class StudyMatrix:
    """Experiments in rows, kinds of environments in columns."""

    labels: list[tuple[str, int]]
    rows: list[tuple[StudyRow, list[StudyCell]]]
    scale: Scale
    levels: tuple[str, str] | None = None

    @property
    def is_waiting(self) -> bool:
        """Return whether a worker is to compute verdicts, which then appear by themselves."""
        return any(row.reason == COMPUTED_SOON for row, _ in self.rows)

    @property
    def has_verdicts(self) -> bool:
        return any(cell.entries for _, cells in self.rows for cell in cells)


def read_study_progress(study: Study, user: User) -> StudyProgress:
    """Return the experiments of a study with their states, bars and verdicts."""
    members = read_members(study, user)
    return measure_study(members)


def measure_study(members: Members) -> StudyProgress:
    """Return how far these experiments are; a few queries for all of them."""
    rows = members.experiments
    all_progress, all_verdicts = measure_progress(rows), read_kept_verdicts(rows)
    alive = [row for row in rows if not row.is_draft and all_progress[row.pk].tally.alive]
    left = estimate_all_left(alive, all_progress) if alive else {}
    return StudyProgress(
        [
            ProgressRow(row, all_progress[row.pk], left.get(row.pk), all_verdicts.get(row.pk, {}))
            for row in rows
        ],
        members.hidden,
    )


def read_across(user: User, experiments: Sequence[Experiment]) -> Studies:
    """Return the experiments as the page *Across experiments* has them, with their summary."""
    return read_studies(user, StudyChoice(experiments=[row.pk for row in experiments]))


def make_study_matrix(across: Studies, alive: Collection[int]) -> StudyMatrix:
    """Return the matrix of all experiments, on one scale where one margin holds for all.

    `alive`: the keys of those that still run, of which no verdict is missing yet.
    """
    labels = [(label, index) for index, label in enumerate(across.labels, start=1)]
    pairs = [
        pair
        for row in across.rows
        for group in _list_groups(row)
        for pair in group.pairs
        if pair.environment in row.labels
    ]
    margins = {row.margins for row in across.rows if row.margins is not None}
    scale = choose_scale(pairs, margins.pop() if len(margins) == 1 else 0.0)
    return StudyMatrix(
        labels,
        [
            (row, [_make_cell(row, label, index, scale, alive) for label, index in labels])
            for row in across.rows
        ],
        scale,
        next((row.comparison.levels for row in across.rows if row.comparison), None),
    )


def _list_groups(row: StudyRow) -> Sequence[Group]:
    return row.comparison.groups if row.comparison else ()


def _make_cell(
    row: StudyRow, label: str, index: int, scale: Scale, alive: Collection[int]
) -> StudyCell:
    own = [name for name, of_row in row.labels.items() if of_row == label]
    if not own:
        return StudyCell(label, index, [], "–")
    is_due = row.source.pk not in alive
    if row.comparison is None:
        reason = BEING_COMPUTED if row.reason == COMPUTED_SOON else row.reason
        return StudyCell(label, index, [], reason if is_due else NOT_YET)
    entries = [
        Entry(
            number,
            group.name or group.title,
            pair.environment if len(own) > 1 else "",
            index,
            pair,
            make_bar(pair, scale),
            row.comparison.decisive.get((number, pair.environment)),
        )
        for number, group in enumerate(row.comparison.groups, start=1)
        for pair in group.pairs
        if pair.environment in own
    ]
    return StudyCell(label, index, entries, "" if entries else (is_due and row.reason) or NOT_YET)
