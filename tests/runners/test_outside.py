"""Programs that the node's Python records, by a shell inside: on bare metal and behind a wall."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runners.jobs import EnvironmentSpec
from runners.payload import read_payload_files
from runners.shapes import SOFTWARE
from runners.software import inspect_software
from runners.untrusted import parse_document
from runners.workloads import WORKLOADS
from tests.conftest import pause_longer
from tests.runners.outside_runs import SHELLS, Ran, link_shell

WAIT_FOR_IT = "import os, sys; sys.exit(os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:]))"
COMMAND = WORKLOADS["command"]


def clean(*argv: str, **given: Any) -> dict[str, Any]:
    return COMMAND.clean({"argv": list(argv), "read": "nothing", "recorded": "outside", **given})


@pytest.mark.parametrize("shell", SHELLS)
def test_the_time_of_the_program_is_measured_by_marks_of_any_shell(
    tmp_path: Path, shell: str
) -> None:
    began = time.perf_counter()
    ran = Ran(tmp_path, clean("sleep", "0.4"), shell=link_shell(tmp_path, shell))
    assert ran.wait() == 0, ran.output
    result = COMMAND.read(ran.files, clean("sleep", "0.4"))
    wall_time = result.measurements["wall_time"][0]
    assert 0.39 < wall_time < time.perf_counter() - began
    assert 0 < result.measurements["container_start"][0] < wall_time + 5
    assert {"container start", "snapshot", "program", "record"} <= result.phases.keys()
    assert not {".marks", ".go", ".start.sh"} & {path.name for path in ran.folder.iterdir()}


def test_what_the_wall_takes_is_container_start_and_none_of_the_program(tmp_path: Path) -> None:
    wall = ("/bin/sh", "-c", 'sleep 0.7; exec "$@"', "wall")
    ran = Ran(tmp_path, clean("true"), wall=wall)
    assert ran.wait() == 0, ran.output
    values = COMMAND.read(ran.files, clean("true")).measurements
    assert values["container_start"][0] > 0.7
    assert values["wall_time"][0] < 0.7


def test_the_program_finds_what_it_finds_where_python_records_it(tmp_path: Path) -> None:
    script = b"""#!/bin/sh
echo '{"metric": "speed", "value": 3}' >$TARE_RESULT
pwd
printf '%s|' "$@"
"""
    speed = [{"name": "speed", "unit": "1", "better": "lower", "find": "", "take": "last"}]
    given = {"files": {"go.sh": "0" * 64}, "read": "recorder", "metrics": speed}
    parameters = clean("go.sh", "{run} it's", "", "two  words", **given)
    ran = Ran(tmp_path, parameters, sent={"go.sh": script}, ODD="a b", MY_TOKEN="hidden")
    assert ran.wait() == 0, ran.output
    assert ran.output == f"{ran.folder}\n{ran.folder} it's||two  words|"
    assert COMMAND.read(ran.files, parameters).measurements["speed"] == (3.0, "1")
    assert "MY_TOKEN" in ran.inside["other_variables"]
    assert "hidden" not in json.dumps(ran.inside)
    assert ran.inside["run"]["argv"][0].endswith("/files/go.sh")
    assert "python" not in ran.inside


def test_memory_and_loaded_files_are_the_program_s_and_none_of_the_wall(tmp_path: Path) -> None:
    ran = Ran(
        tmp_path,
        clean("sleep", "0.5"),
        wall=(
            sys.executable,
            "-c",
            WAIT_FOR_IT,
        ),
    )
    assert ran.wait() == 0, ran.output
    memory = ran.inside["memory"]
    assert memory["samples"] > 0
    assert 0 < memory["own_bytes"] <= memory["together_bytes"] < 30e6
    loaded = [os.path.basename(path) for path in ran.inside["loaded"]["files"]]
    assert "sleep" in loaded or "coreutils" in loaded
    assert not any(name.startswith("python") for name in loaded)


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$", 137)])
def test_a_program_s_failure_is_its_exit_code(tmp_path: Path, script: str, code: int) -> None:
    ran = Ran(tmp_path, clean("sh", "-c", f"echo words; {script}"))
    assert ran.wait() == code
    assert "words" in ran.output
    assert "result.json" not in ran.files


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    ran = Ran(tmp_path, clean("no-such-program"))
    assert ran.wait() == 4
    assert ran.files["failure"].startswith(b"program missing: this environment has no no-such")


def test_a_wall_that_does_not_open_is_an_error_with_its_own_words(tmp_path: Path) -> None:
    ran = Ran(tmp_path, clean("true"), wall=("/bin/sh", "-c", "echo no image; exit 5", "wall"))
    assert ran.wait() == 5
    assert "no image" in ran.output
    silent = Ran(tmp_path / "silent", clean("true"), wall=("/bin/true",))
    assert silent.wait() == 2
    assert "no mark" in silent.output


def test_term_reaches_the_program(tmp_path: Path) -> None:
    script = "trap 'echo told; exit 7' TERM; echo ready; while true; do sleep 0.05; done"
    ran = Ran(tmp_path, clean("sh", "-c", script))
    pauses = pause_longer()
    while "ready" not in ran.output:
        next(pauses)
    ran.process.send_signal(signal.SIGTERM)
    assert ran.wait() == 7
    assert "told" in ran.output


def test_instances_begin_together(tmp_path: Path) -> None:
    ran = Ran(tmp_path, clean("true"), TARE_INSTANCE="0", TARE_INSTANCES="2")
    assert ran.start_again({"TARE_INSTANCE=0": "TARE_INSTANCE=1"}).wait(timeout=60) == 0
    assert ran.wait() == 0, ran.output
    for number in range(2):
        result = json.loads((ran.folder / f"instance-{number}" / "result.json").read_text())
        assert "waiting for the other instances" in result["phases"]


def test_packages_are_read_without_python(tmp_path: Path) -> None:
    """By the steps of an inspection, here on this machine itself."""
    payload = tmp_path / "payload"
    payload.mkdir()
    for name, content in read_payload_files().items():
        (payload / name).parent.mkdir(exist_ok=True)
        (payload / name).write_bytes(content)
    spec = EnvironmentSpec("bare", "bare_metal", python="none")
    for step in inspect_software(spec, str(tmp_path), "mark", look_for=("sh", "/no/such", "gone")):
        subprocess.run(step.argv, check=True, timeout=60, cwd=tmp_path)
    facts = parse_document((tmp_path / "result.json").read_bytes(), SOFTWARE)
    assert facts["programs"]["sh"].endswith("/sh")
    assert facts["programs"]["/no/such"] == facts["programs"]["gone"] == ""
    assert (facts["python"], facts["packages"], facts["mark"]) == ({}, {}, "mark")
    if Path("/var/lib/dpkg/status").exists():
        assert "libc6" in facts["system_packages"]


@pytest.mark.parametrize(
    "script",
    [
        "rm -rf ./* .[a-z]*",
        "mkdir .start.sh .marks",
        "printf '@half a mark' > .marks",
        "if [ -p .orders ]; then head -n 1 .orders; fi",
        "rm inside.json; mkdir inside.json inside.json/mine result.json",
        "mkfifo inside.json.part result.json.part",
    ],
)
def test_a_program_that_disposes_of_its_folder_is_recorded(tmp_path: Path, script: str) -> None:
    ran = Ran(tmp_path, clean("sh", "-c", script))
    assert ran.wait() == 0
    assert json.loads(ran.files["result.json"])["metrics"]["wall_time"]["value"] > 0
