"""Which libraries a run's processes had loaded: real processes that load real libraries."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runners.payload import loaded, read_payload_files
from runners.payload.loaded import Readings, describe_loaded, read_paths
from runners.shapes import INSIDE
from runners.untrusted import parse_document
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import run_payload

LIBC = next(path for path in read_paths() if os.path.basename(path).startswith("libc."))
SMALL = {"matrix_size": 16, "decomposition_size": 8, "steps": 5, "burn_in": 2}
# Loads a library, says so, and waits for a line or for the end of its input.
HOLD = "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('loaded', flush=True); sys.stdin.read()"


# A machine that is busy with other tests has no time to lose: the limit is what other tests try.
IN_NO_HURRY = {
    "loaded.py": read_payload_files()["loaded.py"].replace(b"_SECONDS = 0.", b"_SECONDS = 100.")
}


def sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@pytest.fixture(scope="module")
def library() -> Path:
    """A library of this Python that is a file of its own."""
    import _ctypes

    return Path(_ctypes.__file__)


@pytest.fixture
def home_folder() -> Iterator[Path]:
    """A folder in the account's real home, which is removed again."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    with tempfile.TemporaryDirectory(prefix=".tare-test-", dir=home) as folder:
        yield Path(folder)


@pytest.fixture
def holding() -> Iterator[Any]:
    children: list[subprocess.Popen[bytes]] = []

    def hold(path: Path) -> int:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", HOLD, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        children.append(child)
        assert child.stdout
        assert child.stdout.readline() == b"loaded\n"
        return child.pid

    yield hold
    for child in children:
        child.communicate()


def test_a_run_of_tare_s_own_program_says_what_it_had_loaded(tmp_path: Path) -> None:
    ran = run_payload(tmp_path, "blas", WORKLOADS["blas"].clean(SMALL), files=IN_NO_HURRY)
    files = ran.inside["loaded"]["files"]
    libc = files[LIBC]
    assert (libc["sha256"], libc["bytes"]) == (sha256(LIBC), Path(LIBC).stat().st_size)
    assert libc["soname"].startswith("libc.")
    assert any("openblas" in path or "blas" in path for path in files)
    assert os.path.realpath(sys.executable) in files
    assert ran.inside["run"]["loaded"] == {"own": True}
    assert ran.inside["run"]["argv"][0] == sys.executable


def test_what_the_record_itself_needs_is_not_among_it(tmp_path: Path) -> None:
    ran = run_payload(tmp_path, "startup", WORKLOADS["startup"].clean({"steps": 2, "burn_in": 0}))
    assert ran.returncode == 0, ran.stderr
    assert not [path for path in ran.inside["loaded"]["files"] if "libcrypto" in path]


def test_a_command_s_processes_are_read_while_it_runs(tmp_path: Path, library: Path) -> None:
    own = tmp_path / "libown.so"
    shutil.copy(library, own)
    script = f"import ctypes, time; ctypes.CDLL({str(own)!r}); time.sleep(0.4)"
    argv = ["/bin/sh", "-c", '"$@"; exit 0', "sh", sys.executable, "-I", "-S", "-c", script]
    parameters = WORKLOADS["command"].clean({"argv": argv, "read": "nothing"})
    ran = run_payload(tmp_path / "job", "command", parameters, files=IN_NO_HURRY)
    assert ran.returncode == 0, ran.stderr
    files = ran.inside["loaded"]["files"]
    assert files[str(own)]["sha256"] == sha256(own)
    assert os.path.realpath("/bin/sh") in files
    assert ran.inside["run"]["argv"] == argv
    readings = ran.inside["run"]["loaded"]
    assert readings["readings"] >= 1
    assert readings["processes"] >= 2
    # The payload's own libraries are none of the program's: it had NumPy nowhere.
    assert "own" not in readings


