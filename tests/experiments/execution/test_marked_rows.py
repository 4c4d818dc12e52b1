"""What a live part reads by one statement is what its page reads by several."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.environment_symbols import assign_symbols, find_symbol
from experiments.comparisons import find_latest, keep_comparison
from experiments.comparisons.comparison_keys import identify_inputs
from experiments.execution.marked_experiments import find_experiment, measure_its_progress
from experiments.execution.marked_rows import find_operation, find_run
from experiments.execution.progress import measure_progress
from experiments.execution.related_experiments import find_related
from experiments.models import Event, Experiment, Job, Run
from experiments.models.experiment import LastEvent
from tests.factories import (
    ContainerFactory,
    EnvironmentFactory,
    ExperimentFactory,
    JobFactory,
    LaunchedFactory,
    OperationFactory,
    RunFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def alive() -> Any:
    """An experiment with runs and jobs in all states."""
    experiment = LaunchedFactory()
    for repeat, state in enumerate(Job.State, start=1):
        job = JobFactory(experiment=experiment, repeat=repeat, state=state)
        RunFactory(job=job, state=list(Run.State)[repeat % len(Run.State)])
    running = experiment.runs.filter(state=Run.State.RUNNING).order_by("pk")
    first, *others = running
    assert others
    Run.objects.filter(pk=first.pk).update(ended_at=None)
    Event.objects.create(experiment=experiment, what="launched")
    return experiment


def test_an_experiment_is_read_as_its_page_reads_it(alive: Any) -> None:
    with CaptureQueriesContext(connection) as queries:
        row = find_experiment(alive.owner, alive.pk)
    assert len(queries) == 1
    progress, own = measure_progress([alive])[alive.pk], measure_its_progress(row)
    assert (own.tally, own.status) == (progress.tally, progress.status)
    live = {state: count for state, count in progress.jobs.items() if state not in Job.FINAL}
    assert own.jobs == live
    finished = alive.runs.filter(state=Run.State.RUNNING, ended_at__isnull=False)
    assert row.finished_runs == finished.count() > 0
    assert row.find_last_event() == alive.find_last_event()
    assert row.find_last_event().pk == alive.events.order_by("-at", "-pk")[0].pk
    (inputs,) = identify_inputs([row], {row.pk: row.run_counts}).values()
    assert inputs == identify_inputs([Experiment.objects.get(pk=alive.pk)])[alive.pk]


@pytest.mark.parametrize("is_source", [True, False])
def test_what_belongs_to_an_experiment_is_found_with_it(is_source: bool) -> None:
    experiment = LaunchedFactory()
    if is_source:
        ExperimentFactory(copied_from=experiment)
    row = find_experiment(experiment.owner, experiment.pk)
    assert (row.is_source, row.recurs) == find_related(experiment) == (is_source, False)
    assert (row.run_counts, row.job_counts) == ({}, {})
    assert row.find_last_event() == LastEvent(None, None)


def test_the_kept_comparison_is_read_with_its_experiment(alive: Any) -> None:
    row = find_experiment(alive.owner, alive.pk)
    before = find_latest(row)
    assert (before.row, before.key) == (None, identify_inputs([alive])[alive.pk].key)
    keep_comparison(alive.pk)
    row = find_experiment(alive.owner, alive.pk)
    inputs = identify_inputs([row])[row.pk]
    with CaptureQueriesContext(connection) as queries:
        latest = find_latest(row, inputs)
    assert latest == find_latest(Experiment.objects.get(pk=alive.pk))
    assert latest.row
    assert not queries.captured_queries


def test_what_is_hidden_is_not_found(alive: Any) -> None:
    run, operation, other = alive.runs.all()[0], OperationFactory(), UserFactory()
    assert find_experiment(other, alive.pk)
    assert find_run(other, run.uid)
    assert find_operation(other, operation.pk)
    assert not find_experiment(AnonymousUser(), alive.pk)
    assert not find_run(AnonymousUser(), run.uid)
    Experiment.objects.update(visibility="private")
    type(operation.cluster).objects.update(visibility="private")
    assert not find_experiment(other, alive.pk)
    assert not find_run(other, run.uid)
    assert not find_operation(other, operation.pk)
    assert find_experiment(alive.owner, alive.pk)
    assert find_run(alive.owner, run.uid)
    assert find_operation(operation.owner, operation.pk)


@pytest.mark.parametrize("key", [0, 2**40])
def test_what_is_not_there_is_not_found(key: int) -> None:
    person = UserFactory()
    assert find_experiment(person, key) is None
    assert find_operation(person, key) is None
    for uid in ("", "\N{SNOWMAN}", "x" * 500, "' OR true --"):
        assert find_run(person, uid) is None


def test_a_run_has_the_symbol_that_it_has_on_other_pages() -> None:
    bare = EnvironmentFactory(name="zero")
    others = [
        ContainerFactory(name=name, cluster=bare.cluster) for name in ("Zulu", "alpha", "Ägypten")
    ]
    experiment = LaunchedFactory(cluster=bare.cluster, baseline=bare, environments=[bare, *others])
    job = JobFactory(experiment=experiment, repeat=1)
    for environment in (bare, *others):
        run = RunFactory(job=job, environment=environment)
        row: Any = find_run(experiment.owner, run.uid)
        mark = find_symbol(row.experiment, row.environment_id, row.numbered_environments)
        assert mark == assign_symbols(experiment)[environment.name], environment
        assert (row.has_measurements, row.has_series) == (False, False)
