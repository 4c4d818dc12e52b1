"""Give the lab in Docker the image of the demo, and read what Tare has to know of that cluster.

lab/README.md, "In Docker", tells people to do the same by hand.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from lab import images
from lab.client import ensure_lab, stop_lab
from lab.instance import SOFTWARE, USER, WORK, Instance
from tests.compose.composed_site import Site
from tests.compose.engine import docker

IMAGE = "tensorflow"
RUNTIMES = {
    "apptainer": "/usr/bin/apptainer",
    "udocker": "/usr/local/bin/udocker",
    "podman": "/usr/bin/podman",
    "charliecloud": "/usr/bin/ch-run",
}
KEYS = "/var/lib/tare-lab/keys"


class LabInDocker(Instance):
    """The lab of the site: commands inside go through the engine."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def run_inside(self, argv: Any, user: str = "root", timeout: float = 60) -> str:
        home = "/root" if user == "root" else f"/home/{user}"
        container = self.site.find_container("lab")
        return docker("exec", "--user", user, "--env", f"HOME={home}", container, *argv)


def ensure_image(folder: Path) -> Path:
    """Return the image's folder in the cache of all labs; build it by a lab in `folder`."""
    cached = images.cache_folder(IMAGE)
    if not cached.is_dir():
        try:
            ensure_lab(folder / "lab", images=(IMAGE,))
        finally:
            stop_lab(folder / "lab")
    return cached


def copy_image(site: Site, cached: Path) -> None:
    """Put the image's forms, and its twin on bare metal, on the cluster."""
    lab = LabInDocker(site)
    lab.run_inside(["mkdir", "-p", SOFTWARE])
    names = [f"{cached.name}/{name}" for name in ("env", "image.sif", "image.tar")]
    argv = ["tar", "-C", str(cached.parent), "-c", *names]
    container = site.find_container("lab")
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as tar:
        copy = ["docker", "exec", "-i", container, "tar", "-C", SOFTWARE, "-x"]
        subprocess.run(copy, stdin=tar.stdout, check=True)
    facts = json.loads((cached / "manifest.json").read_text())
    reference = facts["image"]["reference"]
    archive, name = facts["image"]["archive"], images.name_container(IMAGE, "P1")
    for arguments in (
        ["load", "-i", archive, reference.partition(":")[0]],
        ["create", f"--name={name}", reference],
        ["rmi", reference],
        ["setup", "--execmode=P1", name],
    ):
        lab.run_inside(["udocker", "-q", *arguments], user=USER)


def read_facts(site: Site, cached: Path) -> dict[str, Any]:
    """Return what `lab.json` says of a lab, for the one in Docker."""
    lab = LabInDocker(site)
    lines = lab.run_inside(["cat", "/etc/tare-lab/versions"]).splitlines()
    versions = dict(line.split(" ", 1) for line in lines)
    host_key = lab.run_inside(["cat", "/etc/ssh/ssh_host_ed25519_key.pub"]).split()[:2]
    return {
        "host": "lab",
        "port": 27000,
        "user": USER,
        "host_key": " ".join(host_key),
        "work_directory": WORK,
        "partitions": lab.list_partitions(),
        "runtimes": {
            kind: {"executable": path, "version": versions[kind]} for kind, path in RUNTIMES.items()
        },
        "images": {IMAGE: json.loads((cached / "manifest.json").read_text())},
    }


def read_key(site: Site) -> str:
    """Return the researcher's private key."""
    return LabInDocker(site).run_inside(["cat", f"{KEYS}/id_ed25519"])


def list_executions(site: Site) -> dict[str, list[str]]:
    """Return the states of all jobs that Slurm has had, by their names."""
    options = ["--allusers", "--allocations", "--noheader", "--parsable2", "--format=JobName,State"]
    rows = LabInDocker(site).run_inside(["sacct", "--starttime=now-1day", *options]).splitlines()
    states: dict[str, list[str]] = {}
    for row in rows:
        name, state = row.split("|")
        states.setdefault(name, []).append(state)
    return states
