"""Requests to build an image of a Dockerfile or a definition file, on a cluster."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction

from experiments.access import audit, permissions
from experiments.images import staging
from experiments.images.architectures import explain_mismatch
from experiments.images.staging import NotDone
from experiments.models import (
    Cluster,
    Image,
    ImageImport,
    Operation,
    Partition,
    Runtime,
    SentFile,
    StagedImage,
    User,
)
from experiments.notify import enqueue_send, enqueue_tick
from runners.images import definition_files, dockerfiles
from runners.images.dockerfiles import BuildFileError
from runners.transports.by_hand import NO_OPERATIONS
from runners.workloads.given import (
    LARGEST_FILE,
    LARGEST_TOGETHER,
    MOST_FILES,
    why_no_file_name,
)

Kind = ImageImport.Kind
READERS = {
    Kind.DOCKERFILE: dockerfiles.read_base,
    Kind.DEFINITION: definition_files.read_base,
}
BUILDERS = {Kind.DOCKERFILE: ("podman",), Kind.DEFINITION: ("apptainer", "singularity")}
"""The kinds of runtimes that build each kind of file, the preferred one first."""
NO_BUILDER = {
    Kind.DOCKERFILE: "{cluster} has no Podman, which builds Dockerfiles.",
    Kind.DEFINITION: "{cluster} has no Apptainer, which builds definition files.",
}
LONGEST_FILE = dockerfiles.MOST_CHARACTERS
MOST_MINUTES, DEFAULT_MINUTES = 110, 60
"""After how long a build is ended: its job has two hours."""


def find_builder(cluster: Cluster, kind: str) -> Runtime | None:
    """Return the cluster's runtime that builds this kind of file, if any."""
    runtimes = {runtime.kind: runtime for runtime in cluster.runtimes.order_by("-pk")}
    return next((runtimes[name] for name in BUILDERS[Kind(kind)] if name in runtimes), None)


def read_base_digest(kind: str, text: str) -> str:
    """Return the digest of the base that a file names. Raises NotDone."""
    try:
        return READERS[Kind(kind)](text)
    except BuildFileError as problem:
        raise NotDone(str(problem)) from None


def request_file_build(
    kind: str,
    text: str,
    files: Mapping[str, bytes],
    cluster: Cluster,
    by: User,
    *,
    title: str,
    partition: Partition | None = None,
    minutes: int = DEFAULT_MINUTES,
) -> ImageImport:
    """Request an image built on `cluster` of a file and what is sent along. Raises NotDone."""
    for problem in (
        permissions.why_not_add(by, Image),
        permissions.why_not_use(by, cluster),
        explain_bad_files(files),
    ):
        if problem:
            raise NotDone(problem)
    if not 1 <= minutes <= MOST_MINUTES:
        raise NotDone(f"A build takes from 1 to {MOST_MINUTES} minutes.")
    text = text.replace("\r\n", "\n").strip() + "\n"
    base = find_base(read_base_digest(kind, text), by)
    require_builder(base, cluster, kind, partition)
    with transaction.atomic():
        archive = staging.get_or_request_archive(base, cluster)
        sent = {name: SentFile.objects.keep(content).sha256 for name, content in files.items()}
        row = ImageImport.objects.create(
            kind=kind,
            reference=f"{Kind(kind).label} of {len(text.splitlines())} lines on {base}"[:500],
            title=title.strip() or f"{base}, built",
            cluster=cluster,
            base=base,
            build_file=text,
            sent_files=sent,
            limit_minutes=minutes,
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


def find_base(digest: str, by: User) -> Image:
    """Return the image of the catalogue with this digest. Raises NotDone."""
    base = Image.objects.visible_to(by).filter(digest=digest).first()
    if base is None:
        raise NotDone(
            f"The catalogue has no image with the digest {digest}. Add the base first, from its "
            "registry or its file: its page shows the digest."
        )
    if problem := permissions.why_not_use(by, base):
        raise NotDone(problem)
    return base


def require_builder(
    base: Image, cluster: Cluster, kind: str, partition: Partition | None
) -> Runtime:
    """Return what builds this kind of file on `cluster`, of this base. Raises NotDone."""
    if cluster.is_by_hand:
        raise NotDone(f"{cluster}: {NO_OPERATIONS}")
    builder = find_builder(cluster, kind)
    if builder is None:
        raise NotDone(NO_BUILDER[Kind(kind)].format(cluster=cluster))
    require_sif_opener(base, cluster)
    if problem := explain_mismatch(base, cluster, partition):
        raise NotDone(problem)
    return builder


def require_sif_opener(base: Image, cluster: Cluster) -> None:
    """Raise NotDone where a base is a SIF file that nothing on the cluster opens."""
    if base.kind == Image.Kind.SIF and find_builder(cluster, Kind.DEFINITION) is None:
        raise NotDone(
            f"{base} is a SIF file, which only Apptainer or Singularity opens; {cluster} has "
            "neither."
        )


def explain_bad_files(files: Mapping[str, bytes]) -> str:
    """Return why these files cannot be sent along; "" if they can."""
    if len(files) > MOST_FILES:
        return f"{len(files)} files; at most {MOST_FILES} are sent along."
    for name, content in files.items():
        if why := why_no_file_name(name):
            return why
        if len(content) > LARGEST_FILE:
            return f"{name} has {len(content):,} bytes; {LARGEST_FILE:,} are the most."
    if sum(map(len, files.values())) > LARGEST_TOGETHER:
        return f"Together the files have more than {LARGEST_TOGETHER:,} bytes."
    return ""
