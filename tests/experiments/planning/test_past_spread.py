"""The spread of past runs: within configurations, and of ratios between blocks."""

from __future__ import annotations

import math
import statistics

import pytest

from experiments.models import Environment, Experiment, Measurement, Run
from experiments.planning.past_spread import History, Spread, measure_past_spread
from tests.factories import LaunchedFactory, UserFactory, WorkloadFactory, block

pytestmark = pytest.mark.django_db

BARE = (-0.01, 0.0, 0.04)
CONTAINER = (0.5, 0.52, 0.48)


def measured(*columns: tuple[float, ...], experiment: Experiment | None = None) -> Experiment:
    """Return an experiment with a block for each row of logs, the baseline's first."""
    experiment = experiment or LaunchedFactory()
    environments = list(experiment.environments.order_by("pk"))
    for number, logs in enumerate(zip(*columns, strict=True), start=1):
        values = {
            environment: math.exp(log) for environment, log in zip(environments, logs, strict=False)
        }
        block(experiment, number, values)
    return experiment


def read(experiment: Experiment, **changes: object) -> History:
    arguments = {"kind": "blas", "cluster": experiment.cluster, "metric": "step_time"}
    return measure_past_spread(**(arguments | {"reader": experiment.owner} | changes))  # type: ignore[arg-type]


def test_the_spread_is_that_within_each_environment() -> None:
    pooled = read(measured(BARE, CONTAINER)).of_runs
    assert pooled
    variances = [statistics.variance(logs) for logs in (BARE, CONTAINER)]
    assert pooled.sd == pytest.approx(math.sqrt(sum(variances) / 2))
    assert (pooled.df, pooled.runs) == (4, 6)


def test_of_two_environments_the_spread_is_that_of_their_ratios() -> None:
    pooled = read(measured(BARE, CONTAINER)).of_ratios
    assert pooled
    ratios = [one - other for one, other in zip(CONTAINER, BARE, strict=True)]
    assert pooled.sd == pytest.approx(statistics.stdev(ratios))
    assert (pooled.df, pooled.runs) == (2, 6)


def test_experiments_are_pooled_by_their_degrees_of_freedom() -> None:
    first = measured(BARE, CONTAINER)
    second = LaunchedFactory(cluster=first.cluster, owner=first.owner)
    longer = (*BARE, 0.3)
    measured(longer, longer, experiment=second)
    of_runs, of_ratios = read(first).of_runs, read(first).of_ratios
    assert of_runs
    assert of_ratios
    squares = 2 * (statistics.variance(BARE) + statistics.variance(CONTAINER))
    squares += 2 * 3 * statistics.variance(longer)
    assert of_runs.sd == pytest.approx(math.sqrt(squares / 10))
    assert (of_runs.df, of_runs.runs, of_ratios.df, of_ratios.runs) == (10, 14, 5, 14)


def test_two_runs_or_one_environment_are_too_few() -> None:
    assert read(measured(BARE[:2], CONTAINER[:2])) == History(None, None)
    alone = read(measured(BARE))
    assert alone.of_runs
    assert alone.of_ratios is None


def test_a_block_that_misses_an_environment_has_no_ratio() -> None:
    experiment = measured((*BARE, 0.1), (*CONTAINER, 9.0))
    container = Environment.objects.get(pk=experiment.environments.order_by("pk")[1].pk)
    Run.objects.filter(environment=container, repeat=4).update(state=Run.State.FAILED)
    seen = read(experiment)
    assert seen.of_runs
    assert seen.of_ratios
    assert (seen.of_runs.runs, seen.of_ratios.runs) == (7, 6)


def test_numbers_without_any_spread_say_nothing() -> None:
    assert read(measured((0.3,) * 3, (0.4,) * 3)) == History(None, None)


def test_only_this_kind_cluster_metric_and_what_the_reader_may_see_counts() -> None:
    experiment = measured(BARE, CONTAINER)
    assert read(experiment).of_runs
    nothing = History(None, None)
    assert read(experiment, kind="cnn") == nothing
    assert read(experiment, cluster=LaunchedFactory().cluster) == nothing
    assert read(experiment, metric="loss") == nothing
    assert read(experiment, only=WorkloadFactory()) == nothing
    assert read(experiment, only=experiment.workloads.get()) == read(experiment)
    Experiment.objects.update(visibility="private")
    assert read(experiment, reader=UserFactory()) == nothing
    Measurement.objects.update(value=0)
    assert read(experiment) == nothing


def test_between_nodes_it_is_that_of_the_ratios_of_their_means() -> None:
    """Two blocks on each of three nodes; a run whose node is not known says nothing of nodes."""
    experiment = measured((0.0,) * 6, (0.01, 0.03, 0.05, 0.05, -0.02, 0.0))
    for repeat in range(1, 7):
        Run.objects.filter(repeat=repeat).update(node=f"n{(repeat + 1) // 2}")
    pooled = read(experiment).of_nodes
    assert pooled
    assert pooled.sd == pytest.approx(statistics.stdev([0.02, 0.05, -0.01]))
    assert (pooled.df, pooled.runs) == (2, 12)
    Run.objects.filter(repeat__gt=4).update(node="")
    assert read(experiment).of_nodes is None


def test_means_of_other_numbers_of_blocks_are_expected_to_vary_otherwise() -> None:
    """Ten blocks on each node said how means of ten vary; one block a node varies more."""
    apart, noise = (0.02, 0.0, -0.01), (0.015, -0.005, -0.01)
    logs = tuple(of_node + of_block for of_node in apart for of_block in noise)
    experiment = measured((0.0,) * 9, logs)
    for repeat in range(1, 10):
        Run.objects.filter(repeat=repeat).update(node=f"n{(repeat + 2) // 3}")
    seen = read(experiment)
    assert seen.of_nodes
    assert seen.within_nodes
    assert seen.blocks_of_node == pytest.approx(3)
    assert seen.within_nodes.sd == pytest.approx(statistics.stdev(noise))
    assert seen.expect_node_means(3) == seen.of_nodes
    alone = seen.expect_node_means(1)
    assert alone
    expected = statistics.variance(apart) + statistics.variance(noise) * (1 - 1 / 3)
    assert alone.sd == pytest.approx(math.sqrt(expected))
    assert (alone.df, alone.runs) == (seen.of_nodes.df, seen.of_nodes.runs)


def test_nodes_that_seem_alike_leave_what_blocks_vary_by() -> None:
    alike = History(None, None, Spread(0.001, 4, 10), Spread(0.01, 20, 50), 5.0)
    expected = alike.expect_node_means(2)
    assert expected
    assert expected.sd == pytest.approx(0.01 / math.sqrt(2))
    unknown = History(None, None, Spread(0.001, 4, 10))
    assert unknown.expect_node_means(2) == unknown.of_nodes
    assert History(None, None).expect_node_means(2) is None
