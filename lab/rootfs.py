"""Root file systems made from Debian packages, each built once and kept in the cache."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from lab import host
from lab.prune import mark_used

RELEASE = "trixie"
TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
    "unshare": "util-linux",
}
# Files that prepare.sh copies into the root file system; the others are read at each start.
PREPARED = (
    "prepare.sh",
    "engines/build.sh",
    "engines/bound_folders.c",
    "engines/patchelf.sh",
    "engines/proot.c",
    "tools.lock",
    "sshd.conf",
    "mariadb.cnf",
)
# --kill-child: whatever ends `unshare` ends all that it started.
UNSHARE = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
ENTER = [*UNSHARE, "--uts", "--ipc", str(host.CLUSTER / "enter.sh")]


def read_package_list(path: Path) -> list[str]:
    """Return the packages of a list with comments."""
    lines = (line.partition("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def install_debian(folder: Path, package_names: list[str], log: Path) -> None:
    """Install Debian with these packages into `folder`. Raises LabError, naming missing ones."""
    host.install_packages(TOOLS, log)
    if not any(Path("/var/lib/apt/lists").glob("*Packages*")):
        host.run([host.APT_GET, "update", "-q"], log)
    mirror = host.find_debian_mirror()
    suites = [RELEASE] + (["sid"] if any(name.endswith("/sid") for name in package_names) else [])
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
        f"--include={','.join(package_names)}",
        RELEASE,
        str(folder),
        *(f"deb {mirror} {suite} main" for suite in suites),
    ]
    try:
        host.run(argv, log)
    except host.LabError:
        if names := parse_missing_packages(log.read_text(errors="replace")):
            message = f"{mirror} has no package {', '.join(names)} any more; see {log}"
            raise host.LabError(message) from None
        raise


def parse_missing_packages(apt_output: str) -> list[str]:
    """Return the packages that apt says it cannot find."""
    patterns = (
        r"^E: Unable to locate package (\S+)",
        r"^E: Package '([^']+)' has no installation candidate",
        r"^E: (?:Version|Release) '[^']+' for '([^']+)' was not found",
    )
    matches = (re.findall(pattern, apt_output, re.MULTILINE) for pattern in patterns)
    return sorted({name for names in matches for name in names})


def ensure_cluster_root(*, grid_engine: bool = False) -> Path:
    """Return the cluster's root file system; build it if the cache has none for this recipe."""
    package_names = read_package_list(host.HERE / "packages.txt")
    name = host.short_hash((host.CLUSTER / file for file in PREPARED), RELEASE, *package_names)
    folder = host.cache_folder() / f"rootfs-{name}"
    script = host.CLUSTER / "grid_engine_prepare.sh"
    with_grid_engine = folder.with_name(f"{folder.name}-grid-engine-{host.short_hash([script])}")
    root = with_grid_engine if grid_engine else folder
    mark_used(folder, root)
    if not root.is_dir():
        with host.hold_lock(host.cache_folder() / "rootfs.lock"):
            if not folder.is_dir():
                build_root(folder, package_names)
            if grid_engine and not with_grid_engine.is_dir():
                add_grid_engine(folder, with_grid_engine)
    return root


def read_versions() -> str:
    """Return the versions of the cluster's system, Slurm, Python and runtimes, one a line."""
    return (ensure_cluster_root() / "etc/tare-lab/versions").read_text()


def build_root(folder: Path, package_names: list[str]) -> None:
    log = folder.with_suffix(".log")
    log.write_text("")
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    with host.show_duration(f"installing {len(package_names)} Debian packages and what they need"):
        install_debian(partial, package_names, log)
    marker = partial / "etc/tare-lab/root"
    marker.parent.mkdir()
    marker.touch()
    with host.show_duration("making udocker's engines of Debian's packages"):
        build_engines(partial, log)
    with host.show_duration("preparing the cluster's users, udocker and database"):
        run_script_inside(partial, "prepare.sh", log)
    partial.rename(folder)


def build_engines(root: Path, log: Path) -> None:
    """Make udocker's engines, which prepare.sh installs; their compiler stays out of `root`."""
    scratch = root.with_suffix(".engines")
    shutil.rmtree(scratch, ignore_errors=True)
    made = scratch / "made"
    made.mkdir(parents=True)
    argv = [*ENTER, "--overlay", str(scratch), str(root)]
    argv += ["--bind", str(host.CLUSTER), "/opt/tare-lab", "--bind", str(made), "/engines"]
    host.run([*argv, "--", "/opt/tare-lab/engines/build.sh"], log)
    shutil.move(made / "engines.tar.gz", root / "etc/tare-lab/engines.tar.gz")
    shutil.rmtree(scratch)


def add_grid_engine(source: Path, folder: Path) -> None:
    """Make `folder` a copy of `source` with Grid Engine in it."""
    log, partial = folder.with_suffix(".log"), folder.with_suffix(".partial")
    log.write_text("")
    shutil.rmtree(partial, ignore_errors=True)
    with host.show_duration("adding Grid Engine to a copy of the cluster's root file system"):
        host.run(["cp", "-a", "--reflink=auto", str(source), str(partial)], log)
        run_script_inside(partial, "grid_engine_prepare.sh", log)
    partial.rename(folder)


def run_script_inside(root: Path, script: str, log: Path) -> None:
    """Run one of the scripts of cluster/ inside `root`."""
    bind = ["--bind", str(host.CLUSTER), "/opt/tare-lab"]
    host.run([*ENTER, str(root), *bind, "--", f"/opt/tare-lab/{script}"], log)
