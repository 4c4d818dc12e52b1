"""Environments of two clusters that are called alike but for the cluster stand side by side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.comparisons.paired_names import pair_by_short_names, shorten_names

NAMES = st.lists(st.text("ab -1/", min_size=1, max_size=8), unique=True, max_size=5)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("bare metal cluster-18", "bare metal"),
        ("cluster-18 bare metal", "bare metal"),
        ("Apptainer on cluster-18", "Apptainer"),
        ("Apptainer (cluster-18)", "Apptainer"),
        ("Podman, cluster-18, rootless", "Podman, cluster-18, rootless"),
        ("cluster-18", "cluster-18"),
        ("udocker of cluster-181", "udocker of cluster-181"),
        ("udocker of my-cluster-18", "udocker of my-cluster-18"),
    ],
)
def test_the_clusters_name_is_left_out(name: str, short: str) -> None:
    assert shorten_names([name], "cluster-18") == {name: short}


def test_two_names_never_become_one() -> None:
    names = ["bare metal", "bare metal cluster-18"]
    assert shorten_names(names, "cluster-18") == {name: name for name in names}


@given(NAMES, st.text("ab1-", max_size=3))
def test_any_names_stay_apart_and_have_a_text(names: list[str], cluster: str) -> None:
    short = shorten_names(names, cluster)
    assert list(short) == names
    assert len(set(short.values())) == len(names)


@given(NAMES, NAMES)
def test_each_environment_stands_in_one_pair(left: list[str], right: list[str]) -> None:
    sides = shorten_names(left, "a"), shorten_names(right, "b")
    pairs = pair_by_short_names(*sides)
    assert sorted(pair.names[0] for pair in pairs if pair.names[0]) == sorted(left)
    assert sorted(pair.names[1] for pair in pairs if pair.names[1]) == sorted(right)


def test_pairs_are_called_by_what_they_share() -> None:
    left = shorten_names(["Apptainer c1", "Podman c1"], "c1")
    right = shorten_names(["Apptainer c2", "udocker c2"], "c2")
    pairs = pair_by_short_names(left, right)
    assert [(pair.label, pair.names) for pair in pairs] == [
        ("Apptainer", ("Apptainer c1", "Apptainer c2")),
        ("Podman / udocker", ("Podman c1", "udocker c2")),
    ]
