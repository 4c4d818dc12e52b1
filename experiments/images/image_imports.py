"""Requests to import images into the catalogue. A worker of the queue `bulk` fetches them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.files.uploadedfile import TemporaryUploadedFile, UploadedFile
from django.db import transaction
from django.utils import timezone

from experiments.access import audit, permissions
from experiments.images import staging, store
from experiments.images.staging import NotDone
from experiments.models import Cluster, Image, ImageImport, Operation, User
from experiments.models.images import DEFAULT_ARCHITECTURE
from experiments.notify import enqueue_receive
from runners.errors import Refused
from runners.images.references import parse_reference


def request_from_registry(
    reference: str,
    by: User,
    *,
    title: str = "",
    user_name: str = "",
    password: str = "",
    architecture: str = DEFAULT_ARCHITECTURE,
) -> ImageImport:
    """Request an image by its reference, such as docker://host/name@sha256:... Raises NotDone."""
    _require_permission(by)
    try:
        parsed = parse_reference(reference)
    except Refused as problem:
        raise NotDone(str(problem)) from None
    allowed = settings.IMAGE_REGISTRIES
    if allowed and parsed.host not in allowed:
        raise NotDone(
            f"This site fetches images from {', '.join(allowed)} only, not from {parsed.host}."
        )
    row = ImageImport(kind=ImageImport.Kind.REGISTRY, reference=str(parsed), title=title, owner=by)
    row.user_name, row.password, row.architecture = user_name, password, architecture
    return _save_and_enqueue(row)


def request_upload(
    file: UploadedFile[Any],
    by: User,
    *,
    title: str = "",
    architecture: str = DEFAULT_ARCHITECTURE,
) -> ImageImport:
    """Request the import of an uploaded archive, tarball or SIF file. Raises NotDone."""
    _require_permission(by)
    path = store.make_incoming_path()
    try:
        _keep(file, path)
    except OSError as problem:
        path.unlink(missing_ok=True)
        raise NotDone(
            f"The file could not be kept: {problem.strerror}. Is the disk full?"
        ) from None
    name = str(file.name or "upload")[:500]
    row = ImageImport(kind=ImageImport.Kind.UPLOAD, reference=name, title=title, owner=by)
    row.incoming, row.total_bytes = path.name, path.stat().st_size
    row.architecture = architecture
    return _save_and_enqueue(row)


def _keep(file: UploadedFile[Any], path: Path) -> None:
    """Write an upload into the store; if it is on the same disk already, only link it."""
    if isinstance(file, TemporaryUploadedFile):
        with suppress(OSError):
            os.link(file.temporary_file_path(), path)
            return
    with path.open("wb") as target:
        for chunk in file.chunks():
            target.write(chunk)


def request_from_cluster(
    cluster: Cluster,
    path: str,
    by: User,
    *,
    title: str = "",
    architecture: str = DEFAULT_ARCHITECTURE,
) -> ImageImport:
    """Request the import of a file on a cluster. Raises NotDone."""
    _require_permission(by)
    problem = permissions.why_not_use(by, cluster)
    if problem:
        raise NotDone(problem)
    if not path.startswith("/") or "\0" in path:
        raise NotDone("The path on the cluster is absolute: it begins with a slash.")
    kind = ImageImport.Kind.CLUSTER
    row = ImageImport(kind=kind, cluster=cluster, reference=path, title=title, owner=by)
    row.architecture = architecture
    return _save_and_enqueue(row)


def cancel(row: ImageImport, by: User) -> None:
    """Cancel an import under way; its worker notices. Raises NotDone."""
    if not (row.owner_id == by.pk or permissions.may_change(by, row)):
        raise NotDone("This was asked for by somebody else.")
    for operation in row.operations.exclude(state__in=Operation.FINAL):  # of a recipe
        staging.cancel(operation, by)
    if not end_image_import(row, problem=f"Given up by {by}."):
        raise NotDone("This has ended already.")


def _require_permission(by: User) -> None:
    problem = permissions.why_not_add(by, Image)
    if problem:
        raise NotDone(problem)


def _save_and_enqueue(row: ImageImport) -> ImageImport:
    with transaction.atomic():
        row.save()
        audit.note(row.owner, "asked for an image", row)
        enqueue_receive(row)
    return row


def end_image_import(row: ImageImport, *, problem: str = "", image: Image | None = None) -> bool:
    """End an import, and remove its received file; return False if it has ended before."""
    open_states = (ImageImport.State.WAITING, ImageImport.State.UNDER_WAY)
    ended = ImageImport.objects.filter(pk=row.pk, state__in=open_states).update(
        state=ImageImport.State.FAILED if problem else ImageImport.State.DONE,
        problem=problem,
        image=image,
        ended_at=timezone.now(),
        password="",
        doing="",
    )
    if ended and row.incoming:
        store.make_incoming_path(row.incoming).unlink(missing_ok=True)
    return bool(ended)
