"""`command`: any program, started in the run's folder, its numbers read from what it leaves."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from runners.payload import read_payload_files
from runners.workloads import WORKLOADS, ParameterError, Result, SanityError
from tests.tf_cnn_logs import output

COMMAND = WORKLOADS["command"]
FIVE_LINES = """
from tare import Recorder
recorder = Recorder()
for number in recorder.steps(20, burn_in=4):
    recorder.step(loss=1 / (number + 1))
recorder.metric("accuracy", 0.75)
recorder.write()
"""


def metric(name: str, find: str = "", take: str = "last", unit: str = "1", better: str = "lower"):  # type: ignore[no-untyped-def]
    return {"name": name, "unit": unit, "better": better, "find": find, "take": take}


def cleaned(*argv: str, files: dict[str, str] | None = None, **given: Any) -> dict[str, Any]:
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in (files or {}).items()}
    return COMMAND.clean({"argv": list(argv), "files": sums, **given})


class Ran:
    """One run as the job script makes it: its folder with all that was left."""

    def __init__(
        self, folder: Path, parameters: dict[str, Any], files: dict[str, str] | None = None
    ) -> None:
        self.folder = folder / "runs" / "0-x"
        self.parameters = parameters
        self.folder.mkdir(parents=True)
        sent = {f"payload/{name}": content for name, content in read_payload_files().items()}
        sent |= {f"files/{name}": text.encode() for name, text in (files or {}).items()}
        sent["files/tare.py"] = read_payload_files()["recorder.py"]
        for name, content in sent.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        spec = {"schema": 1, "workload": "command", "parameters": parameters, "gpus": 0}
        (self.folder / "spec.json").write_text(json.dumps(spec))
        self.argv = COMMAND.build_argv(sys.executable, str(folder / "payload"), str(self.folder))

    def start(self, **variables: str) -> subprocess.Popen[bytes]:
        with (self.folder / "output.txt").open("wb") as printed:
            return subprocess.Popen(
                self.argv,
                cwd=self.folder,
                env={"PATH": "/usr/bin:/bin", **variables},
                stdout=printed,
                stderr=subprocess.STDOUT,
            )

    def wait(self) -> int:
        return self.start().wait(timeout=60)

    @property
    def left(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    @property
    def failure(self) -> str:
        return self.left.get("failure", b"").decode()

    @property
    def result(self) -> Result:
        return COMMAND.read(self.left, self.parameters)


def run(folder: Path, *argv: str, files: dict[str, str] | None = None, **given: Any) -> Ran:
    ran = Ran(folder, cleaned(*argv, files=files, **given), files)
    assert ran.wait() == 0, ran.left["output.txt"].decode()
    return ran


def test_five_lines_report_steps_and_metrics(tmp_path: Path) -> None:
    files = {"train.py": FIVE_LINES}
    result = run(tmp_path, "{python}", "train.py", files=files).result
    assert {"step_time", "step_time_sd", "time_to_first_step", "accuracy", "wall_time"} == set(
        result.measurements
    )
    unit, times = result.series["step_time"]
    assert (unit, len(times)) == ("s", 20)
    assert result.measurements["step_time"][0] == pytest.approx(sum(times[4:]) / 16)
    assert result.measurements["accuracy"] == (0.75, "1")
    assert result.facts["burn_in"] == 4
    assert {"snapshot", "first step", "burn-in", "steady state", "end"} <= result.phases.keys()
    assert "program" not in result.phases
    wall, first = (result.measurements[name][0] for name in ("wall_time", "time_to_first_step"))
    assert 0 < first < sum(result.phases.values())
    assert wall < sum(result.phases.values())


@pytest.mark.parametrize("phases", [{"snapshot": "x"}, {"snapshot": [1]}, [1], "x", {"x": None}])
def test_phases_of_a_first_job_that_are_no_numbers_are_not_sane(
    tmp_path: Path, phases: object
) -> None:
    ran = run(tmp_path, "{python}", "train.py", files={"train.py": FIVE_LINES})
    result = json.loads(ran.left["result.json"])
    result["facts"]["start_phases"] = phases
    (ran.folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(SanityError):
        COMMAND.read(ran.left, ran.parameters)


def test_the_workload_s_burn_in_goes_before_the_program_s(tmp_path: Path) -> None:
    result = run(tmp_path, "{python}", "a.py", files={"a.py": FIVE_LINES}, burn_in=10).result
    times = result.series["step_time"][1]
    assert result.measurements["step_time"][0] == pytest.approx(sum(times[10:]) / 10)


def test_a_program_in_any_language_writes_json_lines(tmp_path: Path) -> None:
    script = """
