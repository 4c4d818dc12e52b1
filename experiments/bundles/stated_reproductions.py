"""What came of doing a study again, as far as whoever reads of it may know of that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db.models import prefetch_related_objects

from experiments.comparisons import ExperimentComparison, read_all_kept
from experiments.models import Experiment
from experiments.reproductions.reproduction_verdicts import judge_reproduction
from experiments.statistics.reproductions import Outcome

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser

    from experiments.models import User

MOST_REPRODUCTIONS = 20
NOT_COMPUTED = "The comparisons that it rests on are not computed yet."


@dataclass(frozen=True)
class StatedReproduction:
    """A reproduction by somebody else than the first study's owner."""

    sentence: str
    """Where and when it was launched, and its verdict or why it has none."""
    outcome: Outcome | None
    """None as long as there is no verdict."""


def list_reproductions(
    experiment: Experiment, reader: User | AnonymousUser | None = None
) -> list[StatedReproduction]:
    """Return the first reproductions by others that `reader` may view; None: the public ones.

    Verdicts are those of kept comparisons: nothing is computed here but their differences.
    """
    if reader is None:
        seen = Experiment.objects.filter(visibility=Experiment.Visibility.PUBLIC)
    else:
        seen = Experiment.objects.visible_to(reader)
    launched = seen.filter(reproduces=experiment.pk, launched_at__isnull=False)
    if not experiment.is_from_bundle:  # whoever imported it has not measured it
        launched = launched.exclude(owner=experiment.owner_id)
    rows = list(
        launched.select_related("cluster", "baseline")
        .prefetch_related("environments", "workloads")
        .order_by("launched_at", "pk")[:MOST_REPRODUCTIONS]
    )
    if not rows:
        return []
    prefetch_related_objects([experiment], "environments", "workloads")  # for every verdict
    (first, _), *others = read_all_kept([experiment, *rows])
    return [_describe(row, first, again) for row, (again, _) in zip(rows, others, strict=True)]


def _describe(
    row: Experiment, first: ExperimentComparison | None, again: ExperimentComparison | None
) -> StatedReproduction:
    begin = (
        f"Done again on {row.cluster.name} as experiment {row.pk}, launched "
        f"{row.launched_at:%Y-%m-%d}"
    )
    if first is None or again is None:
        return StatedReproduction(f"{begin}: no verdict yet. {NOT_COMPUTED}", None)
    verdict = judge_reproduction(first, again)
    if verdict.overall is None:
        return StatedReproduction(f"{begin}: no verdict yet. {verdict.waits}", None)
    overall = verdict.overall
    return StatedReproduction(f"{begin}: {overall.outcome}. {overall.reason}", overall.outcome)
