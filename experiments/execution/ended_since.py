"""The experiments that have ended since a moment, by Tare's own clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Case, Exists, OuterRef, Q, Subquery, Value, When

from experiments.models import Event, Experiment, Job, Run, User


def list_ended_since(user: User, moment: datetime, limit: int) -> list[Experiment]:
    """Return experiments that `user` may view and whose last job has ended since `moment`.

    Their own first, the newest first, with the time as `ended_at`. One statement, whose work grows
    with the number of experiments and not with that of runs.
    """
    ends = Q()
    for state in Job.FINAL:
        ends |= Q(what__endswith=f"→ {state}")
    events = Event.objects.filter(ends, experiment=OuterRef("pk"), job__isnull=False, run=None)
    alive = Run.objects.filter(experiment=OuterRef("pk")).exclude(state__in=Run.FINAL)
    rows: Any = (
        Experiment.objects.visible_to(user)
        .filter(launched_at__isnull=False, archived_at=None)
        .annotate(ended_at=Subquery(events.order_by("-at", "-pk").values("at")[:1]))
        .filter(~Exists(alive), ended_at__gt=moment)
        .alias(is_of_others=Case(When(owner=user.pk, then=Value(0)), default=Value(1)))
        .select_related("cluster", "owner")
        .defer("plan")
    )
    return list(rows.order_by("is_of_others", "-ended_at", "-pk")[:limit])