for number in 1 2 3; do
    echo '{"step": {"step_time": 0.'$number', "rate": '$number'}}' >> "$TARE_RESULT"
done
echo '{"metric": "accuracy", "value": 0.5}' >> "$TARE_RESULT"
echo '{"phase": "work", "seconds": 0.001}' >> "$TARE_RESULT"
"""
    rows = [metric("rate", take="mean", unit="images/s", better="higher")]
    result = run(tmp_path, "sh", "go.sh", files={"go.sh": script}, metrics=rows, burn_in=1).result
    assert result.measurements["step_time"] == (pytest.approx(0.25), "s")
    assert result.measurements["rate"] == (2.5, "images/s")
    assert result.measurements["accuracy"] == (0.5, "1")
    assert result.phases["work"] == 0.001
    assert COMMAND.choose_primary_metric(cleaned("x", metrics=rows)) == "rate"


def test_placeholders_stand_for_places_and_other_braces_for_themselves(tmp_path: Path) -> None:
    argv = ["echo", "{files}", "{run}", "{gpus}", "{nodes}", '{"a": {b}}', "data.txt"]
    ran = run(tmp_path, *argv, files={"data.txt": ""}, read="nothing")
    expected = (
        f"{tmp_path}/files {ran.folder} 0 1 " + '{"a": {b}} ' + f"{tmp_path}/files/data.txt\n"
    )
    assert ran.left["output.txt"].decode() == expected
    assert set(ran.result.measurements) == {"wall_time"}
    assert "program" in ran.result.phases


def test_a_sent_script_starts_by_itself(tmp_path: Path) -> None:
    ran = run(tmp_path, "go", files={"go": "#!/bin/sh\necho time 12.5 s\n"}, read="patterns",
              metrics=[metric("total", r"time (\S+) s", unit="s")])  # fmt: skip
    assert ran.result.measurements["total"] == (12.5, "s")


def test_patterns_read_what_tf_cnn_benchmarks_prints(tmp_path: Path) -> None:
    rows = [
        metric("wall_images_per_second", r"^total images/sec: ([\d.]+)", unit="images/s"),
        metric("step_images_per_second", r"^\d+\timages/sec: ([\d.]+)", "series", "images/s"),
        metric("loss", r"\(jitter = [\d.]+\)\t([\d.]+)$", "mean"),
    ]
    ran = run(tmp_path, "cat", "log", files={"log": output()}, read="patterns", metrics=rows)
    assert ran.result.measurements["wall_images_per_second"] == (127.5, "images/s")
    assert ran.result.measurements["loss"] == (7.9, "1")
    assert ran.result.series == {
        "step_images_per_second": ("images/s", [128.0, 128.1, 128.0, 128.0])
    }


@pytest.mark.parametrize(
    ("text", "find", "value"),
    [
        ('{"results": [{"loss": [3, 2, 1]}]}', "results.0.loss", 1.0),
        ('{"loss": 3}\n{"time": 1}\n{"loss": 2.5}\n', "loss", 2.5),
    ],
)
def test_json_is_read_by_dotted_names(tmp_path: Path, text: str, find: str, value: float) -> None:
    ran = run(tmp_path, "cp", "{files}/r.json", "out.json", files={"r.json": text}, read="json",
              file="out.json", metrics=[metric("loss", find)])  # fmt: skip
    assert ran.result.measurements["loss"] == (value, "1")


def test_csv_is_read_by_columns(tmp_path: Path) -> None:
    table = "step;time;accuracy\n1;0.5;\n2;0.25;0.1\n3;0.75;\n"
    rows = [metric("epoch_time", "time", "series", "s"), metric("accuracy")]
    ran = run(tmp_path, "cp", "{files}/t", "t.csv", files={"t": table}, read="csv", file="t.csv",
              metrics=rows, burn_in=1)  # fmt: skip
    assert ran.result.measurements["epoch_time"] == (0.5, "s")
    assert ran.result.measurements["accuracy"] == (0.1, "1")


class TestAProgramThatFails:
    def test_ends_with_its_own_code(self, tmp_path: Path) -> None:
        assert Ran(tmp_path, cleaned("sh", "-c", "echo no data; exit 7")).wait() == 7

    def test_by_a_signal_ends_as_a_shell_says_it(self, tmp_path: Path) -> None:
        assert Ran(tmp_path, cleaned("sh", "-c", "kill -KILL $$")).wait() == 137

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            ("trian.py", "this environment has no trian.py on its PATH"),
            ("/nowhere/none", "has no /nowhere/none; sent were a.txt"),
            ("a.txt", "program does not start: {folder}/files/a.txt: Exec format error. Does it"),
        ],
    )
    def test_to_start_is_named(self, tmp_path: Path, argv: str, message: str) -> None:
        files = {"a.txt": "text"}
        ran = Ran(tmp_path, cleaned(argv, files=files), files)
        assert ran.wait() == 4
        assert message.format(folder=tmp_path) in ran.failure

    def test_is_told_to_end(self, tmp_path: Path) -> None:
        program = "trap 'echo told; exit 3' TERM; echo >up; sleep 60 & wait"
        ran = Ran(tmp_path, cleaned("sh", "-c", program))
        process = ran.start()
        wait_until(lambda: (ran.folder / "up").exists())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 3
        assert ran.left["output.txt"] == b"told\n"

    def test_leaves_its_steps_however_it_is_killed(self, tmp_path: Path) -> None:
        program = """
