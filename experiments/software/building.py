"""Requests to build on a cluster: an image by a recipe, or the bare-metal twin of an image."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db import transaction

from experiments.access import audit, permissions
from experiments.images import staging
from experiments.images.architectures import explain_mismatch
from experiments.images.staging import NotDone
from experiments.models import (
    Cluster,
    Environment,
    Image,
    ImageImport,
    Operation,
    Partition,
    StagedImage,
    User,
)
from experiments.notify import enqueue_send, enqueue_tick
from experiments.software import build_files, conda_files
from experiments.software.lock_files import LockError, read_lock
from experiments.software.recipes import (
    any_lock_of,
    conda_lock_of,
    find_starter,
    find_twin,
    name_twin_python,
)
from runners.images import debian_packages

NOT_BOTH = (
    "Give a lock file or an environment file of conda, not both: packages of pip stand in the list "
    "pip: of the environment file."
)
LONGEST_PACKAGE_LIST = debian_packages.MOST_CHARACTERS

WITHOUT_STARTER = (
    "{cluster} has nothing that starts a folder as an ordinary user: to build there it needs "
    "Apptainer, Singularity or Charliecloud."
)


def request_build(
    base: Image,
    lock: str,
    cluster: Cluster,
    by: User,
    *,
    title: str,
    packages: str = "",
    conda_file: str = "",
    partition: Partition | None = None,
) -> ImageImport:
    """Request an image built on `cluster` of `base` and the packages of `lock`. Raises NotDone.

    `packages` are Debian packages that are installed before all others, `conda_file` an environment
    file of conda in place of a lock. One of the three has to be there.
    """
    for problem in (
        permissions.why_not_add(by, Image),
        permissions.why_not_use(by, cluster),
        permissions.why_not_use(by, base),
    ):
        if problem:
            raise NotDone(problem)
    debian = clean_packages(packages)
    conda_file = clean_conda_file(conda_file)
    if conda_file and lock.strip():
        raise NotDone(NOT_BOTH)
    try:
        lock = clean_lock(lock, is_needed=not (debian or conda_file))
    except LockError as problem:
        raise NotDone(str(problem)) from None
    if debian:
        build_files.require_builder(base, cluster, ImageImport.Kind.DOCKERFILE, partition)
    if lock:
        _require_python(base, has_packages=bool(debian))
    if lock or conda_file:
        _require_room(base, cluster)
    build_files.require_sif_opener(base, cluster)
    if mismatch := explain_mismatch(base, cluster, partition):
        raise NotDone(mismatch)
    with transaction.atomic():
        archive = staging.get_or_request_archive(base, cluster)
        row = ImageImport.objects.create(
            kind=ImageImport.Kind.RECIPE,
            reference=_describe_recipe(base, lock, debian, conda_file),
            title=title.strip() or f"{base}, with more",
            cluster=cluster,
            base=base,
            lock=lock,
            packages="\n".join(debian),
            conda_file=conda_file,
            owner=by,
            state=ImageImport.State.UNDER_WAY,
        )
        Operation.objects.create(
            kind=Operation.Kind.BUILD,
            cluster=cluster,
            image_import=row,
            partition=partition,
            owner=by,
        )
        audit.note(by, "asked to build", row)
    if archive.state == StagedImage.State.STAGING:
        enqueue_send(archive)
    enqueue_tick(cluster.pk)
    return row


def clean_packages(text: str) -> list[str]:
    """Return the Debian packages of a list. Raises NotDone."""
    try:
        return debian_packages.read_packages(text)
    except debian_packages.PackageListError as problem:
        raise NotDone(str(problem)) from None


def clean_lock(lock: str, *, is_needed: bool = True) -> str:
    """Return a lock file as it is stored. Raises LockError; "" is none, where none is needed."""
    lock = lock.replace("\r\n", "\n").strip()
    if not lock and not is_needed:
        return ""
    read_lock(lock)
    return f"{lock}\n"


def clean_conda_file(text: str) -> str:
    """Return an environment file of conda as it is stored, "" where there is none. NotDone."""
    text = text.replace("\r\n", "\n").strip()
    if not text:
        return ""
    try:
        conda_files.read_environment(text)
    except conda_files.CondaFileError as problem:
        raise NotDone(str(problem)) from None
    return f"{conda_files.leave_out_prefix(text).strip()}\n"


def _require_python(base: Image, *, has_packages: bool) -> None:
    """Raise NotDone where the base has no Python, for the virtual environment of a lock."""
    if base.facts and not base.facts.get("pythons") and not has_packages:
        raise NotDone(f"There is no Python in {base}: choose a base with Python.")


def _require_room(base: Image, cluster: Cluster) -> None:
    """Raise NotDone where no packages of a lock or of conda can be laid over a base."""
    if any_lock_of(base):
        raise NotDone(f"{base} was itself built by a recipe: take its base, and one lock for all.")
    if find_starter(cluster) is None:
        raise NotDone(WITHOUT_STARTER.format(cluster=cluster))


def _describe_recipe(base: Image, lock: str, packages: list[str], conda_file: str) -> str:
    """Return what a recipe was asked for, in a line."""
    parts = [f"{len(packages)} Debian packages"] if packages else []
    parts += [f"a lock of {len(lock.splitlines())} lines"] if lock else []
    if conda_file:
        parts.append(f"an environment file of conda of {len(conda_file.splitlines())} lines")
    return f"{str(base)[:400]} and {' and '.join(parts)}"


def request_match(image: Image, cluster: Cluster, by: User) -> Operation:
    """Request the bare-metal environment of an image's lock file on `cluster`. Raises NotDone."""
    if problem := (
        permissions.why_not_add(by, Environment)
        or permissions.why_not_use(by, cluster)
        or permissions.why_not_use(by, image)
    ):
        raise NotDone(problem)
    if not any_lock_of(image):
        raise NotDone(f"{image} was not built from a lock that Tare knows.")
    if conda_lock := conda_lock_of(image):
        _require_python_in_lock(image, conda_lock)
    if not image.python_version:
        raise NotDone(f"Nobody knows which Python {image} has.")
    if twin := find_twin(image, cluster):
        raise NotDone(f"{twin} is there already.")
    with transaction.atomic():
        audit.get_stored(Image.objects.select_for_update(), pk=image.pk)
        alive = image.operations.filter(kind=Operation.Kind.MATCH, cluster=cluster)
        operation = alive.exclude(state__in=Operation.FINAL).first()
        if operation is None:
            operation = Operation.objects.create(
                kind=Operation.Kind.MATCH,
                cluster=cluster,
                image=image,
                owner=by,
            )
    enqueue_tick(cluster.pk)
    return operation


