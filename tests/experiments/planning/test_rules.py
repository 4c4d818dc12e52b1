"""A form that asks for what the partition does not have is refused, in words, at the field."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.models import StagedImage
from experiments.planning.forecasts import compute_job_seconds, forecast
from experiments.planning.rules import describe_unready_images, list_refusals
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    EnvironmentFactory,
    PartitionFactory,
    RuntimeFactory,
    StagedImageFactory,
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
    assert list_refusals(**asked) == {}


def test_a_cold_page_cache_is_refused_where_it_cannot_be_had(asked: dict[str, Any]) -> None:
    cluster = asked["cluster"]
    row = WorkloadFactory(name="cold start", kind="startup", parameters={"page_cache": "cold"})
    assert list_refusals(**asked | {"workloads": [row]}) == {}
    docker = ContainerFactory(
        name="box",
        cluster=cluster,
        runtime=RuntimeFactory(cluster=cluster, kind="docker"),
        staged_image=StagedImageFactory(cluster=cluster, format="docker"),
    )
    environments = [asked["baseline"], docker]
    (refused,) = list_refusals(**asked | {"workloads": [row], "environments": environments})[
        "environments"
    ]
    assert refused == (
        "box cannot have a cold or warm page cache, which cold start asks for: Docker keeps this "
        "image where no user of the node can reach its files. Leave it out, or leave the page "
        "cache as it is."
    )
    training = WorkloadFactory(name="cold training", kind="cnn", parameters={"page_cache": "cold"})
    scales = list_refusals(**asked | {"workloads": [training], "scales": ["2x1 srun"]})["scales"]
    assert any("which can be had on one node alone" in sentence for sentence in scales)


def test_preparing_the_page_cache_belongs_to_the_job_s_time() -> None:
    usual, cold = (
        WorkloadFactory(parameters=parameters) for parameters in ({}, {"page_cache": "cold"})
    )
    seconds = [compute_job_seconds(row, runs=3, cooldown_seconds=0) for row in (usual, cold)]
    assert seconds[1] - seconds[0] == 3 * 120


def test_what_needs_python_is_refused_in_an_environment_without(asked: dict[str, Any]) -> None:
    environments = [asked["baseline"], EnvironmentFactory(cluster=asked["cluster"], python="none")]
    refused = list_refusals(**asked | {"environments": environments})["environments"]
    assert "has no Python 3.8 or later" in refused[0]
    assert "which blas needs" in refused[0]
    kinds = {
        "outside": {"argv": ["sorting"], "recorded": "outside"},
        "inside": {"argv": ["sorting"]},
        "named": {"argv": ["{python}", "x.py"], "recorded": "outside"},
    }
    for name, parameters in kinds.items():
        row = WorkloadFactory(name=name, kind="command", parameters=parameters)
        found = list_refusals(
            **asked | {"environments": environments, "workloads": [row], "scales": ["1x1"]}
        )
        assert ("environments" in found) == (name != "outside"), name
    for kind in ("startup", "files"):
        row = WorkloadFactory(name=kind, kind=kind, parameters={"recorded": "outside"})
        found = list_refusals(
            **asked | {"environments": environments, "workloads": [row], "scales": ["1x0"]}
        )
        assert "environments" not in found, kind


@pytest.mark.parametrize("interpreter", ["python2", "/opt/tree/bin/python2.7"])
def test_an_older_python_runs_commands_and_records_nothing(
    asked: dict[str, Any], interpreter: str
) -> None:
    older = EnvironmentFactory(cluster=asked["cluster"], name="old", python=interpreter)
    environments = [asked["baseline"], older]
    (refused,) = list_refusals(**asked | {"environments": environments})["environments"]
    assert f"old has no Python 3.8 or later (its interpreter is {interpreter!r})" in refused
    for parameters, is_refused in (
        ({"argv": ["sorting"]}, True),
        ({"argv": ["{python}", "x.py"]}, True),
        ({"argv": ["{python}", "x.py"], "recorded": "outside"}, False),
        ({"argv": ["sorting"], "recorded": "outside"}, False),
    ):
        row = WorkloadFactory(kind="command", parameters=parameters)
        found = list_refusals(
            **asked | {"environments": environments, "workloads": [row], "scales": ["1x1"]}
        )
        assert ("environments" in found) == is_refused, parameters


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"scales": ["1x5"]}, "scales", "5 GPUs a node asked for; gpu has 4."),
        ({"scales": ["3x1"]}, "scales", "3 nodes asked for; gpu has 2."),
        ({"scales": ["lots"]}, "scales", "'lots' is no scale"),
        ({"scales": []}, "scales", "Choose at least one scale, such as 1x1: one node, one GPU."),
        ({"scales": ["1x1", "1x1"]}, "scales", "named once"),
        ({"partition": None}, "partition", "Choose a partition"),
        ({"workloads": []}, "workloads", "Choose at least one workload."),
        ({"primary_metric": "joy"}, "primary_metric", "blas does not report joy"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_field(
    asked: dict[str, Any], change: dict[str, Any], field: str, words: str
) -> None:
    found = list_refusals(**(asked | change))
    assert words in " ".join(found[field])


def test_a_job_longer_than_the_partition_allows_is_refused(asked: dict[str, Any]) -> None:
    """Two runs of 10 minutes and the overhead of a job take 21 minutes: all there may be."""
    asked["partition"].time_limit_minutes = 21
    assert list_refusals(**asked) == {}
    asked["partition"].time_limit_minutes = 20
    assert list_refusals(**asked) == {
        "partition": [
            "The longest job may take 21 min 00 s; gpu ends jobs after 20 min 00 s. Shorten a "
            "workload's time limit, or choose fewer environments or the independent design."
        ]
    }
    assert "partition" not in list_refusals(**(asked | {"paired": False}))
    asked["partition"].time_limit_minutes = 21
    seen = list_refusals(**(asked | {"cooldown_seconds": 1}))
    assert seen["partition"][0].startswith("The longest job may take 21 min 01 s;")


def test_lengths_of_days_are_told_in_days_and_the_longer_one_is_not_told_as_the_same(
    asked: dict[str, Any],
) -> None:
    asked["partition"].time_limit_minutes = 2 * 24 * 60
    (workload,) = asked["workloads"]
    workload.time_limit_seconds = 6 * 24 * 3600
    (text,) = list_refusals(**asked)["partition"]
    assert text.startswith("The longest job may take 12 d 00 h; gpu ends jobs after 2 d 00 h.")
    workload.time_limit_seconds = 24 * 3600
    (text,) = list_refusals(**asked)["partition"]
    assert text.startswith("The longest job may take more than 2 d 00 h; gpu ends jobs after 2 d")


def test_as_many_interim_analyses_are_allowed_as_have_repeats_for_a_verdict(
    asked: dict[str, Any],
) -> None:
    assert list_refusals(**(asked | {"repeats": 10, "looks": 2})) == {}
    assert list_refusals(**(asked | {"repeats": 9, "looks": 2})) == {
        "looks": [
            "2 interim analyses need at least 10 repeats: between one and the next come 5, the "
            "fewest that a verdict needs. 9 repeats allow 1 interim analysis."
        ]
    }
    seen = list_refusals(**(asked | {"repeats": 14, "looks": 3}))["looks"][0]
    assert seen.endswith("14 repeats allow 2 interim analyses.")
    seen = list_refusals(**(asked | {"repeats": 1, "looks": 2}))["looks"][0]
    assert seen.endswith("1 repeat allows 1 interim analysis.")


def test_a_warm_up_is_looked_for_in_programs_with_enough_steps(asked: dict[str, Any]) -> None:
    enough = WorkloadFactory(name="long", parameters={"steps": 200})
    few = WorkloadFactory(name="short", parameters={"steps": 199})
    no_steps = WorkloadFactory(name="no steps", kind="command", parameters={"argv": ["true"]})
    asked |= {"workloads": [no_steps, enough], "find_warm_up": True}
    assert list_refusals(**asked) == {}
    seen = list_refusals(**(asked | {"workloads": [few, enough]}))
    assert seen == {"warm_up": ["short has 199 steps; where it settles can be found from 200 on."]}
    assert list_refusals(**(asked | {"workloads": [few], "find_warm_up": False})) == {}


def test_a_stored_program_that_was_not_sent_cannot_be_run(asked: dict[str, Any]) -> None:
    parameters = {"argv": ["{python}", "trian.py"], "files": {"train.py": "0" * 64}}
    stored = WorkloadFactory(name="mine", kind="command", parameters=parameters)
    messages = list_refusals(**(asked | {"workloads": [stored]}))
    assert list(messages) == ["scales"]
    assert "mine: argv: starts trian.py" in messages["scales"][0]
    assert "the nearest is train.py" in messages["scales"][0]


def test_what_is_only_known_from_logs_cannot_be_run(asked: dict[str, Any]) -> None:
    imported = WorkloadFactory(name="old", kind="tf_cnn_benchmarks")
    both = asked | {"workloads": [*asked["workloads"], imported]}
    assert list_refusals(**both) == {"workloads": ["old is only known from imported logs."]}


def test_a_partition_belongs_to_its_cluster(asked: dict[str, Any]) -> None:
    cluster = asked["cluster"]
    other = PartitionFactory(name="far", gpus_per_node=4)
    assert list_refusals(**(asked | {"partition": other})) == {
        "partition": [f"far is no partition of {cluster}."]
    }
    seen = list_refusals(**(asked | {"partition": None, "scales": ["1x0"]}))
    assert seen == {"partition": [f"Choose a partition of {cluster}."]}
    cluster.scheduler = "direct"
    assert list_refusals(**(asked | {"partition": None, "scales": ["1x0"]})) == {}


def test_one_scale_in_two_spellings_is_named_twice(asked: dict[str, Any]) -> None:
    assert list_refusals(**(asked | {"scales": ["1x1", "01x1"]}))["scales"] == [
        "Each scale is named once."
    ]


def test_a_metric_is_reported_by_every_workload_it_decides_about(asked: dict[str, Any]) -> None:
    assert list_refusals(**(asked | {"primary_metric": "step_time"})) == {}
    seen = list_refusals(**(asked | {"primary_metric": "joy"}))["primary_metric"]
    assert len(seen) == 1
    assert seen[0].startswith("blas does not report joy. It reports ")
    assert "step_time, " in seen[0]


def test_an_image_that_is_not_staged_is_named_with_its_state(asked: dict[str, Any]) -> None:
    bare, container = asked["environments"]
    staged = container.staged_image
    staged.state = StagedImage.State.READY
    assert describe_unready_images([bare, container]) == []
    staged.state = StagedImage.State.STAGING
    assert describe_unready_images([bare, container]) == [f"{container}: {staged} is staging."]


def test_environments_of_another_cluster_are_refused(asked: dict[str, Any]) -> None:
    stranger = EnvironmentFactory(name="elsewhere")
    found = list_refusals(**(asked | {"environments": [*asked["environments"], stranger]}))
    assert "elsewhere is not an environment of" in found["environments"][0]


def test_a_comparison_needs_somebody_to_compare_with(asked: dict[str, Any]) -> None:
    assert list_refusals(**(asked | {"environments": [asked["baseline"]]})) == {
        "environments": ["Choose the baseline and at least one environment more."]
    }
    others = [*asked["environments"][1:], ContainerFactory(cluster=asked["cluster"])]
    assert list_refusals(**(asked | {"environments": others})) == {
        "baseline": ["The baseline is one of the environments to be run."]
    }
    assert list_refusals(**(asked | {"environments": others, "baseline": None})) == {}


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
    assert seen.node_hours_at_most == (600 + 1200) * (1 + 1) * 5 * 3 / 3600


def test_without_gpus_the_nodes_are_counted() -> None:
    cluster = ClusterFactory()
    seen = forecast(
        workloads=[WorkloadFactory(time_limit_seconds=1800)],
        environments=[EnvironmentFactory(cluster=cluster) for _ in range(2)],
        scales=["1x0", "4x0 srun"],
        repeats=5,
        paired=True,
    )
    assert (seen.gpu_hours_at_most, seen.node_hours_at_most) == (0, 25)


def test_rejected_runs_may_take_as_much_again_each_time() -> None:
    cluster = ClusterFactory()
    seen = forecast(
        workloads=[WorkloadFactory(time_limit_seconds=1800)],
        environments=[EnvironmentFactory(cluster=cluster) for _ in range(2)],
        scales=["1x1"],
        repeats=5,
        paired=True,
        rejected_again=3,
    )
    assert (seen.gpu_hours_at_most, seen.further_gpu_hours) == (5, 15)


def test_an_independent_plan_has_a_job_for_each_run() -> None:
    cluster = ClusterFactory()
    plan: dict[str, Any] = {
        "workloads": [WorkloadFactory(time_limit_seconds=600)],
        "environments": [EnvironmentFactory(cluster=cluster) for _ in range(3)],
        "repeats": 5,
    }
    seen = forecast(**plan, scales=["1x1", "lots"], paired=False, cooldown_seconds=30)
    assert (seen.combinations, seen.blocks, seen.jobs, seen.runs) == (3, 5, 15, 15)
    assert seen.longest_job_seconds == 600 + 60
    nothing = forecast(**(plan | {"workloads": []}), scales=["1x1"], paired=True)
    assert (nothing.runs, nothing.longest_job_seconds, nothing.gpu_hours_at_most) == (0, 0, 0)
