"""Pausing an experiment: a person has nothing new of it sent; what has been sent goes on.

To end it instead, with all its jobs on the cluster, is `lifecycle.cancel`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from experiments.execution.moves import record_event
from experiments.models import Experiment, User

PAUSED, CONTINUED = "paused", "continued"


def pause(experiment: Experiment, by: User) -> bool:
    """Have nothing new of an experiment sent; return False if it was paused or ended before."""
    return _set(experiment, by, PAUSED)


def resume(experiment: Experiment, by: User) -> bool:
    """Have the jobs of a paused experiment sent again; return False if it was not paused."""
    return _set(experiment, by, CONTINUED)


def find_person(experiment: Experiment) -> User | None:
    """Return who has paused an experiment; None where that is not known."""
    paused = experiment.events.filter(what=PAUSED).select_related("actor").order_by("-at", "-pk")
    event = paused.first()
    return event.actor if event else None


def _set(experiment: Experiment, by: User, what: str) -> bool:
    rows = Experiment.objects.filter(
        pk=experiment.pk,
        launched_at__isnull=False,
        cancelled_at=None,
        paused_at__isnull=what == PAUSED,
    )
    at = timezone.now() if what == PAUSED else None
    with transaction.atomic():
        if not rows.update(paused_at=at):
            return False
        record_event(experiment, what, by=by)
    experiment.paused_at = at
    return True


@dataclass(frozen=True)
class Stopped:
    """The keys of experiments of which nothing may be sent now."""

    paused: frozenset[int]
    cancelled: frozenset[int]


def find_stopped(experiments: Iterable[int]) -> Stopped:
    """Return which of these experiments a person has paused or cancelled."""
    stopped = Experiment.objects.filter(
        Q(paused_at__isnull=False) | Q(cancelled_at__isnull=False), pk__in=set(experiments)
    )
    rows = list(stopped.values_list("pk", "cancelled_at"))
    return Stopped(
        paused=frozenset(pk for pk, cancelled_at in rows if cancelled_at is None),
        cancelled=frozenset(pk for pk, cancelled_at in rows if cancelled_at is not None),
    )
