"""Transfers of image files into the store, and from there to clusters. They take minutes.

A transfer saves its progress every second. If that stops, its worker has died and the clock has
another worker start again. A transfer notices that it was cancelled when it saves its progress.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from experiments.access import audit
from experiments.encryption import WrongKey
from experiments.execution.connections import Link, make_ssh_address
from experiments.execution.own_failures import describe_failure
from experiments.images import store
from experiments.images.image_imports import end_image_import
from experiments.images.inventory import make_columns, make_storable
from experiments.images.signatures import (
    Finding,
    check_signatures,
    find_keys,
    make_unchecked,
)
from experiments.models import Cluster, Image, ImageImport, StagedImage, User
from experiments.models.images import ARCHIVE, DEFAULT_ARCHITECTURE, SILENCE
from runners.errors import Refused, TryAgain
from runners.images import ImageDescription, convert_to_oci, describe_image, identify, registry
from runners.images.references import parse_reference
from runners.images.registry_session import Access
from runners.transports import Local, Transport
from runners.untrusted import clean_text

LOGIN_RELATIONS = ("cluster__credential", "cluster__jump_host")
PAUSE_SECONDS = 1.0  # between two updates of the progress
MOST_CHARACTERS = 2000  # of the message of a failure

Done = TypeVar("Done")


class GivenUp(Exception):
    """The transfer was cancelled while it ran."""


class Meter:
    """A counter of transferred bytes. It raises GivenUp in the transfer that was cancelled."""

    def __init__(self) -> None:
        self.bytes = 0
        self.given_up = False

    def set(self, count: int) -> None:
        self.bytes = count
        if self.given_up:
            raise GivenUp

    def add(self, count: int) -> None:
        self.set(self.bytes + count)


def run_with_progress(work: Callable[[Meter], Done], save_progress: Callable[[int], bool]) -> Done:
    """Do `work` in a thread without the database, and call `save_progress` each second.

    `save_progress` takes the bytes so far. Raises GivenUp once it returns False.
    """
    meter = Meter()
    with ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work, meter)
        while not wait([future], timeout=PAUSE_SECONDS).done:
            meter.given_up = not save_progress(meter.bytes)
        return future.result()


@contextmanager
def open_connection(cluster: Cluster) -> Iterator[Transport]:
    """Open a connection for one transfer. Raises TryAgain.

    The tick has its own, which must not wait for gigabytes.
    """
    with Local() if cluster.transport == "local" else Link(make_ssh_address(cluster)) as transport:
        yield transport


def send(pk: int) -> str:
    """Send an archive to its cluster, unless another worker does; return the outcome in words."""
    rows_to_send = StagedImage.objects.to_be_sent().filter(pk=pk)
    unclaimed = Q(sending_at=None) | Q(sending_at__lt=Now() - SILENCE)
    if not rows_to_send.filter(unclaimed).update(sending_at=Now(), sent_bytes=0, message=""):
        return "sent or being sent"
    row = StagedImage.objects.select_related("image", *LOGIN_RELATIONS).get(pk=pk)

    def save_progress(count: int) -> bool:
        return bool(rows_to_send.update(sent_bytes=count, sending_at=Now()))

    try:
        sha256 = _fetch_into_store(row.image, save_progress)
        _upload(row, sha256, save_progress)
    except GivenUp:
        return "given up"
    except TryAgain as problem:  # the clock enqueues it again until it is sent or cancelled
        rows_to_send.update(message=describe_problem(problem), sending_at=Now())
        return "try again"
    except Exception as problem:  # noqa: BLE001 - it would fail again
        failed = {"state": StagedImage.State.FAILED, "message": describe_problem(problem)}
        rows_to_send.update(**failed, sending_at=None)
        return "failed"
    ready = {"state": StagedImage.State.READY, "sha256": sha256}
    rows_to_send.update(message="", sent_bytes=None, sending_at=None, **ready)
    return "sent"


def _upload(row: StagedImage, sha256: str, save_progress: Callable[[int], bool]) -> None:
    content = store.get_path(sha256)
    size = content.stat().st_size
    StagedImage.objects.filter(pk=row.pk).update(size_bytes=size)
    with open_connection(row.cluster) as transport, content.open("rb") as file:
        folder = row.path.rpartition("/")[0]
        completed = transport.run(["mkdir", "-p", folder])
        if completed.returncode:
            error_text = clean_text(completed.stderr).strip()
            raise Refused(f"{folder} on {row.cluster} cannot be made: {error_text}")
        run_with_progress(
            lambda meter: transport.upload(row.path, file, size, sha256, progress=meter.set),
            save_progress,
        )


def _fetch_into_store(image: Image, save_progress: Callable[[int], bool]) -> str:
    """Return the sha256 of the image's file in the store, fetched from a cluster if need be."""
    if store.has(image.content_sha256):
        return image.content_sha256
    archives = image.staged.filter(format=ARCHIVE, state=StagedImage.State.READY)
    archive = archives.select_related(*LOGIN_RELATIONS).first()
    if archive is None:
        raise Refused(f"Tare has no copy of {image} any more.")
    path = store.make_incoming_path()
    try:
        sha256 = _download(archive.cluster, archive.path, path, lambda _: save_progress(0))
        if archive.sha256 and sha256 != archive.sha256:
            raise Refused(
                f"{archive.path} on {archive.cluster} is not the archive that it was: its sha256 "
                f"is {sha256}, it was {archive.sha256}."
            )
        architecture = image.architecture or DEFAULT_ARCHITECTURE
        digest = describe_image(path, architecture=architecture).digest
        if digest != image.digest:
            raise Refused(
                f"{archive.path} on {archive.cluster} is another image: its digest is {digest}, "
                f"and that of {image} is {image.digest}."
            )
        store.adopt(path, sha256)
    finally:
        path.unlink(missing_ok=True)
    Image.objects.filter(pk=image.pk).update(content_sha256=sha256)
    return sha256


