"""The person who requested a job, and whether they still may send it when its turn comes."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.access.permissions import why_not_use
from experiments.models import Cluster, Event, Job, User

LAUNCHED = "launched"
REPAIRED = "block repaired"
ADDED = "block added"
PLANNED_AGAIN = f"{Job.State.FAILED} → {Job.State.PLANNED}"


def find_forbidden(jobs: Sequence[Job]) -> dict[int, str]:
    """Return why planned jobs must not be sent now, by their keys; others are left out.

    Whoever asked for them may have lost the right to do so.
    """
    senders = find_senders(jobs)
    problems: dict[tuple[User | None, int], str] = {}
    for job in jobs:
        key = senders[job.pk], job.cluster_id
        if key not in problems:
            problems[key] = _explain(senders[job.pk], job.cluster)
    by_job = {job.pk: problems[senders[job.pk], job.cluster_id] for job in jobs}
    return {pk: problem for pk, problem in by_job.items() if problem}


def find_senders(jobs: Sequence[Job]) -> dict[int, User | None]:
    """Return who last asked for each job: by an extension, a repair, a retry or the launch."""
    asked = Event.objects.exclude(actor=None).select_related("actor").order_by("at", "pk")
    again = asked.filter(job__in=jobs, run=None, what__in=(ADDED, REPAIRED, PLANNED_AGAIN))
    experiments = {job.experiment_id for job in jobs}
    launches = asked.filter(experiment__in=experiments, job=None, what=LAUNCHED).order_by(
        "-at", "-pk"
    )
    by_job = {event.job_id: event.actor for event in again}
    by_launch = {event.experiment_id: event.actor for event in launches}
    return {job.pk: by_job.get(job.pk) or by_launch.get(job.experiment_id) for job in jobs}


def _explain(person: User | None, cluster: Cluster) -> str:
    if person is None or (person.is_active and not why_not_use(person, cluster)):
        return ""
    return (
        f"{person}, who asked for these jobs, may not send jobs to {cluster} any more. They "
        "wait until that right is given back, or the experiment is cancelled."
    )
