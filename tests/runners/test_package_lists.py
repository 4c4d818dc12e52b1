"""The packages of systems without Python: lists of dpkg, apk and rpm, as these write them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners.payload import read_payload_files
from runners.shapes import SOFTWARE
from runners.untrusted import parse_document

# As Alpine's apk writes it: fields of one letter, a block for each package, and its files.
APK = """C:Q1qQ3fJpGcvH+jPNKoXNNjCJUO6IE=
P:alpine-baselayout-data
V:3.4.3-r2
A:x86_64
S:11664
T:Alpine base dir structure and init scripts
F:etc
R:fstab
Z:Q11Q7hNe8QpDS531guqCdrXBzoA/o=

C:Q1lJ0ihUxjFpY6bfo8ah8ToOgTl1g=
P:musl
V:1.2.4_git20230717-r4
D:
p:so:libc.musl-x86_64.so.1=1
F:lib
R:ld-musl-x86_64.so.1
a:0:0:755

"""
DISTROLESS = "Package: tzdata\nVersion: 2024a-0+deb12u1\nArchitecture: all\n"
RPM_PACKAGES = (
    *("rpm", "rpm-common", "librpm9", "librpmio9", "librpmbuild9", "librpmsign9", "libpopt0"),
    "liblua5.3-0",
)
SPEC = """Name: {name}
Version: 1.2.3
Release: 4.el9
Summary: Made for a test
License: MIT
BuildArch: noarch
%description
Made for a test.
%files
"""


def read_packages(root: Path, work: Path) -> dict[str, str]:
    """Return the packages of a system below `root`, as an inspection reads them."""
    payload = work / "payload"
    payload.mkdir(parents=True)
    for name, content in read_payload_files().items():
        (payload / name).parent.mkdir(exist_ok=True)
        (payload / name).write_bytes(content)
    script = (payload / "software.sh").read_text()
    for place in ("/var/lib/rpm", "/usr/lib/sysimage/rpm"):
        script = script.replace(f" {place}", f" {root}{place}")
    script = script.replace('"$root" = /', '-n "$root"')  # this rpm is of that system
    (payload / "software.sh").write_text(script)
    prefix = str(work / "inside")
    path = {"PATH": f"{root}/bin:/usr/bin:/bin"}
    subprocess.run(
        ["/bin/sh", payload / "software.sh", prefix, str(root), "sh"], check=True, env=path
    )
    output = work / "result.json"
    reader = [sys.executable, payload / "software_files.py", prefix, "--output", output]
    subprocess.run(reader, check=True)
    facts = parse_document(output.read_bytes(), SOFTWARE)
    assert facts["programs"]["sh"].endswith("/sh")
    packages: dict[str, str] = facts["system_packages"]
    return packages


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


@pytest.mark.parametrize("place", ["lib/apk/db/installed", "usr/lib/apk/db/installed"])
def test_apk(tmp_path: Path, place: str) -> None:
    put(tmp_path / "root", place, APK)
    assert read_packages(tmp_path / "root", tmp_path / "work") == {
        "alpine-baselayout-data": "3.4.3-r2",
        "musl": "1.2.4_git20230717-r4",
    }


def test_dpkg_of_images_that_are_made_without_it(tmp_path: Path) -> None:
    folder = "var/lib/dpkg/status.d"
    put(tmp_path / "root", f"{folder}/tzdata", DISTROLESS)
    put(tmp_path / "root", f"{folder}/netbase", DISTROLESS.replace("tzdata", "netbase"))
    put(tmp_path / "root", f"{folder}/netbase.md5sums", "0 Package: wrong")
    assert read_packages(tmp_path / "root", tmp_path / "work") == {
        "netbase": "2024a-0+deb12u1",
        "tzdata": "2024a-0+deb12u1",
    }


def test_a_list_that_only_rpm_reads_is_asked_of_rpm(tmp_path: Path) -> None:
    root = tmp_path / "root"
    put(root, "var/lib/rpm/Packages", "Berkeley DB")
    listed = "bash\\t4.2.46-35.el7_9\\ngpg-pubkey\\tf4a80eb5-53a7ff4b\\n"
    put(root, "bin/rpm", f"#!/bin/sh\nprintf '{listed}'\n")
    (root / "bin/rpm").chmod(0o755)
    packages = read_packages(root, tmp_path / "work")
    assert packages == {"bash": "4.2.46-35.el7_9", "gpg-pubkey": "f4a80eb5-53a7ff4b"}


@pytest.mark.thorough
def test_a_database_that_rpm_itself_has_made(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    done = subprocess.run(["apt-get", "download", *RPM_PACKAGES], cwd=tools, capture_output=True)
    if done.returncode:
        pytest.skip(f"Debian's rpm cannot be had here: {done.stderr.decode()[-300:]}")
    for package in tools.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, tools], check=True)
    libraries = f"{tools}/usr/lib/x86_64-linux-gnu:{tools}/lib/x86_64-linux-gnu"
    settings = {"LD_LIBRARY_PATH": libraries, "RPM_CONFIGDIR": f"{tools}/usr/lib/rpm"}
    environ = {**os.environ, **settings, "HOME": str(tmp_path)}

    def call(program: str, *argv: str) -> None:
        command = [f"{tools}/usr/bin/{program}", *argv]
        subprocess.run(command, env=environ, check=True, capture_output=True, timeout=60)

    root = tmp_path / "root"
    for name in ("hello", "farewell"):
        put(tmp_path, f"{name}.spec", SPEC.format(name=name))
        call("rpmbuild", "--define", f"_topdir {tmp_path}/top", "-bb", f"{tmp_path}/{name}.spec")
    built = list(map(str, (tmp_path / "top").rglob("*.rpm")))
    folder = root / "usr/lib/sysimage/rpm"
    folder.mkdir(parents=True)
    call("rpm", "--dbpath", str(folder), "--force-debian", "--nodeps", "-i", *built)
    expected = {"farewell": "1.2.3-4.el9", "hello": "1.2.3-4.el9"}
    assert read_packages(root, tmp_path / "work") == expected, "without rpm in the image"
