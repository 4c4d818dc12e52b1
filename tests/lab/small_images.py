"""Images without Python 3, as folders: busybox with a compiled program, Debian 11's Python 2.7, and
Debian with its sysbench.

Each folder has the same program for bare metal, at the path that is named beside it.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab import rootfs

# Sorts numbers that it makes itself: the same work everywhere, and a line with what came of it.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
static unsigned numbers[2000000];
static int compare(const void *a, const void *b) {
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}
int main(void) {
    unsigned state = 1;
    for (int i = 0; i < 2000000; i++) numbers[i] = state = state * 1664525u + 1013904223u;
    qsort(numbers, 2000000, sizeof *numbers, compare);
    printf("median %u\n", numbers[1000000]);
    return 0;
}
"""
APPLETS = ("sh", "cat", "env", "uname", "true", "sleep", "id", "ls", "mkdir", "rm", "test", "dd")
DEBIAN_11 = ("python2.7-minimal", "libpython2.7-minimal", "libc6", "zlib1g")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"


def make_busybox_image(folder: Path) -> str:
    """Make an image of busybox alone, with a static program; return the program's folder there."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is missing, which compiles the program: install gcc and libc6-dev")
    _make_base(folder, "BusyBox and nothing else")
    programs = folder / "opt/sorting/bin"
    programs.mkdir(parents=True)
    source = folder / "sorting.c"
    source.write_text(PROGRAM)
    subprocess.run(
        ["gcc", "-O2", "-static", "-o", programs / "sorting", source], check=True, timeout=60
    )
    source.unlink()
    return "opt/sorting/bin"


def make_python2_image(folder: Path, mirror: str) -> str:
    """Make an image with Debian 11's Python 2.7, and no other; return its program's folder.

    Skips the test where that release cannot be had.
    """
    _make_base(folder, "Debian 11's Python 2.7")
    packages = folder.with_name("packages")
    _download(packages, mirror)
    for package in sorted(packages.glob("*.deb")):
        whole = package.name.startswith(("libc6", "zlib1g"))
        target = folder if whole else packages / "python"
        subprocess.run(["dpkg", "-x", package, target], check=True, timeout=60)
    (folder / "opt").mkdir()
    (packages / "python/usr").rename(folder / "opt/python2.7")
    shutil.rmtree(packages)
    return "opt/python2.7/bin"


def make_sysbench_image(folder: Path, *packages: str) -> str:
    """Make an image of Debian with sysbench and no Python; return the program's folder there.

    `packages` are further ones of Debian.
    """
    folder.parent.mkdir(parents=True)
    rootfs.install_debian(folder, ["sysbench", *packages], folder.with_name("debian.log"))
    for place in ("dev", "var/lib/apt/lists", "var/cache", "usr/share/doc", "usr/share/locale"):
        shutil.rmtree(folder / place)
    for place in ("dev", "scratch"):
        (folder / place).mkdir()
    for name in ("resolv.conf", "hosts"):
        (folder / "etc" / name).unlink(missing_ok=True)
        (folder / "etc" / name).touch()
    assert not list((folder / "usr/bin").glob("python*"))
    return "usr/bin"


def _make_base(folder: Path, name: str) -> None:
    """Make the least that container runtimes need: a shell, and places to mount things at."""
    for place in ("bin", "usr/bin", "etc", "dev", "proc", "sys", "tmp", "scratch", "home", "root"):
        (folder / place).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    shutil.copy("/bin/busybox", folder / "bin/busybox")
    for applet in APPLETS:
        (folder / "bin" / applet).symlink_to("busybox")
    (folder / "usr/bin/env").symlink_to("../../bin/busybox")
    (folder / "etc/os-release").write_text(f'ID=small\nPRETTY_NAME="{name}"\n')
    for file in ("passwd", "group", "hosts", "resolv.conf"):
        (folder / "etc" / file).touch()


def _download(folder: Path, mirror: str) -> None:
    """Download the packages with apt, from lists of its own: the machine's stay as they are."""
    for place in ("lists/partial", "cache/archives/partial"):
        (folder / place).mkdir(parents=True)
    source = folder / "sources.list"
    source.write_text(f"deb [signed-by={KEYS}] {mirror} bullseye main\n")
    options = [
        f"-oDir::Etc::sourcelist={source}",
        "-oDir::Etc::sourceparts=-",
        f"-oDir::State::lists={folder}/lists",
        f"-oDir::Cache={folder}/cache",
        "-oAcquire::Check-Valid-Until=false",
        "-oDir::State::status=/dev/null",  # or what is installed here would be chosen
        "-oAPT::Sandbox::User=root",
    ]
    for words in (["update"], ["download", *DEBIAN_11]):
        done = subprocess.run(
            ["apt-get", *options, *words], cwd=folder, capture_output=True, timeout=120
        )
        if done.returncode:
            pytest.skip(f"Debian 11 cannot be had here: {done.stderr.decode()[-300:]}")
