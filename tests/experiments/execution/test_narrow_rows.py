"""A visit costs what its jobs cost, whatever the plan that they are of and their scripts."""

from __future__ import annotations

import re
import tracemalloc
from collections.abc import Callable
from unittest import mock

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments import execution
from experiments.execution import moves
from experiments.models import Cluster, Event, Experiment, Job, Run
from runners.runner import Runner
from runners.schedulers import Status
from tests.conftest import finish
from tests.factories import ExperimentFactory, JobFactory

pytestmark = pytest.mark.django_db

Make = Callable[..., Experiment]
LARGE = re.compile(r'SELECT [^;]*?"(experiments_experiment"\."plan|experiments_job"\."script)"')


def wide(queries: CaptureQueriesContext) -> list[str]:
    return [query["sql"][:300] for query in queries if LARGE.search(query["sql"])]


def test_no_visit_reads_a_plan_or_a_script(experiment: Make) -> None:
    made = experiment(repeats=2)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        finish(made)
    assert wide(queries) == []
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


def test_no_event_reads_a_plan_or_a_script(experiment: Make) -> None:
    made = experiment()
    run = Run.objects.only(*Run.MOVED).get(pk=made.runs.first().pk)
    with CaptureQueriesContext(connection) as queries:
        assert moves.move(run, Run.State.RUNNING, why="as the journal says")
    assert wide(queries) == []
    event = Event.objects.latest("pk")
    assert (event.experiment, event.job, event.run) == (made, run.job, run)


def live_jobs(cluster: Cluster, count: int, plan_blocks: int) -> None:
    plan = {"blocks": [{"workload": "1", "environments": ["1", "2"]}] * plan_blocks}
    made = ExperimentFactory(cluster=cluster, plan=plan)
    for number in range(count):
        JobFactory(
            experiment=made,
            cluster=cluster,
            state=Job.State.QUEUED,
            scheduler_id=f"{number + 1}-1",
            scheduler_state="qw",
            directory=f"/none/{made.pk}-{number}",
            script="#" * plan_blocks,
            repeat=number + 1,
        )


def steady(cluster: Cluster) -> tuple[int, int]:
    """Return the queries, and the most bytes at once, of a visit at which nothing happens."""

    def queued(self: Runner, ids: list[str]) -> dict[str, Status]:
        return {name: Status("queued", "", "qw") for name in ids}

    with (
        mock.patch.object(Runner, "poll", queued),
        mock.patch.object(Runner, "read_journals", return_value={}),
        CaptureQueriesContext(connection) as queries,
    ):
        assert execution.tick(cluster.pk) == "done"  # the first writes what the scheduler said
        before = len(queries)
        tracemalloc.start()
        assert execution.tick(cluster.pk) == "done"
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return len(queries) - before, most


@pytest.mark.usefixtures("renewed_once")
def test_a_steady_visit_asks_as_much_for_many_jobs_as_for_few(here: Cluster) -> None:
    live_jobs(here, 2, 10)
    few, _ = steady(here)
    live_jobs(here, 30, 10)
    many, _ = steady(here)
    assert many == few


def test_a_steady_visit_takes_no_more_memory_for_a_large_plan(here: Cluster) -> None:
    live_jobs(here, 20, 5000)
    _, most = steady(here)
    assert most < 5_000_000, "one such plan takes as much"
