"""What is done to all experiments of a study: launch, cancel, pause, continue. No network.

Rights are asked of each experiment: in a study there may be some of other people.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db import transaction

from experiments.access.permissions import filter_changeable
from experiments.execution import experiment_pauses, lifecycle
from experiments.models import Experiment, Study, UnsavedForm, User
from experiments.models.experiment import ExperimentQuerySet
from experiments.notify import enqueue_tick
from experiments.studies.study_members import list_member_keys


@dataclass(frozen=True)
class Done:
    """To how many experiments something was done, and to how many not as they are not one's own."""

    count: int
    forbidden: int = 0

    def describe(self, verb: str) -> str:
        """Return what happened: "Launched 3 experiments. 1 not: not yours to change."."""
        text = f"{verb} {self.count} experiment{'' if self.count == 1 else 's'}."
        return f"{text} {self.forbidden} not: not yours to change." if self.forbidden else text


class NotAllLaunched(Exception):
    """Drafts that cannot be launched: none of them was. `reasons`: each experiment and why."""

    def __init__(self, reasons: list[tuple[Experiment, str]]) -> None:
        self.reasons = reasons
        super().__init__(" ".join(f"{row.question}: {reason}" for row, reason in reasons))


def launch_drafts(study: Study, by: User) -> Done:
    """Launch all drafts of a study, or none. Raises NotAllLaunched with each reason."""
    with transaction.atomic():
        drafts, forbidden = _choose(
            study, by, lambda rows: rows.filter(launched_at=None, imported_at=None)
        )
        refused: list[tuple[Experiment, str]] = []
        for row in drafts:
            try:
                lifecycle.launch(row, by)
            except lifecycle.NotLaunchable as refusal:
                refused.append((row, str(refusal)))
        if refused:
            raise NotAllLaunched(refused)
        UnsavedForm.objects.filter(experiment__in=drafts).delete()
        _visit(drafts)
    return Done(len(drafts), forbidden)


def cancel_all(study: Study, by: User) -> Done:
    """Cancel what is alive of a study; drafts stay."""

    def end(row: Experiment) -> bool:
        lifecycle.cancel(row, by)
        return True

    return _change(study, by, end, visits=True)


def pause_all(study: Study, by: User) -> Done:
    """Have nothing new of a study sent; what has been sent goes on."""
    return _change(study, by, lambda row: experiment_pauses.pause(row, by), visits=False)


def resume_all(study: Study, by: User) -> Done:
    """Have the jobs of paused experiments of a study sent again."""
    return _change(study, by, lambda row: experiment_pauses.resume(row, by), visits=True)


def _change(study: Study, by: User, change: Callable[[Experiment], bool], *, visits: bool) -> Done:
    """Change what is alive of a study, all in one transaction."""
    with transaction.atomic():
        rows, forbidden = _choose(
            study, by, lambda rows: rows.exclude(launched_at=None).filter(cancelled_at=None).alive()
        )
        changed = [row for row in rows if change(row)]
        if visits:
            _visit(changed)
    return Done(len(changed), forbidden)


def _choose(
    study: Study, by: User, narrow: Callable[[ExperimentQuerySet], ExperimentQuerySet]
) -> tuple[list[Experiment], int]:
    """Return the experiments of a study that may be changed, and how many others one may view."""
    visible = Experiment.objects.visible_to(by).filter(pk__in=list_member_keys(study))
    rows = narrow(visible.without_plan())
    own = list(filter_changeable(by, rows).order_by("pk"))  # in one order: others wait, no deadlock
    return own, rows.count() - len(own)


def _visit(rows: list[Experiment]) -> None:
    for cluster in sorted({row.cluster_id for row in rows}):
        enqueue_tick(cluster)
