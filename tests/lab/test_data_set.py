"""A data set on the lab: read by a job of Slurm, seen by every runtime, proved before each job."""

from __future__ import annotations

import pytest

from experiments import execution
from experiments.data_sets import copies
from experiments.execution import lifecycle
from experiments.models import Cluster, DataCopy, DataSet, Experiment, Operation
from runners.runtimes import RUNTIMES
from runners.workloads import WORKLOADS
from tests.conftest import finish, tick_until
from tests.factories import DataSetFactory, ExperimentFactory, WorkloadFactory

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

MAKE = """rm -rf "$1" && mkdir -p "$1/train" && cd "$1" && printf first >train/0 &&
    printf odd >"$(printf 'a\\nb\\377')"
"""
COUNT = (
    "import json, os, sys; "
    "json.dump({'bytes': os.path.getsize(sys.argv[1] + '/train/0')}, open('numbers.json', 'w'))"
)
PARAMETERS = {
    "argv": ["{python}", "-c", COUNT, "{data}"],
    "read": "json",
    "file": "numbers.json",
    "metrics": [
        {"name": "bytes", "unit": "B", "better": "higher", "find": "bytes", "take": "last"}
    ],
}


def run_there(cluster: Cluster, script: str, *arguments: str) -> None:
    with execution.connect(cluster) as runner:
        done = runner.transport.run(["sh", "-c", script, "sh", *arguments])
    assert done.returncode == 0, done


def wait_for_end(cluster: Cluster) -> Operation:
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not alive.exists(), seconds=300)
    return Operation.objects.latest("pk")


def drafted(cluster: Cluster, data_set: DataSet) -> Experiment:
    rows = sorted(
        cluster.environments.filter(name__contains="numpy"),
        key=lambda row: (not row.is_bare_metal, row.name),
    )
    made: Experiment = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name="gpu"),
        baseline=rows[0],
        environments=rows,
        workloads=[
            WorkloadFactory(
                kind="command",
                parameters=WORKLOADS["command"].clean(PARAMETERS),
                data_set=data_set,
                owner=cluster.owner,
            )
        ],
        repeats=1,
        owner=cluster.owner,
    )
    return made


def test_runs_in_every_runtime_read_the_same_files_and_name_their_digest(
    registered: Cluster,
) -> None:
    folder = f"{registered.work_directory}-data/digits"
    run_there(registered, MAKE, folder)
    owner = registered.owner
    data_set = DataSetFactory(name="digits", digest="", files=None, owner=owner)
    row = copies.add_copy(data_set, registered, folder, owner)
    operation = wait_for_end(registered)
    assert (operation.state, operation.message) == ("done", "")
    data_set.refresh_from_db()
    row.refresh_from_db()
    assert (row.state, data_set.files, data_set.size_bytes) == ("ready", 2, 8)

    made = drafted(registered, data_set)
    lifecycle.launch(made, owner)
    (frozen,) = made.plan["workloads"].values()
    assert frozen["data_set"]["digest"] == data_set.digest
    finish(made)
    runs = made.runs.select_related("environment__runtime", "snapshot")
    assert {(run.state, run.message) for run in runs} == {("succeeded", "")}
    assert {run.environment.kind for run in runs} >= {"bare_metal", "apptainer", "udocker"}
    for run in runs:
        inside = run.snapshot.content["inside"]["data_set"]
        assert inside["digest"] == data_set.digest
        assert inside["proof"] == "sizes and times"
        read_only = RUNTIMES[run.environment.kind].data_read_only
        assert (run.environment.name, inside["writable"]) == (run.environment.name, not read_only)
        assert run.measurements.get(metric="bytes").value == 5

    run_there(registered, 'printf other >"$1/train/0"', folder)
    copies.check(row, owner)
    assert wait_for_end(registered).message == "train/0 was written to since"
    assert DataCopy.objects.get().state == "changed"
    again = drafted(registered, data_set)
    with pytest.raises(lifecycle.NotLaunchable, match="is changed"):
        lifecycle.launch(again, owner)
