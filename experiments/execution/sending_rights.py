"""The person who requested a job, and whether they still may send it when its turn comes."""

from __future__ import annotations

from experiments.access.permissions import why_not_use
from experiments.models import Event, Job, User

LAUNCHED = "launched"
REPAIRED = "block repaired"
PLANNED_AGAIN = f"{Job.State.FAILED} → {Job.State.PLANNED}"


def find_sender(job: Job) -> User | None:
    """Return who last asked for the job: by a repair, by trying it again, or by the launch."""
    asked = Event.objects.exclude(actor=None).select_related("actor")
    last = asked.filter(job=job, run=None, what__in=(REPAIRED, PLANNED_AGAIN)).order_by(
        "-at", "-pk"
    )
    launch = asked.filter(experiment=job.experiment_id, job=None, what=LAUNCHED)
    event = last.first() or launch.order_by("at", "pk").first()
    return event.actor if event else None


def why_not_sent(job: Job) -> str:
    """Return why a planned job must not be sent now; "" where whoever asked for it still may."""
    person = find_sender(job)
    if person is None or (person.is_active and not why_not_use(person, job.cluster)):
        return ""
    return (
        f"{person}, who asked for these jobs, may not send jobs to {job.cluster} any more. They "
        "wait until that right is given back, or the experiment is cancelled."
    )
