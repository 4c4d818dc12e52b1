"""Requests to stage, verify and remove images on clusters. Rows and rules; ticks do the work."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from experiments.access import audit, permissions
from experiments.clusters import preflights
from experiments.images import store
from experiments.images.architectures import explain_mismatch
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Image,
    Operation,
    Partition,
    StagedImage,
    User,
)
from experiments.models.images import ARCHIVE
from experiments.notify import enqueue_send, enqueue_tick
from runners.errors import Refused
from runners.images.formats import FORMATS
from runners.images.staging_steps import Source
from runners.preflight.checks import Check
from runners.preflight.modes import WORKS, name_mode_check
from runners.runtimes import RUNTIMES
from runners.transports.by_hand import NO_OPERATIONS

State = StagedImage.State


class NotDone(Exception):
    """The request is refused; the message says why."""


def list_forms(cluster: Cluster) -> list[tuple[str, str, str]]:
    """Return (format, mode, label) of the forms that Tare makes and the cluster's runtimes start.

    The mode is empty except where each mode needs a form of its own. Modes that do not work,
    according to a check of the cluster, are left out; `why_not_form` says why.
    """
    tried = preflights.find_tried_modes(cluster)
    why_untried = preflights.why_modes_are_untried(cluster)
    labels: dict[tuple[str, str], str] = {}
    for runtime in cluster.runtimes.all():
        kind = RUNTIMES[runtime.kind]
        for name in kind.formats:
            if name in FORMATS and not FORMATS[name].by_site:
                for mode in kind.modes if FORMATS[name].by_mode else ("",):
                    check = tried.get(name_mode_check(kind.label, mode))
                    if check and check.value != WORKS:
                        continue
                    label = f"{name} {mode}".strip()
                    untried = f" ({why_untried})" if mode and not check else ""
                    labels.setdefault((name, mode), f"{label}, for {kind.label}{untried}")
    return [(name, mode, label) for (name, mode), label in labels.items()]


def list_impossible_forms(cluster: Cluster) -> list[Check]:
    """Return the checks of modes that do not work on this cluster: `list_forms` omits them."""
    return [
        check for check in preflights.find_tried_modes(cluster).values() if check.value != WORKS
    ]


def why_not_form(cluster: Cluster, form: str, mode: str) -> str:
    """Return why an image cannot be staged in this form; "" if it can."""
    if (form, mode) in {known[:2] for known in list_forms(cluster)}:
        return ""
    kinds = (RUNTIMES[runtime.kind] for runtime in cluster.runtimes.all())
    names = {name_mode_check(kind.label, mode) for kind in kinds if form in kind.formats}
    for check in list_impossible_forms(cluster):
        if mode and check.name in names:
            return preflights.explain_impossible_mode(check, cluster)
    return f"No runtime of {cluster} starts {form} {mode}".strip() + "."


def stage(
    image: Image,
    cluster: Cluster,
    form: str,
    by: User,
    *,
    mode: str = "",
    partition: Partition | None = None,
) -> StagedImage:
    """Request a form of `image` on `cluster`. Raises NotDone."""
    _require_permission(by, cluster)
    if cluster.is_by_hand:
        raise NotDone(f"{cluster}: {NO_OPERATIONS}")
    if problem := why_not_form(cluster, form, mode) or explain_mismatch(image, cluster, partition):
        raise NotDone(problem)
    source = Source(image.kind, name_archive_path(image, cluster), image.digest)
    try:
        path = (
            FORMATS[form].stage(source, cluster.images_folder, cluster.executables, mode).location
        )
    except Refused as refusal:
        raise NotDone(str(refusal)) from None
    with transaction.atomic():
        archive = get_or_request_archive(image, cluster)
        row, is_new = StagedImage.objects.select_for_update().get_or_create(
            image=image,
            cluster=cluster,
            path=path,
            defaults={"format": form, "mode": mode, "state": State.STAGING, "made_here": True},
        )
        if not is_new:
            if row.state in (State.READY, State.STAGING, State.REMOVING):
                raise NotDone(f"{row} is {row.state} already.")
            row.state, row.message, row.made_here = State.STAGING, "", True
            row.save(update_fields=["state", "message", "made_here"])
        _create_operation(Operation.Kind.STAGE, row, by, partition)
        audit.note(by, "asked to stage", row)
    if archive.state == State.STAGING:
        enqueue_send(archive)
    enqueue_tick(cluster.pk)
    return row


def verify(row: StagedImage, by: User, *, partition: Partition | None = None) -> Operation:
    """Request a check that the files are still those of the image. Raises NotDone."""
    _require_permission(by, row.cluster)
    if row.state not in (State.READY, State.FAILED):
        raise NotDone(f"{row} is {row.state}; there is nothing to verify.")
    operation = _create_operation(Operation.Kind.VERIFY, row, by, partition)
    enqueue_tick(row.cluster_id)
    return operation


def unstage(row: StagedImage, by: User) -> Operation:
    """Request the removal of a form from its cluster. Raises NotDone."""
    _require_permission(by, row.cluster)
    why = permissions.why_not_change(by, row) or why_not_unstage(row)
    if why:
        raise NotDone(why)
    with transaction.atomic():
        operation = _create_operation(Operation.Kind.UNSTAGE, row, by, None)
        StagedImage.objects.filter(pk=row.pk).update(state=State.REMOVING, message="")
        audit.note(by, "asked to remove", row)
    enqueue_tick(row.cluster_id)
    return operation


def why_not_unstage(row: StagedImage) -> str:
    """Return why a form cannot be removed; "" if it can."""
    if not row.made_here:
        return f"{row} was registered by hand: the person who put it there removes it."
    if row.state in (State.REMOVING, State.REMOVED):
        return f"{row} is {row.state} already."
    if row.format == ARCHIVE:
        if _stagings(row.image, row.cluster).exists():
            return f"Another form is being made from {row}."
        return "" if _is_kept_elsewhere(row) else f"{row} is the only copy that Tare knows of."
    alive = Experiment.objects.alive()
    names = sorted(
        {str(environment) for environment in row.environments.filter(experiments__in=alive)}
    )
    if names:
        return f"An experiment that has not ended uses {row}, by {', '.join(names)}."
    return ""


def why_not_cancel(operation: Operation, by: User) -> str:
    """Return why a person may not cancel an operation; "" if they may, as long as it lives."""
    return "" if operation.owner_id == by.pk else permissions.why_not_change(by, operation)


def list_cancellable_keys(operations: Collection[Operation], by: User) -> set[int]:
    """Return the keys of those of `operations`, all alive, that a person may cancel.

    One query, of those that are not the person's own.
    """
    others = [operation for operation in operations if operation.owner_id != by.pk]
    own = {operation.pk for operation in operations if operation.owner_id == by.pk}
    return own | permissions.list_changeable_keys(by, others)


def cancel(operation: Operation, by: User) -> None:
    """Cancel an operation; the next tick ends it. Raises NotDone."""
    if why := why_not_cancel(operation, by):
        raise NotDone(why)
    waiting = Operation.objects.exclude(state__in=Operation.FINAL).filter(pk=operation.pk)
    if not waiting.update(cancel_requested_at=Now(), cancel_sent_at=None):
        raise NotDone(f"{operation} has ended already.")
    enqueue_tick(operation.cluster_id)


def list_unused_forms(cluster: Cluster | None = None) -> list[StagedImage]:
    """Return the forms that Tare has made and no environment uses, and archives with another copy.

    An environment that an experiment has used protects its image for ever.
    """
    rows = StagedImage.objects.filter(made_here=True, state__in=(State.READY, State.FAILED))
    used = Environment.objects.filter(staged_image=OuterRef("pk"))
    unused = rows.filter(~Exists(used))
    if cluster:
        unused = unused.filter(cluster=cluster)
    removable: list[StagedImage] = []
    for row in unused.select_related("image", "cluster"):
        # Of two archives that are each other's only copy, one stays.
        archives_to_remove = [other.pk for other in removable if other.format == ARCHIVE]
        if not why_not_unstage(row) and (
            row.format != ARCHIVE or _is_kept_elsewhere(row, archives_to_remove)
        ):
            removable.append(row)
    return removable


def is_available(image: Image) -> bool:
    """Return whether Tare has the image's own file, in the store or on a cluster."""
    archives = image.staged.filter(format=ARCHIVE, state=State.READY)
    return store.has(image.content_sha256) or archives.exists()


