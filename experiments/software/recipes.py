"""Recipes: an image built of a base and a lock file, and the same lock file on bare metal.

`building` requests them; the operations are in `execution.build_operations`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from experiments.access import audit
from experiments.images.image_imports import end_image_import
from experiments.images.inventory import find_interpreter, make_columns
from experiments.models import Cluster, Environment, Image, Operation, Runtime, StagedImage
from experiments.models.images import ARCHIVE
from runners.recipes import LOCK_LINE, STARTERS


def find_starter(cluster: Cluster) -> Runtime | None:
    """Return the cluster's runtime that can start a folder as an ordinary user, if any."""
    runtimes = {runtime.kind: runtime for runtime in cluster.runtimes.order_by("-pk")}
    return next((runtimes[kind] for kind in STARTERS if kind in runtimes), None)


def write_recipe(base: Image, lock: str) -> str:
    """Return the text of a recipe as the image stores it; `lock_of` reads it again."""
    return (
        f"base: {base} {base.digest}\n"
        "then: a virtual environment at /opt/tare by pip install --require-hashes, wheels only\n"
        f"sha256 of the lock: {compute_sha256(lock)}\n{LOCK_LINE}\n{lock}"
    )


def lock_of(image: Image) -> str:
    """Return the lock file that an image was built from; "" if Tare does not know one."""
    return image.recipe.partition(f"\n{LOCK_LINE}\n")[2]


def compute_sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def keep_image(operation: Operation, build: Mapping[str, Any]) -> Image:
    """Store the result of a build: the image, if it is new, and its archive on the cluster."""
    row = operation.image_import
    if row is None or row.base is None:
        raise ValueError("a build without an image import")
    inventory = make_columns(build["survey"])
    image, is_new = Image.objects.get_or_create(
        digest=build["digest"],
        defaults={
            **inventory,
            "reference": row.title,
            "kind": Image.Kind.OCI,
            "recipe": write_recipe(row.base, row.lock),
            "labels": {"base": row.base.digest, "sha256 of the lock": compute_sha256(row.lock)},
            "size_bytes": build["bytes"],
            "owner": row.owner,
        },
    )
    StagedImage.objects.update_or_create(
        image=image,
        cluster=operation.cluster,
        path=build["path"],
        defaults={
            "format": ARCHIVE,
            "sha256": build["sha256"],
            "tree": inventory["tree"],
            "size_bytes": build["bytes"],
            "state": StagedImage.State.READY,
            "message": "",
            "made_here": True,
        },
    )
    end_image_import(row, image=image)
    if is_new:
        audit.note(row.owner, "built", image)
    return image


def name_twin_folder(image: Image, cluster: Cluster) -> str:
    """Return the folder of an image's bare-metal twin: one for each lock file and Python."""
    name = compute_sha256(f"{image.python_version}\n{lock_of(image)}")[:16]
    return f"{cluster.work_directory.rstrip('/')}/environments/{name}"


def find_twin(image: Image, cluster: Cluster) -> Environment | None:
    """Return the bare-metal environment that was made from the image's lock file, if any."""
    if not lock_of(image):
        return None
    python = f"{name_twin_folder(image, cluster)}/bin/python"
    return Environment.objects.originals().filter(cluster=cluster, python=python).first()


def keep_twin(image: Image, operation: Operation) -> Environment:
    """Store the bare-metal environment that a match operation has made, and return it."""
    twin = find_twin(image, operation.cluster)
    if twin:
        return twin
    names = set(
        Environment.objects.filter(cluster=operation.cluster).values_list("name", flat=True)
    )
    name = f"bare metal ({image})"[:90]
    if name in names:
        name = f"{name[:70]}, {image.short_digest}"
    python = f"{name_twin_folder(image, operation.cluster)}/bin/python"
    twin = Environment.objects.create(
        name=name, cluster=operation.cluster, python=python, owner=operation.owner
    )
    audit.note(operation.owner, "added", twin, why=f"from the lock of {image}")
    return twin


def find_python(base: Image) -> str:
    """Return the interpreter with which packages are installed into a base."""
    return find_interpreter(base.facts)
