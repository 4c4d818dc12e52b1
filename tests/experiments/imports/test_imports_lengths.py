"""Epochs or steps of imported logs: which was asked for, and what workloads are called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.comparisons import compare_experiment
from experiments.imports import list_files, read_logs
from experiments.imports.imported_runs import store
from experiments.imports.layout import Placed, arrange
from experiments.imports.lengths import EPOCHS, STEPS, count_whole_epochs, keep_lengths
from experiments.models import Experiment, Workload
from tests import tf_cnn_logs as logs
from tests.factories import UserFactory

NETS = ("cifar10_resnet56, batch 64", "imagenet_alexnet, batch 64", "imagenet_resnet50, batch 64")
SCALES = ("1x1", "1x2", "1x4")


def placed(tree: logs.Tree) -> list[Placed]:
    return arrange(read_logs(list_files(logs.as_zip(tree))).runs, 0)


def imported(tree: logs.Tree, baseline: str = "lsdf_udocker_5epoch") -> Experiment:
    return store(
        read_logs(list_files(logs.as_zip(tree))),
        environment=0,
        baseline=baseline,
        question="What do containers cost?",
        margin=0.02,
        owner=UserFactory(),
        source="logs.zip",
        machine="K80",
    )


def trained(environment: str, repeat: int = 1, *, gpus: int = 1, **words: Any) -> logs.Tree:
    return logs.run(f"{environment}/net_{gpus}_gpu/{repeat}", gpus=gpus, **words)


@given(
    epochs=st.integers(1, 500),
    images=st.integers(1000, 2_000_000),
    batch=st.integers(1, 1000),
    up=st.booleans(),
    printed=st.booleans(),
)
def test_whole_epochs_are_found_however_they_became_steps(
    epochs: int, images: int, batch: int, up: bool, printed: bool
) -> None:
    """The program rounds steps down in its older versions, and up in its newer ones."""
    steps = -(-epochs * images // batch) if up else epochs * images // batch
    logged = steps * batch / images
    workload = {STEPS: steps, EPOCHS: f"{logged:.2f}" if printed else logged}
    if round(logged) == epochs:
        assert count_whole_epochs(workload) == epochs


@pytest.mark.parametrize(
    "workload",
    [
        {STEPS: 500, EPOCHS: 20.48},
        {STEPS: 500, EPOCHS: 0.0249},
        {STEPS: 500},
        {EPOCHS: 5.0},
        {STEPS: True, EPOCHS: 1.0},
        {STEPS: 0, EPOCHS: 5.0},
        {STEPS: 10**400, EPOCHS: 5.0},
        {STEPS: "500", EPOCHS: 5.0},
        {STEPS: 500, EPOCHS: "nan"},
        {STEPS: 500, EPOCHS: "1e999"},
        {STEPS: 500, EPOCHS: -5},
        {STEPS: 500, EPOCHS: ["5"]},
        {STEPS: 500, EPOCHS: "\0"},
    ],
)
def test_what_is_no_whole_number_of_epochs_is_none(workload: dict[str, Any]) -> None:
    assert count_whole_epochs(workload) is None
    assert EPOCHS not in keep_lengths([workload])[0]


def test_the_same_steps_on_each_scale_are_one_workload_though_they_make_whole_epochs() -> None:
    lengths = [{STEPS: 500, EPOCHS: 50.0 * gpus} for gpus in (1, 2, 4)]
    assert keep_lengths(lengths) == [{STEPS: 500}] * 3


@given(st.lists(st.tuples(st.sampled_from([1, 5, 10]), st.sampled_from([1, 2, 4])), min_size=1))
def test_runs_of_as_many_epochs_are_one_workload(runs: list[tuple[int, int]]) -> None:
    kept = keep_lengths([logs.lasting(epochs, gpus=gpus) for epochs, gpus in runs])
    assert len({str(one) for one in kept}) <= len({epochs for epochs, _ in runs})


def test_epochs_tell_logs_of_the_same_settings_apart() -> None:
    tree: dict[str, str] = {}
    for environment in ("udocker", "singularity"):
        for gpus in (1, 2):
            for repeat in (1, 2):
                for epochs in (1, 5):
                    folder = f"{environment}/{epochs}/net_{gpus}_gpu/{repeat}"
                    tree |= logs.run(folder, gpus=gpus, **logs.lasting(epochs, gpus=gpus))
    for folders in (tree, {path.replace("/1/net", "/a/net", 1): c for path, c in tree.items()}):
        found = placed(folders)
        assert len({one.workload for one in found}) == 2
        assert {one.run.workload[EPOCHS] for one in found} == {1, 5}
        for workload in {one.workload for one in found}:
            for scale in ("1x1", "1x2"):
                cell = [o for o in found if (o.workload, o.scale) == (workload, scale)]
                assert sorted(one.repeat for one in cell) == [1, 1, 2, 2]


def test_a_workload_is_named_by_what_differs() -> None:
    tree = {
        **trained("udocker", 1, **logs.lasting(1)),
        **trained("udocker", 2, **logs.lasting(5)),
        **trained("singularity", 1, num_batches=500, num_epochs=0.64),
        **trained("singularity", 2, optimizer="momentum", **logs.lasting(5)),
        **trained("singularity", 3, batch=32, **logs.lasting(5, batch=32)),
    }
    assert {one.workload for one in placed(tree)} == {
        "net, batch 64, 1 epoch, sgd",
        "net, batch 64, 5 epochs, sgd",
        "net, batch 64, 500 steps, sgd",
        "net, batch 64, 5 epochs, momentum",
        "net, batch 32",
    }


@given(st.lists(st.text(min_size=1, max_size=200), min_size=2, max_size=5, unique=True))
def test_names_are_apart_and_short_whatever_the_parameters(models: list[str]) -> None:
    tree: dict[str, str] = {}
    for index, model in enumerate(models):
        tree |= logs.run(f"a/net/{index}", model=model)
    found = placed({**tree, **logs.run("b/net/0")})
    workloads = {str(sorted(one.run.workload.items())) for one in found}
    assert len({one.workload for one in found}) == len(workloads)
    assert all(len(one.workload) <= 100 for one in found)


@pytest.mark.django_db
def test_a_workload_of_another_import_is_told_apart_by_what_differs() -> None:
    short, long = (
        {**trained("udocker", **length), **trained("singularity", **length)}
        for length in ({"num_batches": 500}, logs.lasting(5))
    )
    imported(short, "udocker")
    imported(long, "udocker")
    assert set(Workload.objects.values_list("name", flat=True)) == {
        "net, batch 64",
        "net, batch 64, 5 epochs",
    }


@pytest.mark.django_db
def test_five_epochs_on_three_scales_are_compared_where_both_sides_ran() -> None:
    found = compare_experiment(imported(logs.five_epochs()))
    alexnet = "cifar10_alexnet, batch 64"
    assert [
        (group.configuration["workload"], group.configuration["scale"]) for group in found.groups
    ] == [(name, scale) for name in (alexnet, *NETS) for scale in SCALES]
    assert len(found.pairs) == 21
    assert all(pair.ratio for pair in found.pairs)
    assert found.left_out == [
        "fh2_udocker_5epoch and lsdf_udocker_5epoch are not compared where only one of them has "
        "logs: cifar10_alexnet, batch 64 (1x1, 1x2, 1x4); cifar10_alexnet, batch 512 (1x1, 1x2, "
        "1x4)."
    ]


@pytest.mark.django_db
def test_a_side_whose_runs_all_failed_is_not_left_out() -> None:
    """Who ran and failed did run: that is said beside its configuration."""
    tree = dict(logs.runs())
    for repeat in (1, 2, 3):
        del tree[f"results/singularity/synthetic_resnet50_1_gpu/{repeat}/metric.log"]
    found = compare_experiment(imported(tree, "udocker"))
    assert [pair.detail for pair in found.pairs] == ["no run of singularity"]
    assert found.left_out == []
