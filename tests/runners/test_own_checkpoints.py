"""Programs of one's own over several jobs: they stop, die of the signal, are killed, and go on."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.payload import own_checkpoints, read_payload_files
from runners.payload.own_checkpoints import Content, read_folder
from runners.payload.recorder import RESUMED_STEP_TIME, Recorder
from runners.workloads import WORKLOADS, ParameterError
from runners.workloads.several_jobs import explain_short_limit
from tests.conftest import pause_longer
from tests.runners.payload_runs import Ran, left, run_payload

COMMAND = WORKLOADS["command"]
TRAINING = """\
import json, os, signal, sys, time
from tare import Recorder

STEPS, PER_JOB, HOW = 9, 3, sys.argv[2]
path = os.path.join(sys.argv[1], "last.json")
assert sys.argv[1] == os.environ["TARE_CHECKPOINTS"]
recorder, done = Recorder(), 0
if os.path.exists(path):
    state = json.load(open(path))
    done = state["done"]
    recorder.restore(state["recorder"])
told = []
signal.signal(signal.SIGUSR1, lambda *_: told.append(1))
first = done
for step in recorder.steps(range(done, STEPS), burn_in=1):
    time.sleep(0.01)
    recorder.step(loss=float(STEPS - step))
    done = step + 1
    if done - first == PER_JOB and done < STEPS:
        while HOW == "signal" and not told:
            time.sleep(0.01)
        with open(path + ".new", "w") as file:
            json.dump({"done": done, "recorder": recorder.export()}, file)
        os.replace(path + ".new", path)
        sys.exit(75)
recorder.metric("accuracy", 0.5)
recorder.write()
"""
WRITE = "import os, sys; open(os.environ['TARE_CHECKPOINTS'] + '/x', 'w').write('x')"


def clean(argv: list[str], **parameters: object) -> dict[str, Any]:
    usual: dict[str, object] = {"read": "nothing", "segments": 4, "notice_seconds": 1}
    cleaned: dict[str, Any] = COMMAND.clean({**usual, **parameters, "argv": argv})
    return cleaned


def run_part(
    directory: Path,
    number: int,
    parameters: dict[str, Any],
    *,
    files: dict[str, str] | None = None,
    most: int = 4,
    limit: float = 0,
) -> Ran:
    """Run one job's part in a folder of its own; limit 0 is none, and no signal is sent."""
    earlier = [str(find_run(directory, n)) for n in range(number - 1, 0, -1)]
    segment = {"number": number, "most": most, "limit_seconds": limit, "earlier": earlier}
    sent = directory / str(number) / "files"
    sent.mkdir(parents=True)
    (sent / "tare.py").write_bytes(read_payload_files()["recorder.py"])
    for name, text in (files or {}).items():
        (sent / name).write_text(text)
    return run_payload(directory / str(number), "command", parameters, segment=segment)


def find_run(directory: Path, number: int) -> Path:
    return directory / str(number) / "runs" / "0-x"


def read_facts(directory: Path, number: int) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((find_run(directory, number) / "segment.json").read_text())
    return facts


