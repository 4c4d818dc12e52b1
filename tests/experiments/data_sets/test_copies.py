"""Requests for data sets and their copies: what is refused, with how to go on."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from experiments.data_sets import copies
from experiments.models import Cluster, DataCopy, DataSet, Experiment, Operation, Workload
from experiments.planning.forecasts import forecast
from experiments.planning.freeze import freeze_definition, freeze_workload
from experiments.planning.frozen_data import (
    compute_proof_seconds,
    describe_unready_data,
    find_copies,
    freeze_data_set,
)
from experiments.planning.variants import refresh_variants, store_sweeps
from tests.factories import (
    ClusterFactory,
    DataCopyFactory,
    DataSetFactory,
    ExperimentFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

State = DataCopy.State
READS_MNIST = {"data": "mnist", "data_directory": "{data}"}


@pytest.fixture
def copy() -> DataCopy:
    made: DataCopy = DataCopyFactory(cluster=ClusterFactory(name="c"), path="/data/digits")
    return made


@pytest.fixture
def workload(copy: DataCopy) -> Workload:
    made: Workload = WorkloadFactory(
        name="train", kind="cnn", parameters=READS_MNIST, data_set=copy.data_set
    )
    return made


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("data", "is absolute"),
        ("/data\n/etc", "on one line"),
        ("/data:/etc", "without : and ,"),
        ("/a,b", "without : and ,"),
        ("/data/../etc", "without any '..'"),
        ("/", "names a file or a folder"),
        ("/caf\udce9", "on one line"),
        ("/a\0b", "absolute"),
    ],
)
def test_a_path_that_no_bind_can_name_is_refused(path: str, problem: str) -> None:
    data_set = DataSetFactory()
    with pytest.raises(copies.NotDone, match=problem):
        copies.add_copy(data_set, ClusterFactory(), path, data_set.owner)
    assert not Operation.objects.exists()


def test_a_copy_is_registered_once(copy: DataCopy) -> None:
    owner = copy.data_set.owner
    with pytest.raises(copies.NotDone, match="has a copy on c already, at /data/digits"):
        copies.add_copy(copy.data_set, copy.cluster, "/elsewhere", owner)
    other = DataSetFactory(owner=owner)
    with pytest.raises(copies.NotDone, match=f"registered already, as {copy.data_set}"):
        copies.add_copy(other, copy.cluster, "/data/digits/", owner)


@pytest.mark.parametrize("path", ["/data//digits", "/data/./digits/", "//data/digits"])
def test_another_spelling_of_a_path_is_the_same_path(copy: DataCopy, path: str) -> None:
    other = DataSetFactory()
    with pytest.raises(copies.NotDone, match="registered already"):
        copies.add_copy(other, copy.cluster, path, other.owner)


@pytest.mark.parametrize(
    "path", ["/lustre/tare", "/lustre/tare/jobs/x", "/lustre", "/lustre/./tare//data"]
)
def test_the_folder_of_tare_itself_is_no_data_set(path: str) -> None:
    data_set, cluster = DataSetFactory(), ClusterFactory(work_directory="/lustre/tare/")
    with pytest.raises(copies.NotDone, match="in Tare’s own folder"):
        copies.add_copy(data_set, cluster, path, data_set.owner)
    assert copies.add_copy(data_set, cluster, "/lustre/tare-data", data_set.owner).pk


def test_the_name_of_a_hidden_data_set_is_not_told(copy: DataCopy) -> None:
    DataSet.objects.update(visibility="private")
    other = DataSetFactory()
    with pytest.raises(copies.NotDone, match="as a data set of somebody else"):
        copies.add_copy(other, copy.cluster, "/data/digits", other.owner)


def test_who_may_not_use_the_cluster_reads_nothing_there(copy: DataCopy) -> None:
    stranger = UserFactory()
    locked = ClusterFactory(users=[])
    with pytest.raises(copies.NotDone, match="only site administrators send"):
        copies.add_copy(copy.data_set, locked, "/data", stranger)
    viewer = UserFactory(role="viewer")
    with pytest.raises(copies.NotDone, match="you must be a researcher"):
        copies.check(copy, viewer)


def test_two_checks_of_one_copy_do_not_run_at_once(copy: DataCopy) -> None:
    copies.check(copy, copy.owner)
    with pytest.raises(copies.NotDone, match="is being checked already"):
        copies.check(copy, copy.owner, in_full=True)
    with pytest.raises(copies.NotDone, match="is being checked: cancel that"):
        copies.forget(copy, copy.owner)


def test_a_data_set_that_a_workload_names_is_not_deleted(
    copy: DataCopy, workload: Workload
) -> None:
    assert copies.why_not_delete(copy.data_set) == "It is named by the workload train."
    workload.delete()
    assert copies.why_not_delete(copy.data_set) == ""


def test_the_plan_has_the_digest_and_the_path(copy: DataCopy, workload: Workload) -> None:
    copies_of_data = find_copies([workload], copy.cluster)
    frozen = freeze_workload(workload, copies_of_data)
    assert frozen["parameters"]["data_directory"] == "/data/digits"
    assert frozen["data_set"] == freeze_data_set(workload, copies_of_data)
    assert frozen["data_set"]["digest"] == copy.data_set.digest
    assert "data_set" not in freeze_workload(WorkloadFactory(), copies_of_data)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"state": State.STAGING}, "are being read: wait for the end of that"),
        ({"state": State.MISSING, "message": "gone."}, "is missing. gone. Put the files right"),
        ({"cluster": None}, "has no copy on c: add one on the page of the data set"),
    ],
)
def test_what_cannot_be_read_is_said_with_how_to_go_on(
    copy: DataCopy, workload: Workload, columns: dict[str, Any], problem: str
) -> None:
    cluster = copy.cluster
    assert describe_unready_data([workload], cluster) == []
    if "cluster" in columns:
        columns = {"cluster": ClusterFactory()}
    DataCopy.objects.update(**columns)
    (sentence,) = describe_unready_data([workload], cluster)
    assert problem in sentence


def test_a_folder_and_one_file_are_not_the_same(copy: DataCopy, workload: Workload) -> None:
    DataSet.objects.update(is_file=True)
    (sentence,) = describe_unready_data([workload], copy.cluster)
    assert sentence.endswith("is one file, and cnn reads a folder.")


def test_the_placeholder_alone_is_no_data_set(copy: DataCopy) -> None:
    without = WorkloadFactory(name="w", kind="cnn", parameters=READS_MNIST)
    assert describe_unready_data([without], copy.cluster) == [
        "w: {data} stands for a data set; choose one."
    ]


def test_the_time_limit_allows_for_the_proof(copy: DataCopy, workload: Workload) -> None:
    DataSet.objects.update(files=20_000, size_bytes=3 * 10**9)
    workload = Workload.objects.get(pk=workload.pk)
    assert compute_proof_seconds(workload) == 30
    workload.data_proof = Workload.DataProof.HASHES
    assert compute_proof_seconds(workload) == 60
    assert compute_proof_seconds(WorkloadFactory()) == 0


def test_variants_of_a_sweep_read_the_same(copy: DataCopy, workload: Workload) -> None:
    draft = ExperimentFactory(workloads=[workload])
    store_sweeps(draft, [workload], {workload.pk: "batch_size=8,16"})
    assert {row.data_set for row in draft.workloads.all()} == {copy.data_set}
    workload.data_set, workload.parameters = None, {}
    workload.save()
    refresh_variants(workload)
    assert {row.data_set for row in draft.workloads.all()} == {None}


def test_nobody_is_shown_operations_on_hidden_data(copy: DataCopy) -> None:
    operation = copies.check(copy, copy.owner)
    stranger = UserFactory()
    assert operation in Operation.objects.visible_to(stranger)
    DataSet.objects.update(visibility="private")
    assert operation not in Operation.objects.visible_to(stranger)
    assert isinstance(operation.cluster, Cluster)


def test_many_workloads_with_data_take_as_many_statements_as_one(copy: DataCopy) -> None:
    counts = []
    for many in (1, 30):
        rows = WorkloadFactory.create_batch(
            many, kind="cnn", parameters=READS_MNIST, data_set=copy.data_set
        )
        draft = ExperimentFactory(cluster=copy.cluster, workloads=rows)
        draft = Experiment.objects.get(pk=draft.pk)
        with CaptureQueriesContext(connection) as queries:
            plan = freeze_definition(draft, 1)
            forecast(
                workloads=list(draft.workloads.all()),
                environments=list(draft.environments.all()),
                scales=draft.scales,
                repeats=1,
                paired=True,
            )
        assert all("data_set" in frozen for frozen in plan["workloads"].values())
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_copy_that_is_gone_is_not_forgotten_twice(copy: DataCopy) -> None:
    again = DataCopy.objects.get(pk=copy.pk)
    copies.forget(copy, copy.owner)
    with pytest.raises(copies.NotDone, match="no longer in the catalogue"):
        copies.forget(again, again.owner)
