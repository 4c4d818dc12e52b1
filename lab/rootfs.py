"""Root file systems made from Debian packages, each built once and kept in the cache."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab import host
from lab.prune import mark

RELEASE = "trixie"
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "unshare": "util-linux",
}
# What prepare.sh puts into the root file system; the rest of cluster/ is read at each start.
PREPARED = ("prepare.sh", "proot.sh", "tools.lock", "sshd.conf", "mariadb.cnf")
# --kill-child: whatever ends `unshare` ends all that it started.
UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
ENTER = [*UNSHARE, "--uts", "--ipc", str(host.CLUSTER / "enter.sh")]


def packages(path: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def debootstrap(folder: Path, wanted: list[str], log: Path) -> None:
    """Makes `folder` a Debian with these packages; LabError names one that is gone."""
    host.install_packages(TOOLS, log)
    if not any(Path("/var/lib/apt/lists").glob("*Packages*")):
        host.run([host.APT_GET, "update", "-q"], log)
    mirror = host.debian_mirror()
    suites = [RELEASE] + (["sid"] if any(name.endswith("/sid") for name in wanted) else [])
    # A mirror may be an old snapshot whose Release files have expired.
    options = [
        'Acquire::Check-Valid-Until "false"',
        'Apt::Install-Recommends "false"',
        f'APT::Default-Release "{RELEASE}"',
    ]
    argv = [
        *UNSHARE,
        "--mount-proc",
        "mmdebstrap",
        "--variant=minbase",
        *(f"--aptopt={option}" for option in options),
        f"--include={','.join(wanted)}",
        RELEASE,
        str(folder),
        *(f"deb {mirror} {suite} main" for suite in suites),
    ]
    try:
        host.run(argv, log)
    except host.LabError:
        if names := missing_packages(log.read_text(errors="replace")):
            told = f"{mirror} has no package {', '.join(names)} any more; see {log}"
            raise host.LabError(told) from None
        raise


def missing_packages(apt_output: str) -> list[str]:
    """The packages that apt says it cannot find."""
    patterns = (
        r"^E: Unable to locate package (\S+)",
        r"^E: Package '([^']+)' has no installation candidate",
        r"^E: (?:Version|Release) '[^']+' for '([^']+)' was not found",
    )
    found = (re.findall(pattern, apt_output, re.MULTILINE) for pattern in patterns)
    return sorted({name for names in found for name in names})


def cluster(*, grid_engine: bool = False) -> Path:
    """The cluster's root file system, built now if the cache has none for this recipe."""
    wanted = packages(host.HERE / "packages.txt")
    name = host.digest((host.CLUSTER / file for file in PREPARED), RELEASE, *wanted)
    folder = host.cache() / f"rootfs-{name}"
    added = host.CLUSTER / "grid_engine_prepare.sh"
    both = folder.with_name(f"{folder.name}-grid-engine-{host.digest([added])}")
    found = both if grid_engine else folder
    mark(folder, found)
    if not found.is_dir():
        with host.locked(host.cache() / "rootfs.lock"):
            if not folder.is_dir():
                build(folder, wanted)
            if grid_engine and not both.is_dir():
                add_grid_engine(folder, both)
    return found


def versions() -> str:
    """The cluster's system, Slurm, Python and runtimes, one a line."""
    return (cluster() / "etc/tare-lab/versions").read_text()


def build(folder: Path, wanted: list[str]) -> None:
    log = folder.with_suffix(".log")
    log.write_text("")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with host.timed(f"installing {len(wanted)} Debian packages and what they need"):
        debootstrap(partial, wanted, log)
    marker = partial / "etc/tare-lab/root"
    marker.parent.mkdir()
    marker.touch()
    with host.timed("preparing the cluster's users, udocker and database"):
        prepare(partial, "prepare.sh", log)
    partial.rename(folder)


def add_grid_engine(source: Path, folder: Path) -> None:
    """Makes `folder` a copy of `source` with Grid Engine in it."""
    log, partial = folder.with_suffix(".log"), folder.with_suffix(".partial")
    log.write_text("")
    shutil.rmtree(partial, ignore_errors=True)
    with host.timed("adding Grid Engine to a copy of the cluster's root file system"):
        host.run(["cp", "-a", "--reflink=auto", str(source), str(partial)], log)
        prepare(partial, "grid_engine_prepare.sh", log)
    partial.rename(folder)


def prepare(root: Path, script: str, log: Path) -> None:
    """Runs one of the scripts of cluster/ inside `root`."""
    bind = ["--bind", str(host.CLUSTER), "/opt/tare-lab"]
    host.run([*ENTER, str(root), *bind, "--", f"/opt/tare-lab/{script}"], log)