def _download(
    cluster: Cluster, path: str, target: Path, save_progress: Callable[[int], bool]
) -> str:
    """Download a file and return its sha256 in hex. Raises Refused if it does not exist."""
    with open_connection(cluster) as transport, target.open("wb") as file:
        try:
            return run_with_progress(
                lambda meter: transport.download(path, file, progress=meter.set), save_progress
            )
        except FileNotFoundError:
            raise Refused(f"There is no file {path} on {cluster}.") from None


def receive(pk: int) -> str:
    """Import an image into the catalogue, unless another worker does; return the outcome."""
    under_way = ImageImport.objects.filter(pk=pk, state=ImageImport.State.UNDER_WAY)
    waiting = Q(state=ImageImport.State.WAITING)
    died = Q(state=ImageImport.State.UNDER_WAY, seen_at__lt=Now() - SILENCE)
    claim = {"state": ImageImport.State.UNDER_WAY, "seen_at": Now(), "done_bytes": 0, "problem": ""}
    if not ImageImport.objects.filter(waiting | died, pk=pk).update(**claim):
        return "fetched or being fetched"
    row = ImageImport.objects.select_related("owner", *LOGIN_RELATIONS).get(pk=pk)

    def save_progress(count: int, **more: Any) -> bool:
        return bool(under_way.update(done_bytes=count, seen_at=Now(), **more))

    # The next worker uses the same name, so that a broken download is continued.
    path = store.make_incoming_path(row.incoming or f"image_import-{row.pk}")
    signed = make_unchecked("It did not come from a registry.")
    oci_path = path.with_name(f"{path.name}.oci")
    try:
        if row.kind == ImageImport.Kind.CLUSTER and row.cluster:
            save_progress(0, doing="Fetching")
            _download(row.cluster, row.reference, path, save_progress)
        elif row.kind == ImageImport.Kind.REGISTRY:
            save_progress(0, doing="Asking the registry")
            signed = _pull(row, path, save_progress)
        save_progress(0, doing="Reading", total_bytes=path.stat().st_size)
        archive, file_facts, sha256 = run_with_progress(
            lambda meter: _read(path, oci_path, row.architecture, meter), save_progress
        )
        if not save_progress(file_facts.size):
            raise GivenUp
        image = _add_to_catalogue(row, archive, file_facts, sha256, signed)
    except GivenUp:
        _remove_received(path)
        return "given up"
    except TryAgain as problem:
        save_progress(0, problem=describe_problem(problem))
        return "try again"
    except Exception as problem:  # noqa: BLE001 - it would fail again
        _remove_received(path)
        name = row.reference.rpartition("/")[2] or "It"
        message = describe_problem(problem)
        end_image_import(row, problem=message.replace(oci_path.name, name).replace(path.name, name))
        return "failed"
    finally:
        oci_path.unlink(missing_ok=True)
    _remove_received(path)
    end_image_import(row, image=image)
    return "done"


def describe_problem(problem: Exception) -> str:
    """Return the message for a failure. An unexpected one goes to the log with its traceback.

    Raises the failure again where the database is away: no message can be saved then.
    """
    if isinstance(problem, OperationalError | InterfaceError):
        raise problem
    if isinstance(problem, TryAgain | Refused | OSError):
        return str(make_storable(str(problem))[:MOST_CHARACTERS])
    return describe_failure(problem).message


