"""`files`: every part is done and timed, nothing stays behind, and nobody's disk is filled."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runners.payload import files, read_payload_files
from runners.payload.files import list_software_files, require_space
from runners.payload.frameworks import StartError
from runners.payload.pages import drop, measure_cached_share
from runners.payload.snapshot import find_file_system
from runners.workloads import WORKLOADS
from tests.runners.payload_runs import Ran, left, run_payload

FILES = WORKLOADS["files"]
SMALL = {
    "small_files": 120,
    "large_file_mb": 2,
    "random_reads": 50,
    "software_files": 40,
    "steps": 3,
    "burn_in": 1,
}

# A tail needs more steps, a spread several instances, and not every kernel says what it has cached.
NOT_HERE = {"tail_ratio", "instance_spread", "still_cached"}


def cleaned(**parameters: object) -> dict[str, Any]:
    return FILES.clean({**SMALL, **parameters})


def run(directory: Path, **parameters: object) -> Ran:
    return run_payload(directory, "files", cleaned(**parameters))


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"cache": "dropped"},
        {"small_files": 0},
        {"large_file_mb": 0},
        {"random_reads": 0},
        {"software_files": 0, "small_files": 1, "small_file_bytes": 2**20},
        {"small_files": 0, "large_file_mb": 0},
    ],
)
def test_what_was_asked_for_is_reported_and_nothing_stays(
    tmp_path: Path, parameters: dict[str, object]
) -> None:
    ran = run(tmp_path, **parameters)
    assert (ran.returncode, ran.stderr, ran.leftovers) == (0, "", set())
    result = FILES.read(left(ran.result), cleaned(**parameters))
    declared = {metric.name for metric in FILES.list_metrics(cleaned(**parameters))}
    assert declared - NOT_HERE == set(result.measurements) - NOT_HERE
    assert {unit for unit, _ in result.series.values()} == {"s"}
    assert {len(values) for _, values in result.series.values()} == {3}
    assert {f"{name.removesuffix('_rate')}_time" for name in declared if "_rate" in name} == {
        name for name in result.series if name != "step_time"
    }


def test_rates_are_amounts_over_mean_times_and_parts_are_no_longer_than_the_round(
    tmp_path: Path,
) -> None:
    result = FILES.read(left(run(tmp_path).result), cleaned())
    numbers = {name: value for name, (value, _) in result.measurements.items()}
    assert numbers["create_rate"] == pytest.approx(120 / numbers["create_time"])
    assert numbers["large_read_rate"] == pytest.approx(2 / numbers["large_read_time"])
    assert numbers["random_read_rate"] == pytest.approx(50 / numbers["random_read_time"])
    assert numbers["software_list_rate"] == pytest.approx(40 / numbers["software_list_time"])
    reading = result.series["software_read_time"][1]
    assert numbers["first_software_read_time"] == reading[0]
    assert numbers["software_read_time"] == pytest.approx(sum(reading[1:]) / 2)
    parts = [values for name, (_, values) in result.series.items() if name != "step_time"]
    for step, whole in enumerate(result.series["step_time"][1]):
        assert sum(part[step] for part in parts) <= whole


def test_it_writes_into_one_new_folder_of_the_place_that_was_asked_for(tmp_path: Path) -> None:
    scratch = tmp_path / "it's $(scratch)"
    scratch.mkdir()
    (scratch / "somebody's").write_text("work")
    program = read_payload_files()["files.py"] + (
        b"\nreal = shutil.rmtree\n"
        b"def rmtree(folder, **more):\n"
        b"    print('folder:', folder, os.path.exists(os.path.join(folder, 'large')))\n"
        b"    real(folder, **more)\n"
        b"shutil.rmtree = rmtree\n"
    )
    ran = run_payload(
        tmp_path / "run", "files", cleaned(path=str(scratch)), files={"files.py": program}
    )
    assert ran.returncode == 0, ran.stderr
    assert f"folder: {scratch}/tare-0-x-" in ran.stdout
    assert ran.stdout.splitlines()[0].endswith("False"), "the large file has no name"
    assert [path.name for path in scratch.iterdir()] == ["somebody's"]


def test_a_run_that_is_told_to_end_cleans_up(tmp_path: Path) -> None:
    (tmp_path / "payload").mkdir()
    for name, content in read_payload_files().items():
        (tmp_path / "payload" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "payload" / name).write_bytes(content)
    directory = tmp_path / "run"
    directory.mkdir()
    spec = {"schema": 1, "workload": "files", "parameters": cleaned(steps=1_000_000)}
    (directory / "spec.json").write_text(json.dumps(spec))
    argv = FILES.build_argv(sys.executable, str(tmp_path / "payload"), str(directory))
    with subprocess.Popen(argv, cwd=directory) as process:
        while not list(directory.glob(".scratch/tare-*/small")):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 143
    assert not list(directory.glob(".scratch*"))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("scratch", "has to begin with /: 'scratch'"),
        ("/no/such/place", "cannot measure in /no/such/place: No such file or directory"),
        ("/dev/null", "cannot measure in /dev/null: Not a directory"),
        ("/proc", "/proc has 0 MB free; twice what is written"),
    ],
)
def test_a_place_that_cannot_be_used_is_named(tmp_path: Path, path: str, message: str) -> None:
    ran = run(tmp_path, path=path)
    assert (ran.returncode, ran.result) == (2, None)
    assert message in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_nothing_to_do_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path, small_files=0, large_file_mb=0, software_files=0)
    assert (ran.returncode, ran.stderr[:13]) == (2, "nothing to do")


def test_half_of_the_free_space_stays_free(tmp_path: Path) -> None:
    require_space(str(tmp_path), cleaned())
    with pytest.raises(StartError, match="MB free; twice what is written"):
        require_space(str(tmp_path), cleaned() | {"large_file_mb": 10**9})


def test_software_is_the_same_list_every_time_and_holds_no_bytecode() -> None:
    paths = list_software_files(50)
    assert paths == list_software_files(50) == list_software_files(60)[:50]
    assert all(os.path.isfile(path) for path in paths)
    assert not any("__pycache__" in path for path in list_software_files(5000))
    import numpy

    module = os.path.realpath(numpy.__file__)
    assert module in list_software_files(10**6), "packages follow the library"


def test_pages_are_seen_to_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1_000_000)
    with path.open("rb+") as file:
        share = measure_cached_share(file.fileno(), 1_000_000)
        assert share in (None, 1.0)
        drop(file.fileno(), written=True)
        left = measure_cached_share(file.fileno(), 1_000_000)
        # Some file systems keep all; others all but the few pages that the kernel holds just then.
        assert left in (None, 1.0) or left < 0.1


def test_a_probe_reads_nothing_ahead_of_it(tmp_path: Path) -> None:
    """Else the first of them would have what the others look for brought in."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 64_000_000)
    with path.open("rb+") as file:
        drop(file.fileno(), written=True)
        left = measure_cached_share(file.fileno(), 64_000_000)
        assert left in (None, 1.0) or left < 0.1


