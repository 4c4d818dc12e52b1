"""The data sets of an experiment's workloads: what its plan keeps, and what is against a launch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Model, prefetch_related_objects

from experiments.models import Cluster, DataCopy, DataSet, Experiment, Workload
from runners.data_sets import PLACEHOLDER
from runners.workloads import WORKLOADS
from runners.workloads.command import Command

FOLDER = "data_directory"
"""The parameter of those kinds of workloads that read a folder of files."""
DATA_PATH = PLACEHOLDER
"""What stands in that parameter for the path of the data set."""
READ_BYTES_PER_SECOND, FILES_PER_SECOND = 100_000_000, 1000
"""What a slow file system does: by these a job's time limit allows for the proof of its data."""


def can_read_data(kind: str) -> bool:
    """Return whether workloads of this kind can name a data set."""
    return kind in WORKLOADS and (kind == Command.kind or reads_folder(kind))


def reads_folder(kind: str) -> bool:
    """Return whether workloads of this kind read a folder that a parameter names."""
    return any(parameter.name == FOLDER for parameter in WORKLOADS[kind].parameters)


def freeze_data_set(workload: Workload, copies: Mapping[int, DataCopy]) -> dict[str, Any]:
    """Return what the plan keeps of a workload's data set; {} where `find_copies` has none."""
    copy = copies.get(workload.data_set_id or 0)
    if copy is None:
        return {}
    data_set = copy.data_set
    return {
        "name": data_set.name,
        "digest": data_set.digest,
        "files": data_set.files,
        "bytes": data_set.size_bytes,
        "licence": data_set.licence,
        "source": data_set.source,
        "path": copy.path,
        "manifest": copy.manifest,
        "proof": workload.data_proof,
    }


def fill_in_path(parameters: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with the data set's path in place of {data} in the folder's name."""
    folder = parameters.get(FOLDER)
    if not data or not isinstance(folder, str):
        return dict(parameters)
    return {**parameters, FOLDER: folder.replace(PLACEHOLDER, data["path"])}


def find_copies(workloads: Iterable[Workload], cluster: Cluster) -> dict[int, DataCopy]:
    """Return the copies on a cluster of the workloads' data sets, by the keys of these.

    In whatever state. One statement, or none where no workload names a data set.
    """
    keys = {row.data_set_id for row in workloads if row.data_set_id}
    if not keys:
        return {}
    rows = DataCopy.objects.filter(data_set__in=keys, cluster=cluster)
    return {row.data_set_id: row for row in rows.select_related("data_set", "cluster")}


def lock_copies(experiment: Experiment) -> None:
    """Hold the copies of the data sets that an experiment reads until the transaction ends.

    Nobody forgets them meanwhile, and no check changes their state.
    """
    rows = DataCopy.objects.select_for_update(of=("self",), no_key=True).filter(
        data_set__in=experiment.workloads.values("data_set"), cluster=experiment.cluster_id
    )
    list(rows.order_by("pk").values_list("pk"))


def load_data_sets(workloads: Iterable[Workload]) -> None:
    """Read the data sets of all these workloads by one statement, where they are not read yet."""
    prefetch_related_objects([row for row in workloads if row.data_set_id], "data_set")


def describe_unready_data(workloads: Sequence[Workload], cluster: Cluster) -> list[str]:
    """Return a sentence for each workload whose data set cannot be read on the cluster."""
    keys = {row.data_set_id for row in workloads if row.data_set_id}
    if not keys and not any(_needs_data(row) for row in workloads):
        return []
    data_sets = DataSet.objects.in_bulk(keys)
    copies = {
        row.data_set_id: row for row in DataCopy.objects.filter(data_set__in=keys, cluster=cluster)
    }
    return [
        f"{row}: {problem}"
        for row in workloads
        if (
            problem := _explain_unready(
                row, data_sets.get(row.data_set_id or 0), copies.get(row.data_set_id or 0), cluster
            )
        )
    ]


def _needs_data(workload: Workload) -> bool:
    return PLACEHOLDER in str(workload.parameters.get(FOLDER, ""))


def _explain_unready(
    workload: Workload, data_set: DataSet | None, copy: DataCopy | None, cluster: Cluster
) -> str:
    """Return why a workload cannot read its data set, with how to go on; "" if it can."""
    if data_set is None:
        return "{data} stands for a data set; choose one." if _needs_data(workload) else ""
    if data_set.is_file and reads_folder(workload.kind):
        return f"the data set {data_set} is one file, and {workload.kind} reads a folder."
    if copy is None:
        return (
            f"the data set {data_set} has no copy on {cluster}: add one on the page of the data "
            "set, where it lies there."
        )
    if copy.state == DataCopy.State.STAGING:
        return f"the files of {data_set} on {cluster} are being read: wait for the end of that."
    if copy.state != DataCopy.State.READY:
        return (
            f"the copy of {data_set} on {cluster}, {copy.path}, is {copy.state}. {copy.message} "
            "Put the files right there, then check the copy in full on the page of the data set."
        )
    return ""


def list_data_and_workloads(experiment: Experiment) -> list[Model]:
    """Return the workloads of an experiment and their data sets, which its launch has to use."""
    workloads = list(experiment.workloads.all())
    keys = {row.data_set_id for row in workloads if row.data_set_id}
    return [*workloads, *(DataSet.objects.filter(pk__in=keys) if keys else ())]


def compute_proof_seconds(workload: Workload) -> int:
    """Return for how long a job may prove its data before it measures; 0 without a data set."""
    data_set = workload.data_set if workload.data_set_id else None
    if data_set is None:
        return 0
    seconds = (data_set.files or 0) / FILES_PER_SECOND
    if workload.data_proof == Workload.DataProof.HASHES:
        seconds += (data_set.size_bytes or 0) / READ_BYTES_PER_SECOND
    return math.ceil(seconds) + 10