def _remove_received(path: Path) -> None:
    """Remove the received file, and its unfinished part."""
    for name in (path.name, f"{path.name}.part"):
        path.with_name(name).unlink(missing_ok=True)


def _pull(row: ImageImport, path: Path, save_progress: Callable[..., bool]) -> Finding:
    """Resolve the reference, fetch its image, and return what was found of its signatures.

    The digest becomes part of the reference.
    """
    try:
        password = row.password.reveal()
    except WrongKey as problem:
        raise TryAgain(f"The password cannot be used. {problem}", kind="set-up") from None
    access = Access(row.user_name, password, settings.IMAGE_INSIDE_HOSTS)
    reference = parse_reference(row.reference)
    resolved = run_with_progress(
        lambda _: registry.resolve(reference, access, architecture=row.architecture), save_progress
    )
    keys = find_keys(reference)
    save_progress(0, doing="Checking signatures")
    signed = run_with_progress(lambda _: check_signatures(resolved, access, keys), save_progress)
    name = str(replace(reference, digest=resolved.digest))
    save_progress(0, doing="Fetching", total_bytes=resolved.size, reference=name)
    row.reference = name

    def fetch(meter: Meter) -> str:
        return registry.fetch(
            resolved,
            path,
            access,
            progress=lambda count, _: meter.set(count),
            architecture=row.architecture,
        )

    run_with_progress(fetch, save_progress)
    return signed


def _read(
    path: Path, oci_path: Path, architecture: str, meter: Meter
) -> tuple[Path, ImageDescription, str]:
    """Return the file to keep, the facts about it, and its sha256.

    A docker or OCI archive becomes an OCI archive of one image: a docker archive has no digest.
    """
    archive = path
    if identify(path) in ("docker", "oci"):
        convert_to_oci(path, oci_path, architecture=architecture)
        archive = oci_path
    file_facts = describe_image(archive, architecture=architecture, count=meter.add)
    if file_facts.kind != "oci":
        return archive, file_facts, file_facts.digest[7:]
    with archive.open("rb") as file:
        return archive, file_facts, hashlib.file_digest(file, "sha256").hexdigest()


OTHER_FILES = (
    "The files in it are not those that {image} is said to have: their hash is {tree}, and that in "
    "the catalogue, which came with a bundle or was written by hand, is {claimed}."
)
HIDDEN = (
    "The same image is in the catalogue already, but not shared with you. A site administrator can "
    "share it, or ask its owner to."
)


def _is_hidden(digest: str, user: User) -> bool:
    rows = Image.objects.filter(digest=digest)
    return rows.exists() and not rows.visible_to(user).exists()


def _add_to_catalogue(
    row: ImageImport, archive: Path, file_facts: ImageDescription, sha256: str, signed: Finding
) -> Image:
    """Put the file into the store and return its row in the catalogue, new or already there.

    Raises Refused where the same image belongs to somebody who does not share it.
    """
    if _is_hidden(file_facts.digest, row.owner):
        raise Refused(HIDDEN)
    claimed = Image.objects.filter(digest=file_facts.digest, facts={}).exclude(tree="").first()
    tree = file_facts.survey.get("tree")
    if claimed and tree and claimed.tree != tree:
        raise Refused(OTHER_FILES.format(image=claimed, claimed=claimed.tree, tree=tree))
    store.adopt(archive, sha256)
    signature_columns = signed.make_columns(timezone.now())
    with transaction.atomic():
        image, is_new = Image.objects.get_or_create(
            digest=file_facts.digest,
            defaults={
                "reference": row.title or row.reference,
                "kind": file_facts.kind,
                "content_sha256": sha256,
                "size_bytes": file_facts.size,
                "architecture": str(make_storable(file_facts.architecture))[:100],
                **signature_columns,
                "labels": make_storable(file_facts.labels),
                "owner": row.owner,
                **make_columns(file_facts.survey),
            },
        )
        if is_new:
            audit.note(row.owner, "added", image, why=f"{row.get_kind_display()}: {row.reference}")
        elif not store.has(image.content_sha256):
            new_columns = {} if image.facts else make_columns(file_facts.survey)
            Image.objects.filter(pk=image.pk).update(content_sha256=sha256, **new_columns)
        if not is_new and row.kind == ImageImport.Kind.REGISTRY and signed.outranks(image):
            Image.objects.filter(pk=image.pk).update(**signature_columns)
    return image
