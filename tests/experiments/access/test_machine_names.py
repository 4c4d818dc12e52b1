"""Nodes that only messages about ends name get a number too: links for blind review hide them."""

from __future__ import annotations

import pytest

from experiments.access.machine_names import number_machines
from tests.factories import JobFactory

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("message", "avoided", "nodes"),
    [
        ("sacct: NODE_FAIL 1:0, gn042. Its files are in /work.", "", {"gn042"}),
        ("gpu7: nvidia-smi says: No devices were found. Its files are", "", {"gpu7"}),
        ("", "gpu7,gpu8", {"gpu7", "gpu8"}),
        ("sacct: cancelled by root, gn042.", "", {"gn042"}),
        ("the time limit was reached. Its files are in /work.", "", set()),
    ],
)
def test_nodes_of_ends_are_numbered(message: str, avoided: str, nodes: set[str]) -> None:
    job = JobFactory(state="failed", message=message, avoided_nodes=avoided)
    machines = number_machines(job.experiment, [], known={})
    numbered = {name for name, text in machines.items() if text.startswith("node-")}
    assert numbered >= nodes
    assert "the time limit was reached" not in machines
    if not nodes:
        assert numbered == set()


def test_all_nodes_of_jobs_on_several_are_numbered() -> None:
    job = JobFactory(nodes=["gn001", "gn002.site"], excluded_nodes=["gn009"])
    JobFactory(experiment=job.experiment, block=1, nodes=[])
    machines = number_machines(job.experiment, [], known={})
    numbered = {name for name, text in machines.items() if text.startswith("node-")}
    assert numbered == {"gn001", "gn002", "gn002.site", "gn009"}
