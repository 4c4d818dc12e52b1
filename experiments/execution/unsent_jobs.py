"""Jobs that failed before any scheduler accepted them: they can be sent again, all at once."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F, QuerySet

from experiments.execution.further_attempts import require_use
from experiments.execution.lifecycle import JOB_ANEW, REFUSED, RUN_ANEW
from experiments.execution.moves import move_all
from experiments.models import Experiment, Job, Run, User
from experiments.planning.interim import Stage, read_stage


def list_unsent_jobs(experiment: Experiment, stage: Stage | None = None) -> QuerySet[Job]:
    """Return the failed jobs that no scheduler has taken and that may be tried again."""
    if experiment.cancelled_at:
        return experiment.jobs.none()
    return experiment.jobs.filter(
        state=Job.State.FAILED,
        reason=REFUSED,
        submitted_at=None,
        repeat__gt=(stage or read_stage(experiment)).settled,
    )


def retry_unsent(experiment: Experiment, by: User) -> int:
    """Plan the next attempt of every job that was not taken; return how many. Stamps nothing.

    Raises NotDone where `by` may not send jobs to the cluster.
    """
    require_use(by, experiment.cluster, "Not tried again.")
    with transaction.atomic():
        pks = list(list_unsent_jobs(experiment).select_for_update().values_list("pk", flat=True))
        why = "it was not sent"
        runs = Run.objects.filter(job__in=pks)
        move_all(runs, Run.State.FAILED, Run.State.PLANNED, why=why, by=by, **RUN_ANEW)
        jobs = Job.objects.filter(pk__in=pks)
        anew = {**JOB_ANEW, "attempt": F("attempt") + 1}
        return move_all(jobs, Job.State.FAILED, Job.State.PLANNED, why=why, by=by, **anew)