def test_a_command_that_ends_at_once_is_not_seen_and_no_error(tmp_path: Path) -> None:
    parameters = WORKLOADS["command"].clean({"argv": ["true"], "read": "nothing"})
    ran = run_payload(tmp_path, "command", parameters)
    assert ran.returncode == 0, ran.stderr
    assert ran.inside["run"]["loaded"]["readings"] in (0, 1)
    assert ran.inside["program"]["files"][0]["loader"]


def test_a_library_from_a_home_folder_is_marked(
    home_folder: Path, library: Path, holding: Any
) -> None:
    own = home_folder / "libcudnn.so.8"
    shutil.copy(library, own)
    paths = read_paths(holding(own))
    assert str(own) in paths
    files = describe_loaded(paths, "/elsewhere")["files"]
    assert files[str(own)]["home"] is True
    assert "home" not in files[LIBC]
    in_own_job = describe_loaded(paths, str(home_folder))["files"]
    assert "home" not in in_own_job[str(own)], "what was sent with the job is Tare's own"


def test_a_library_that_was_deleted_meanwhile_is_named(
    tmp_path: Path, library: Path, holding: Any
) -> None:
    own = tmp_path / "libgone.so"
    shutil.copy(library, own)
    process = holding(own)
    own.unlink()
    assert describe_loaded(read_paths(process), "/")["files"][str(own)] == {
        "problem": "deleted meanwhile"
    }
    own.write_text("what an upgrade has put in its place")
    assert describe_loaded(read_paths(process), "/")["files"][str(own)] == {
        "problem": "deleted meanwhile"
    }


def test_a_fifo_in_the_place_of_a_library_holds_nothing_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "lib.so")
    path = str(tmp_path / "lib.so")
    assert describe_loaded({path}, "/elsewhere")["files"] == {path: {"problem": "not found"}}


def test_names_of_any_bytes_pass_the_door(tmp_path: Path, library: Path, holding: Any) -> None:
    own = tmp_path / os.fsdecode(b"lib\xe9 \n x.so")
    shutil.copy(library, own)
    facts = describe_loaded(read_paths(holding(own)), "/elsewhere")
    passed = parse_document(json.dumps({"loaded": facts}), INSIDE)["loaded"]["files"]
    (name,) = [path for path in passed if path.startswith(str(tmp_path))]
    assert "\\xe9" in name


def test_a_large_file_has_a_check_sum_of_its_ends(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded, "LARGEST", 200_000)
    monkeypatch.setattr(loaded, "END", 1000)
    sums = []
    for middle, end in ((b"a", b"x"), (b"b", b"x"), (b"a", b"y"), (b"aa", b"x")):
        path = tmp_path / "large.so"
        path.write_bytes(library.read_bytes() + middle * 200_000 + end * 1000)
        (facts,) = describe_loaded({str(path)}, "/elsewhere", 100, 100)["files"].values()
        assert "sha256" not in facts
        sums.append(facts["ends_sha256"])
    # Only ends and size count; that the middle differs is what nobody sees, and what is said.
    assert sums[0] == sums[1]
    assert len({*sums}) == 3


def test_a_slow_file_system_holds_nothing_up() -> None:
    files = describe_loaded(read_paths(), "/elsewhere", -1, 100)["files"]
    assert not [path for path, facts in files.items() if "sha256" in facts]
    assert files[LIBC]["ends_sha256"]
    assert files[LIBC]["build_id"]
    files = describe_loaded(read_paths(), "/elsewhere", -1, -1)["files"]
    assert files[LIBC] == {
        "bytes": Path(LIBC).stat().st_size,
        "problem": "there was no time to read it",
        **({"mount": files[LIBC]["mount"]} if "mount" in files[LIBC] else {}),
    }


