"""Environments of an image's own files, outside of a container: its loader, by path.

They are bare metal with the software of the image, for what no package manager gives there. What
they are not stands in docs/images.md.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db import transaction

from experiments.access import audit, permissions
from experiments.images import staging, store
from experiments.images.architectures import explain_mismatch
from experiments.images.inventory import find_interpreter, find_older_interpreter
from experiments.images.staging import NotDone
from experiments.models import Cluster, Environment, Image, Operation, StagedImage, User
from experiments.models.compiled_rows import KEY
from experiments.models.prepared_statements import PreparedStatement
from experiments.notify import enqueue_send, enqueue_tick
from experiments.software.build_files import require_sif_opener
from experiments.software.building import Twin, find_last_operations
from runners.interpreters import NO_PYTHON
from runners.own_trees import name_programs_path
from runners.transports.by_hand import NO_OPERATIONS

LONGEST_NAME = 90
HAS_TREES = """
SELECT EXISTS (
    SELECT FROM experiments_environment WHERE tree_of_id = %s AND copy_of_id IS NULL
) OR EXISTS (
    SELECT FROM experiments_stagedimage
    WHERE image_id = %s AND format = 'archive' AND state = 'ready'
)
"""
ANY_TREES = PreparedStatement(HAS_TREES, (KEY, KEY), (KEY,))


def name_tree_folder(image: Image, cluster: Cluster) -> str:
    """Return the folder of an image's own tree on a cluster."""
    digest = image.digest.removeprefix("sha256:")
    return f"{cluster.work_directory.rstrip('/')}/environments/tree-{digest[:16]}"


def name_interpreter(image: Image, cluster: Cluster) -> str:
    """Return the interpreter of an image's own tree: NO_PYTHON where the image has none."""
    folder = name_tree_folder(image, cluster)
    if find_interpreter(image.facts) != NO_PYTHON:
        return f"{folder}/bin/python"
    older = find_older_interpreter(image.facts)
    return older if older == NO_PYTHON else f"{folder}/bin/{older.rpartition('/')[2]}"


def find_tree(image: Image, cluster: Cluster) -> Environment | None:
    """Return the environment of an image's own tree on a cluster, if there is one."""
    return image.trees.filter(cluster=cluster, copy_of=None).first()


def request_tree(image: Image, cluster: Cluster, by: User) -> Operation:
    """Request the environment of an image's own files on `cluster`. Raises NotDone."""
    problem = (
        permissions.why_not_add(by, Environment)
        or permissions.why_not_use(by, cluster)
        or permissions.why_not_use(by, image)
        or explain_mismatch(image, cluster)
    )
    if problem:
        raise NotDone(problem)
    if cluster.is_by_hand:
        raise NotDone(f"{cluster}: {NO_OPERATIONS}")
    if tree := find_tree(image, cluster):
        raise NotDone(f"{tree} is there already.")
    require_sif_opener(image, cluster)
    with transaction.atomic():
        audit.get_stored(Image.objects.select_for_update(), pk=image.pk)
        archive = staging.get_or_request_archive(image, cluster)
        alive = image.operations.filter(kind=Operation.Kind.TREE, cluster=cluster)
        operation = alive.exclude(state__in=Operation.FINAL).first()
        if operation is None:
            operation = Operation.objects.create(
                kind=Operation.Kind.TREE, cluster=cluster, image=image, owner=by
            )
    if archive.state == StagedImage.State.STAGING:
        enqueue_send(archive)
    enqueue_tick(cluster.pk)
    return operation


def keep_tree(image: Image, operation: Operation) -> Environment:
    """Store the environment that an operation has made of an image's files, and return it."""
    if tree := find_tree(image, operation.cluster):
        return tree
    name = f"{str(image)[: LONGEST_NAME - 40]}: own tree, outside a container"
    if Environment.objects.filter(cluster=operation.cluster, name=name).exists():
        short = f"{str(image)[: LONGEST_NAME - 55]} {image.short_digest}"
        name = f"{short}: own tree, outside a container"
    folder = name_tree_folder(image, operation.cluster)
    has_python = find_interpreter(image.facts) != NO_PYTHON
    tree = Environment.objects.create(
        name=name,
        cluster=operation.cluster,
        python=name_interpreter(image, operation.cluster),
        variables={} if has_python else {"PATH": name_programs_path(folder)},
        owner=operation.owner,
        tree_of=image,
    )
    audit.note(operation.owner, "added", tree, why=f"from the files of {image}")
    return tree


def has_trees(image: Image) -> bool:
    """Return whether an image has a tree of its own somewhere, or can have one. One statement."""
    if store.has(image.content_sha256):
        return True
    ((has_any,),) = ANY_TREES.fetch(image.pk)
    return bool(has_any)


def list_trees(image: Image, clusters: Iterable[Cluster]) -> list[Twin]:
    """Return the image's own tree on each of these clusters, made or not.

    None of them where it cannot be made anywhere: no copy is at hand.
    """
    if not has_trees(image):
        return []
    trees = {row.cluster_id: row for row in image.trees.filter(copy_of=None)}
    last = find_last_operations(image, Operation.Kind.TREE)
    return [Twin(cluster, trees.get(cluster.pk), last.get(cluster.pk)) for cluster in clusters]