def _require_python_in_lock(image: Image, conda_lock: str) -> None:
    """Raise NotDone where no bare-metal environment can be made from a lock of conda."""
    try:
        environment = conda_files.read_lock(conda_lock)
    except conda_files.CondaFileError as problem:
        raise NotDone(f"{problem} Build {image} again from its environment file.") from None
    if not conda_files.has_python(environment):
        raise NotDone(f"The environment file of {image} has brought no Python.")


@dataclass(frozen=True)
class Twin:
    """The bare-metal twin of an image on one cluster, or the operation that makes it."""

    cluster: Cluster
    twin: Environment | None
    operation: Operation | None
    """The last operation that was requested."""

    @property
    def may_ask(self) -> bool:
        return self.twin is None and (self.operation is None or self.operation.is_final)


def list_twins(image: Image, clusters: Iterable[Cluster]) -> list[Twin]:
    """Return the image's twin on each of these clusters; none if its lock is not known.

    Two statements, however many clusters there are, beside the one that reads them.
    """
    if not any_lock_of(image):
        return []
    pythons = {cluster: name_twin_python(image, cluster) for cluster in clusters}
    twins = {
        (row.cluster_id, row.python): row
        for row in Environment.objects.originals()
        .filter(cluster__in=pythons, python__in=pythons.values())
        .order_by("-name")  # of several the first one stays, as in `find_twin`
    }
    last = find_last_operations(image, Operation.Kind.MATCH)
    return [
        Twin(cluster, twins.get((cluster.pk, python)), last.get(cluster.pk))
        for cluster, python in pythons.items()
    ]


def find_last_operations(image: Image, kind: str) -> dict[int, Operation]:
    """Return the last operation of a kind with an image on each cluster, by the clusters' keys."""
    operations = image.operations.filter(kind=kind).order_by("cluster_id", "-pk")
    operations = operations.defer("script", "output_tail", "result")
    return {operation.cluster_id: operation for operation in operations.distinct("cluster_id")}
