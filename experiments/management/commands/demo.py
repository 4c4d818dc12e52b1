"""`manage.py demo`: register the lab as it comes up, build its images, launch the demo."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from experiments import demo
from experiments.models import Cluster, Environment, Operation, User
from experiments.notify import enqueue_tick
from experiments.software import inspections
from runners.runtimes import RUNTIMES

IMAGE = "tensorflow"
LONGEST_INSPECTION_SECONDS = 120


class Command(BaseCommand):
    help = "Fill the catalogue with the cluster of this machine and launch the demo experiment."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--lab", type=Path, help="The folder of the lab, which may still be starting."
        )
        parser.add_argument(
            "--here", action="store_true", help="Measure this machine, without a cluster."
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Register the cluster and launch. Raises CommandError if something cannot be built."""
        owner = User.objects.get(username="demo")
        if options["here"]:
            self._measure_this_machine(owner)
            return
        folder: Path = options["lab"]
        cluster = demo.register_lab(wait_for_lab(folder), owner)
        self._build(folder, cluster)
        facts = json.loads((folder / "lab.json").read_text())
        demo.register_images(cluster, facts["images"], owner)
        self._inspect(cluster, demo.DEMO_ENVIRONMENTS, owner)
        demo.launch_demo(cluster, demo.DEMO_ENVIRONMENTS, owner)
        tell(cluster, "", None)
        enqueue_tick(cluster.pk)

    def _measure_this_machine(self, owner: User) -> None:
        """Measure this machine against itself: all that can be done without root and images."""
        folder: Path = settings.BASE_DIR / "var" / "here"
        commands = {kind: RUNTIMES[kind].command for kind in demo.RUNTIMES}
        runtimes = {kind: path for kind, name in commands.items() if (path := shutil.which(name))}
        python = folder / "bare-metal" / "bin" / "python"
        cluster = demo.register_here(folder / "work", python, runtimes, owner)
        tell(cluster, "Installing TensorFlow for the bare-metal environment", None)
        try:
            self._install(folder / "bare-metal")
        except subprocess.CalledProcessError as error:
            tell(cluster, "TensorFlow could not be installed; see var/log/demo.", None)
            raise CommandError(str(error)) from None
        self._inspect(cluster, demo.CONTROL_ENVIRONMENTS, owner)
        demo.launch_demo(
            cluster, demo.CONTROL_ENVIRONMENTS, owner, question=demo.CONTROL, scale="1x0"
        )
        tell(cluster, "", None)
        enqueue_tick(cluster.pk)

    def _install(self, folder: Path) -> None:
        uv = settings.BASE_DIR / ".tools" / "bin" / "uv"
        lock = settings.BASE_DIR / "lab" / "image" / f"{IMAGE}.lock"
        python = folder / "bin" / "python"
        if not python.exists():
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
        install: list[str | Path] = [
            uv,
            "pip",
            "install",
            "--quiet",
            "--python",
            python,
            "--require-hashes",
        ]
        subprocess.run([*install, "--compile-bytecode", "-r", lock], check=True)

    def _inspect(self, cluster: Cluster, names: Iterable[str], owner: User) -> None:
        """Inspect the software of each environment, and go on without an answer after a while."""
        rows = list(Environment.objects.filter(cluster=cluster, name__in=names))
        unknown = [
            pk
            for pk, software in inspections.find_known_software(rows).items()
            if not software.is_known
        ]
        tell(cluster, "Inspecting the environments", None)
        operations = [
            inspections.request_inspection(row, owner).pk for row in rows if row.pk in unknown
        ]
        enqueue_tick(cluster.pk)
        alive = Operation.objects.filter(pk__in=operations).exclude(state__in=Operation.FINAL)
        deadline = time.monotonic() + LONGEST_INSPECTION_SECONDS
        while alive.exists() and time.monotonic() < deadline:
            time.sleep(0.5)

    def _build(self, folder: Path, cluster: Cluster) -> None:
        """Build the image unless it is in the cache, and tell the cluster's page how far it is."""
        tell(cluster, "Building the TensorFlow image and the bare-metal environment", None)
        child = subprocess.Popen(
            [settings.BASE_DIR / "lab" / "lab", "build", IMAGE, "--dir", folder]
        )
        while child.poll() is None:
            tell(cluster, *read_progress(folder / "build.json"))
            time.sleep(1)
        if child.returncode:
            tell(cluster, "The image could not be built; see var/log/demo.", None)
            raise CommandError(f"lab build ended with exit code {child.returncode}.")


def wait_for_lab(folder: Path) -> dict[str, Any]:
    """Return lab.json once the lab has written it since its last start, and its sshd answers."""
    while True:
        try:
            facts: dict[str, Any] = json.loads((folder / "lab.json").read_text())
            socket.create_connection((facts["host"], facts["port"]), timeout=2).close()
            # Its sshd answers before all of it is up; until then the file is that of the last time.
            is_new = _read_time(folder / "lab.json") >= _read_time(folder / "pid")
        except (OSError, ValueError):
            is_new = False
        if is_new:
            return facts
        time.sleep(0.2)


def _read_time(path: Path) -> int:
    return path.stat().st_mtime_ns


def read_progress(path: Path) -> tuple[str, int | None]:
    """Return what `build.json` says is being done, and how far it is in percent."""
    try:
        build = json.loads(path.read_text())
        percent = round(100 * max(build["step"] - 1, 0) / build["steps"])
        return f"Building images: {build['label'] or 'starting'}", percent
    except (OSError, ValueError, KeyError):
        return "Building images", None


def tell(cluster: Cluster, what: str, percent: int | None) -> None:
    """Show on the cluster's page what is being prepared."""
    Cluster.objects.filter(pk=cluster.pk).update(preparing=what, preparing_percent=percent)