def name_archive_path(image: Image, cluster: Cluster) -> str:
    """Return the path of the image's archive on a cluster."""
    return f"{cluster.images_folder}/{image.digest.removeprefix('sha256:')}.{ARCHIVE}"


def _require_permission(by: User, cluster: Cluster) -> None:
    problem = permissions.why_not_add(by, StagedImage) or permissions.why_not_use(by, cluster)
    if problem:
        raise NotDone(problem)


def get_or_request_archive(image: Image, cluster: Cluster) -> StagedImage:
    """Return the archive on the cluster, or a new row that requests it. Raises NotDone."""
    row = image.archive_on(cluster)
    if row and row.state in (State.READY, State.STAGING):
        return row
    if not is_available(image):
        raise NotDone(
            f"Tare has no copy of {image} to make this from. Add the image again, from its "
            "registry or its file: the digest tells that it is the same one."
        )
    size = None
    if store.has(image.content_sha256):
        size = store.get_path(image.content_sha256).stat().st_size
    columns = {"state": State.STAGING, "message": "", "sent_bytes": None, "sending_at": None}
    return StagedImage.objects.update_or_create(
        image=image,
        cluster=cluster,
        path=name_archive_path(image, cluster),
        defaults={"format": ARCHIVE, "made_here": True, "size_bytes": size, **columns},
    )[0]


def _create_operation(
    kind: str, row: StagedImage, by: User, partition: Partition | None
) -> Operation:
    if row.cluster.is_by_hand:
        raise NotDone(f"{row.cluster}: {NO_OPERATIONS}")
    operation = Operation.objects.create_alone(
        kind=kind, cluster=row.cluster, staged_image=row, partition=partition, owner=by
    )
    if operation is None:
        raise NotDone(f"Something is being done with {row} already: wait for its end.")
    return operation


def _stagings(image: Image, cluster: Cluster) -> QuerySet[Operation]:
    live = Operation.objects.exclude(state__in=Operation.FINAL)
    return live.filter(kind=Operation.Kind.STAGE, staged_image__image=image, cluster=cluster)


def _is_kept_elsewhere(row: StagedImage, to_be_removed: Sequence[int] = ()) -> bool:
    """Return whether an archive has another copy, besides those that are `to_be_removed`."""
    archives = row.image.staged.filter(format=ARCHIVE, state=State.READY)
    others = archives.exclude(pk__in=[row.pk, *to_be_removed])
    return store.has(row.image.content_sha256) or others.exists()
