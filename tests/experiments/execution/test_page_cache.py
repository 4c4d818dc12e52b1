"""A cold and a warm page cache as a factor, in a real experiment on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dashboard.comparisons.methods import describe_methods
from experiments.comparisons import compare_experiment
from experiments.comparisons.workload_pairs import compare_between_workloads
from experiments.execution import lifecycle
from experiments.models import Cluster, Environment, Experiment, Run, Workload
from experiments.planning.variants import store_sweeps
from runners.payload import page_cache as payload
from tests.conftest import finish
from tests.factories import EnvironmentFactory, ExperimentFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def make_interpreter(tmp_path: Path) -> Callable[[str], str]:
    """Return what makes an interpreter that says its modules lie in a small folder of its own."""

    def make(name: str) -> str:
        folder = tmp_path / f"modules of {name}"
        folder.mkdir()
        (folder / "module").write_bytes(os.urandom(3_000_000))
        path = tmp_path / name
        path.write_text(
            f"#!/bin/sh\ncase \"$*\" in *sys.path*) echo '{folder}'; exit;; esac\n"
            f'exec {sys.executable} "$@"\n'
        )
        path.chmod(0o755)
        os.sync()
        try:
            payload.bring_about("cold", [str(folder)])
        except payload.Unusable as error:
            pytest.skip(f"the file system of temporary files cannot be cold: {error}")
        return str(path)

    return make


def test_cold_and_warm_are_varied_measured_and_compared(
    here: Cluster, quick: Workload, make_interpreter: Callable[[str], str]
) -> None:
    environments: list[Environment] = [
        EnvironmentFactory(name=name, cluster=here, python=make_interpreter(name))
        for name in ("bare", "other")
    ]
    made: Experiment = ExperimentFactory(
        cluster=here,
        partition=None,
        baseline=environments[0],
        environments=environments,
        scales=["1x0"],
        repeats=2,
        primary_metric="run_time",
    )
    store_sweeps(made, [quick], {quick.pk: "page_cache: cold, warm"})
    lifecycle.launch(made, made.owner)
    finish(made)
    runs = made.runs.select_related("measure_notes", "workload")
    assert {(run.state, run.message) for run in runs} == {(Run.State.SUCCEEDED, "")}
    for run in runs:
        policy = run.workload.parameters["page_cache"]
        assert f"page cache {policy}: before the run" in run.measure_notes.details["run_time"]
    comparison = compare_experiment(Experiment.objects.get(pk=made.pk))
    assert len(comparison.groups) == 2, "each level has a verdict of its own"
    (pair,) = compare_between_workloads(comparison)
    assert pair.factor == "page_cache"
    assert [row.environment for row in pair.rows] == ["bare", "other"]
    assert pair.other.endswith("page_cache=cold")
    methods = " ".join(describe_methods(comparison))
    assert "left memory: at most 10 %" in methods
    assert "were read into memory: at least 90 %" in methods
