"""Forms of an image beside those that its recipe makes: Charliecloud, Podman, udocker's S1.

Only small images have them: Podman keeps a copy of its own for every user and node.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from lab import host, images
from lab.instance import SOFTWARE, USER, Instance
from lab.recipes import RECIPES


def more_modes(name: str) -> tuple[str, ...]:
    """udocker's modes that get a container of their own besides those of every image."""
    return ("S1",) if RECIPES[name].is_small else ()


def more_forms(lab: Instance, name: str, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Makes what is missing, and returns what lab.json says of it."""
    if not RECIPES[name].is_small:
        return []
    made = [squashfs(lab, name), podman(lab, facts["image"])]
    udocker = next(form for form in facts["staged"] if form["format"] == "udocker")
    for mode in more_modes(name):
        made.append(udocker | {"mode": mode, "path": images.container_name(name, mode)})
    return made


def squashfs(lab: Instance, name: str) -> dict[str, Any]:
    """The sandbox as one file, which ch-run mounts by itself. It is in the cache, for every lab."""
    folder = images.folder(name)
    file, partial = folder / "image.sqfs", folder / ".image.sqfs"
    inside = f"{SOFTWARE}/{folder.name}"
    with host.locked(host.cache() / f"{name}-squashfs.lock"):
        if not file.exists():
            host.say("making the squashfs file of Charliecloud ...")
            partial.unlink(missing_ok=True)
            options = ["-quiet", "-no-progress", "-comp", "zstd", "-Xcompression-level", "3"]
            lab.output(["mksquashfs", f"{inside}/sandbox", f"{inside}/{partial.name}", *options])
            os.replace(partial, file)
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    path = f"{inside}/{file.name}"
    return {"format": "squashfs", "path": path, "sha256": sha256, "bytes": file.stat().st_size}


def podman(lab: Instance, image: dict[str, Any]) -> dict[str, Any]:
    """The image in the researcher's storage, by digest, and copied for the researcher's number."""
    repository = image["reference"].partition(":")[0]
    reference = f"localhost/{repository}@{image['digest']}"
    try:
        lab.output(["podman", "image", "exists", reference], user=USER)
    except host.LabError:
        host.say("giving the researcher Podman's image ...")
        lab.output(["podman", "load", "--quiet", f"--input={image['archive']}"], user=USER)
        once = ["podman", "run", "--rm", "--network=none", "--userns=keep-id", reference, "true"]
        lab.output(once, user=USER)
    sha256 = image["digest"].removeprefix("sha256:")
    return {"format": "podman", "path": reference, "sha256": sha256, "bytes": image["bytes"]}