def test_what_matters_comes_first_where_not_all_is_summed_up(
    tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = library.stat().st_size
    monkeypatch.setattr(loaded, "MOST_BYTES", size)
    for name in ("liba.so", "libcudnn.so"):
        shutil.copy(library, tmp_path / name)
    paths = {str(tmp_path / name) for name in ("liba.so", "libcudnn.so")}
    files = describe_loaded(paths, "/elsewhere", 100, 100)["files"]
    assert "sha256" in files[str(tmp_path / "libcudnn.so")]
    assert "ends_sha256" in files[str(tmp_path / "liba.so")]


def test_of_very_many_files_some_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded, "MOST_FILES", 3)
    facts = describe_loaded([f"/nowhere/{number}" for number in range(10)], "/elsewhere")
    assert len(facts["files"]) == 3
    assert facts["unlisted"] == 7


def test_readings_become_rarer_the_longer_a_program_runs() -> None:
    readings = Readings()
    own = [os.getpid()]
    for tenth in range(36_000):
        readings.read(own, tenth / 10)
    assert readings.count < 35
    assert 2400 < readings.last_seconds <= 3600
    assert LIBC in readings.paths


def test_a_process_that_is_gone_has_loaded_nothing() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    assert read_paths(child.pid) == set()


def run_failing(folder: Path, library: Path, end: str) -> tuple[Any, Path]:
    """Run a command that loads a library of its own, waits for two readings, and then ends so."""
    own = folder / "libown.so"
    shutil.copy(library, own)
    script = f"import ctypes, os, time; ctypes.CDLL({str(own)!r}); time.sleep(0.3); {end}"
    argv = [sys.executable, "-I", "-S", "-c", script]
    parameters = WORKLOADS["command"].clean({"argv": argv, "read": "nothing"})
    return run_payload(folder / "job", "command", parameters, files=IN_NO_HURRY), own


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(3)", 3),
        ("os.kill(os.getpid(), 9)", 137),
        # As a job that is ended does: to the payload, which passes it on.
        ("os.kill(os.getppid(), 15); time.sleep(60)", 143),
    ],
)
def test_of_a_program_that_failed_it_is_known_what_it_had_loaded(
    tmp_path: Path, library: Path, end: str, code: int
) -> None:
    ran, own = run_failing(tmp_path, library, end)
    assert (ran.returncode, ran.result) == (code, None)
    assert ran.inside["loaded"]["files"][str(own)]["sha256"] == sha256(own)
    assert ran.inside["run"]["argv"][0] == sys.executable
    assert ran.inside["run"]["loaded"]["readings"] >= 1
    assert ran.inside["hostname"]
    assert not {name for name in ran.leftovers if name.endswith(".part")}


def test_of_tare_s_own_program_that_failed_it_is_known_too(tmp_path: Path, library: Path) -> None:
    broken = {"blas.py": b"def run(parameters, recorder, process):\n    import ctypes\n    1 / 0\n"}
    ran = run_payload(tmp_path, "blas", WORKLOADS["blas"].clean(SMALL), files=broken)
    assert ran.returncode == 1
    assert "ZeroDivisionError" in ran.stderr
    assert ran.inside["run"]["loaded"] == {"own": True}
    assert str(library) in ran.inside["loaded"]["files"]


def test_a_program_that_was_never_started_has_loaded_nothing(tmp_path: Path) -> None:
    parameters = WORKLOADS["command"].clean({"argv": ["/nowhere/x"], "read": "nothing"})
    ran = run_payload(tmp_path, "command", parameters)
    assert ran.returncode == 4
    assert "loaded" not in ran.inside
    assert ran.inside["hostname"]


def test_what_cannot_be_recorded_changes_no_end(tmp_path: Path) -> None:
    broken = {
        "loaded.py": read_payload_files()["loaded.py"].replace(
            b"def describe_loaded(", b"def describe_otherwise("
        )
    }
    parameters = WORKLOADS["command"].clean(
        {"argv": ["/bin/sh", "-c", "sleep 0.2; exit 7"], "read": "nothing"}
    )
    ran = run_payload(tmp_path, "command", parameters, files=broken)
    assert ran.returncode == 7
    assert ran.inside["hostname"]
