"""Who computes on a job's GPUs beside it: what the job script writes down, and the rule on it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.node_rules import OTHERS, Judgement, choose_process_counts, judge, name_violated_rules
from runners.node_samples import PROCESSES, ProcessCount, Samples, read_samples
from runners.schedulers import SCHEDULERS
from runners.scripts import PROCESSES_TEMPLATE, TEMPLATE, render
from tests.runners.direct_jobs import finished, until
from tests.runners.test_node_samples import tool

RULE = {OTHERS: True}


def judge_counts(
    *counts: tuple[float, int, int, int], began: float = 100, ended: float = 200
) -> Any:
    return judge(
        RULE, Samples(process_counts=[ProcessCount(*count) for count in counts]), began, ended
    )


def test_own_processes_break_no_rule() -> None:
    assert judge_counts((99, 0, 0, 0), (150, 4, 0, 0), (200, 0, 0, 0)) == Judgement()


@pytest.mark.parametrize("time", [99, 100, 150, 200])
def test_others_before_during_or_after_a_run_reject_it(time: int) -> None:
    judgement = judge_counts((time, 1, 2, 0), (160, 1, 0, 0))
    assert judgement.violations == ("others had 2 processes on the job's GPUs in 1 of 2 samples",)
    assert name_violated_rules(judgement.violations[0]) == ["other processes on GPUs"]


def test_others_of_another_run_s_time_reject_nothing() -> None:
    assert judge_counts((50, 0, 1, 0), (98, 0, 1, 0), (99, 0, 0, 0), (201, 0, 1, 0)) == Judgement()


@pytest.mark.parametrize("counts", [(), ((150, 0, 0, 3),), ((20, 0, 0, 0),)])
def test_where_it_is_not_known_the_rule_is_not_applied(counts: Any) -> None:
    assert judge_counts(*counts) == Judgement((), ("other processes on GPUs",))


@given(
    st.lists(st.floats(0, 1000, allow_nan=False), max_size=30).map(sorted),
    st.floats(0, 1000),
    st.floats(0, 1000),
)
def test_at_most_one_count_is_of_before_the_run(times: list[float], one: float, two: float) -> None:
    began, ended = sorted((one, two))
    chosen = choose_process_counts([ProcessCount(time, 0, 0, 0) for time in times], began, ended)
    assert sum(count.time < began for count in chosen) <= 1
    assert all(began - 15 <= count.time <= ended for count in chosen)
    assert {count.time for count in chosen} >= {time for time in times if began <= time <= ended}


@given(st.binary(max_size=200))
def test_no_content_raises(content: bytes) -> None:
    read_samples({PROCESSES: content})


@pytest.mark.parametrize(
    "line", ["", "1 2 3", "1 2 3 4 5", "nan 0 0 0", "1 -1 0 0", "1 0 0 x", "1" * 600, "9e99 0 0 0"]
)
def test_odd_lines_are_counted(line: str) -> None:
    samples = read_samples({PROCESSES: f"{line}\n7.5 1 2 3\n".encode()})
    assert (samples.process_counts, samples.odd_lines) == ([ProcessCount(7.5, 1, 2, 3)], 1)


# --- The script


def counts_of(record: Any) -> list[tuple[int, int, int]]:
    counts = read_samples(record.samples).process_counts
    return [(count.own, count.others, count.unknown) for count in counts]


@pytest.fixture
def bystander() -> Iterator[int]:
    process = subprocess.Popen(["sleep", "100"])
    yield process.pid
    process.kill()
    process.wait()


def list_on_gpus(*lines: str) -> str:
    """Return what answers as nvidia-smi does: samples never, processes as these lines."""
    listed = "\n".join(f"echo {line}" for line in lines)
    return (
        'case "$*" in *--loop*) exec sleep 100 ;; esac\n'
        'case "$*" in *--id=0*compute-apps*) ;; *) exit 9 ;; esac\n' + listed + "\n"
    )


def run_watched(runner: Any, block: Callable[..., Any], program: Any) -> Any:
    job = replace(block(program, gpus_per_node=1), counts_gpu_processes=True)
    return finished(runner, job, runner.submit(job))


def test_a_run_alone_on_its_gpu_is_counted_before_and_after(runner, block, program, tmp_path, home):
    tool(tmp_path, home, list_on_gpus())
    record = run_watched(runner, block, program("echo ran"))
    assert counts_of(record) == [(0, 0, 0)] * 2
    assert (record.exit_code, record.runs["r0"].output_tail) == (0, "ran")
    assert record.is_verified
    run = record.runs["r0"]
    assert judge(RULE, read_samples(record.samples), run.began, run.ended) == Judgement()


def test_somebody_else_s_process_is_seen(runner, block, program, tmp_path, home, bystander):
    tool(tmp_path, home, list_on_gpus(f"'{bystander}, /usr/bin/other, with a comma'"))
    record = run_watched(runner, block, program("echo ran"))
    assert counts_of(record) == [(0, 1, 0)] * 2


def test_what_the_job_has_started_is_its_own(runner, block, program, tmp_path, home):
    pid = tmp_path / "pid"
    tool(tmp_path, home, list_on_gpus(f'"$(cat {pid}), python"'))
    pid.write_text(f"{os.getpid()}")  # until the job's own program writes its own
    left = f"setsid sleep 100 & echo $! >{pid}; sleep 0.1"
    record = run_watched(runner, block, program(left))
    before, after = counts_of(record)
    assert before == (0, 1, 0)
    # It is ended with its run: whoever has gone is nobody that could be told.
    assert after == (0, 0, 1)


def test_what_cannot_be_told_is_unknown(runner, block, program, tmp_path, home):
    tool(tmp_path, home, list_on_gpus("'[N/A], [N/A]'", "'4194303, gone'", "No processes"))
    record = run_watched(runner, block, program("true"))
    assert counts_of(record) == [(0, 0, 2)] * 2


def test_a_process_on_several_gpus_counts_once(runner, block, program, tmp_path, home, bystander):
    lines = [f"'{bystander}, other'"] * 4 + ["'[N/A], [N/A]'"] * 3 + ["'[N/A], one'"] * 2
    tool(tmp_path, home, list_on_gpus(*lines))
    assert counts_of(run_watched(runner, block, program("true"))) == [(0, 1, 2)] * 2


def test_the_gpus_are_chosen_once(block, program) -> None:
    for counts in (True, False):
        job = replace(block(program("true"), gpus_per_node=1), counts_gpu_processes=counts)
        script = render(job, SCHEDULERS["direct"]())
        assert len(re.findall(r"^\s*choose_gpus$", script, re.MULTILINE)) == 1


def test_a_server_that_shares_the_gpu_is_nobody(runner, block, program, tmp_path, home, bystander):
    tool(tmp_path, home, list_on_gpus(f"'{bystander}, nvidia-cuda-mps-server'"))
    assert counts_of(run_watched(runner, block, program("true"))) == [(0, 0, 0)] * 2


@pytest.mark.parametrize("answer", ["echo '7, x'; exit 6", "exit 1"])
def test_a_tool_that_fails_is_asked_once_and_stops_no_run(
    runner, block, program, tmp_path, home, answer
):
    asked = tmp_path / "asked"
    tool(
        tmp_path,
        home,
        'case "$*" in *--loop*) exec sleep 100 ;; esac\n' + f"echo asked >>'{asked}'\n{answer}\n",
    )
    record = run_watched(runner, block, program("echo ran"))
    assert (record.exit_code, record.runs["r0"].output_tail) == (0, "ran")
    assert counts_of(record) == []
    assert asked.read_text().split() == ["asked"] * 2  # for the run, and after it by the script


def test_no_job_counts_that_was_not_asked_to(runner, block, program, tmp_path, home):
    tool(tmp_path, home, list_on_gpus())
    job = block(program("true"), gpus_per_node=1)
    record = finished(runner, job, runner.submit(job))
    assert PROCESSES not in record.samples
    assert record.exit_code == 0


def count(start: str, *before: str) -> str:
    """Return what a script counts the process `$process` as after `start`: own, others, unknown."""
    text = PROCESSES_TEMPLATE.read_text()
    functions = re.findall(r"^(?:count_process|is_lent)\(\) \{.*?^\}\n", text, re.S | re.M)
    assert len(functions) == 2
    script = (
        f"job=/scratch/jobs/a-1 own=0 others=0 unknown=0\n{''.join(functions)}{start}\n"
        'count_process "$process" 2>/dev/null\necho "$own $others $unknown"'
    )
    argv = [*before, "bash", "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@contextmanager
def sleeping(*before: str, mark: str = "") -> Iterator[int]:
    process = subprocess.Popen([*before, "sleep", "100"], env=os.environ | {"TARE_RUN": mark})
    until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n")
    yield process.pid
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("mark", "counted"),
    [
        ("/scratch/jobs/a-1/runs/0-x", "1 0 0"),
        ("/scratch/jobs/a-12/runs/0-x", "0 1 0"),
        ("", "0 1 0"),
    ],
)
def test_variables_tell_whose_a_process_is(mark: str, counted: str) -> None:
    with sleeping(mark=mark) as process:
        assert count(f"process={process}") == counted


def test_descendants_of_the_script_are_its_own() -> None:
    start = "(exec env -i sleep 100) & process=$!; trap 'kill $process' EXIT"
    assert count(start) == "1 0 0"


def test_a_line_feed_in_a_name_hides_nothing(tmp_path: Path) -> None:
    """Before, the parent of such a process was itself, for ever."""
    program = tmp_path / "two\nlines"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "100"], env={"A": "b"})
    until(lambda: "two" in Path(f"/proc/{process.pid}/comm").read_text())
    assert count(f"process={process.pid}") == "0 1 0"
    process.kill()
    process.wait()


def test_what_has_no_variables_is_not_taken_for_another_s() -> None:
    """A process that is just ending has none any more, and may have been the run's."""
    with sleeping("env", "-i") as process:
        assert count(f"process={process}") == "0 0 1"


def test_of_processes_that_hide_their_variables_the_user_tells(tmp_path: Path) -> None:
    """Root may be whoever starts containers, and a lent user the inside of one."""
    lent = tmp_path / "subuid"
    lent.write_text("54321:12000:1000\n")
    as_user = "setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"
    with sleeping(mark="/scratch/jobs/a-1/runs/0-x") as of_root:
        assert count(f"process={of_root}", *as_user) == "0 0 1"
    with sleeping("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups") as of_another:
        assert count(f"process={of_another}", *as_user) == "0 1 0"
        mount = ("unshare", "--mount", "sh", "-c", f'mount --bind {lent} /etc/subuid && exec "$@"')
        assert count(f"process={of_another}", *mount, "sh", *as_user) == "0 0 1"


def test_the_template_is_the_only_place_of_its_calls() -> None:
    assert "count_gpu_processes" not in TEMPLATE.read_text()
