"""Folders for temporary files: what a killed process has left goes, what one works in stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from runners.scratch_folders import open_scratch_folder, remove_abandoned_folders

HOLD = """
import sys
from runners.scratch_folders import open_scratch_folder
with open_scratch_folder("results") as folder:
    (folder / "half").write_bytes(bytes(1000))
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_killed_process_leaves_its_folder_to_the_next_one(temporary: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        folder = Path(process.stdout.readline().strip())
        assert (folder / "half").exists()
        assert remove_abandoned_folders() == 0  # somebody works in it
        assert folder.exists()
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert folder.exists()
    with open_scratch_folder("deposit") as mine:
        assert list(temporary.iterdir()) == [mine]
    assert list(temporary.iterdir()) == []


def test_two_at_once_have_folders_of_their_own() -> None:
    with open_scratch_folder("results") as first, open_scratch_folder("results") as second:
        assert first != second
        assert first.is_dir()
        assert second.is_dir()


def test_a_folder_goes_whatever_happens_in_it(temporary: Path) -> None:
    def fail() -> None:
        with open_scratch_folder("results") as folder:
            (folder / "file").touch()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list(temporary.iterdir()) == []


def test_links_and_files_of_that_name_are_left_alone(temporary: Path) -> None:
    elsewhere = temporary / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    os.symlink(elsewhere, temporary / "tare-scratch-results-x")
    (temporary / "tare-scratch-results-y").touch()
    assert remove_abandoned_folders() == 0
    assert (elsewhere / "file").exists()
