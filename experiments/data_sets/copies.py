"""Requests to register data sets, to add copies of them on clusters, and to check these.

Rows and rules; ticks do the work.
"""

from __future__ import annotations

import posixpath

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from experiments.access import audit, permissions
from experiments.models import Cluster, DataCopy, DataSet, Experiment, Operation, User, Workload
from experiments.models.data_sets import is_data_path
from experiments.notify import enqueue_tick
from runners.transports.by_hand import NO_OPERATIONS

State = DataCopy.State


class NotDone(Exception):
    """The request is refused; the message says why."""


def add_copy(data_set: DataSet, cluster: Cluster, path: str, by: User) -> DataCopy:
    """Request that a copy at `path` of `cluster` is read. Raises NotDone.

    The first copy of a data set gives it its digest; each other one has to have the same.
    """
    if problem := why_not_add_copy(data_set, cluster, by):
        raise NotDone(problem)
    try:
        is_data_path(path)
    except ValidationError as refusal:
        raise NotDone(refusal.messages[0]) from None
    path = "/" + posixpath.normpath(path).lstrip("/")  # one folder has one spelling
    if problem := _why_not_at(path, cluster):
        raise NotDone(problem)
    row = DataCopy(data_set=data_set, cluster=cluster, path=path, owner=by)
    try:
        with transaction.atomic():
            row.save()
            _create_operation(Operation.Kind.READ_DATA, row, by)
            audit.note(by, "asked to read", row)
    except IntegrityError:
        raise NotDone(_explain_duplicate(data_set, cluster, path, by)) from None
    enqueue_tick(cluster.pk)
    return row


def why_not_add_copy(data_set: DataSet, cluster: Cluster, by: User) -> str:
    """Return why `by` may not add a copy of a data set on a cluster; "" if they may."""
    if cluster.is_by_hand:
        return f"{cluster}: {NO_OPERATIONS}"
    return (
        permissions.why_not_add(by, DataCopy)
        or permissions.why_not_use(by, data_set)
        or permissions.why_not_use(by, cluster)
    )


def _why_not_at(path: str, cluster: Cluster) -> str:
    """Return why a path cannot be a data set's: it is in Tare's own folder, or has that in it."""
    own = posixpath.normpath(cluster.work_directory)
    if not f"{path}/".startswith(f"{own}/") and not f"{own}/".startswith(f"{path}/"):
        return ""
    return (
        f"{path} is in Tare’s own folder on {cluster}, {own}, or has that in it: files come and go "
        "there with each job. Name a folder beside it."
    )


def _explain_duplicate(data_set: DataSet, cluster: Cluster, path: str, by: User) -> str:
    own = DataCopy.objects.filter(data_set=data_set, cluster=cluster).first()
    if own:
        return f"{data_set} has a copy on {cluster} already, at {own.path}."
    seen = DataSet.objects.visible_to(by).filter(copies__cluster=cluster, copies__path=path)
    names = ", ".join(str(row) for row in seen) or "a data set of somebody else"
    return f"{path} on {cluster} is registered already, as {names}."


def check(row: DataCopy, by: User, *, in_full: bool = False) -> Operation:
    """Request a check of a copy: of sizes and times, or by reading all files. Raises NotDone."""
    if problem := why_not_add_copy(row.data_set, row.cluster, by):
        raise NotDone(problem)
    if not in_full and not row.data_set.digest:
        raise NotDone(f"{row} has never been read: check it in full.")
    kind = Operation.Kind.READ_DATA if in_full else Operation.Kind.CHECK_DATA
    operation = _create_operation(kind, row, by)
    enqueue_tick(row.cluster_id)
    return operation


def _create_operation(kind: str, row: DataCopy, by: User) -> Operation:
    operation = Operation.objects.create_alone(
        kind=kind, cluster=row.cluster, data_copy=row, owner=by
    )
    if operation is None:
        raise NotDone(f"{row} is being checked already: wait for its end.")
    return operation


def forget(row: DataCopy, by: User) -> None:
    """Take a copy out of the catalogue; its files stay where they are. Raises NotDone."""
    with transaction.atomic():
        # A launch that reads it holds it, and is seen once it has ended.
        rows = DataCopy.objects.select_for_update(of=("self",)).filter(pk=row.pk)
        if not list(rows.values_list("pk")):
            raise NotDone(f"{row} is no longer in the catalogue.")
        if why := permissions.why_not_change(by, row) or why_not_forget(row):
            raise NotDone(why)
        audit.delete(by, row)


def why_not_forget(row: DataCopy) -> str:
    """Return why a copy cannot be taken out of the catalogue; "" if it can."""
    if row.operations.exclude(state__in=Operation.FINAL).exists():
        return f"{row} is being checked: cancel that, or wait for its end."
    alive = Experiment.objects.alive().filter(cluster=row.cluster)
    used = alive.filter(workloads__data_set=row.data_set, launched_at__isnull=False)
    return f"An experiment that has not ended reads {row}." if used.exists() else ""


def why_not_delete(data_set: DataSet) -> str:
    """Return why a data set cannot be deleted; "" if it can."""
    workloads = Workload.objects.filter(data_set=data_set)  # variants of sweeps too
    names = list(workloads.order_by("name").values_list("name", flat=True)[:5])
    if names:
        return f"It is named by the workload{'s' * (len(names) > 1)} {', '.join(names)}."
    for row in data_set.copies.select_related("cluster"):
        if why := why_not_forget(row):
            return why
    return ""
