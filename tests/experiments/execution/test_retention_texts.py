"""What pages say of a cluster's rule: what it removes next, what it leaves, and why."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from experiments.execution.retention import (
    PROBLEMS_SHOWN,
    describe_future,
    list_due,
    list_removable,
    summarize,
)
from experiments.models import (
    Cluster,
    Experiment,
    Job,
    Operation,
    Removal,
    Run,
    RunFile,
    Segment,
    ShareLink,
)
from tests.factories import ClusterFactory, JobFactory, LaunchedFactory, RunFactory

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
STAY = "They stay whatever the cluster’s rule of 30 days says: "


@pytest.fixture
def cluster() -> Cluster:
    made: Cluster = ClusterFactory(work_directory="/work/", retention_days=30)
    return made


def ended(cluster: Cluster, days: float = 31, **columns: Any) -> Job:
    """Make an ended job that was verified so many days ago."""
    verified_at = timezone.now() - days * DAY
    experiment = LaunchedFactory(cluster=cluster)
    made: Job = JobFactory(experiment=experiment, **{"verified_at": verified_at} | columns)
    Job.objects.filter(pk=made.pk).update(directory=f"/work/jobs/{made.uid}-{made.attempt}")
    RunFactory(job=made)
    made.refresh_from_db()
    return made


def pin(job: Job) -> None:
    Experiment.objects.filter(pk=job.experiment_id).update(pinned_at=timezone.now())


def link(job: Job) -> None:
    Experiment.objects.filter(pk=job.experiment_id).update(visibility="public")
    ShareLink.objects.make(job.experiment)


def file(job: Job, **columns: Any) -> None:
    RunFile.objects.create(run=job.runs.get(), path="model", size_bytes=9, **columns)


def want(job: Job) -> None:
    file(job, requested_at=timezone.now() - 40 * DAY)


def go_on(job: Job) -> None:
    run = job.runs.get()
    Segment.objects.create(run=run, number=1, job=job, directory="/x", facts={"steps": 5})
    Run.objects.filter(pk=run.pk).update(state=Run.State.PLANNED)


HELD: dict[str, tuple[Callable[[Job], None], str]] = {
    "a run goes on from their checkpoints": (go_on, "a run goes on from its checkpoint there."),
    "their experiment is pinned": (pin, "the experiment is pinned."),
    "a link opens their experiment": (link, "a link opens the experiment."),
    "a copy of one of their files was asked for": (want, "a copy of one of them was asked for."),
    "they hold files that were never copied": (file, "some were never copied."),
}


@pytest.mark.parametrize("why", HELD)
def test_what_holds_a_directory_is_told_of_it_and_of_the_cluster(
    why: str, cluster: Cluster
) -> None:
    job = ended(cluster)
    hold, sentence = HELD[why]
    hold(job)
    assert describe_future(job) == STAY + sentence
    summary = summarize(cluster)
    assert (summary.due, summary.held) == (0, [(why, 1)])


def test_each_directory_is_counted_once_under_the_first_reason(cluster: Cluster) -> None:
    for holds in ((go_on, pin), (pin, link), (link, want), (want, file), (file,), ()):
        job = ended(cluster)
        for hold in holds:
            hold(job)
    summary = summarize(cluster)
    assert summary.held == [(why, 1) for why in HELD]
    assert summary.due == 1


def test_a_copy_that_was_asked_for_within_the_rules_time_holds_its_directory(
    cluster: Cluster,
) -> None:
    now = timezone.now()
    Cluster.objects.update(removes_uncopied=True)
    cluster.refresh_from_db()
    held, failed, free = ended(cluster), ended(cluster), ended(cluster)
    file(held, requested_at=now - 29 * DAY, copied_at=now - 29 * DAY)
    file(failed, requested_at=now - 31 * DAY, problem="It is gone.")
    file(free, requested_at=now - 31 * DAY, copied_at=now - 31 * DAY)
    file(free)
    assert set(list_removable(cluster)) == {failed, free}


def test_when_a_directory_goes_is_told_with_the_rule(cluster: Cluster) -> None:
    job = ended(cluster, days=10)
    assert job.verified_at
    day = timezone.localtime(job.verified_at + 30 * DAY).strftime("%-d %B %Y")
    assert describe_future(job) == (
        f"They are removed on {day} or later, by the cluster’s rule of 30 days, unless somebody "
        "pins the experiment."
    )
    Cluster.objects.update(retention_days=1)
    job = Job.objects.get()
    assert "by the cluster’s rule of 1 day, unless" in describe_future(job)


@pytest.mark.parametrize(
    "columns",
    [{"verified_at": None}, {"collect_at": timezone.now()}, {"submitted_at": None}],
)
def test_what_was_not_collected_as_a_whole_stays(columns: dict[str, Any], cluster: Cluster) -> None:
    job = ended(cluster)
    Job.objects.update(**columns)
    job.refresh_from_db()
    assert describe_future(job) == STAY + "their collection was not verified as complete."


def test_nothing_is_told_of_what_lives_or_has_no_rule(cluster: Cluster) -> None:
    job = ended(cluster, state="running")
    assert describe_future(job) == ""
    Job.objects.update(state="done")
    Cluster.objects.update(retention_days=None)
    assert describe_future(Job.objects.get()) == ""
    summary = summarize(Cluster.objects.get())
    assert (summary.due, summary.held, summary.next_at) == (0, [], None)


def removal(job: Job, **columns: Any) -> Removal:
    about = {"job": job, "attempt": job.attempt, "directory": job.directory, "days": 30}
    made: Removal = Removal.objects.create(**{"chosen_at": timezone.now()} | about | columns)
    return made


def test_what_was_removed_and_could_not_be_is_summed_up(cluster: Cluster) -> None:
    now = timezone.now()
    ended(cluster, days=10)
    young = ended(cluster, days=20)
    ended(cluster, verified_at=None)
    for freed in (100, None):
        removal(ended(cluster), removed_at=now, freed_bytes=freed)
    failed = [
        removal(ended(cluster), chosen_at=now - hours * timedelta(hours=1), problem="no right")
        for hours in range(PROBLEMS_SHOWN + 1)
    ]
    removal(ended(ClusterFactory(retention_days=30)), removed_at=now, freed_bytes=7)
    for state in ("done", "failed"):
        Operation.objects.create(kind="clean_up", cluster=cluster, owner=cluster.owner, state=state)
    summary = summarize(cluster)
    assert (summary.removed, summary.freed_bytes, summary.unverified) == (2, 100, 1)
    assert summary.problems == failed[:PROBLEMS_SHOWN], "the latest first"
    assert young.verified_at
    assert summary.next_at == young.verified_at + 30 * DAY
    assert summary.due == PROBLEMS_SHOWN + 1, "they are tried again"
    assert summary.operation == cluster.operations.order_by("-pk").first()


def test_what_could_not_be_removed_waits_for_a_day_and_the_oldest_comes_first(
    cluster: Cluster,
) -> None:
    now = timezone.now()
    younger, older, tried, failed = (ended(cluster, days=days) for days in (31, 40, 50, 60))
    removal(tried, chosen_at=now - DAY - timedelta(minutes=1), problem="no right")
    removal(failed, chosen_at=now - DAY + timedelta(minutes=1), problem="no right")
    assert list(list_due(cluster)) == [tried, older, younger]


def test_nothing_was_freed_where_nothing_was_removed(cluster: Cluster) -> None:
    summary = summarize(cluster)
    assert (summary.removed, summary.freed_bytes, summary.operation) == (0, 0, None)
