"""Known programs by forms alone, on bare metal and in Apptainer, up to their comparison.

CI runs one of Debian's, one of PyPI's and the stand-in for tf_cnn_benchmarks, from a folder of the
cluster; `TARE_BENCHMARKS=all` (or some of their keys) runs the others.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import demo
from experiments.models import Cluster, EnvironmentInspection, Experiment, Operation, Run, Workload
from experiments.presets.commands import COMMANDS
from experiments.software import inspections
from lab.client import Lab, ensure_lab, stop_lab
from tests import tf_cnn_stand_in
from tests.conftest import tick_until
from tests.factories import AdminFactory
from tests.lab.by_forms import Person
from tests.lab.test_data_set import run_there
from tests.lab.test_presets import researcher

__all__ = ["researcher"]

pytestmark = [pytest.mark.lab, pytest.mark.thorough, pytest.mark.django_db(transaction=True)]

INSTALLED = (
    *("sysbench-cpu", "sysbench-memory", "hpcc", "pyperf", "pytest-benchmark"),
    *("fio-random", "fio-sequential", "iperf3"),
)
asked = os.environ.get("TARE_BENCHMARKS", "")
CHOSEN = INSTALLED if asked == "all" else asked.split(",") if asked else INSTALLED[0:5:4]
UNPACK = """
mkdir -p "$1/tf_keras" && : >"$1/tf_keras/__init__.py" && printf %s "$2" >"$1/tf_cnn_benchmarks.py"
"""
SHORTER = (("--time=10", "--time=1"), ("--time 10", "--time 1"), ("--runtime=20", "--runtime=1"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with the image of these programs, which no other test needs, and with no other."""
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=("benchmarks",))
    stop_lab(directory)
    shutil.rmtree(directory)


@pytest.fixture
def registered(lab: Lab, db: None) -> Cluster:
    owner = AdminFactory(username="demo")
    facts = json.loads((lab.directory / "lab.json").read_text())
    cluster = demo.register_lab(facts, owner)
    demo.register_image(cluster, facts["images"]["benchmarks"], owner)
    Cluster.objects.update(poll_seconds=0)
    cluster.refresh_from_db()
    return cluster


def add_workload(person: Person, key: str, folder: str = "") -> Workload:
    """Choose a known program and shorten it, by the form."""
    page = person.get("workload_new", ready=key, folder=folder)
    argv = page.forms["parameters"]["argv"].value
    for long, short in SHORTER:
        argv = argv.replace(long, short)
    person.send(page, "?kind=command", argv=argv)
    return Workload.objects.get(name=COMMANDS[key].piece.name)


def test_known_programs_run_by_forms_on_bare_metal_and_in_a_container(
    researcher: Person, registered: Cluster
) -> None:
    folder = f"{registered.work_directory}-data/tf_cnn"
    run_there(registered, UNPACK, folder, Path(tf_cnn_stand_in.__file__).read_text())
    registered.environments.exclude(runtime=None).update(binds=[f"{folder}:{folder}"])
    workloads = [
        *(add_workload(researcher, key) for key in CHOSEN),
        add_workload(researcher, "tf-cnn-benchmarks-on-cpu", folder),
    ]
    environments = list(registered.environments.order_by("pk"))
    bare = next(row for row in environments if row.is_bare_metal)
    choice = {
        "question": "What does a container cost these programs?",
        "workloads": [str(row.pk) for row in workloads],
        "environments": [str(row.pk) for row in environments],
        "baseline": str(bare.pk),
        "scales": "1x0",
        "repeats": "1",
    }
    for row in environments:
        inspections.request_inspection(row, row.owner)
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(registered, lambda: not alive.exists(), seconds=200)
    for inspection in EnvironmentInspection.objects.all():
        paths = inspection.facts["programs"]
        assert {paths[name] for name in ("sysbench", "fio", "iperf3", "hpcc")} == {
            f"/usr/bin/{name}" for name in ("sysbench", "fio", "iperf3", "hpcc")
        }
        assert paths["all_reduce_perf"] == ""
        for name in ("tf_cnn_benchmarks.py", "tf_keras"):
            assert paths[f"{folder}/{name}"] == f"{folder}/{name}", "it is bound in the container"
    page = researcher.get("experiment_new", cluster=registered.pk)
    answer = researcher.send(page, "", **choice)
    shown = [row.get_text(" ", strip=True) for row in answer.html.select(".problem, .note.error")]
    assert not shown
    made = Experiment.objects.get()
    unfinished = Run.objects.exclude(state__in=Run.FINAL)
    tick_until(registered, lambda: not unfinished.exists(), seconds=600)
    ended = {(run.workload.name, run.state, run.message) for run in made.runs.all()}
    assert ended == {(row.name, "succeeded", "") for row in workloads}
    for run in made.runs.all():
        for row in run.workload.parameters["metrics"]:
            assert run.measurements.get(metric=row["name"]).value > 0
    comparison = researcher.get("comparison", made.pk, section="all")
    for row in workloads:
        assert row.name in comparison
