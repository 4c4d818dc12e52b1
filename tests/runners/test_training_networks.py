"""The networks have the parameters that their papers, or those who count them, publish."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.payload.frameworks import StartError
from runners.payload.training.networks import NETWORKS, choose_network

ROOT = Path(__file__).resolve().parents[2]

PUBLISHED = {
    "small": (95_000, 0.01, "Tare's own"),
    "mnist": (3_274_634, 0, "Deep MNIST for Experts: 5x5x1x32, 5x5x32x64, 3136x1024, 1024x10"),
    "alexnet": (61_100_840, 0, "torchvision's table of models: alexnet, the tower of 2014"),
    "googlenet": (
        6_998_552,
        0,
        "Caffe's bvlc_googlenet; the paper's table adds up to 6.8 M",
    ),
    "overfeat": (146_000_000, 0.001, "Sermanet et al. 2013, table 4: fast, 146 million"),
    "vgg11": (132_863_336, 0, "torchvision's table of models; the paper says 133 million"),
    "vgg16": (138_357_544, 0, "torchvision's table of models; the paper says 138 million"),
    "resnet50": (25_557_032, 0, "torchvision's table of models"),
    "resnet56": (850_000, 0.004, "He et al. 2015, table 6: 0.85 million"),
    "inception3": (
        23_851_784,
        0.001,
        "Keras' table of models: 23.9 million",
    ),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, float | None]]:
    """Of each network, what it has to train, and of some the loss of a step."""
    left = tmp_path_factory.mktemp("networks") / "found.json"
    argv = [sys.executable, "-m", "tests.runners.networks_on_jax", str(left)]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        argv, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, tuple[int, float | None]] = json.loads(left.read_text())
    return counts


@pytest.mark.parametrize("name", NETWORKS)
def test_it_has_the_published_number_of_parameters(
    built: dict[str, tuple[int, float | None]], name: str
) -> None:
    published, tolerance, source = PUBLISHED[name]
    count, loss = built[name]
    assert count == pytest.approx(published, rel=tolerance), source
    assert loss is None or 0 < loss < 100


@pytest.mark.parametrize("name", NETWORKS)
def test_an_image_that_is_too_small_is_named_with_the_smallest(name: str) -> None:
    smallest = NETWORKS[name].smallest
    assert choose_network({"network": name, "image_size": smallest})[1][0] == smallest
    message = (
        f"image_size={smallest - 1} is too small for network={name}: .* is {smallest}, its own"
    )
    with pytest.raises(StartError, match=message):
        choose_network({"network": name, "image_size": smallest - 1})


def test_data_that_a_network_is_not_for_is_refused_with_what_it_takes() -> None:
    with pytest.raises(StartError, match=r"^network=vgg16 is not for data=mnist; it takes synth"):
        choose_network({"network": "vgg16", "data": "mnist"})


@pytest.mark.parametrize(
    ("data", "shape", "classes"),
    [
        ("synthetic", (32, 32, 3), 10),
        ("mnist", (32, 32, 1), 10),
        ("cifar10", (32, 32, 3), 10),
        ("imagenet", (32, 32, 3), 1000),
    ],
)
def test_the_data_decide_the_channels_and_the_classes(
    data: str, shape: tuple[int, int, int], classes: int
) -> None:
    assert choose_network({"network": "small", "data": data})[1:] == (shape, classes)
