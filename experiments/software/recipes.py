"""What comes of recipes: an image of a base and a lock file, and the same lock on bare metal.

`building` asks for them; the chores that do it are in `execution.building`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from experiments.access import audit
from experiments.images.image_imports import end_arrival
from experiments.images.inventory import columns, interpreter
from experiments.models import Chore, Cluster, Environment, Image, Runtime, StagedImage
from experiments.models.images import ARCHIVE
from runners.recipes import LOCK_LINE, STARTERS


def starter_on(cluster: Cluster) -> Runtime | None:
    """Return what starts a folder there, as an ordinary user, while it is filled."""
    there = {runtime.kind: runtime for runtime in cluster.runtimes.order_by("-pk")}
    return next((there[kind] for kind in STARTERS if kind in there), None)


def text_of(base: Image, lock: str) -> str:
    """Return the recipe in full, as the image keeps it; `lock_of` reads it again."""
    return (
        f"base: {base} {base.digest}\n"
        "then: a virtual environment at /opt/tare by pip install --require-hashes, wheels only\n"
        f"sha256 of the lock: {sha256(lock)}\n{LOCK_LINE}\n{lock}"
    )


def lock_of(image: Image) -> str:
    """Return the lock that an image was built from; "" if Tare does not know one."""
    return image.recipe.partition(f"\n{LOCK_LINE}\n")[2]


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def keep(chore: Chore, found: Mapping[str, Any]) -> Image:
    """Write down what a build has made: the image, if it is a new one, and its archive there."""
    row = chore.arrival
    if row is None or row.base is None:
        raise ValueError("a build without an arrival")
    known = columns(found["survey"])
    image, made = Image.objects.get_or_create(
        digest=found["digest"],
        defaults={
            **known,
            "reference": row.title,
            "kind": Image.Kind.OCI,
            "recipe": text_of(row.base, row.lock),
            "labels": {"base": row.base.digest, "sha256 of the lock": sha256(row.lock)},
            "size_bytes": found["bytes"],
            "owner": row.owner,
        },
    )
    StagedImage.objects.update_or_create(
        image=image,
        cluster=chore.cluster,
        path=found["path"],
        defaults={
            "format": ARCHIVE,
            "sha256": found["sha256"],
            "tree": known["tree"],
            "size_bytes": found["bytes"],
            "state": StagedImage.State.READY,
            "message": "",
            "made_here": True,
        },
    )
    end_arrival(row, image=image)
    if made:
        audit.note(row.owner, "built", image)
    return image


def place_of(image: Image, cluster: Cluster) -> str:
    """Return where the twin of an image is: the same lock and Python, the same folder."""
    name = sha256(f"{image.python_version}\n{lock_of(image)}")[:16]
    return f"{cluster.work_directory.rstrip('/')}/environments/{name}"


def twin_on(image: Image, cluster: Cluster) -> Environment | None:
    """Return the bare-metal environment that was made from the image's lock, if there is one."""
    if not lock_of(image):
        return None
    python = f"{place_of(image, cluster)}/bin/python"
    return Environment.objects.filter(cluster=cluster, python=python).first()


def keep_twin(image: Image, chore: Chore) -> Environment:
    """Write down the bare-metal environment that a match has made."""
    twin = twin_on(image, chore.cluster)
    if twin:
        return twin
    names = set(Environment.objects.filter(cluster=chore.cluster).values_list("name", flat=True))
    name = f"bare metal ({image})"[:90]
    if name in names:
        name = f"{name[:70]}, {image.short_digest}"
    python = f"{place_of(image, chore.cluster)}/bin/python"
    made = Environment.objects.create(
        name=name, cluster=chore.cluster, python=python, owner=chore.owner
    )
    audit.note(chore.owner, "added", made, why=f"from the lock of {image}")
    return made


def python_of(base: Image) -> str:
    """Return the interpreter that a base is filled with."""
    return interpreter(base.facts)
