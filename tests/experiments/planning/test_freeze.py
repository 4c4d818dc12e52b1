"""The plan that a launch keeps holds every value that decides what is run."""

from __future__ import annotations

import pytest

from experiments.planning.freeze import (
    freeze_definition,
    freeze_environment,
    freeze_workload,
    make_workload_of_repeat,
)
from tests.factories import (
    ContainerFactory,
    EnvironmentFactory,
    ExperimentFactory,
    ImageFactory,
    RuntimeFactory,
    StagedImageFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


def test_a_container_is_kept_with_its_runtime_and_image() -> None:
    runtime = RuntimeFactory.build(
        kind="udocker", executable="/opt/udocker", options=["--quiet"], setup_lines="module load u"
    )
    image = ImageFactory.build(digest="sha256:" + "a" * 64)
    environment = ContainerFactory.build(
        name="udocker",
        runtime=runtime,
        staged_image=StagedImageFactory.build(format="rootfs", path="/images/tf", image=image),
        mode="F3",
        python="/usr/bin/python3",
        binds=["/data:/data"],
        variables={"B": "2", "A": "1"},
        setup_lines="ulimit -s unlimited\n  \nexport X=1",
    )
    assert freeze_environment(environment) == {
        "label": "udocker",
        "runtime": "udocker",
        "executable": "/opt/udocker",
        "options": ["--quiet"],
        "mode": "F3",
        "image_format": "rootfs",
        "image_path": "/images/tf",
        "image_digest": "sha256:" + "a" * 64,
        "python": "/usr/bin/python3",
        "binds": ["/data:/data"],
        "variables": [["A", "1"], ["B", "2"]],
        "setup_lines": ["module load u", "ulimit -s unlimited", "export X=1"],
    }


def test_bare_metal_is_kept_without_runtime_and_image() -> None:
    kept = freeze_environment(EnvironmentFactory.build(name="bare", setup_lines="export X=1"))
    assert kept["runtime"] == "bare_metal"
    assert [kept[name] for name in ("executable", "image_format", "image_path")] == [""] * 3
    assert (kept["image_digest"], kept["options"]) == ("", [])
    assert kept["setup_lines"] == ["export X=1"]


def test_a_workload_is_kept_with_its_defaults() -> None:
    kept = freeze_workload(WorkloadFactory.build(name="W", parameters={"steps": 77}))
    assert (kept["name"], kept["kind"], kept["time_limit_seconds"]) == ("W", "blas", 60)
    assert kept["parameters"]["steps"] == 77
    assert kept["parameters"].keys() > {"steps"}
    first = make_workload_of_repeat(kept, 1)
    assert {name: first[name] for name in first if name != "parameters"} == {
        "name": "W",
        "kind": "blas",
        "time_limit_seconds": 60,
    }
    assert first["parameters"].keys() == kept["parameters"].keys()


def test_the_plan_names_all_that_the_hash_is_to_hold() -> None:
    experiment = ExperimentFactory(
        question="Why?",
        repeats=10,
        looks=2,
        margin=0.02,
        scales=["1x1"],
        cooldown_seconds=3,
        cluster__name="mill",
        cluster__host="mill.example.org",
        partition__name="gpu",
    )
    (workload,) = experiment.workloads.all()
    bare, container = experiment.environments.order_by("pk")
    kept = freeze_definition(experiment, 7)
    blocks = kept.pop("blocks")
    assert len(kept.pop("payload")) == 64
    assert kept == {
        "question": "Why?",
        "cluster": {"name": "mill", "host": "mill.example.org"},
        "partition": "gpu",
        "workloads": {str(workload.pk): freeze_workload(workload)},
        "environments": {str(row.pk): freeze_environment(row) for row in (bare, container)},
        "baseline": str(bare.pk),
        "scales": ["1x1"],
        "repeats": 10,
        "looks": {"after_repeats": [5, 10], "level": 0.0294},
        "design": "paired",
        "margin": 0.02,
        "primary_metric": experiment.primary_metric,
        "warm_up": experiment.warm_up,
        "cooldown_seconds": 3,
        "order_seed": 7,
    }
    assert sorted(block["repeat"] for block in blocks) == list(range(1, 11))
    for block in blocks:
        assert (block["workload"], block["scale"]) == (str(workload.pk), "1x1")
        assert sorted(block["environments"]) == sorted([str(bare.pk), str(container.pk)])
    assert freeze_definition(experiment, 7)["blocks"] == blocks
    assert freeze_definition(experiment, 8)["blocks"] != blocks
    experiment.partition = None
    assert freeze_definition(experiment, 7)["partition"] is None


@pytest.mark.parametrize(("limit", "kept"), [(2, None), (0, 0), (8, 8)])
def test_the_limit_of_output_is_in_the_plan_where_it_is_not_as_usual(
    limit: int, kept: int | None
) -> None:
    """So plans of before keep their hash."""
    plan = freeze_definition(ExperimentFactory(output_mib=limit), 7)
    assert plan.get("output_mib") == kept
