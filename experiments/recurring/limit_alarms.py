"""Telling the owner of a recurring experiment that it left its limits, or was not launched."""

from __future__ import annotations

from django.db import transaction

from experiments.models import NotificationKind, Recurrence, RecurringExperiment
from experiments.notifications import Subject, notify_person
from experiments.recurring.chart_history import read_history
from experiments.recurring.recurrence_points import list_outdated, note_points

MOST_NAMED = 3
MOST_CHANGES = 5
IS_KEPT = {"experiment__kept_comparison__isnull": False}


def note_and_tell(experiment_pk: int) -> str:
    """Note what charts show of an experiment, and tell of limits; return what was done."""
    outcome = note_points(experiment_pk)
    if outcome in ("noted", "renewed"):
        tell_of_limits(experiment_pk, is_new=outcome == "noted")
    return outcome


def tell_of_limits(experiment_pk: int, *, is_new: bool = True) -> list[str]:
    """Tell the owners whose charts their newest recurrence has left; return the charts.

    Of the recurring experiments of which this experiment is a recurrence. An older one is not
    told: its values may have moved because another version of Tare has computed them. While some
    of them are to be computed anew, nothing is told: the last of those has the newest judged.
    If nothing but the version of Tare is new (`is_new` is False), one that was judged before is
    not told: an upgrade tells nobody about last year.

    Each chart is told once for a recurrence: what was told stands with it, and changes in the same
    transaction as the notification.
    """
    reported: list[str] = []
    rows = Recurrence.objects.filter(experiment=experiment_pk, points__isnull=False)
    for recurring in rows.order_by("recurring").values_list("recurring", flat=True):
        noted = Recurrence.objects.filter(recurring=recurring, points__isnull=False)
        pk = noted.order_by("-number").values_list("pk", flat=True)[0]
        with transaction.atomic():
            locked = RecurringExperiment.objects.select_for_update(of=("self",), no_key=True)
            owner_row = (
                locked.select_related("source", "owner").defer("source__plan").get(pk=recurring)
            )
            if not list_outdated().filter(recurring=recurring, **IS_KEPT).exists():
                reported += _tell(owner_row, pk, is_new)
    return reported


def _tell(row: RecurringExperiment, pk: int, is_new: bool) -> list[str]:
    recurrence = (
        Recurrence.objects.select_related("experiment").defer("experiment__plan").get(pk=pk)
    )
    if recurrence.reported is not None and not is_new:
        return []
    outside = read_history(row).outside.get(recurrence.number, [])
    if outside == recurrence.reported:
        return []
    news = [name for name in outside if name not in (recurrence.reported or [])]
    Recurrence.objects.filter(pk=pk).update(reported=outside)
    if news:
        facts = {
            "recurring": row.pk,
            "number": recurrence.number,
            "left": outside[:MOST_NAMED],
            "count": len(outside),
            "changes": [*recurrence.differences, *recurrence.changes][:MOST_CHANGES],
        }
        subject = Subject(f"recurring {row.pk}", experiment=recurrence.experiment)
        notify_person(row.owner, NotificationKind.RECURRING, subject=subject, facts=facts)
    return news


def tell_of_problem(row: RecurringExperiment, problem: str) -> None:
    """Tell the owner why a recurrence was not launched.

    To be called in the transaction that notes it.
    """
    facts = {"recurring": row.pk, "problem": problem}
    subject = Subject(f"recurring {row.pk} launch", experiment=row.source)
    notify_person(row.owner, NotificationKind.RECURRING, subject=subject, facts=facts)
