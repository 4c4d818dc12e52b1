"""Owners of experiments take turns: whoever has thousands of jobs keeps nobody waiting."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments.execution.sending import take_turns
from experiments.models import Cluster, Experiment, Job, User
from tests.factories import JobFactory, LaunchedFactory, UserFactory

pytestmark = pytest.mark.django_db


def plan(cluster: Cluster, owner: User, count: int, *, minutes_ago: int) -> Experiment:
    launched_at = timezone.now() - timedelta(minutes=minutes_ago)
    made: Experiment = LaunchedFactory(cluster=cluster, owner=owner, launched_at=launched_at)
    for number in reversed(range(count)):
        JobFactory(
            experiment=made, cluster=cluster, repeat=number + 1, block=number, state="planned"
        )
    return made


def list_turns(most: int = 100) -> list[tuple[int, int]]:
    """Return experiment and block of the planned jobs that are sent first, in that order."""
    jobs = take_turns(Job.objects.filter(state=Job.State.PLANNED), most)
    return [(job.experiment_id, job.block) for job in jobs]


def test_owners_take_turns_and_each_of_them_has_the_order_of_the_plan(here: Cluster) -> None:
    many, few = (UserFactory() for _ in range(2))
    first = plan(here, many, 4, minutes_ago=30)
    late = plan(here, few, 2, minutes_ago=10)
    second = plan(here, many, 1, minutes_ago=20)
    in_order = [
        (first.pk, 0),
        (late.pk, 0),
        (first.pk, 1),
        (late.pk, 1),
        (first.pk, 2),
        (first.pk, 3),
        (second.pk, 0),
    ]
    for most in range(len(in_order) + 2):
        assert list_turns(most) == in_order[:most]


def test_a_portion_does_not_read_all_that_is_planned(here: Cluster) -> None:
    """With 50,000 jobs that would take longer than sending them."""
    for minutes in (10, 20):
        plan(here, UserFactory(), 20, minutes_ago=minutes)
    with CaptureQueriesContext(connection) as queries:
        take_turns(Job.objects.filter(state=Job.State.PLANNED), 3)
    assert len(queries) == 2
    with connection.cursor() as cursor:
        read = []
        for query in queries:
            cursor.execute(query["sql"])
            read.append(cursor.fetchall())
    assert [len(first) for _, first in read[0]] == [3, 3]
    assert len(read[1]) == 3


def test_a_slice_of_them_is_what_comes_first(here: Cluster) -> None:
    first = plan(here, UserFactory(), 50, minutes_ago=30)
    late = plan(here, UserFactory(), 50, minutes_ago=10)
    portion = take_turns(Job.objects.filter(state=Job.State.PLANNED), 10)
    counts = [sum(job.experiment_id == made.pk for job in portion) for made in (first, late)]
    assert counts == [5, 5]
