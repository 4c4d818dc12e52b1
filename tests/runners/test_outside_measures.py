"""`startup` and `files` without Python inside: every part is timed, nothing stays behind."""

from __future__ import annotations

import json
import os
import signal
import statistics
from pathlib import Path
from typing import Any

import pytest

from runners.workloads import WORKLOADS
from runners.workloads.base import Workload
from tests.conftest import pause_longer
from tests.runners.outside_runs import SHELLS, Ran, link_shell

SMALL: dict[str, dict[str, Any]] = {
    "startup": {"forks": 3, "steps": 3, "burn_in": 1, "recorded": "outside"},
    "files": {
        "small_files": 120,
        "large_file_mb": 2,
        "software_files": 40,
        "steps": 3,
        "burn_in": 1,
        "recorded": "outside",
    },
}
NOT_HERE = {"tail_ratio", "instance_spread"}  # these need more steps, and several instances


def clean(workload: str, **given: Any) -> dict[str, Any]:
    return WORKLOADS[workload].clean({**SMALL[workload], **given})


def read(ran: Ran, workload: str, **given: Any) -> Any:
    assert ran.wait() == 0, ran.output
    return WORKLOADS[workload].read(ran.files, clean(workload, **given))


def declared(workload: str, **given: Any) -> set[str]:
    kind: type[Workload] = WORKLOADS[workload]
    return {metric.name for metric in kind.list_metrics(clean(workload, **given))} - NOT_HERE


def list_leftovers(ran: Ran) -> set[str]:
    known = {"spec.json", "inside.json", "result.json", "output.txt"}
    return {path.name for path in ran.folder.iterdir()} - known


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("workload", ["startup", "files"])
def test_any_shell_measures_what_is_declared_and_leaves_nothing(
    tmp_path: Path, shell: str, workload: str
) -> None:
    ran = Ran(tmp_path, clean(workload), workload=workload, shell=link_shell(tmp_path, shell))
    result = read(ran, workload)
    assert set(result.measurements) == declared(workload)
    assert list_leftovers(ran) == set()
    steps = result.series["step_time"][1]
    assert len(steps) == 3
    assert result.measurements["step_time"][0] == pytest.approx(statistics.fmean(steps[1:]))
    parts = [values for name, (_, values) in result.series.items() if name != "step_time"]
    forks = 3 if workload == "startup" else 1
    for number, step in enumerate(steps):
        inner = sum(values[number] for values in parts)
        if workload == "startup":
            inner += (forks - 1) * result.series["fork_time"][1][number]
        assert inner <= step, "the parts of a step are in it"
    assert result.measurements["container_start"][0] > 0
    assert "step_time = " in ran.output


def test_a_fresh_program_is_timed_and_what_it_prints_is_thrown_away(tmp_path: Path) -> None:
    program = ["sh", "-c", "echo noise; sleep 0.2"]
    ran = Ran(tmp_path, clean("startup", program=program, forks=0), workload="startup")
    result = read(ran, "startup", program=program, forks=0)
    assert 0.2 < result.measurements["program_start"][0] < 2
    assert result.series["program_start"][1][0] == result.measurements["first_program_start"][0]
    assert "fork_time" not in result.measurements
    assert "noise" not in ran.output
    assert ran.inside["program"]["files"][0]["word"] == "sh"


def test_the_programs_that_do_the_work_are_in_the_record(tmp_path: Path) -> None:
    ran = Ran(tmp_path, clean("files"), workload="files")
    read(ran, "files")
    words = {file["word"]: file for file in ran.inside["program"]["files"]}
    assert {"cat", "dd", "mkdir", "rm"} <= words.keys()
    assert len(words["cat"]["sha256"]) == 64


@pytest.mark.parametrize(
    "given",
    [
        {"small_files": 0},
        {"large_file_mb": 0},
        {"software_files": 0, "small_files": 1, "small_file_bytes": 2**20},
        {"small_files": 0, "large_file_mb": 0},
        {"large_file_mb": 130, "small_files": 0, "software_files": 0, "steps": 2},
    ],
)
def test_what_is_asked_for_is_done(tmp_path: Path, given: dict[str, Any]) -> None:
    ran = Ran(tmp_path, clean("files", **given), workload="files")
    expected = declared("files", **given)
    if given.get("steps") == 2:
        expected -= {"step_time_sd"}
    assert set(read(ran, "files", **given).measurements) == expected
    assert list_leftovers(ran) == set()


