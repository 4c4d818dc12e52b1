"""A form that asks for what the partition does not have is refused, in words, at the field."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.planning.rules import forecast, refusals
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    PartitionFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def asked() -> dict[str, Any]:
    cluster = ClusterFactory(scheduler="slurm")
    baseline = EnvironmentFactory(cluster=cluster)
    return {
        "cluster": cluster,
        "partition": PartitionFactory(cluster=cluster, name="gpu", gpus_per_node=4, nodes=2),
        "workloads": [WorkloadFactory(name="blas", time_limit_seconds=600)],
        "environments": [baseline, ContainerFactory(cluster=cluster)],
        "baseline": baseline,
        "scales": ["1x1"],
        "repeats": 5,
        "paired": True,
    }


def test_what_fits_is_not_refused(asked: dict[str, Any]) -> None:
    assert refusals(**asked) == {}


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"scales": ["1x5"]}, "scales", "5 GPUs a node asked for; gpu has 4."),
        ({"scales": ["3x1"]}, "scales", "3 nodes asked for; gpu has 2."),
        ({"scales": ["lots"]}, "scales", "'lots' is no scale"),
        ({"scales": []}, "scales", "at least one scale"),
        ({"scales": ["1x1", "1x1"]}, "scales", "named once"),
        ({"partition": None}, "partition", "Choose a partition"),
        ({"workloads": []}, "workloads", "at least one workload"),
        ({"primary_metric": "joy"}, "primary_metric", "blas does not report joy"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_field(
    asked: dict[str, Any], change: dict[str, Any], field: str, words: str
) -> None:
    found = refusals(**(asked | change))
    assert words in " ".join(found[field])


def test_a_job_longer_than_the_partition_allows_is_refused(asked: dict[str, Any]) -> None:
    asked["partition"].time_limit_minutes = 20
    assert "may take 21 min; gpu ends jobs after 20 min" in refusals(**asked)["partition"][0]
    assert "partition" not in refusals(**(asked | {"paired": False}))


def test_environments_of_another_cluster_are_refused(asked: dict[str, Any]) -> None:
    stranger = EnvironmentFactory(name="elsewhere")
    found = refusals(**(asked | {"environments": [*asked["environments"], stranger]}))
    assert "elsewhere is not an environment of" in found["environments"][0]


def test_a_comparison_needs_somebody_to_compare_with(asked: dict[str, Any]) -> None:
    assert "environments" in refusals(**(asked | {"environments": [asked["baseline"]]}))
    others = asked["environments"][1:]
    assert "baseline" in refusals(**(asked | {"environments": others}))


def test_the_forecast_counts_what_will_run() -> None:
    cluster = ClusterFactory()
    seen = forecast(
        workloads=[
            WorkloadFactory(time_limit_seconds=600),
            WorkloadFactory(time_limit_seconds=1200),
        ],
        environments=[EnvironmentFactory(cluster=cluster) for _ in range(3)],
        scales=["1x1", "1x2"],
        repeats=5,
        paired=True,
        cooldown_seconds=30,
    )
    assert (seen.combinations, seen.blocks, seen.jobs, seen.runs) == (12, 20, 20, 60)
    assert seen.longest_job_seconds == 3 * 1200 + 2 * 30 + 60
    assert seen.gpu_hours_at_most == (600 + 1200) * (1 + 2) * 5 * 3 / 3600
