"""Build the images that the cache lacks, and stage them on a running cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

from lab import forms, host, images
from lab.instance import USER, Instance
from lab.progress import Progress
from lab.prune import mark_used
from lab.recipes import RECIPES

OWNER = "20001:20001"  # the researcher's numbers; see cluster/prepare.sh


def build_images(lab: Instance, names: list[str]) -> None:
    """Build the images that the cache lacks, and stage all on the running lab. Raises LabError."""
    progress = Progress(lab, names)
    try:
        for name in names:
            with host.hold_lock(host.cache_folder() / f"{name}.lock"):
                if not images.cache_folder(name).is_dir():
                    building = images.Build(lab, name, progress)
                    building.run()
                    mark_used(building.base_folder)
            with lab.hold_lock():
                staged = stage(lab, name)
                facts = lab.read_facts()
                facts["images"][name] = staged
                lab.write_facts(facts)
    except BaseException as error:
        progress.finish(str(error) or type(error).__name__)
        raise
    progress.finish()


def stage(lab: Instance, name: str) -> dict[str, Any]:
    """Give the researcher the forms of udocker and Podman; return the image's facts for lab.json.

    SIF file, sandbox and bare metal environment are read from the cache by every lab; udocker
    writes into its containers. So each lab has its own folders, but the files in them are root's,
    and shared. The caller holds the lab's lock.
    """
    folder = images.cache_folder(name)
    mark_used(folder)
    facts: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    containers = lab.directory / "home" / "researcher" / ".udocker" / "containers"
    modes = (*images.MODES, *forms.list_extra_modes(name))
    if "udocker" not in RECIPES[name].formats:
        modes = ()
    for mode in modes:
        identity = uuid.uuid5(uuid.NAMESPACE_OID, facts["image"]["digest"] + mode)
        link = containers / images.name_container(name, mode)
        if link.is_symlink() and os.readlink(link) == str(identity):
            continue
        if link.is_symlink():
            shutil.rmtree(link.resolve(), ignore_errors=True)
            link.unlink()
        host.say(f"giving the researcher udocker's container {link.name} ...")
        copy = containers / str(identity)
        shutil.rmtree(copy, ignore_errors=True)
        copy_tree((folder / "udocker" / "containers" / "image").resolve(), copy)
        os.symlink(str(identity), link)
        subprocess.run(["chown", "-h", OWNER, str(link)], check=True)
        lab.run_inside(["udocker", "setup", f"--execmode={mode}", link.name], user=USER)
    facts["staged"] += forms.make_extra_forms(lab, name, facts)
    return facts


def stage_again(lab: Instance) -> dict[str, Any]:
    """Stage the images of the lab's last run, as far as the cache still has them."""
    last = lab.read_facts().get("images", {})
    return {name: stage(lab, name) for name in last if images.cache_folder(name).is_dir()}


def copy_tree(source: Path, target: Path) -> None:
    """Make hard links, or copies on another disk, in folders that belong to the researcher."""
    linked = subprocess.run(
        ["cp", "-al", str(source), str(target)], capture_output=True, check=False
    )
    if linked.returncode:
        shutil.rmtree(target, ignore_errors=True)
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)
    for selection in (["-type", "d"], ["-maxdepth", "1", "-type", "f"]):
        subprocess.run(
            ["find", str(target), *selection, "-exec", "chown", OWNER, "{}", "+"], check=True
        )
