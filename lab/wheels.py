"""Wheels that no index has, made on the cluster's own system, into the cache.

The compilers go into a scratch layer over its root file system, so that the cluster has none.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lab import host, rootfs
from lab.instance import SOFTWARE
from lab.prune import mark_used
from lab.recipes import FOLDER, Recipe


def ensure_wheel(recipe: Recipe) -> Path:
    """Return the wheel of a recipe; make it if the cache has none."""
    name = host.short_hash([recipe.lock, *recipe.wheel], rootfs.read_versions())
    folder = host.cache_folder() / "software" / f"{recipe.name}-wheel-{name}"
    mark_used(folder)
    with host.hold_lock(host.cache_folder() / f"{recipe.name}-wheel.lock"):
        if not folder.is_dir():
            with host.show_duration(f"making a wheel of {recipe.main} (some minutes)"):
                build_wheel(recipe, folder)
    (wheel_file,) = folder.glob("*.whl")
    return wheel_file


def build_wheel(recipe: Recipe, folder: Path) -> None:
    log, partial = folder.with_suffix(".log"), folder.with_suffix(".partial")
    scratch = partial / "scratch"
    shutil.rmtree(partial, ignore_errors=True)
    scratch.mkdir(parents=True)
    log.write_text("")
    argv = [*rootfs.ENTER, "--overlay", str(scratch), str(rootfs.ensure_cluster_root())]
    for source, target in (
        (FOLDER, "/opt/tare-image"),
        (partial, "/wheel"),
        (host.cache_folder() / "software", SOFTWARE),
    ):
        argv += ["--bind", str(source), target]
    variables = ["/usr/bin/env", "UV_SYSTEM_CERTS=true", f"UV_CACHE_DIR={SOFTWARE}/.uv"]
    host.run([*argv, "--", *variables, f"/opt/tare-image/{recipe.wheel[0].name}"], log)
    shutil.rmtree(scratch)
    partial.rename(folder)