@pytest.mark.parametrize("how", ["exit", "signal"])
def test_steps_and_times_go_on_in_the_next_job(tmp_path: Path, how: str) -> None:
    (tmp_path / "files").mkdir()
    parameters = clean(
        ["{python}", "train.py", "{checkpoints}", how],
        files={"train.py": "0" * 64},
        read="recorder",
        notice_signal="USR1",
        metrics=[{"name": "accuracy", "better": "higher"}],
    )
    files, limit = {"train.py": TRAINING}, 2.0 if how == "signal" else 0
    for number in (1, 2):
        ran = run_part(tmp_path, number, parameters, files=files, limit=limit)
        assert (ran.returncode, ran.result) == (75, None), ran.stderr
        assert f"job {number + 1} of at most 4 goes on from what it has left" in ran.stderr
        assert ran.inside["memory"]
    ran = run_part(tmp_path, 3, parameters, files=files, limit=limit)
    assert ran.returncode == 0, ran.stderr
    report = (find_run(tmp_path, 3) / "tare-result.json").read_bytes()
    read = {**left(ran.result), "tare-result.json": report}
    result = COMMAND.read(read, parameters)
    assert result.series["loss"][1] == [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    assert len(result.series["step_time"][1]) == 7
    assert len(result.series[RESUMED_STEP_TIME][1]) == 2, "a warm-up after each resume"
    parts = [read_facts(tmp_path, number) for number in (1, 2, 3)]
    assert [part["ended"] for part in parts] == ["unfinished", "unfinished", "finished"]
    assert all(part["checkpoint_files"] == 1 for part in parts)
    seconds = [part["training_seconds"] for part in parts]
    assert result.measurements["wall_time"][0] == pytest.approx(sum(seconds), abs=0.05)
    started = json.loads(ran.result or b"")["facts"]["start_phases"]
    assert started == parts[0]["start_phases"], "how the run began is how its first job began"
    container_start = result.measurements["container_start"][0]
    assert container_start == pytest.approx(started["container start"])


@pytest.mark.parametrize("shell", [False, True])
def test_a_program_that_dies_of_the_signal_goes_on(tmp_path: Path, shell: bool) -> None:
    """It has no handler, and writes its checkpoints whenever it likes."""
    argv = ["{python}", "-c", f"{WRITE}; import time; time.sleep(60)"]
    if shell:
        script = '"$0" -c "$1" & child=$!; trap "kill $child; exit 143" TERM; wait'
        argv = ["sh", "-c", script, "{python}", argv[2]]
    parameters = clean(argv)
    began = time.monotonic()
    ran = run_part(tmp_path, 1, parameters, limit=2)
    assert time.monotonic() - began < 20
    assert ran.returncode == 75, ran.stderr
    assert ("exit code 143" if shell else "SIGTERM") in ran.stderr


def test_a_program_without_a_checkpoint_does_not_begin_anew(tmp_path: Path) -> None:
    ran = run_part(tmp_path, 1, clean(["{python}", "-c", "raise SystemExit(75)"]))
    assert ran.returncode == 4
    assert ran.stderr.startswith("no checkpoint: the program stopped before its end (exit code 75)")


def test_the_last_job_that_a_run_may_take_says_so(tmp_path: Path) -> None:
    argv = ["{python}", "-c", f"{WRITE}; sys.exit(75)"]
    ran = run_part(tmp_path, 1, clean(argv), most=1)
    assert ran.returncode == 4
    assert "time limit reached: the program stopped before its end in 1 job, as many" in ran.stderr


@pytest.mark.parametrize("code", [1, 143])
def test_any_other_end_is_the_programs_own(tmp_path: Path, code: int) -> None:
    """143 without a signal of ours is somebody else's."""
    ran = run_part(tmp_path, 1, clean(["{python}", "-c", f"{WRITE}; sys.exit({code})"]))
    assert ran.returncode == code
    assert read_facts(tmp_path, 1)["ended"] == ""


def test_a_folder_or_a_word_of_the_job_before_that_is_gone_is_named(tmp_path: Path) -> None:
    argv = ["{python}", "-c", f"{WRITE}; sys.exit(75)"]
    assert run_part(tmp_path, 1, clean(argv)).returncode == 75
    (find_run(tmp_path, 1) / "segment.json").write_text("{")
    ran = run_part(tmp_path, 2, clean(argv))
    assert "what job 1 has written down of its part cannot be read" in ran.stderr
    (find_run(tmp_path, 1) / "checkpoints/x").unlink()
    (find_run(tmp_path, 1) / "checkpoints").rmdir()
    ran = run_part(tmp_path, 3, clean(argv))
    assert "the folder of the jobs before, is not there any more" in ran.stderr


def open_checkpoints(folder: Path, *earlier: Path) -> Any:
    """Return the checkpoints of a job in this folder, without a program."""
    folder.mkdir(exist_ok=True)
    process = type("Process", (), {"directory": str(folder)})()
    segment = own_checkpoints.Segment(len(earlier) + 1, 3, 500.0, tuple(map(str, earlier)))
    methods = {"phases": lambda _: {}, "age": lambda _: 0.0, "restore": lambda _, state: None}
    recorder = type("R", (), {**methods, "facts": {}})()
    parameters = clean(["x"])
    return own_checkpoints.OwnCheckpoints(parameters, process, segment, recorder)  # type: ignore[arg-type]


def test_of_a_job_that_is_killed_the_time_counts_until_its_last_checkpoint(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    kept = open_checkpoints(first)
    kept._began -= 300  # it has run for so long
    kept._count_changes()
    facts = first / "segment.json"
    assert json.loads(facts.read_text())["training_seconds"] == 0
    path, began = first / "checkpoints" / "x", (first / "checkpoints").stat().st_mtime
    path.write_text("x")
    os.utime(path, (began + 100, began + 100))
    kept._count_changes()
    seen = json.loads(facts.read_text())
    assert seen["training_seconds"] == pytest.approx(100, abs=0.1)
    kept._count_changes()
    assert json.loads(facts.read_text()) == seen
    os.utime(path, (began + 9000, began + 9000))  # by another clock
    kept._count_changes()
    assert json.loads(facts.read_text())["training_seconds"] == pytest.approx(300, abs=5)

    facts.write_text(json.dumps(seen))
    os.utime(path, (began + 150, began + 150))  # and it was killed before it saw that
    assert open_checkpoints(second, first).seconds_before == pytest.approx(150, abs=0.1)
    facts.write_text(json.dumps({**seen, "ended": "unfinished"}))
    assert open_checkpoints(second, first).seconds_before == pytest.approx(100, abs=0.1)


def test_the_signal_comes_whatever_becomes_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_checkpoints, "LEAST_PAUSE", 0.01)
    kept = open_checkpoints(tmp_path / "1")
    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(kept, "_count_changes", look)
    signals: list[int] = []
    program = type("Program", (), {"send_signal": lambda _, number: signals.append(number)})()
    thread = threading.Thread(target=kept._watch, args=(program, time.perf_counter() + 0.2))
    thread.start()
    pauses = pause_longer()
    while not signals and thread.is_alive():
        next(pauses)
    kept._is_over.set()
    thread.join()
    assert signals == [signal.SIGTERM]
    assert len(looks) > 1


def test_a_folder_is_read_whatever_lies_in_it(tmp_path: Path) -> None:
    assert read_folder(str(tmp_path / "none")) == Content()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("/none")
    content = read_folder(str(tmp_path))
    assert (content.files, content.bytes) == (2, 4 + len("/none"))
    assert content.changed_at > 0
    os.utime(tmp_path / "a" / "x", (2e9, 2e9))
    assert read_folder(str(tmp_path)).changed_at == 2e9


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({"read": "json", "file": "x", "metrics": [{"name": "x", "find": "x"}]}, "its last job al"),
        ({"recorded": "outside", "argv": ["x"]}, "recorded outside"),
        ({"processes": "gpu"}, "as torchrun does"),
        ({"segments": 1}, "has {checkpoints} in it: allow the run more than one job"),
    ],
)
def test_what_does_not_go_over_several_jobs_is_refused(
    parameters: dict[str, Any], problem: str
) -> None:
    argv = parameters.pop("argv", ["x", "{checkpoints}"])
    with pytest.raises(ParameterError) as refusal:
        clean(argv, **parameters)
    assert problem in str(refusal.value.messages)


