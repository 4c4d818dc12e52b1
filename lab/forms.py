"""Forms of an image beside those that its recipe makes: Charliecloud, Podman, udocker's S1.

Only small images have them: Podman keeps its own copy for every user and node.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from lab import host, images
from lab.instance import SOFTWARE, USER, Instance
from lab.recipes import RECIPES


def list_extra_modes(name: str) -> tuple[str, ...]:
    """Return the further modes of udocker for which a small image has a container."""
    return ("S1",) if RECIPES[name].is_small else ()


def make_extra_forms(lab: Instance, name: str, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Make the forms that are missing; return the rows of all of them for lab.json."""
    if not RECIPES[name].is_small:
        return []
    forms = [make_squashfs(lab, name), load_into_podman(lab, facts["image"])]
    udocker = next(form for form in facts["staged"] if form["format"] == "udocker")
    for mode in list_extra_modes(name):
        forms.append(udocker | {"mode": mode, "path": images.name_container(name, mode)})
    return forms


def make_squashfs(lab: Instance, name: str) -> dict[str, Any]:
    """Make the sandbox one file, which ch-run mounts itself; in the cache, for every lab."""
    folder = images.cache_folder(name)
    file, partial = folder / "image.sqfs", folder / ".image.sqfs"
    inside = f"{SOFTWARE}/{folder.name}"
    with host.hold_lock(host.cache_folder() / f"{name}-squashfs.lock"):
        if not file.exists():
            host.say("making the squashfs file of Charliecloud ...")
            partial.unlink(missing_ok=True)
            options = ["-quiet", "-no-progress", "-comp", "zstd", "-Xcompression-level", "3"]
            lab.run_inside(
                ["mksquashfs", f"{inside}/sandbox", f"{inside}/{partial.name}", *options]
            )
            os.replace(partial, file)
    with file.open("rb") as content:
        sha256 = hashlib.file_digest(content, "sha256").hexdigest()
    path = f"{inside}/{file.name}"
    return {"format": "squashfs", "path": path, "sha256": sha256, "bytes": file.stat().st_size}


def load_into_podman(lab: Instance, image: dict[str, Any]) -> dict[str, Any]:
    """Load the image into the researcher's storage, and run it once under the researcher's id."""
    repository = image["reference"].partition(":")[0]
    reference = f"localhost/{repository}@{image['digest']}"
    try:
        lab.run_inside(["podman", "image", "exists", reference], user=USER)
    except host.LabError:
        host.say("giving the researcher Podman's image ...")
        lab.run_inside(["podman", "load", "--quiet", f"--input={image['archive']}"], user=USER)
        command = ["podman", "run", "--rm", "--network=none", "--userns=keep-id", reference, "true"]
        lab.run_inside(command, user=USER)
    sha256 = image["digest"].removeprefix("sha256:")
    return {"format": "podman", "path": reference, "sha256": sha256, "bytes": image["bytes"]}
