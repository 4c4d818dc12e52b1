"""Requests to put code on clusters, to check it there, and to remove it.

Rows and rules; ticks do the work.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from experiments.access import audit, permissions
from experiments.code_copies.archives import find_kept
from experiments.models import Cluster, CodeCopy, Experiment, Operation, User, Workload
from experiments.models.code_copies import CodeCopyQuerySet
from experiments.notify import enqueue_tick
from runners.code_copies import CodeSource
from runners.transports.by_hand import NO_OPERATIONS

State = CodeCopy.State
Kind = Operation.Kind


class NotDone(Exception):
    """The request is refused; the message says why."""


def put(workload: Workload, cluster: Cluster, by: User) -> CodeCopy:
    """Request that the code of a workload is put on a cluster, also once more. Raises NotDone."""
    source = workload.code_source
    if source is None:
        raise NotDone(f"{workload} names no archive and no commit.")
    if problem := permissions.why_not_use(by, workload) or why_not_put(source, cluster, by):
        raise NotDone(problem)
    with transaction.atomic():
        row, is_new = (
            CodeCopy.objects.of_source(source)
            .select_for_update(of=("self",))
            .get_or_create(
                cluster=cluster,
                commit=source.commit,
                archive_id=source.archive or None,
                defaults={"repository": source.repository, "owner": by},
            )
        )
        if not is_new:
            if why := why_busy(row) or _why_not_again(row):
                raise NotDone(why)
            row.state, row.message, row.repository = State.STAGING, "", source.repository
            row.save(update_fields=["state", "message", "repository"])
        _create_operation(Kind.FETCH_CODE, row, by)
        audit.note(by, "asked to put on the cluster", row)
    enqueue_tick(cluster.pk)
    return row


def put_code_of_draft(draft: Experiment, by: User) -> tuple[str, str]:
    """Have the code of a preset's draft, which all its workloads share, put on its cluster.

    Return a sentence on what is being done, and one on why it is not; either may be "".
    """
    for workload in draft.workloads.order_by("pk"):
        source = workload.code_source
        if source is None:
            continue
        copy = CodeCopy.objects.of_source(source).filter(cluster=draft.cluster).first()
        if copy and copy.state == State.READY:
            return "", ""
        if copy and why_busy(copy):
            return f"Its code is being put on {draft.cluster} already.", ""
        try:
            put(workload, draft.cluster, by)
        except NotDone as refusal:
            return "", f"Its code is not put on {draft.cluster}. {refusal}"
        return f"Its code is being put on {draft.cluster}; the page of {workload} shows it.", ""
    return "", ""


def why_not_put(source: CodeSource, cluster: Cluster, by: User) -> str:
    """Return why `by` may not put code on a cluster; "" if they may."""
    if cluster.is_by_hand:
        return f"{cluster}: {NO_OPERATIONS}"
    if why := permissions.why_not_add(by, CodeCopy) or permissions.why_not_use(by, cluster):
        return why
    if source.archive and find_kept(source.archive) is None:
        return "The archive is not on this site any more: send it again, in a copy of the workload."
    return ""


def why_busy(row: CodeCopy) -> str:
    """Return why nothing can be done with a copy now; "" if something can."""
    if row.operations.exclude(state__in=Operation.FINAL).exists():
        return _say_busy(row)
    return ""


def _say_busy(row: CodeCopy) -> str:
    return f"{row} is being worked on already: wait for the end of that."


def _why_not_again(row: CodeCopy) -> str:
    """Return why good code is not put there again: jobs that wait may read it."""
    if row.state == State.READY:
        return f"{row} is ready already."
    return ""


def check(row: CodeCopy, by: User) -> Operation:
    """Request that all files of a copy are read. Raises NotDone."""
    if problem := _why_not_work_on(row, by):
        raise NotDone(problem)
    if not row.digest:
        raise NotDone(f"{row} was never there: put it there first.")
    operation = _create_operation(Kind.CHECK_CODE, row, by)
    enqueue_tick(row.cluster_id)
    return operation


def remove(row: CodeCopy, by: User) -> Operation:
    """Request that the files of a copy are removed, and the copy forgotten. Raises NotDone."""
    with transaction.atomic():
        # A launch that reads it holds it, and is seen once it has ended.
        if not CodeCopy.objects.select_for_update(of=("self",)).filter(pk=row.pk).exists():
            raise NotDone(f"{row} is no longer in the catalogue.")
        if problem := (
            permissions.why_not_change(by, row) or _why_not_work_on(row, by) or why_not_remove(row)
        ):
            raise NotDone(problem)
        operation = _create_operation(Kind.DROP_CODE, row, by)
        CodeCopy.objects.filter(pk=row.pk).update(state=State.REMOVING, message="")
        audit.note(by, "asked to remove", row)
    enqueue_tick(row.cluster_id)
    return operation


def _why_not_work_on(row: CodeCopy, by: User) -> str:
    if row.cluster.is_by_hand:
        return f"{row.cluster}: {NO_OPERATIONS}"
    return permissions.why_not_add(by, CodeCopy) or permissions.why_not_use(by, row.cluster)


def why_not_remove(row: CodeCopy) -> str:
    """Return why a copy cannot be removed; "" if it can."""
    if busy := why_busy(row):
        return busy
    alive = Experiment.objects.alive().filter(cluster=row.cluster, launched_at__isnull=False)
    used = alive.filter(workloads__in=list_workloads_of(row.source))
    return f"An experiment that has not ended reads {row}." if used.exists() else ""


def list_visible_copies(user: User) -> CodeCopyQuerySet:
    """Return the copies that `user` may view: also those that they may only remove.

    Without the lists of their files, which have 300 kB each and which no page shows.
    """
    viewed = CodeCopy.objects.visible_to(user).values("pk")
    removable = permissions.filter_changeable(user, CodeCopy.objects.all()).values("pk")
    rows: CodeCopyQuerySet = CodeCopy.objects.filter(Q(pk__in=viewed) | Q(pk__in=removable))
    return rows.defer("paths")


def list_unused_copies(copies: QuerySet[CodeCopy]) -> QuerySet[CodeCopy]:
    """Return those of `copies` that may go: no workload names them, and nothing is done with them.

    The largest come first.
    """
    alive = Operation.objects.exclude(state__in=Operation.FINAL).filter(code_copy=OuterRef("pk"))
    unnamed = copies.filter(pk__in=CodeCopy.objects.unnamed().values("pk"))
    unused = unnamed.exclude(state=State.REMOVING).filter(~Exists(alive))
    return unused.order_by(F("size_bytes").desc(nulls_last=True), "pk")


def list_workloads_of(source: CodeSource) -> QuerySet[Workload]:
    """Return all workloads whose code this is."""
    if source.commit:
        return Workload.objects.filter(parameters__code_commit=source.commit)
    return Workload.objects.filter(parameters__code_archive=source.archive)


def _create_operation(kind: str, row: CodeCopy, by: User) -> Operation:
    operation = Operation.objects.create_alone(
        kind=kind, cluster=row.cluster, code_copy=row, owner=by
    )
    if operation is None:
        raise NotDone(_say_busy(row))
    return operation
