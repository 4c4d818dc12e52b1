"""Packages of conda, installed by py-rattler from a channel on this machine."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runners.payload import conda_install
from tests.conda_channels import PLACEHOLDER, write_index, write_package

PROGRAM = Path(conda_install.__file__)


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("channel")
    script = f"#!/bin/sh\necho {PLACEHOLDER} $(cat {PLACEHOLDER}/share/words)\n".encode()
    for version, words in (("1.0", b"old"), ("2.0", b"new")):
        write_package(folder, "words", version, {"share/words": words})
    needs = ["words >=1", "__glibc >=2.17"]
    write_package(folder, "tool", "1.2", {"bin/tool": script}, subdir="linux-64", depends=needs)
    write_package(folder, "late", "1", {"share/late": b""}, depends=["__glibc >=90"])
    write_index(folder)
    return folder


class Ran:
    """An installation in a folder."""

    def __init__(self, folder: Path, wanted: dict[str, Any], *options: str) -> None:
        self.made = folder / "made"
        environment = folder / "environment.json"
        environment.write_text(json.dumps(wanted))
        command = [sys.executable, "-B", str(PROGRAM), "install", str(self.made)]
        command += [str(environment), str(folder / "work"), "--settings", str(folder / "settings")]
        command += ["--tool-lock", str(folder / "none.lock"), *options]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        without = {key: text for key, text in os.environ.items() if "proxy" not in key.lower()}
        done = subprocess.run(
            command,
            env={**without, "PATH": path, "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.code, self.output = done.returncode, done.stderr + done.stdout

    @property
    def last_line(self) -> str:
        return self.output.strip().splitlines()[-1]

    @property
    def lock(self) -> str:
        return (self.made / conda_install.LOCK).read_text()


def test_packages_are_solved_installed_for_another_prefix_and_written_down(
    tmp_path: Path, channel: Path
) -> None:
    wanted = {"channels": [f"file://{channel}"], "specs": ["tool"]}
    ran = Ran(tmp_path, wanted, "--prefix", "/opt/tare")
    assert ran.code == 0, ran.output
    script = (ran.made / "bin" / "tool").read_text()
    assert "echo /opt/tare $(cat /opt/tare/share/words)" in script
    assert (ran.made / "share" / "words").read_bytes() == b"new"
    lines = ran.lock.splitlines()
    assert lines[1] == "@EXPLICIT"
    assert [line.partition("#")[0].rpartition("/")[2] for line in lines[2:]] == [
        "tool-1.2-0.tar.bz2",
        "words-2.0-0.tar.bz2",
    ]
    assert all("#sha256:" in line for line in lines[2:])
    kept = "".join(path.read_text() for path in ran.made.glob("conda-meta/*"))
    assert str(tmp_path) not in kept, "nothing of the node is in the image"


def test_a_lock_gives_the_same_packages_again_or_says_why_not(
    tmp_path: Path, channel: Path
) -> None:
    from experiments.software.conda_files import read_lock

    wanted: dict[str, Any] = {"channels": [f"file://{channel}"], "specs": ["tool", "words <2"]}
    first = Ran(tmp_path, wanted)
    assert first.code == 0, first.output
    exact = read_lock(first.lock)
    (tmp_path / "again").mkdir()
    wanted = {"channels": exact.channels, "specs": exact.specs, "exact": True}
    again = Ran(tmp_path / "again", wanted)
    assert again.code == 0, again.output
    assert again.lock == first.lock
    assert (again.made / "share" / "words").read_bytes() == b"old"
    changed = [spec.replace("sha256='", "sha256='00")[:-4] + "']" for spec in exact.specs]
    (tmp_path / "changed").mkdir()
    wanted = {"channels": exact.channels, "specs": changed, "exact": True}
    assert Ran(tmp_path / "changed", wanted).code == 1


@pytest.mark.parametrize(
    ("specs", "why"),
    [
        (["nothing-like-it"], "No environment has all of these packages."),
        (["words >=3"], "No candidates were found for words >=3"),
        (["late"], "__glibc"),
        (["tool", "words <1"], "No environment has all of these packages."),
    ],
)
def test_what_no_channel_has_is_said(
    tmp_path: Path, channel: Path, specs: list[str], why: str
) -> None:
    ran = Ran(tmp_path, {"channels": [f"file://{channel}"], "specs": specs})
    assert ran.code == 1
    assert why in ran.last_line


def test_a_channel_that_is_not_there_or_does_not_answer_is_said(tmp_path: Path) -> None:
    ran = Ran(tmp_path, {"channels": [f"file://{tmp_path}/none"], "specs": ["tool"]})
    assert (ran.code, "A channel is not there" in ran.last_line) == (1, True)
    ran = Ran(tmp_path, {"channels": ["http://127.0.0.1:9/channel"], "specs": ["tool"]})
    assert (ran.code, "A channel did not answer on" in ran.last_line) == (1, True)


@pytest.fixture
def address(channel: Path) -> Iterator[str]:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(channel))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_channels_of_a_server_are_taken_and_a_package_with_another_content_is_not(
    tmp_path: Path, channel: Path, address: str
) -> None:
    ran = Ran(tmp_path, {"channels": [address], "specs": ["words=1.0"]})
    assert ran.code == 0, ran.output
    assert f"{address}/noarch/words-1.0-0.tar.bz2#sha256:" in ran.lock
    package = channel / "noarch" / "words-2.0-0.tar.bz2"
    content = package.read_bytes()
    try:
        package.write_bytes((channel / "noarch" / "words-1.0-0.tar.bz2").read_bytes())
        (tmp_path / "other").mkdir()
        other = Ran(tmp_path / "other", {"channels": [address], "specs": ["words=2.0"]})
    finally:
        package.write_bytes(content)
    assert other.code == 1
    assert not (other.made / conda_install.LOCK).exists()


def test_the_glibc_of_the_image_decides_which_packages_fit(tmp_path: Path, channel: Path) -> None:
    root = tmp_path / "root"
    library = root / "usr/lib/x86_64-linux-gnu/libc.so.6"
    library.parent.mkdir(parents=True)
    wanted = {"channels": [f"file://{channel}"], "specs": ["late"]}
    assert "no glibc" in Ran(tmp_path, wanted, "--root", str(root)).last_line
    library.write_bytes(b"\0GNU C Library (GNU libc) stable release version 91.2.\n\0")
    ran = Ran(tmp_path, wanted, "--root", str(root))
    assert ran.code == 0, ran.output


def test_of_pip_each_package_has_a_line_with_its_hash() -> None:
    def row(name: str, hashes: dict[str, str]) -> dict[str, Any]:
        archive = {"archive_info": {"hashes": hashes}}
        return {"metadata": {"name": name, "version": "1.0"}, "download_info": archive}

    report = {"install": [row("idna", {"sha256": "ab"})]}
    assert conda_install.describe_installed(report) == ["idna==1.0 --hash=sha256:ab"]
    with pytest.raises(conda_install.NotInstalled, match="no check sum of idna"):
        conda_install.describe_installed({"install": [row("idna", {})]})


def test_an_address_with_a_secret_is_no_place_of_channels() -> None:
    assert conda_install.read_alias({}) == conda_install.CHANNELS
    assert conda_install.read_alias({"CONDA_CHANNEL_ALIAS": "https://m.org/c/"}) == (
        "https://m.org/c/"
    )
    for alias in ("https://me:word@m.org/c", "https://m.org/t/tk-12/c"):
        with pytest.raises(conda_install.NotInstalled, match="a password or a token"):
            conda_install.read_alias({"CONDA_CHANNEL_ALIAS": alias})
