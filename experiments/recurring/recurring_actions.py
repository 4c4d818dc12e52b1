"""What people do to a recurring experiment: begin it, stop it, ask for a launch, restart limits."""

from __future__ import annotations

from django.db import transaction
from django.db.models.functions import Now

from experiments.access import audit
from experiments.models import Experiment, LaunchReason, RecurringExperiment, User
from experiments.models.database_time import database_now
from experiments.models.visibility import Visibility
from experiments.notify import enqueue_keep, enqueue_recur
from experiments.recurring.recurrence_drafts import add_first_recurrence

NOT_LAUNCHED = "Only an experiment that was launched here can recur."
OVER = "Nothing was asked for: it is over."


def is_recurrable(source: Experiment) -> bool:
    """Return whether an experiment was launched here, and may be launched again by a rule."""
    return source.launched_at is not None and not source.is_from_bundle


def prepare_recurring(source: Experiment, owner: User) -> RecurringExperiment:
    """Return a recurring experiment with the usual rule, not stored, and at first never public."""
    visibility = source.visibility if source.visibility != Visibility.PUBLIC else "members"
    return RecurringExperiment(
        source=source, question=source.question, owner=owner, visibility=visibility
    )


def begin_recurring(row: RecurringExperiment) -> None:
    """Have a stored recurring experiment begin with its first recurrence, which is its source."""
    add_first_recurrence(row)
    enqueue_keep(row.source_id)


def stop_recurring(row: RecurringExperiment, by: User) -> bool:
    """Launch nothing of it any more; return whether it was not stopped before."""
    with transaction.atomic():
        stopped = RecurringExperiment.objects.filter(pk=row.pk, stopped_at=None).update(
            stopped_at=database_now(), stopped_by=by, requested_at=None
        )
        if stopped:
            audit.note(by, "stopped", row)
    return bool(stopped)


def request_launch(row: RecurringExperiment) -> bool:
    """Ask for the next recurrence, which waits while another one lives; False if it is over."""
    if row.is_over(database_now()):
        return False
    RecurringExperiment.objects.filter(pk=row.pk).update(
        requested_at=Now(), requested_reason=LaunchReason.HAND, problem=""
    )
    enqueue_recur(row.pk)
    return True


def restart_limits(row: RecurringExperiment, first: int | None, by: User) -> str:
    """Compute limits of the recurrences from `first` on; return why not, "" if it is done."""
    if first is None or not 1 <= first <= row.last_number:
        return f"Choose a recurrence from 1 to {row.last_number}."
    with transaction.atomic():
        RecurringExperiment.objects.filter(pk=row.pk).update(limits_from=first)
        audit.note(by, "changed", row, changes={"limits_from": [row.limits_from, first]})
    return ""
