"""Which comparison of an experiment a page shows: where computing takes long, the last kept one.

Pages never compute what takes long: a worker does, once, however many pages wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from experiments.comparisons import kept
from experiments.comparisons.comparison_keys import Inputs, has_same_plan, identify_inputs
from experiments.comparisons.exclusions import list_exclusions
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.models import Experiment, KeptComparison
from experiments.models.database_time import database_now


@dataclass(frozen=True)
class Latest:
    """Which comparison of an experiment a page shows, and how new it is."""

    row: KeptComparison | None
    """The kept one, without its content; None where none is kept, or it is computed for a page."""
    key: str
    """Identifies what the comparison that is shown rests on; "" where none is shown."""
    is_behind: bool = False
    """Whether what is shown lacks what has happened since."""
    due_at: datetime | None = None
    """When it will be computed anew; None where that is due already, or it is not behind."""
    is_of_earlier_method: bool = False
    """Whether another version of Tare has computed it."""
    is_missing: bool = False
    """Whether there is nothing to show before a worker has computed it: what is kept is of another
    plan, has other names, or cannot be read."""

    @property
    def problem(self) -> str:
        """Return why computing it anew has failed; empty where it has not."""
        return self.row.problem if self.row and self.is_behind else ""


def read_latest(
    experiment: Experiment, inputs: Inputs | None = None
) -> tuple[ExperimentComparison, Latest]:
    """Return the comparison that a page shows, and how new it is.

    It is the one of now, but where computing takes long it is the last kept one, or one without
    numbers until a worker has computed it. `inputs`: what it rests on, where that was read before.
    """
    inputs = inputs or identify_inputs([experiment])[experiment.pk]
    row = KeptComparison.objects.filter(pk=experiment.pk).read_in_pieces().get(experiment.pk)
    return _read(experiment, row, inputs)


def read_all_latest(
    experiments: Sequence[Experiment],
) -> list[tuple[ExperimentComparison, Latest]]:
    """Return what `read_latest` does for each experiment, in their order.

    Those that are kept and not behind take two statements together.
    """
    all_inputs = identify_inputs(experiments)
    rows = KeptComparison.objects.filter(pk__in=all_inputs.keys()).read_in_pieces()
    return [_read(row, rows.get(row.pk), all_inputs[row.pk]) for row in experiments]


def read_all_kept(
    experiments: Sequence[Experiment],
) -> list[tuple[ExperimentComparison | None, Latest]]:
    """Return the last kept comparison of each experiment, in their order, and how new it is.

    None where none of its plan is kept. Nothing is computed here, however short it takes: what is
    behind is asked for. Takes two statements together, and one for each that has exclusions.
    """
    all_inputs = identify_inputs(experiments)
    rows = KeptComparison.objects.filter(pk__in=all_inputs.keys()).read_in_pieces()
    return [_read_kept(row, rows.get(row.pk), all_inputs[row.pk]) for row in experiments]


def find_latest(experiment: Experiment, inputs: Inputs | None = None) -> Latest:
    """Return how new the comparison is that a page would show, without reading it.

    If it is behind and it is time, it is asked for that a worker computes it anew. `inputs` as in
    `read_latest`.
    """
    inputs = inputs or identify_inputs([experiment])[experiment.pk]
    if Experiment.kept_comparison.is_cached(experiment):
        row = getattr(experiment, "kept_comparison", None)
    else:
        row = KeptComparison.objects.defer("content").filter(pk=experiment.pk).first()
    latest = _judge(row, inputs)
    _ask_if_due(experiment, latest)
    return latest


def _read(
    experiment: Experiment, row: KeptComparison | None, inputs: Inputs
) -> tuple[ExperimentComparison, Latest]:
    if not _takes_long(row, inputs):
        return kept.read_or_compute(experiment, row, inputs), _judge(row, inputs)
    comparison, latest = _read_kept(experiment, row, inputs)
    return comparison or kept.make_empty(experiment), latest


def _read_kept(
    experiment: Experiment, row: KeptComparison | None, inputs: Inputs
) -> tuple[ExperimentComparison | None, Latest]:
    latest = _judge_kept(row, inputs)
    comparison = None
    if row and not latest.is_missing:
        content = kept.try_to_unpack(row)
        # Names of people stand in exclusions: where one is another now, none of them is shown.
        known = list_exclusions(experiment) if content and content.exclusions else []
        if content and all(exclusion in known for exclusion in content.exclusions):
            comparison = kept.restore(experiment, content)
    if comparison is None:
        latest = _make_missing(row, inputs)
    _ask_if_due(experiment, latest)
    return comparison, latest


def _judge(row: KeptComparison | None, inputs: Inputs) -> Latest:
    if not (row and row.key == inputs.key) and not _takes_long(row, inputs):
        return Latest(None, inputs.key)
    return _judge_kept(row, inputs)


def _judge_kept(row: KeptComparison | None, inputs: Inputs) -> Latest:
    if row and row.key == inputs.key:
        return Latest(row, row.key)
    if row is None or not has_same_plan(row.frame, inputs.frame):
        return _make_missing(row, inputs)
    return Latest(
        row,
        row.key,
        is_behind=True,
        due_at=_find_due_time(row, inputs),
        is_of_earlier_method=row.frame != inputs.frame,
    )


def _make_missing(row: KeptComparison | None, inputs: Inputs) -> Latest:
    due_at = _find_due_time(row, inputs)
    return Latest(row, "", is_behind=True, due_at=due_at, is_missing=True)


def _find_due_time(row: KeptComparison | None, inputs: Inputs) -> datetime | None:
    due_at = kept.find_due_time(row, inputs) if row else None
    return due_at if due_at and due_at > database_now() else None


def _takes_long(row: KeptComparison | None, inputs: Inputs) -> bool:
    """Return whether no page waits until it is computed: by how long that took the last time, or,
    where it has never been computed, by the number of runs.
    """
    if row and row.key:
        return row.is_slow
    return inputs.ended_runs > kept.MANY_RUNS


def _ask_if_due(experiment: Experiment, latest: Latest) -> None:
    if latest.is_behind and latest.due_at is None:
        kept.ask_for_computing(experiment.pk)
