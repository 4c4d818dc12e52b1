"""Noticing what has become of an experiment, and telling its owner.

What is noticed is a state, not an event: all runs are over, more have failed, the verdicts are
others. It is compared with what was noticed last, which changes in the same transaction as the
notifications. So a task that is lost, repeated or ended in the middle neither loses a notification
nor writes it twice, and no statement is added to those that store results.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Sum
from django.db.models.functions import Now

from experiments.models import (
    Event,
    Experiment,
    Job,
    KeptComparison,
    NoticedExperiment,
    NotificationKind,
    Run,
)
from experiments.notifications.inbox import notify_person
from experiments.notifications.readers import Subject

MOST_AT_ONCE = 200
"""Experiments that the clock has looked at in one round."""


def watch_experiment(pk: int) -> str:
    """Tell the owner of an experiment what is new about it; return what that is, in words."""
    launched = Experiment.objects.exclude(launched_at=None).without_plan()
    experiment = launched.select_related("owner").filter(pk=pk).first()
    if experiment is None:
        return "nothing to watch"
    with transaction.atomic():
        NoticedExperiment.objects.bulk_create(
            [NoticedExperiment(experiment=experiment, looked_at=Now())], ignore_conflicts=True
        )
        noticed = NoticedExperiment.objects.select_for_update().get(pk=pk)
        news = dict(_notice(noticed, _read_states(experiment), _read_verdicts(experiment)))
        for kind, facts in news.items():
            subject = Subject(f"experiment {pk}", experiment=experiment)
            notify_person(experiment.owner, kind, subject=subject, facts=facts)
        noticed.looked_at = Now()
        noticed.save()
    return ", ".join(news) or "nothing new"


def list_unwatched() -> list[int]:
    """Return the experiments in which something may be new that nobody has looked at.

    Those that live, whose end was not noticed, whose comparison was kept since, or of which an
    event tells of something since: what begins and ends between two looks leaves nothing else.
    """
    rows = Experiment.objects.exclude(launched_at=None)
    kept_since = Q(kept_comparison__kept_at__gte=F("noticed__looked_at"))
    later = Event.objects.filter(experiment=OuterRef("pk"), at__gte=OuterRef("noticed__looked_at"))
    open_ones = Q(noticed=None) | Q(noticed__ended=0) | kept_since | Q(Exists(later))
    unended = Q(pk__in=Experiment.objects.alive().values("pk"))
    ordered = rows.filter(open_ones | unended).order_by(
        F("noticed__looked_at").asc(nulls_first=True)
    )
    return list(ordered.values_list("pk", flat=True)[:MOST_AT_ONCE])


def _read_states(experiment: Experiment) -> dict[str, int]:
    """Return how many runs are in which state, and the attempts of jobs together.

    `attempts` are those of all jobs: it grows with each retry and each repair, whenever somebody
    looks. `failures` are those in which runs that have failed were planned, each run for itself.
    """
    final = Q(state__in=Run.FINAL)
    failed = Q(state=Run.State.FAILED)
    counts: dict[str, Any] = Run.objects.filter(experiment=experiment).aggregate(
        runs=Count("pk"),
        unfinished=Count("pk", filter=~final),
        failed=Count("pk", filter=failed),
        succeeded=Count("pk", filter=Q(state=Run.State.SUCCEEDED)),
        cancelled=Count("pk", filter=Q(state=Run.State.CANCELLED)),
        failures=Sum("job__attempt", filter=failed),
    )
    jobs = Job.objects.filter(experiment=experiment)
    counts |= jobs.aggregate(attempts=Sum("attempt"))
    states = {name: count or 0 for name, count in counts.items()}
    states["failures"] += _count_repaired_failures(jobs)
    return states


def _count_repaired_failures(jobs: QuerySet[Job]) -> int:
    """Return the attempts before the repairs of those runs that have failed in them again."""
    failed = Count("runs", filter=Q(runs__state=Run.State.FAILED))
    repairs = jobs.filter(repairs__isnull=False).annotate(failed=failed).order_by("pk")
    earlier: dict[int, int] = {}
    count = 0
    for pk, first, attempts, failures in repairs.values_list(
        "pk", "repairs", "repairs__attempt", "failed"
    ):
        earlier[pk] = attempts + earlier.get(first or 0, 0)  # the first may be a repair, too
        count += failures * earlier[pk]
    return count


def _read_verdicts(experiment: Experiment) -> dict[str, int]:
    """Return how many pairs have which verdict, as the kept comparison says."""
    kept = KeptComparison.objects.filter(pk=experiment.pk).values_list("verdicts", flat=True)
    return kept.first() or {}


def _notice(
    noticed: NoticedExperiment, states: dict[str, int], verdicts: dict[str, int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the kinds of which there is something new, with its numbers, and note it."""
    counts = {name: states[name] for name in ("runs", "succeeded", "failed", "cancelled")}
    if states["failures"] > noticed.failures:
        yield NotificationKind.FAILED, counts
    noticed.failures = states["failures"]  # fewer, where some were tried again
    if states["unfinished"]:
        noticed.ended = 0  # it has begun again, so its next end is told as well
    if not states["unfinished"] and states["attempts"] != noticed.ended:
        noticed.ended = states["attempts"]
        yield NotificationKind.ENDED, counts
    if verdicts and verdicts != noticed.verdicts:
        earlier = noticed.verdicts
        noticed.verdicts = verdicts
        yield NotificationKind.VERDICT, {"verdicts": verdicts, "earlier": earlier}
