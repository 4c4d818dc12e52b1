"""Places in Slurm's queue are asked for while somebody looks at a job that waits, and only then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings
from redis import Redis

from experiments import valkey_pause
from experiments.execution import queue_places
from experiments.execution.lease import Lease
from experiments.execution.queue_places import (
    AFTER_PROBLEM,
    KEPT,
    LEAST_INTERVAL,
    MOST_QUEUES,
    WaitingQueue,
    is_question_refused,
    read_queues,
    watch_queue,
    write_ordinal,
)
from experiments.models import Cluster, Job, Partition
from runners.errors import TryAgain
from runners.runner import Runner
from runners.schedulers import SCHEDULERS
from runners.transports import Completed, Local
from tests.factories import (
    ClusterFactory,
    CredentialFactory,
    JobFactory,
    LaunchedFactory,
    PartitionFactory,
)

pytestmark = pytest.mark.django_db
PRINTED = "9|71\n5|800_1\n5|800_2\n5|72\n0|73\nexit 0\n"


@dataclass
class Site(Local):
    """A login node whose squeue prints what a test says."""

    printed: str = PRINTED
    problem: TryAgain | None = None
    asked: list[str] = field(default_factory=list)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 30,
        stdin: bytes | BinaryIO = b"",
        stdout: BinaryIO | None = None,
    ) -> Completed:
        self.asked.append(argv[-1])
        if self.problem:
            raise self.problem
        return Completed(0, self.printed.encode(), b"")


@pytest.fixture
def valkey(settings: Settings) -> Redis:
    """The real one, without what other tests have left."""
    client = Redis.from_url(settings.REDIS_URL)
    for key in client.scan_iter("queue:*"):
        client.delete(key)
    return client


@pytest.fixture
def cluster(valkey: Redis) -> Cluster:
    made: Cluster = ClusterFactory(
        transport="ssh", scheduler="slurm", credential=CredentialFactory(user_name="hpc")
    )
    return made


@pytest.fixture
def partition(cluster: Cluster) -> Partition:
    made: Partition = PartitionFactory(cluster=cluster, name="gpu")
    return made


def make_waiting(partition: Partition, number: str, **columns: Any) -> Job:
    experiment = LaunchedFactory(cluster=partition.cluster, partition=partition)
    columns = {"state": Job.State.QUEUED, "scheduler_id": number, **columns}
    made: Job = JobFactory(experiment=experiment, **columns)
    return made


def look(job: Job) -> WaitingQueue | None:
    """Look at a page that shows the job."""
    cluster = Cluster.objects.get(pk=job.cluster_id)
    return watch_queue(job.experiment, cluster)


def visit(cluster: Cluster, site: Site, scheduler: str = "slurm") -> None:
    """Visit the cluster as far as places are concerned."""
    held = Lease(Cluster.objects.select_related("credential").get(pk=cluster.pk), "")
    read_queues(held, Runner(site, SCHEDULERS[scheduler]()))
    Cluster.objects.update(wanted_at=None)


def is_wanted(cluster: Cluster) -> bool:
    return Cluster.objects.get(pk=cluster.pk).wanted_at is not None


def let_a_minute_pass(valkey: Redis) -> None:
    for key in valkey.scan_iter("queue:asked:*"):
        valkey.delete(key)


def test_a_job_that_somebody_looks_at_gets_its_place(cluster: Cluster, partition: Partition):
    first, second = make_waiting(partition, "71"), make_waiting(partition, "72")
    held = make_waiting(partition, "73")
    site = Site()
    assert look(second) is None
    assert is_wanted(cluster), "a visit is asked for"
    visit(cluster, site)
    assert site.asked == ["gpu"]
    queue = look(second)
    assert queue is not None
    assert [queue.find_place(job) for job in (first, second, held)] == ["1st of 4", "4th of 4", ""]
    assert (queue.partition, queue.account) == ("gpu", "hpc")
    assert not is_wanted(cluster), "nor is a visit asked for again within a minute"


def test_what_runs_or_has_ended_has_no_place(cluster: Cluster, partition: Partition):
    job = make_waiting(partition, "71")
    look(job)
    visit(cluster, Site())
    queue = look(job)
    assert queue is not None
    for state in set(Job.State) - {Job.State.QUEUED}:
        job.state = state
        assert queue.find_place(job) == ""


def test_nothing_is_asked_where_nobody_looks(cluster: Cluster, partition: Partition):
    make_waiting(partition, "71")
    site = Site()
    with CaptureQueriesContext(connection) as queries:
        visit(cluster, site)
    assert len(queries) == 2, "the cluster itself, which this test reads and writes"
    Cluster.objects.update(wanted_at=timezone.now())
    with CaptureQueriesContext(connection) as queries:
        visit(cluster, site)
    assert len(queries) == 2
    assert site.asked == []


def test_a_queue_is_asked_for_once_a_minute_however_many_look(
    cluster: Cluster, partition: Partition, valkey: Redis
):
    jobs = [make_waiting(partition, number) for number in ("71", "72")]
    site = Site()
    for _ in range(3):
        for job in jobs:
            look(job)
        Cluster.objects.update(wanted_at=timezone.now())
        visit(cluster, site)
    assert site.asked == ["gpu"]
    (asked,) = valkey.scan_iter("queue:asked:*")
    assert 0 < valkey.ttl(asked) <= LEAST_INTERVAL
    let_a_minute_pass(valkey)
    look(jobs[0])
    assert is_wanted(cluster)
    visit(cluster, site)
    assert site.asked == ["gpu", "gpu"]


def test_each_partition_has_a_queue_of_its_own(cluster: Cluster, partition: Partition):
    other = PartitionFactory(cluster=cluster, name="debug")
    first, second = make_waiting(partition, "71"), make_waiting(other, "72")
    site = Site()
    look(first)
    visit(cluster, site)
    assert site.asked == ["gpu"], "nobody looks at the other"
    look(second)
    visit(cluster, site)
    assert site.asked == ["gpu", "debug"]


def test_a_page_that_was_closed_is_forgotten(cluster: Cluster, partition: Partition, valkey: Redis):
    look(make_waiting(partition, "71"))
    (watched,) = valkey.scan_iter("queue:watched:*")
    assert 0 < valkey.ttl(watched) <= queue_places.WATCHED
    site = Site()
    visit(cluster, site)
    let_a_minute_pass(valkey)
    Cluster.objects.update(wanted_at=timezone.now())
    visit(cluster, site)
    assert len(site.asked) == 1, "it counts as watched again once a page says so"


def test_a_few_queues_are_asked_for_in_a_visit(cluster: Cluster):
    site = Site()
    for number in range(MOST_QUEUES + 2):
        named = PartitionFactory(cluster=cluster, name=f"part{number}")
        look(make_waiting(named, str(100 + number)))
    visit(cluster, site)
    assert len(site.asked) == MOST_QUEUES
    Cluster.objects.update(wanted_at=timezone.now())
    visit(cluster, site)
    assert len(set(site.asked)) == MOST_QUEUES + 2


@pytest.mark.parametrize(
    ("printed", "problem"),
    [
        ("exit 1\n", None),
        ("Welcome\n71\n", None),
        ("", TryAgain("no answer in 10 s", kind="time-out")),
        ("", TryAgain("does not let this through", kind="forced command")),
    ],
)
def test_a_site_that_does_not_answer_costs_the_place_alone(
    cluster: Cluster, partition: Partition, valkey: Redis, printed: str, problem: TryAgain | None
):
    other = make_waiting(PartitionFactory(cluster=cluster, name="debug"), "72")
    job = make_waiting(partition, "71")
    look(job)
    visit(cluster, Site())
    let_a_minute_pass(valkey)
    look(job)
    look(other)
    site = Site(printed, problem)
    visit(cluster, site)
    assert len(site.asked) == 1, "the other queue would take as long"
    failed = job if site.asked == ["gpu"] else other
    assert look(failed) is None, "the former place is not shown on"
    assert not is_wanted(cluster)
    waits = [valkey.ttl(key) for key in valkey.scan_iter("queue:asked:*")]
    assert LEAST_INTERVAL < max(waits) <= AFTER_PROBLEM, "it is left alone for longer"
    assert is_question_refused(cluster) == bool(problem and problem.kind == "forced command")


def test_a_forced_command_that_was_replaced_is_no_longer_named(
    cluster: Cluster, partition: Partition, valkey: Redis
):
    job = make_waiting(partition, "71")
    look(job)
    visit(cluster, Site(problem=TryAgain("no", kind="forced command")))
    assert is_question_refused(cluster)
    let_a_minute_pass(valkey)
    look(job)
    visit(cluster, Site())
    assert not is_question_refused(cluster)


@pytest.mark.parametrize(
    "columns",
    [
        {"scheduler": "grid_engine"},
        {"scheduler": "direct"},
        {"enabled": False},
        {"transport": "by_hand"},
    ],
)
def test_other_clusters_are_not_asked(
    cluster: Cluster, partition: Partition, valkey: Redis, columns: dict[str, Any]
):
    Cluster.objects.update(**columns)
    job = make_waiting(Partition.objects.get(), "71")
    assert look(job) is None
    assert not is_wanted(cluster)
    assert not list(valkey.scan_iter("queue:*"))
    Cluster.objects.update(wanted_at=timezone.now())
    site = Site()
    visit(cluster, site)
    assert site.asked == []


def test_without_a_partition_there_is_no_queue_to_ask_for(cluster: Cluster, valkey: Redis):
    experiment = LaunchedFactory(cluster=cluster, partition=None)
    assert watch_queue(experiment, cluster) is None
    assert not list(valkey.scan_iter("queue:*"))


def test_a_partition_whose_name_cannot_be_asked_for_is_left_alone(cluster: Cluster, valkey: Redis):
    job = make_waiting(PartitionFactory(cluster=cluster, name="a b"), "71")
    look(job)
    site = Site()
    visit(cluster, site)
    assert site.asked == []
    assert look(job) is None
    (asked,) = valkey.scan_iter("queue:asked:*")
    assert valkey.ttl(asked) > LEAST_INTERVAL


def test_without_valkey_pages_and_visits_go_on(
    cluster: Cluster, partition: Partition, settings: Settings
):
    settings.REDIS_URL = "unix:///nowhere/socket?db=0"
    job = make_waiting(partition, "71")
    assert look(job) is None
    assert valkey_pause.is_paused(), "the next page does not wait for it"
    assert not is_wanted(cluster)
    Cluster.objects.update(wanted_at=timezone.now())
    site = Site()
    visit(cluster, site)
    assert site.asked == []
    assert not is_question_refused(cluster)


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["partition", "account", "total", "is_all", "places"]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    ).map(lambda document: json.dumps(document).encode())
)
def test_what_others_write_into_valkey_is_no_answer_or_one_in_its_shape(content: bytes):
    queue = queue_places._read_answer(content)
    assert queue is None or all(isinstance(place, int) for place in queue.places.values())


def test_an_answer_is_kept_for_minutes_and_of_tares_own_jobs(
    cluster: Cluster, partition: Partition, valkey: Redis
):
    look(make_waiting(partition, "72"))
    visit(cluster, Site())
    (key,) = valkey.scan_iter("queue:answer:*")
    assert 0 < valkey.ttl(key) <= KEPT
    document = json.loads(valkey.get(key) or "")
    assert (document["places"], document["total"]) == ([[72, 4]], 4)


def test_of_a_long_queue_it_is_said_that_there_are_more(cluster: Cluster, partition: Partition):
    job = make_waiting(partition, "1022")
    look(job)
    visit(cluster, Site("".join(f"7|{number}\n" for number in range(1, 20_002))))
    queue = look(job)
    assert queue is not None
    assert queue.find_place(job) == "1,022nd of more than 20,000"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (13, "13th"),
        (21, "21st"),
        (111, "111th"),
        (112, "112th"),
        (1_003, "1,003rd"),
        (20_000, "20,000th"),
    ],
)
def test_places_are_written_as_ordinals(number: int, text: str):
    assert write_ordinal(number) == text
