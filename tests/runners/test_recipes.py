"""What a build does to its base by shell, for real: it lends, and takes back what it lent."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from runners.recipes import CLEAR, LEND, PREFIX, PUT, START


def shell(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "etc").mkdir(parents=True)
    (tmp_path / "root" / "etc" / "resolv.conf").symlink_to("../run/resolv.conf")
    return tmp_path / "root"


def test_names_of_hosts_are_lent_where_there_are_none_and_taken_back(
    tmp_path: Path, root: Path
) -> None:
    made, settings = tmp_path / "made", tmp_path / "settings"
    assert shell(LEND, "lend", made, root, PREFIX).returncode == 0
    assert (root / "etc" / "hosts").read_bytes() == Path("/etc/hosts").read_bytes()
    assert (root / "etc" / "resolv.conf").is_symlink(), "what the base has stays as it is"
    (made / "installed").write_text("1")
    settings.mkdir()
    (settings / "pip.conf").write_text("a password")
    assert shell(PUT, "put", made, root, PREFIX, settings).returncode == 0
    assert (root / PREFIX / "installed").read_text() == "1"
    assert not (root / "etc" / "hosts").exists()
    assert not settings.exists()


def test_a_base_with_something_in_that_place_is_refused_in_words(
    tmp_path: Path, root: Path
) -> None:
    (root / PREFIX).mkdir(parents=True)
    (root / PREFIX / "bin").mkdir()
    done = shell(LEND, "lend", tmp_path / "made", root, PREFIX)
    assert (done.returncode, done.stdout.startswith("The base has something at /opt/tare")) == (
        1,
        True,
    )


def test_a_base_without_python_is_told() -> None:
    done = shell(START, "/no/python3", "install.py")
    assert (done.returncode, done.stdout) == (
        1,
        "There is no /no/python3 in the base: choose one with Python.\n",
    )


def test_what_was_left_goes_whatever_its_modes(tmp_path: Path) -> None:
    left = tmp_path / "build-1.part"
    (left / "closed").mkdir(parents=True)
    (left / "closed" / "file").touch()
    (left / "closed").chmod(0)
    assert shell(CLEAR, "clear", left).returncode == 0
    assert not left.exists()
    assert shell(CLEAR, "clear", left).returncode == 0
