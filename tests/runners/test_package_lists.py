"""The packages of systems without Python: lists of dpkg, apk and rpm, as these write them."""

from __future__ import annotations

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
    for place in ("/var/lib/", "/lib/apk", "/usr/lib/"):
        script = script.replace(f" {place}", f" {root}{place}")
    (payload / "software.sh").write_text(script)
    prefix = str(work / "inside")
    path = {"PATH": f"{root}/bin:/usr/bin:/bin"}
    subprocess.run(["/bin/sh", payload / "software.sh", prefix, "sh"], check=True, env=path)
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
    expected = {"farewell": "1.2.3-4.el9", "hello": "1.2.3-4.el9"}
    assert read_packages(root, tmp_path / "work") == expected, "without rpm in the image"