import time
from tare import Recorder
recorder = Recorder()
for number in recorder.steps(10**9):
    time.sleep(0.001)
    recorder.step(loss=number)
"""
        files = {"train.py": program}
        ran = Ran(tmp_path, cleaned("{python}", "train.py", files=files), files)
        process = ran.start()
        lines = ran.folder / "tare-result.jsonl"
        wait_until(lambda: lines.exists() and lines.read_bytes().count(b"\n") > 3)
        kill_all_of(process.pid)
        assert process.wait(timeout=60) == -signal.SIGKILL
        series = COMMAND.read_partial(ran.left, ran.parameters).series
        unit, times = series["step_time"]
        assert unit == "s"
        assert 0 < sum(times) <= 10
        assert series["loss"] == ("1", [float(number) for number in range(len(times))])
        with pytest.raises(SanityError):
            ran.result  # noqa: B018


def wait_until(is_so: Any, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def kill_all_of(pid: int) -> None:
    """The program first, as by the kernel that is out of memory, then what started it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for process in [*map(int, children), pid]:
        os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize(
    ("given", "name", "message"),
    [
        ({"argv": []}, "argv", "which program to start"),
        ({"argv": "'open"}, "argv", "cannot be split"),
        ({"files": {"../x": "0" * 64}}, "files", "plain name"),
        ({"files": {"tare.py": "0" * 64}}, "files", "Tare’s own recorder"),
        ({"files": {"a": "abc"}}, "files", "sha256"),
        ({"read": "csv", "metrics": [metric("a")]}, "file", "must name the file"),
        ({"read": "json", "file": "../etc", "metrics": [metric("a")]}, "file", "inside the run"),
        ({"read": "patterns"}, "metrics", "at least one number"),
        ({"metrics": [metric("a b")]}, "metrics", "a name is letters"),
        ({"metrics": [metric("a"), metric("a")]}, "metrics", "a is there twice"),
        ({"metrics": [metric("a")], "primary": "b"}, "primary", "must be one of a, step_time"),
    ],
)
def test_what_cannot_run_is_refused(given: dict[str, Any], name: str, message: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        COMMAND.clean({"argv": ["true"], **given})
    assert message in refusal.value.messages[name]


def test_a_run_that_may_not_print_is_a_run(tmp_path: Path) -> None:
    ran = Ran(tmp_path, cleaned("/bin/true"))
    closed = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *ran.argv],
        cwd=ran.folder,
        env={"PATH": "/usr/bin:/bin"},
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert (closed.returncode, closed.stderr) == (0, b"")
