"""The shape that pages and exports show: what a group is called."""

from __future__ import annotations

import pytest

from experiments.comparisons import Group
from experiments.statistics import Measured


@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ({"workload": "cnn", "scale": "1x2"}, "cnn, 1x2"),
        ({"model": "ResNet50", "gpus": "4"}, "ResNet50, gpus 4"),
        ({"tensorflow": "1.10", "data": ""}, "tensorflow 1.10"),
        ({}, ""),
    ],
)
def test_a_bare_number_says_what_it_counts(cell: dict[str, str], name: str) -> None:
    group = Group(cell, Measured("time", "s", "lower", "Time"), [], [])
    assert group.name == name
    assert group.title == " · ".join([*name.split(", "), "time"] if name else ["time"])
