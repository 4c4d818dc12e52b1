"""How an image and its twin on bare metal are made from one lock file.

The cache knows an image by this file too: a change here makes new images.
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


def folder(name: str) -> Path:
    """Where the cache keeps the image: another name for every other lock, recipe or cluster."""
    parts = [*RECIPES[name].files, Path(pack.__file__), host.HERE / "images.py"]
    return host.cache() / "software" / f"{name}-{host.digest(parts, rootfs.versions())}"


def container_name(name: str, mode: str) -> str:
    return f"tare-{name}-{mode.lower()}"


class Build:
    """One image, made beside its final place and moved there when it is whole."""

    def __init__(self, lab: Instance, name: str, progress: Progress) -> None:
        self.lab, self.name, self.progress = lab, name, progress
        self.recipe = RECIPES[name]
        self.folder = folder(name)
        self.partial = self.folder.with_name(f".{self.folder.name}")
        self.inside = f"{SOFTWARE}/{self.partial.name}"
        self.lock = self.recipe.lock
        self.facts: dict[str, Any] = {}

    def run(self) -> None:
        shutil.rmtree(self.partial, ignore_errors=True)
        self.partial.mkdir(parents=True)
        step = self.progress.step
        with ThreadPoolExecutor() as pool:
            base = pool.submit(step, f"{self.name}: Debian for the image", self.base)
            step(f"{self.name}: packages of the lock file, on bare metal", self.environment)
            base.result()
            step(f"{self.name}: image archive", self.archive)
            if self.recipe.is_on_demand:
                step(f"{self.name}: sandbox of Apptainer", self.sandbox)
            else:
                udocker = pool.submit(step, f"{self.name}: container of udocker", self.udocker)
                step(f"{self.name}: sandbox of Apptainer", self.sandbox)
                step(f"{self.name}: SIF file of Apptainer", self.sif)
                udocker.result()
        step(f"{self.name}: checksums", self.describe)
        self.partial.rename(self.folder)

    def inside_run(self, argv: list[str]) -> None:
        host.run(
            self.lab.command(["env", *passed_on(), f"TMPDIR={self.inside}/tmp", *argv]),
            self.progress.log,
        )

    def base(self) -> None:
        """minbase and Python, the same version as the cluster's; shared by images with one list."""
        wanted = rootfs.packages(recipes.FOLDER / self.recipe.debian)
        base = host.cache() / f"base-{host.digest([], rootfs.versions(), *wanted)}"
        with host.locked(host.cache() / "base.lock"):
            if not base.is_dir():
                partial = base.with_suffix(".partial")
                shutil.rmtree(partial, ignore_errors=True)
                rootfs.debootstrap(partial, wanted, base.with_suffix(".log"))
                for junk in ("var/lib/apt/lists", "var/cache", "var/log"):
                    shutil.rmtree(partial / junk, ignore_errors=True)
                for name in ("etc/resolv.conf", "etc/hostname", "etc/machine-id"):
                    (partial / name).unlink(missing_ok=True)
                partial.rename(base)
        self.base_folder = base

    def environment(self) -> None:
        """A virtual environment that works wherever it lies: the image gets the very same files."""
        (self.partial / "tmp").mkdir()
        shutil.copy(self.lock, self.partial / "requirements.lock")
        uv, python = "/opt/tools/bin/uv", f"{self.inside}/env/bin/python"
        self.inside_run(
            [
                uv,
                "venv",
                "-q",
                "--relocatable",
                "--python",
                "/usr/bin/python3",
                f"{self.inside}/env",
            ]
        )
        self.inside_run(
            [
                uv,
                "pip",
                "sync",
                "-q",
                "--require-hashes",
                "--compile-bytecode",
                "--python",
                python,
                f"{self.inside}/requirements.lock",
            ]
        )
        if self.recipe.wheel:
            wheel = wheels.wheel(self.recipe)
            built = f"{SOFTWARE}/{wheel.relative_to(host.cache() / 'software')}"
            options = ["-q", "--no-deps", "--compile-bytecode", "--python", python]
            self.inside_run([uv, "pip", "install", *options, built])
        listed = self.lab.output([uv, "pip", "list", "--format=json", "--python", python])
        self.packages = {row["name"]: row["version"] for row in json.loads(listed)}

    def archive(self) -> None:
        main = self.recipe.main
        version = ".".join(self.packages[main].split(".")[:2])
        self.reference = f"tare/{self.name}:{version}{'-cpu' if main.endswith('-cpu') else ''}"
        lock_hash = hashlib.sha256(self.lock.read_bytes()).hexdigest()
        python = self.lab.facts()["python"]["version"]
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

    def sandbox(self) -> None:
        self.inside_run(
            [
                "apptainer",
                "-q",
                "build",
                "--sandbox",
                f"{self.inside}/sandbox",
                f"oci-archive:{self.inside}/image.tar",
            ]
        )
        for point in ("scratch", "home"):  # what sites bind must have a place to be bound to
            (self.partial / "sandbox" / point).mkdir(exist_ok=True)

    def sif(self) -> None:
        self.inside_run(
            [
                "apptainer",
                "-q",
                "build",
                "--mksquashfs-args",
                "-comp zstd -Xcompression-level 3",
                f"{self.inside}/image.sif",
                f"{self.inside}/sandbox",
            ]
        )

    def udocker(self) -> None:
        udocker = ["env", f"UDOCKER_DIR={self.inside}/udocker", "udocker", "--allow-root", "-q"]
        shutil.copytree(rootfs.cluster() / "etc/skel/.udocker", self.partial / "udocker")
        repository = self.reference.partition(":")[0]
        self.inside_run([*udocker, "load", "-i", f"{self.inside}/image.tar", repository])
        self.inside_run([*udocker, "create", "--name=image", self.reference])
        self.inside_run([*udocker, "rmi", self.reference])

    def describe(self) -> None:
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
        if not self.recipe.is_on_demand:
            with (self.partial / "image.sif").open("rb") as sif:
                sif_hash = hashlib.file_digest(sif, "sha256").hexdigest()
            self.facts["staged"] = [
                {
                    "format": "sif",
                    "path": f"{final}/image.sif",
                    "sha256": sif_hash,
                    "bytes": (self.partial / "image.sif").stat().st_size,
                },
                sandbox,
                *(
                    {
                        "format": "udocker",
                        "path": container_name(self.name, mode),
                        "mode": mode,
                        "sha256": digest,
                        "bytes": tree_bytes,
                    }
                    for mode in MODES
                ),
            ]
        host.write_atomically(self.partial / "manifest.json", json.dumps(self.facts, indent=2))


def passed_on() -> list[str]:
    """Variables that the installer inside needs: this machine's proxies and index, and ours."""
    chosen = re.compile("(https?|no|all)_proxy|UV_(DEFAULT_)?INDEX.*|SSL_CERT_FILE", re.IGNORECASE)
    found = [f"{name}={value}" for name, value in os.environ.items() if chosen.fullmatch(name)]
    # The lab has this machine's certificate authorities; bytecode that does not look at the time of
    # its source is valid in the image too.
    return [
        *found,
        "UV_SYSTEM_CERTS=true",
        f"UV_CACHE_DIR={SOFTWARE}/.uv",
        "PYC_INVALIDATION_MODE=UNCHECKED_HASH",
    ]
