"""The archive with an experiment's jobs for a machine that Tare cannot reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.db.models import Prefetch, QuerySet
from django.utils import timezone

from experiments.execution.moves import record_event
from experiments.execution.submitting import make_spec
from experiments.models import Experiment, Job, Run, User
from runners.by_hand import BEGINS, IDENTITY, Identity, stream_archive
from runners.payload import hash_payload
from runners.schedulers import SCHEDULERS
from runners.scripts import render_own_files

PORTION = 50
"""As many jobs are read from the database together."""


class NothingToCarry(Exception):
    """No job waits to be carried; the message says why."""


@dataclass(frozen=True)
class JobArchive:
    """The archive that is to be carried: its name, how many jobs it has, and its bytes."""

    name: str
    count: int
    content: Iterator[bytes]


def name_carried(experiment: Experiment) -> str:
    """Return what an experiment is called on the machine."""
    return f"experiment-{experiment.pk}"


def list_carried(experiment: Experiment) -> QuerySet[Job]:
    """Return the jobs that were handed out and have no results yet, in the planned order."""
    return experiment.jobs.filter(
        state=Job.State.QUEUED, scheduler_id__startswith=BEGINS, cancel_requested_at=None
    ).order_by("block", "pk")


def write_jobs(experiment: Experiment, by: User | None) -> JobArchive:
    """Return the archive with all jobs of an experiment that wait to be carried.

    It may be written as often as one likes: a job has the same name and token each time, and the
    archive has the same bytes until Tare itself is upgraded. Raises NothingToCarry.
    """
    cluster = experiment.cluster
    if not cluster.is_by_hand:
        raise NothingToCarry(f"{cluster} is reached by Tare itself: nothing is carried by hand.")
    # Tare may have been upgraded since they were handed out: what travels is what is here now.
    payload = hash_payload()
    list_carried(experiment).exclude(payload_hash=payload).update(payload_hash=payload)
    rows = list(list_carried(experiment).values_list("pk", "directory"))
    if not rows:
        raise NothingToCarry("No job of this experiment waits to be carried.")
    name = name_carried(experiment)
    archive = f"tare-{name}.tar.gz"
    why = f"{len(rows)} job{'s' * (len(rows) != 1)} in {archive}"
    record_event(experiment, "jobs downloaded", why=why, by=by)
    launched = experiment.launched_at or timezone.now()
    content = stream_archive(
        name,
        cluster.work_directory.rstrip("/"),
        SCHEDULERS[cluster.scheduler](),
        _list_files(experiment, [pk for pk, _ in rows]),
        folders=[directory.rpartition("/")[2] for _, directory in rows],
        at=int(launched.timestamp()),
    )
    return JobArchive(archive, len(rows), content)


def _list_files(experiment: Experiment, keys: list[int]) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield the folder of each job with its files, a portion of jobs in memory at a time."""
    scheduler = SCHEDULERS[experiment.cluster.scheduler]()
    runs = Prefetch("runs", Run.objects.order_by("position"))
    for start in range(0, len(keys), PORTION):
        jobs = Job.objects.filter(pk__in=keys[start : start + PORTION])
        for job in jobs.select_related("workload").prefetch_related(runs).order_by("block", "pk"):
            job.experiment, job.cluster = experiment, experiment.cluster
            identity = make_identity(job)
            files = render_own_files(make_spec(job), scheduler)
            # As it was when the job was handed out, whatever the catalogue says now.
            files |= {"job.sh": job.script.encode(), IDENTITY: identity.render()}
            yield identity.folder, files


def make_identity(job: Job) -> Identity:
    """Return by what the results of a job that is carried are known."""
    return Identity(
        experiment=job.experiment_id,
        plan=job.experiment.plan_hash,
        block=job.number,
        job=job.uid,
        attempt=job.attempt,
        token=job.scheduler_id,
    )