def test_a_signal_before_the_program_has_begun_is_refused() -> None:
    parameters = clean(["x"], notice_seconds=60)
    assert "60 s before its time limit of 60 s" in explain_short_limit(parameters, 60)
    assert explain_short_limit(parameters, 61) == ""
    assert explain_short_limit(clean(["x"], segments=1), 1) == ""
    assert explain_short_limit({}, 1) == ""


@settings(deadline=None)
@given(cuts=st.lists(st.integers(0, 12), max_size=4).map(sorted), burn_in=st.integers(0, 3))
def test_a_recorder_goes_on_wherever_it_was_cut(cuts: list[int], burn_in: int) -> None:
    """All steps are there once, in their order, and none after a cut without its checkpoint."""
    exported: Any = None
    ends = [*cuts, 12]
    for end in ends:
        recorder = Recorder(0.0)
        if exported is not None:
            recorder.restore(json.loads(json.dumps(exported)))
        done = len(exported["values"].get("loss", [])) if exported else 0
        for step in recorder.steps(range(done, end), burn_in):
            recorder.step(loss=float(step))
        exported = recorder.export()
    series = recorder.document()["series"]
    assert series["loss"]["values"] == [float(step) for step in range(12)]
    counted = len(series["step_time"]["values"])
    resumed = len(series.get(RESUMED_STEP_TIME, {"values": []})["values"])
    assert counted + resumed == 12
    assert resumed <= burn_in * len(set(cuts))