def test_the_file_system_of_a_place_is_known() -> None:
    assert find_file_system("/proc/self/status") == "proc"
    assert find_file_system("/dev/null") in ("devtmpfs", "tmpfs")
    assert find_file_system("/no/such/place") == find_file_system("/")


def test_every_part_has_a_rate_that_rests_on_its_time() -> None:
    parts = {part for several in files.PARTS.values() for part in several}
    assert {f"{part}_rate" for part in parts} <= set(FILES.rates)
    assert {FILES.find_base_series(f"{part}_rate") for part in parts} == {
        f"{part}_time" for part in parts
    }


@pytest.mark.parametrize(
    ("parameters", "phrases"),
    [
        ({}, []),
        ({"path": "/scratch"}, []),
        ({"path": "scratch"}, ["begin with /"]),
        ({"small_files": 0, "large_file_mb": 0, "software_files": 0}, ["nothing to do"]),
        ({"small_files": 100_000, "small_file_bytes": 2**20}, ["may have 8 GB"]),
    ],
)
def test_what_cannot_run_is_refused_before_the_launch(
    parameters: dict[str, object], phrases: list[str]
) -> None:
    refusals = FILES.list_refusals(cleaned(**parameters), nodes=1, gpus=0, processes=1)
    assert len(refusals) == len(phrases)
    assert all(phrase in text for phrase, text in zip(phrases, refusals, strict=True))