def test_software_is_that_of_a_folder_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "soft ware"
    for name, size in (("b.txt", 10), ("a/x'y.txt", 20), ("a/b/z", 30), ("c", 1000)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"." * size)
    (folder / "a/link").symlink_to("/etc/passwd")
    only = {"small_files": 0, "large_file_mb": 0}
    given = {**only, "software_folder": str(folder), "software_files": 4, "steps": 2, "burn_in": 0}
    ran = Ran(tmp_path / "run", clean("files", **given), workload="files")
    values = read(ran, "files", **given).measurements
    rate, seconds = values["software_read_rate"][0], values["software_read_time"][0]
    assert rate * seconds == pytest.approx(4), "files, and no links"
    assert values["software_bandwidth"][0] * seconds * 1e6 == pytest.approx(1060)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"path": "/no/such/folder"}, "cannot tell how much room"),
        ({"path": "/proc/self"}, "free"),
        ({"small_files": 100_000, "small_file_bytes": 2**20}, "twice what is written"),
        ({"software_folder": "/proc/self/fdinfo/none"}, "there is no file below"),
    ],
)
def test_what_cannot_be_measured_ends_with_a_sentence(
    tmp_path: Path, given: dict[str, Any], words: str
) -> None:
    ran = Ran(tmp_path, clean("files", **given), workload="files")
    assert ran.wait() == 2, ran.output
    assert words in ran.output
    assert list_leftovers(ran) == set()


def test_a_program_that_fails_or_is_missing_is_named(tmp_path: Path) -> None:
    given = {"program": ["sh", "-c", "exit 3"]}
    ran = Ran(tmp_path, clean("startup", **given), workload="startup")
    assert ran.wait() == 3
    assert "sh -c exit 3, ended with exit code 3" in ran.output
    missing = Ran(tmp_path / "b", clean("startup", program=["no-such"]), workload="startup")
    assert missing.wait() == 4
    assert b"no no-such on its PATH" in missing.files["failure"]


def test_a_folder_of_one_s_own_is_left_clean_also_after_term(tmp_path: Path) -> None:
    own = tmp_path / "own folder"
    own.mkdir()
    given = {"path": str(own), "small_files": 5000, "steps": 1000}
    ran = Ran(tmp_path / "run", clean("files", **given), workload="files")
    pauses = pause_longer()
    while not list(own.glob("tare-*/small")):
        next(pauses)
    assert next(path.name for path in own.iterdir()).startswith("tare-0-x-")
    ran.process.send_signal(signal.SIGTERM)
    assert ran.wait() == 143
    assert list(own.iterdir()) == []
    assert list_leftovers(ran) == set()


def test_packed_instances_do_not_meet(tmp_path: Path) -> None:
    variables = {"TARE_INSTANCE": "0", "TARE_INSTANCES": "2"}
    ran = Ran(tmp_path, clean("files"), workload="files", **variables)
    second = ran.start_again({"TARE_INSTANCE=0": "TARE_INSTANCE=1"})
    assert (ran.wait(), second.wait(timeout=60)) == (0, 0), ran.output
    for number in range(2):
        result = json.loads((ran.folder / f"instance-{number}/result.json").read_text())
        assert "waiting for the other instances" in result["phases"]
    assert not os.path.exists(ran.folder / ".scratch")


def test_a_shell_cannot_drop_pages() -> None:
    refused = WORKLOADS["files"].list_refusals(
        clean("files", cache="dropped"), nodes=1, gpus=0, processes=1
    )
    assert len(refused) == 1
    assert "recorded inside" in refused[0]
    assert not WORKLOADS["files"].needs_python(clean("files"))
    assert WORKLOADS["files"].needs_python(WORKLOADS["files"].clean({}))
    assert WORKLOADS["startup"].choose_primary_metric(clean("startup")) == "program_start"
