"""Telling the owner of a recurring experiment that it left its limits, or was not launched."""

from __future__ import annotations

from django.db import transaction

from experiments.models import NotificationKind, Recurrence, RecurringExperiment
from experiments.notifications import Subject, notify_person
from experiments.recurring.chart_history import read_history

MOST_NAMED = 3
MOST_CHANGES = 5


def tell_of_limits(experiment_pk: int) -> list[str]:
    """Tell the owners whose charts have left their limits in this experiment; return the charts.

    Each chart is told once for a recurrence: what was told stands with it, and changes in the same
    transaction as the notification.
    """
    told: list[str] = []
    rows = Recurrence.objects.filter(experiment=experiment_pk, points__isnull=False)
    for pk, recurring in rows.order_by("pk").values_list("pk", "recurring"):
        with transaction.atomic():
            locked = RecurringExperiment.objects.select_for_update(of=("self",), no_key=True)
            owner_row = (
                locked.select_related("source", "owner").defer("source__plan").get(pk=recurring)
            )
            told += _tell(owner_row, pk)
    return told


def _tell(row: RecurringExperiment, pk: int) -> list[str]:
    recurrence = (
        Recurrence.objects.select_related("experiment").defer("experiment__plan").get(pk=pk)
    )
    outside = read_history(row).outside.get(recurrence.number, [])
    if outside == recurrence.told:
        return []
    news = [name for name in outside if name not in recurrence.told]
    Recurrence.objects.filter(pk=pk).update(told=outside)
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
