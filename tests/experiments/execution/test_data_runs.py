"""A data set from the folder on a cluster to the digest in the runs that read it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments import execution
from experiments.comparisons import compare_experiment
from experiments.data_sets import copies
from experiments.execution import lifecycle
from experiments.models import (
    Cluster,
    DataCopy,
    DataSet,
    Environment,
    Experiment,
    Operation,
    Workload,
)
from experiments.snapshot_facts import list_facts
from runners.workloads import WORKLOADS
from tests.conftest import finish, tick_until
from tests.factories import (
    DataSetFactory,
    EnvironmentFactory,
    ExperimentFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

State = DataCopy.State
COUNT = (
    "import json, os, sys; assert os.environ['TARE_DATA'] == sys.argv[1]; "
    "json.dump({'files': len(os.listdir(sys.argv[1]))}, open('numbers.json', 'w'))"
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "digits"
    (made / "train").mkdir(parents=True)
    (made / "train" / "0").write_bytes(b"first")
    (made / "1").write_bytes(b"second")
    return made


@pytest.fixture
def data_set() -> DataSet:
    made: DataSet = DataSetFactory(name="digits", digest="", files=None, size_bytes=None)
    return made


def wait_for_end(cluster: Cluster) -> Operation:
    alive = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not alive.exists())
    return Operation.objects.latest("pk")


def registered(data_set: DataSet, cluster: Cluster, folder: Path) -> DataCopy:
    """Have the data set read where it lies; return its copy, which is ready."""
    row = copies.add_copy(data_set, cluster, str(folder), data_set.owner)
    operation = wait_for_end(cluster)
    assert (operation.state, operation.message) == ("done", "")
    row.refresh_from_db()
    data_set.refresh_from_db()
    return row


def drafted(data_set: DataSet, bare: Environment, **columns: Any) -> Experiment:
    parameters = {
        "argv": ["{python}", "-c", COUNT, "{data}"],
        "read": "json",
        "file": "numbers.json",
        "metrics": [
            {"name": "files", "unit": "1", "better": "higher", "find": "files", "take": "last"}
        ],
    }
    workload: Workload = WorkloadFactory(
        kind="command",
        parameters=WORKLOADS["command"].clean(parameters),
        data_set=data_set,
        owner=data_set.owner,
        **columns,
    )
    other = EnvironmentFactory(name="other", cluster=bare.cluster, python=sys.executable)
    made: Experiment = ExperimentFactory(
        cluster=bare.cluster,
        partition=None,
        baseline=bare,
        environments=[bare, other],
        workloads=[workload],
        scales=["1x0"],
        repeats=1,
        owner=data_set.owner,
    )
    return made


@pytest.mark.parametrize("proof", Workload.DataProof.values)
def test_a_folder_becomes_a_data_set_that_runs_name(
    here: Cluster, bare: Environment, data_set: DataSet, folder: Path, proof: str
) -> None:
    row = registered(data_set, here, folder)
    assert (row.state, row.message) == (State.READY, "")
    assert row.read_at
    assert (data_set.files, data_set.size_bytes, data_set.is_file) == (2, 11, False)
    made = drafted(data_set, bare, data_proof=proof)
    lifecycle.launch(made, made.owner)
    (frozen,) = made.plan["workloads"].values()
    assert frozen["data_set"]["digest"] == data_set.digest
    finish(made)
    for run in made.runs.all():
        assert (run.state, run.message) == ("succeeded", "")
        assert run.measurements.get(metric="files").value == 2
        inside = run.snapshot.content["inside"]
        expected = "hashes" if proof == "hashes" else "sizes and times"
        assert (inside["data_set"]["digest"], inside["data_set"]["proof"]) == (
            data_set.digest,
            expected,
        )
        assert inside["file_systems"]["data"]
        assert list_facts(run.snapshot.content)["digest of the data set"] == data_set.digest
    client = Client()
    client.force_login(made.owner)
    page = client.get(reverse("run", args=[run.uid])).content.decode()
    assert f'digits <code class="anywhere">{data_set.digest}</code>' in page
    (group,) = compare_experiment(made).groups
    (pair,) = group.pairs
    assert "NOT ATTRIBUTABLE" not in pair.sentence


def test_a_copy_that_changed_is_refused_until_it_is_read_again(
    here: Cluster, bare: Environment, data_set: DataSet, folder: Path
) -> None:
    row = registered(data_set, here, folder)
    made = drafted(data_set, bare)
    (folder / "1").write_bytes(b"other")
    copies.check(row, data_set.owner)
    assert wait_for_end(here).message == "1 has 5 bytes, not 6"
    row.refresh_from_db()
    assert (row.state, row.message) == (State.CHANGED, "1 has 5 bytes, not 6")
    with pytest.raises(lifecycle.NotLaunchable) as refusal:
        lifecycle.launch(made, made.owner)
    (message,) = refusal.value.messages["workloads"]
    assert "is changed. 1 has 5 bytes, not 6 Put the files right there" in message
    copies.check(row, data_set.owner, in_full=True)
    assert "and that of the data set is" in wait_for_end(here).message
    (folder / "1").write_bytes(b"second")
    copies.check(row, data_set.owner, in_full=True)
    assert wait_for_end(here).message == ""
    row.refresh_from_db()
    assert (row.state, row.message) == (State.READY, "")
    lifecycle.launch(made, made.owner)


def test_a_copy_that_changes_after_the_launch_ends_the_runs_before_they_begin(
    here: Cluster, bare: Environment, data_set: DataSet, folder: Path
) -> None:
    registered(data_set, here, folder)
    made = drafted(data_set, bare)
    lifecycle.launch(made, made.owner)
    os.utime(folder / "1", (1, 1))
    finish(made)
    for run in made.runs.all():
        assert (run.state, run.reason) == ("failed", "data set unusable")
        assert run.message == "data set unusable: 1 was written to since"
        assert run.began_at is None or run.measurements.count() == 0


def test_a_folder_that_is_not_there_is_said_and_can_be_read_later(
    here: Cluster, data_set: DataSet, folder: Path
) -> None:
    away = folder.rename(folder.parent / "away")
    row = copies.add_copy(data_set, here, str(folder), data_set.owner)
    operation = wait_for_end(here)
    row.refresh_from_db()
    assert (operation.state, row.state) == ("failed", State.MISSING)
    assert row.message == f"{folder}: No such file or directory"
    away.rename(folder)
    copies.check(row, data_set.owner, in_full=True)
    wait_for_end(here)
    data_set.refresh_from_db()
    assert data_set.files == 2


def test_a_second_copy_must_have_the_same_digest(
    here: Cluster, data_set: DataSet, folder: Path, tmp_path: Path
) -> None:
    registered(data_set, here, folder)
    digest = data_set.digest
    copies.forget(data_set.copies.get(), data_set.owner)
    other = tmp_path / "other"
    other.mkdir()
    (other / "1").write_text("nothing alike")
    row = copies.add_copy(data_set, here, str(other), data_set.owner)
    wait_for_end(here)
    row.refresh_from_db()
    data_set.refresh_from_db()
    assert (row.state, data_set.digest) == (State.CHANGED, digest)


def test_a_reading_that_is_cancelled_leaves_the_copy_failed(
    here: Cluster, data_set: DataSet, folder: Path
) -> None:
    row = copies.add_copy(data_set, here, str(folder), data_set.owner)
    Operation.objects.update(cancel_requested_at="2026-11-20T12:00Z")
    execution.tick(here.pk)
    wait_for_end(here)
    row.refresh_from_db()
    assert (row.state, row.message) == (State.FAILED, "cancelled before it was sent")
