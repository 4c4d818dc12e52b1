"""What does not go on: each kind is named, counted and linked to its page, with what to do."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from experiments.execution.read_attempts import MOST_ATTEMPTS
from experiments.health.stuck import list_stuck
from experiments.health.stuck_kinds import MOST_SHOWN, Stuck
from experiments.models import (
    CheckReport,
    Cluster,
    Event,
    ImageImport,
    Job,
    Operation,
    Pause,
    RunFile,
)
from experiments.models.images import ARCHIVE
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    ExperimentFactory,
    ImageImportFactory,
    JobFactory,
    LaunchedFactory,
    OperationFactory,
    PartitionFactory,
    RunFactory,
    StagedImageFactory,
)

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def find(now: datetime) -> Stuck:
    (group,) = list_stuck(now)
    return group


def add_event(job: Job, at: datetime) -> None:
    row = Event.objects.create(experiment=job.experiment, job=job, what="planned → submitting")
    Event.objects.filter(pk=row.pk).update(at=at)


def test_where_all_goes_on_nothing_is_listed(now: datetime) -> None:
    for state in Job.State:
        job = JobFactory(state=state, gone_at=now, cancel_requested_at=now)
        add_event(job, now)
    OperationFactory()
    ImageImportFactory(seen_at=now)
    assert list_stuck(now) == []


def test_jobs_and_operations_that_are_submitted_for_long(now: datetime) -> None:
    job = JobFactory(state=Job.State.SUBMITTING, scheduler_id="")
    add_event(job, now - 2 * HOUR)
    add_event(job, now - HOUR)
    add_event(JobFactory(state=Job.State.SUBMITTING, scheduler_id=""), now)
    operation = OperationFactory(state=Operation.State.SUBMITTING)
    Operation.objects.update(requested_at=now - HOUR)
    jobs, operations = list_stuck(now)
    assert (jobs.title, jobs.count) == ("Jobs submitting for more than 10 min", 1)
    assert jobs.rows[0].since == now - HOUR
    assert jobs.rows[0].url == f"/experiments/{job.experiment_id}/?tab=jobs"
    assert operations.rows[0].url == f"/operations/{operation.pk}/"


def test_jobs_that_are_not_collected(now: datetime) -> None:
    JobFactory(state=Job.State.COLLECTING, gone_at=now - HOUR)
    JobFactory(state=Job.State.COLLECTING, gone_at=now)
    group = find(now)
    assert group.title == "Jobs that left the queue more than 10 min ago and are not collected"
    assert group.count == 1


def test_jobs_over_whose_files_workers_died(now: datetime) -> None:
    columns = {"state": Job.State.FAILED, "collecting_attempts": MOST_ATTEMPTS}
    JobFactory(collecting_tried_at=now - HOUR, **columns)
    JobFactory(collecting_tried_at=now - timedelta(days=99), **columns)
    group = find(now)
    assert (group.title, group.count) == ("Jobs over whose files a worker died 3 times", 1)
    assert "Collect again" in group.advice


def test_jobs_that_do_not_let_themselves_be_cancelled(now: datetime) -> None:
    JobFactory(state=Job.State.RUNNING, cancel_requested_at=now - HOUR)
    assert find(now).title == "Jobs that were to be cancelled and are still in the queue"


def test_jobs_where_nobody_goes(now: datetime) -> None:
    experiment = LaunchedFactory(cluster=ClusterFactory(enabled=False))
    JobFactory(experiment=experiment, state=Job.State.PLANNED)
    assert find(now).title == "Jobs on clusters that are not in service"


def test_clusters_that_cannot_be_visited(now: datetime) -> None:
    for failures, kind, error in ((2, "unreachable", "no route to host"), (1, "busy", "a moment")):
        cluster = ClusterFactory(
            name=kind, failures=failures, last_error=error, last_error_kind=kind, last_seen_at=now
        )
        JobFactory(experiment=LaunchedFactory(cluster=cluster), state=Job.State.RUNNING)
    ClusterFactory(failures=9, last_error="nobody has jobs there")
    group = find(now)
    assert (group.title, group.count) == ("Clusters with jobs whose last visits failed", 1)
    (row,) = group.rows
    assert (row.text, row.details) == ("unreachable: unreachable", "no route to host")
    assert (row.url, row.since) == (f"/clusters/{Cluster.objects.get(name='unreachable').pk}/", now)


def test_pauses_say_where_and_why(now: datetime) -> None:
    cluster = ClusterFactory(name="near")
    common = {"cluster": cluster, "message": "no room", "since": now, "retry_at": now}
    Pause.objects.create(kind="disk full", **common)
    Pause.objects.create(kind="drained", partition=PartitionFactory(name="gpu"), **common)
    Pause.objects.create(kind="limit", experiment=ExperimentFactory(question="Why?"), **common)
    group = find(now)
    assert [row.text for row in group.rows] == [
        "near: disk full",
        "near, partition gpu: drained",
        "near, Why?: limit",
    ]
    assert group.rows[0].details == "no room"


def test_what_a_person_has_paused_is_said_to_be_paused_and_not_stuck(now: datetime) -> None:
    off = ClusterFactory(name="off", enabled=False)
    experiment = LaunchedFactory(cluster=off, question="Why?", paused_at=now - HOUR)
    JobFactory(experiment=experiment, state=Job.State.PLANNED)
    LaunchedFactory(paused_at=now)  # nothing of it waits
    group = find(now)
    assert group.title == "Experiments that a person has paused"
    assert [(row.text, row.url, row.since) for row in group.rows] == [
        ("off, Why?", experiment.get_absolute_url(), now - HOUR)
    ]
    JobFactory(experiment=experiment, state=Job.State.RUNNING, repeat=2)
    titles = [stuck.title for stuck in list_stuck(now)]
    assert "Jobs on clusters that are not in service" in titles, "that one was sent"


def test_transfers_that_fell_silent(now: datetime) -> None:
    silent = now - HOUR
    archive = StagedImageFactory(format=ARCHIVE, state="staging", sending_at=silent)
    StagedImageFactory(format=ARCHIVE, state="staging", sending_at=now)
    ImageImportFactory(state=ImageImport.State.UNDER_WAY, seen_at=silent, reference="docker://x")
    ImageImportFactory(state=ImageImport.State.UNDER_WAY, seen_at=silent, kind="recipe")
    run = RunFactory()
    RunFile.objects.create(
        run=run, path="model.h5", size_bytes=9, requested_at=silent, seen_at=silent
    )
    images, imports, copies = list_stuck(now)
    assert images.rows[0].url == f"/catalogue/images/{archive.image_id}/"
    assert (images.count, imports.count, copies.count) == (1, 1, 1)
    assert imports.rows[0].text == "docker://x"
    assert copies.rows[0].url == f"/runs/{run.uid}/"


def test_visits_that_nobody_has_begun(now: datetime) -> None:
    for _ in range(2):
        CheckReport.objects.create(cluster=ClusterFactory())
    first = CheckReport.objects.order_by("pk")[0]
    CheckReport.objects.filter(pk=first.pk).update(requested_at=now - HOUR)
    group = find(now)
    assert (group.title, group.count) == ("Checks requested and not begun yet", 1)


def test_of_many_the_oldest_are_shown_and_the_others_counted(
    now: datetime, django_assert_max_num_queries: Any
) -> None:
    job = JobFactory(state=Job.State.COLLECTING, gone_at=now - HOUR)
    Job.objects.bulk_create(
        Job(
            experiment=job.experiment,
            cluster=job.cluster,
            workload=job.workload,
            scale="1x1",
            repeat=number,
            block=number,
            state=Job.State.COLLECTING,
            scheduler_id=str(number),
            gone_at=now - HOUR - timedelta(seconds=number),
        )
        for number in range(2, 5001)
    )
    with django_assert_max_num_queries(18):
        group = find(now)
    assert (group.count, len(group.rows), group.more) == (5000, MOST_SHOWN, 4990)
    assert group.rows[0].since == now - HOUR - timedelta(seconds=5000)


def test_every_link_opens(now: datetime) -> None:
    job = JobFactory(state=Job.State.COLLECTING, gone_at=now - HOUR)
    Pause.objects.create(cluster=job.cluster, kind="x", message="", since=now, retry_at=now)
    OperationFactory(state=Operation.State.COLLECTING, gone_at=now - HOUR)
    StagedImageFactory(format=ARCHIVE, state="staging", sending_at=now - HOUR)
    ImageImportFactory(seen_at=now - HOUR)
    client = Client()
    client.force_login(AdminFactory())
    rows = [row for group in list_stuck(now) for row in group.rows]
    assert len(rows) == 5
    for row in rows:
        assert client.get(row.url).status_code == 200, row
