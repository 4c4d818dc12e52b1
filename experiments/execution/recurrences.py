"""Launch the next recurrence of a recurring experiment, if it is due and nothing stands against it.

It is launched by the rules of every launch, with the rights that its owner has at the time.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

from django.db import OperationalError, transaction

from experiments.access.permissions import why_not_add
from experiments.execution.lifecycle import NotLaunchable, launch
from experiments.models import Experiment, LaunchReason, Recurrence, RecurringExperiment
from experiments.models.database_time import database_now
from experiments.notify import enqueue_tick
from experiments.recurring import (
    PlanChanged,
    explain_why_not_recur,
    list_cluster_changes,
    make_draft,
    move_due_time,
    tell_of_problem,
)
from experiments.recurring.due_recurrences import find_living

logger = logging.getLogger(__name__)

MOST_OF_PROBLEM = 2000
FAILED = "Tare failed at it, and has written down why: tell an administrator."


def launch_recurrence(pk: int) -> str:
    """Launch a recurring experiment once more if that is due; return what was done.

    Safe to call at any time, by several at once: one launches, and the others find nothing due.
    What stands against it is noted with the row, for its page.
    """
    with transaction.atomic():
        rows = RecurringExperiment.objects.select_for_update(of=("self",), no_key=True)
        row = rows.select_related("source", "owner").filter(pk=pk).first()
        if row is None:
            return "gone"
        now = database_now()
        if outcome := _find_no_need(row, now):
            return outcome
        reason = row.requested_reason if row.requested_at else LaunchReason.TIME
        try:
            with transaction.atomic():
                recurrence = _launch(row, reason, now)
        except (NotLaunchable, PlanChanged) as refusal:
            return _note_problem(row, str(refusal), now)
        except OperationalError:
            raise  # PostgreSQL is away, or two wait for each other: tried again in a minute
        except Exception:  # whatever it is, the page says that there is something
            logger.exception("Recurring experiment %s could not be launched", pk)
            return _note_problem(row, FAILED, now)
        _move_on(row, recurrence.number, now)
        enqueue_tick(recurrence.experiment.cluster_id)
    return "launched"


def _find_no_need(row: RecurringExperiment, now: datetime) -> str:
    """Return why nothing is to be launched now; "" if it is time."""
    if row.is_over(now):
        return "over"
    if row.requested_at is None and (row.due_at is None or row.due_at > now):
        return "not due"
    return "waits" if find_living(row) else ""


def _launch(row: RecurringExperiment, reason: str, now: datetime) -> Recurrence:
    """Launch a new experiment with the plan of the source. Raises NotLaunchable or PlanChanged."""
    if why_not := why_not_add(row.owner, Experiment):
        raise NotLaunchable({"": [f"{row.owner} is its owner. {why_not}"]})
    if why_not := explain_why_not_recur(row.source):
        raise NotLaunchable({"": [why_not]})
    number = row.last_number + 1
    draft = make_draft(row, number)
    launch(draft, row.owner)
    changes = list_cluster_changes(row.source.plan or {}, draft.plan or {})
    return Recurrence.objects.create(
        recurring=row,
        number=number,
        experiment=draft,
        reason=reason,
        commit=row.requested_commit,
        detail=row.requested_detail,
        differences=changes,
        launched_at=now,
    )


def _move_on(row: RecurringExperiment, number: int, now: datetime) -> None:
    """Note that one was launched, and when the next is due: what was missed is not made up for."""
    columns: dict[str, Any] = {
        "last_number": number,
        "requested_at": None,
        **dict.fromkeys(("requested_reason", "requested_commit", "requested_detail"), ""),
        "tried_at": now,
        "problem": "",
    }
    if row.every_days and row.due_at and row.due_at <= now:
        columns["due_at"] = move_due_time(row.due_at, row.every_days, now)
    RecurringExperiment.objects.filter(pk=row.pk).update(**columns)


def _note_problem(row: RecurringExperiment, problem: str, now: datetime) -> str:
    text = problem.replace("\0", "")[:MOST_OF_PROBLEM]
    if text != row.problem:  # it is tried every hour, and told once
        tell_of_problem(row, text)
    RecurringExperiment.objects.filter(pk=row.pk).update(problem=text, tried_at=now)
    return "refused"
