"""Recipes: an image built of a base and a lock file, and the same lock file on bare metal.

`building` requests them; the operations are in `execution.build_operations`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from experiments.access import audit
from experiments.images.architectures import read_architecture
from experiments.images.image_imports import end_image_import
from experiments.images.inventory import find_interpreter, make_columns
from experiments.models import (
    Cluster,
    Environment,
    Image,
    ImageImport,
    Operation,
    Runtime,
    StagedImage,
)
from experiments.models.images import ARCHIVE
from runners.conda_builds import TOOL
from runners.images.debian_packages import find_versions, read_packages
from runners.interpreters import NO_PYTHON
from runners.recipes import LOCK_LINE, STARTERS
from runners.untrusted import clean_text

FILE_LINE = "file:"
"""The line before the Dockerfile or definition file in the full text of a recipe."""
CONDA_FILE_LINE, CONDA_LOCK_LINE = "environment file of conda:", "lock of conda:"
"""The lines before conda's file, and before what was installed by it."""


def find_starter(cluster: Cluster) -> Runtime | None:
    """Return the cluster's runtime that can start a folder as an ordinary user, if any."""
    runtimes = {runtime.kind: runtime for runtime in cluster.runtimes.order_by("-pk")}
    return next((runtimes[kind] for kind in STARTERS if kind in runtimes), None)


def write_recipe(
    base: Image,
    lock: str,
    packages: str = "",
    installed: str = "",
    conda_file: str = "",
    conda_lock: str = "",
) -> str:
    """Return the text of a recipe as the image stores it; `lock_of` reads it again.

    `packages` are the Debian packages as they were asked for, and `installed` as they were found in
    the image, with their versions; `conda_lock` are the packages that conda's file has brought.
    """
    text = f"base: {base} {base.digest}\n"
    if packages:
        text += "then: apt-get install --no-install-recommends, by Podman\n"
        text += f"Debian packages: {' '.join(packages.split())}\n"
        text += f"Debian packages as installed: {installed}\n"
    if conda_file:
        text += f"then: packages of conda at /opt/tare, by {TOOL}; wheels only by pip\n"
        text += f"sha256 of the file: {compute_sha256(conda_file)}\n"
        text += f"{CONDA_FILE_LINE}\n{conda_file}{CONDA_LOCK_LINE}\n{conda_lock}"
    if lock:
        text += (
            "then: a virtual environment at /opt/tare by pip install --require-hashes, wheels "
            f"only\nsha256 of the lock: {compute_sha256(lock)}\n{LOCK_LINE}\n{lock}"
        )
    return text


def write_file_recipe(row: ImageImport, base: Image) -> str:
    """Return how an image was built of a file, in full: the base, the files sent, and the file."""
    sent = "".join(f"sent along: {name} {sha}\n" for name, sha in sorted(row.sent_files.items()))
    return (
        f"base: {base} {base.digest}\nthen: {row.get_kind_display()}, built on {row.cluster} for "
        f"{row.owner}\n{sent}{FILE_LINE}\n{row.build_file}"
    )


def write_text(
    row: ImageImport, base: Image, inventory: Mapping[str, Any], conda_lock: str = ""
) -> str:
    """Return the recipe of what was built, with the versions that its inventory names."""
    if row.kind != ImageImport.Kind.RECIPE:
        return write_file_recipe(row, base)
    facts = inventory.get("facts") or {}
    system = (facts.get("packages") or {}).get("system") or {}
    versions = find_versions(read_packages(row.packages), system)
    return write_recipe(
        base, row.lock, row.packages, " ".join(versions), row.conda_file, conda_lock
    )


def make_labels(row: ImageImport, base: Image) -> dict[str, str]:
    """Return the labels that the catalogue shows of what was built."""
    labels = {"base": base.digest}
    if row.lock:
        labels["sha256 of the lock"] = compute_sha256(row.lock)
    if row.conda_file:
        labels["sha256 of the environment file"] = compute_sha256(row.conda_file)
    if row.build_file:
        labels["sha256 of the file"] = compute_sha256(row.build_file)
    return labels


def lock_of(image: Image) -> str:
    """Return the lock file that an image was built from; "" if Tare does not know one."""
    return _read_behind(image.recipe, LOCK_LINE)


def conda_lock_of(image: Image) -> str:
    """Return which packages of conda and pip an environment file has brought into an image."""
    both = _read_behind(image.recipe, CONDA_FILE_LINE)
    return both.rpartition(f"\n{CONDA_LOCK_LINE}\n")[2] if CONDA_LOCK_LINE in both else ""


def _read_behind(recipe: str, line: str) -> str:
    """Return what stands behind a line of Tare's; "" where it is a line of somebody's file."""
    head, _, rest = recipe.partition(f"\n{line}\n")
    is_in_file = any(f"\n{other}\n" in head for other in (FILE_LINE, CONDA_FILE_LINE))
    return "" if is_in_file else rest


def any_lock_of(image: Image) -> str:
    """Return the lock, of pip or of conda, from which an image's twin can be made; or ""."""
    return lock_of(image) or conda_lock_of(image)


def compute_sha256(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def keep_image(operation: Operation, build: Mapping[str, Any]) -> Image:
    """Store the result of a build: the image, if it is new, and its archive on the cluster."""
    row = operation.image_import
    if row is None or row.base is None:
        raise ValueError("a build without an image import")
    inventory = make_columns(build["survey"])
    is_sif = row.kind == ImageImport.Kind.DEFINITION
    image, is_new = Image.objects.get_or_create(
        digest=build["digest"],
        defaults={
            **inventory,
            "reference": row.title,
            "kind": Image.Kind.SIF if is_sif else Image.Kind.OCI,
            "architecture": read_architecture(row.base),
            "recipe": write_text(row, row.base, inventory, clean_text(build.get("lock", ""))),
            "labels": make_labels(row, row.base),
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
    """Return the folder of an image's bare-metal twin: one for each lock and Python."""
    name = compute_sha256(f"{image.python_version}\n{any_lock_of(image)}")[:16]
    return f"{cluster.work_directory.rstrip('/')}/environments/{name}"


def name_twin_python(image: Image, cluster: Cluster) -> str:
    """Return the interpreter of an image's bare-metal twin, by which it is found."""
    return f"{name_twin_folder(image, cluster)}/bin/python"


def find_twin(image: Image, cluster: Cluster) -> Environment | None:
    """Return the bare-metal environment that was made from the image's lock file, if any."""
    if not any_lock_of(image):
        return None
    python = name_twin_python(image, cluster)
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
    python = name_twin_python(image, operation.cluster)
    twin = Environment.objects.create(
        name=name, cluster=operation.cluster, python=python, owner=operation.owner
    )
    audit.note(operation.owner, "added", twin, why=f"from the lock of {image}")
    return twin


def find_python(base: Image, *, has_packages: bool = False) -> str:
    """Return the interpreter with which packages are installed into a base.

    Debian packages can bring one to a base that has none.
    """
    python = find_interpreter(base.facts)
    return "/usr/bin/python3" if has_packages and python == NO_PYTHON else python
