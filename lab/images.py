"""Build an image, and the same software on bare metal, from one lock file.

The cache names an image by the contents of this file too: a change here builds new images.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from lab import host, recipes, rootfs, wheels
from lab.instance import SOFTWARE, Instance
from lab.progress import Progress
from lab.recipes import RECIPES
from runners.payload import pack

MODES = ("P1", "R1")  # udocker changes a container's files for R1, so each mode has its own


def cache_folder(name: str) -> Path:
    """Return the image's folder in the cache; each lock file, recipe and cluster has its own."""
    parts = [*RECIPES[name].files, Path(pack.__file__), host.HERE / "images.py"]
    return (
        host.cache_folder()
        / "software"
        / f"{name}-{host.short_hash(parts, rootfs.read_versions())}"
    )


def name_container(name: str, mode: str) -> str:
    """Return the name of the container that udocker has for an image in a mode."""
    return f"tare-{name}-{mode.lower()}"


class Build:
    """The build of one image, beside its final place and moved there when it is whole."""

    def __init__(self, lab: Instance, name: str, progress: Progress) -> None:
        self.lab, self.name, self.progress = lab, name, progress
        self.recipe = RECIPES[name]
        self.folder = cache_folder(name)
        self.partial = self.folder.with_name(f".{self.folder.name}")
        self.folder_inside = f"{SOFTWARE}/{self.partial.name}"
        self.lock = self.recipe.lock
        self.facts: dict[str, Any] = {}

    def run(self) -> None:
        """Do all steps, two at a time where one waits for the disk."""
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir(parents=True)
        step = self.progress.step
        with ThreadPoolExecutor() as pool:
            base = pool.submit(step, f"{self.name}: Debian for the image", self.install_base)
            step(f"{self.name}: packages of the lock file, on bare metal", self.install_environment)
            base.result()
            step(f"{self.name}: image archive", self.write_archive)
            udocker = None
            if "udocker" in self.recipe.formats:
                udocker = pool.submit(
                    step, f"{self.name}: container of udocker", self.make_udocker_container
                )
            step(f"{self.name}: sandbox of Apptainer", self.make_sandbox)
            if "sif" in self.recipe.formats:
                step(f"{self.name}: SIF file of Apptainer", self.make_sif)
            if udocker:
                udocker.result()
        step(f"{self.name}: checksums", self.write_manifest)
        self.partial.rename(self.folder)

    def run_inside(self, argv: list[str]) -> None:
        """Run a command inside the lab's cluster, its output in the build's log."""
        host.run(
            self.lab.wrap_command(
                ["env", *list_passed_variables(), f"TMPDIR={self.folder_inside}/tmp", *argv]
            ),
            self.progress.log,
        )

    def install_base(self) -> None:
        """Install Debian's minbase and the cluster's Python, once for images with the same list."""
        packages = rootfs.read_package_list(recipes.FOLDER / self.recipe.debian)
        base = (
            host.cache_folder() / f"base-{host.short_hash([], rootfs.read_versions(), *packages)}"
        )
        with host.hold_lock(host.cache_folder() / "base.lock"):
            if not base.is_dir():
                partial = base.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                rootfs.install_debian(partial, packages, base.with_suffix(".log"))
                for junk in ("var/lib/apt/lists", "var/cache", "var/log"):
                    shutil.rmtree(partial / junk, ignore_errors=True)
                for name in ("etc/resolv.conf", "etc/hostname", "etc/machine-id"):
                    (partial / name).unlink(missing_ok=True)
                partial.rename(base)
        self.base_folder = base

    def install_environment(self) -> None:
        """Install a virtual environment that works in any folder: the image gets the same files."""
        (self.partial / "tmp").mkdir()
        shutil.copy(self.lock, self.partial / "requirements.lock")
        uv, python = "/opt/tools/bin/uv", f"{self.folder_inside}/env/bin/python"
        self.run_inside(
            [
                uv,
                "venv",
                "-q",
                "--relocatable",
                "--python",
                "/usr/bin/python3",
                f"{self.folder_inside}/env",
            ]
        )
        self.run_inside(
            [
                uv,
                "pip",
                "sync",
                "-q",
                "--require-hashes",
                "--compile-bytecode",
                "--python",
                python,
                f"{self.folder_inside}/requirements.lock",
            ]
        )
        if self.recipe.wheel:
            wheel = wheels.ensure_wheel(self.recipe)
            built = f"{SOFTWARE}/{wheel.relative_to(host.cache_folder() / 'software')}"
            options = ["-q", "--no-deps", "--compile-bytecode", "--python", python]
            self.run_inside([uv, "pip", "install", *options, built])
        listed = self.lab.run_inside([uv, "pip", "list", "--format=json", "--python", python])
        self.packages = {row["name"]: row["version"] for row in json.loads(listed)}

    def write_archive(self) -> None:
        """Write the image as an archive, and note the facts of lab.json about it."""
        main = self.recipe.main
        version = ".".join(self.packages[main].split(".")[:2])
        self.reference = f"tare/{self.name}:{version}{'-cpu' if main.endswith('-cpu') else ''}"
        lock_hash = hashlib.sha256(self.lock.read_bytes()).hexdigest()
        python = self.lab.read_facts()["python"]["version"]
        system = re.search('PRETTY_NAME="(.*)"', (self.base_folder / "etc/os-release").read_text())
        labels = {"org.opencontainers.image.title": self.reference, "tare.lock.sha256": lock_hash}
        sources = [
            pack.Source(str(self.base_folder), sources_keep_times=True),
            pack.Source(str(self.partial / "env"), "opt/tare"),
        ]
        config = {
            "Env": ["PATH=/opt/tare/bin:/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"],
            "Cmd": ["/bin/bash"],
        }
        with (self.partial / "image.tar").open("wb") as file:
            self.digest = pack.write(file, sources, config, labels, self.reference)
        final = f"{SOFTWARE}/{self.folder.name}"
        self.facts = {
            "bare_metal": {
                "python": f"{final}/env/bin/python",
                "python_version": python,
                "lock_sha256": lock_hash,
                "packages": self.packages,
            },
            "image": {
                "reference": self.reference,
                "digest": self.digest,
                "recipe": f"lab/image, {self.lock.name}",
                "os": system.group(1) if system else "",
                "python": "/opt/tare/bin/python",
                "python_version": python,
                "packages": self.packages,
                "bytes": (self.partial / "image.tar").stat().st_size,
                "archive": f"{final}/image.tar",
            },
        }

    def make_sandbox(self) -> None:
        """Unpack the archive into a sandbox of Apptainer, with the folders that sites bind."""
        self.run_inside(
            [
                "apptainer",
                "-q",
                "build",
                "--sandbox",
                f"{self.folder_inside}/sandbox",
                f"oci-archive:{self.folder_inside}/image.tar",
            ]
        )
        for point in ("scratch", "home"):  # what sites bind must have a place to be bound to
            (self.partial / "sandbox" / point).mkdir(exist_ok=True)

    def make_sif(self) -> None:
        """Pack the sandbox into a SIF file."""
        self.run_inside(
            [
                "apptainer",
                "-q",
                "build",
                "--mksquashfs-args",
                "-comp zstd -Xcompression-level 3",
                f"{self.folder_inside}/image.sif",
                f"{self.folder_inside}/sandbox",
            ]
        )

    def make_udocker_container(self) -> None:
        """Load the archive into udocker, and keep one container without its image."""
        udocker = [
            "env",
            f"UDOCKER_DIR={self.folder_inside}/udocker",
            "udocker",
            "--allow-root",
            "-q",
        ]
        shutil.copytree(
            rootfs.ensure_cluster_root() / "etc/skel/.udocker", self.partial / "udocker"
        )
        repository = self.reference.partition(":")[0]
        self.run_inside([*udocker, "load", "-i", f"{self.folder_inside}/image.tar", repository])
        self.run_inside([*udocker, "create", "--name=image", self.reference])
        self.run_inside([*udocker, "rmi", self.reference])

    def write_manifest(self) -> None:
        """Write the forms with their check sums into manifest.json."""
        shutil.rmtree(self.partial / "tmp")
        final = f"{SOFTWARE}/{self.folder.name}"
        tree_bytes = sum(path.lstat().st_size for path in (self.partial / "sandbox").rglob("*"))
        digest = self.digest.removeprefix("sha256:")
        sandbox = {
            "format": "sandbox",
            "path": f"{final}/sandbox",
            "sha256": digest,
            "bytes": tree_bytes,
        }
        self.facts["staged"] = [sandbox]
        if "sif" in self.recipe.formats:
            with (self.partial / "image.sif").open("rb") as sif:
                sif_hash = hashlib.file_digest(sif, "sha256").hexdigest()
            self.facts["staged"].insert(
                0,
                {
                    "format": "sif",
                    "path": f"{final}/image.sif",
                    "sha256": sif_hash,
                    "bytes": (self.partial / "image.sif").stat().st_size,
                },
            )
        if "udocker" in self.recipe.formats:
            self.facts["staged"] += [
                {
                    "format": "udocker",
                    "path": name_container(self.name, mode),
                    "mode": mode,
                    "sha256": digest,
                    "bytes": tree_bytes,
                }
                for mode in MODES
            ]
        host.write_atomically(self.partial / "manifest.json", json.dumps(self.facts, indent=2))


def list_passed_variables() -> list[str]:
    """Return the variables that the installer inside needs: this machine's proxies and index, and
    settings of our own."""
    chosen = re.compile("(https?|no|all)_proxy|UV_(DEFAULT_)?INDEX.*|SSL_CERT_FILE", re.IGNORECASE)
    variables = [f"{name}={value}" for name, value in os.environ.items() if chosen.fullmatch(name)]
    # The lab has this machine's certificate authorities; bytecode that does not look at the time of
    # its source is valid in the image too.
    return [
        *variables,
        "UV_SYSTEM_CERTS=true",
        f"UV_CACHE_DIR={SOFTWARE}/.uv",
        "PYC_INVALIDATION_MODE=UNCHECKED_HASH",
    ]
