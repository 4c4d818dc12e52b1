"""Many questions in one command: every one is answered in its time, whatever the others do."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.errors import TryAgain
from runners.probes import MARKER, Probe, build_command, compute_time_limit, parse_answers
from runners.transports import Local


def ask(*probes, setup_lines=()):
    argv = ["bash", "-c", *build_command(probes, setup_lines=setup_lines)]
    done = Local().run(argv, timeout=compute_time_limit(probes) + 10)
    assert done.returncode == 0, done.stderr
    return parse_answers(probes, done.stdout)


def test_answers_keep_their_bytes_codes_and_complaints():
    odd = 'it\'s "$(id)"\n\\ ü\n'
    answers, noise = ask(
        Probe("odd", ["printf", "%s", odd]),
        Probe("fails", ["sh", "-c", "echo out; echo err >&2; exit 3"]),
        Probe("bytes", ["printf", "\\377\\000\\n"]),
    )
    assert answers["odd"].stdout.decode() == odd
    assert (answers["fails"].code, answers["fails"].text, answers["fails"].message) == (
        3,
        "out",
        "err",
    )
    assert answers["bytes"].stdout == b"\xff\0\n"
    assert noise == ""


def test_a_tool_that_hangs_takes_its_own_time_alone():
    began = time.monotonic()
    answers, _ = ask(
        Probe("hangs", ["sleep", "60"], seconds=1),
        Probe("deaf", ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"], seconds=1),
        Probe("well", ["echo", "well"]),
    )
    assert time.monotonic() - began < 8
    assert answers["hangs"].why_no_answer == "did not end in 1 s"
    assert answers["deaf"].why_no_answer == "did not end in 1 s"
    assert answers["well"].text == "well"


def test_a_child_that_keeps_the_output_open_holds_up_nobody():
    began = time.monotonic()
    answers, _ = ask(Probe("daemon", ["sh", "-c", "setsid sleep 12 & echo started"], seconds=1))
    assert time.monotonic() - began < 8
    assert answers["daemon"].text == "started"


def test_a_tool_that_prints_without_end_is_cut_off():
    answers, _ = ask(
        Probe("floods", ["yes"], limit=1000), Probe("complains", ["sh", "-c", "yes >&2"])
    )
    assert len(answers["floods"].stdout) == 1000
    assert len(answers["complains"].stderr) == 16384


@pytest.mark.parametrize(
    ("argv", "silence"),
    [
        (["no-such-tool"], "is not there"),
        (["/etc/passwd"], "cannot be started"),
        (["echo", "<!DOCTYPE html><html>Maintenance</html>"], "answered with a web page"),
        (["echo", "  <HTML>"], "answered with a web page"),
        (["echo", "slurm 24.11.5"], ""),
        (["false"], ""),
    ],
)
def test_what_is_no_answer_is_told(argv, silence):
    answers, _ = ask(Probe("tool", argv))
    assert answers["tool"].why_no_answer == silence


def test_what_start_up_files_and_set_up_lines_print_is_told_apart():
    answers, noise = ask(Probe("tool", ["echo", "well"]), setup_lines=["echo 'Welcome to MOTD'"])
    assert answers["tool"].text == "well"
    assert noise == "Welcome to MOTD"


def test_set_up_lines_reach_every_question():
    answers, _ = ask(Probe("tool", ["sh", "-c", "echo $MODULE"]), setup_lines=["export MODULE=x"])
    assert answers["tool"].text == "x"


def test_nothing_stays_behind(tmp_path):
    probe = Probe("tool", ["sh", "-c", "ls -d /proc/self/fd; true"])
    argv = ["env", f"TMPDIR={tmp_path}", "bash", "-c", *build_command([probe])]
    assert Local().run(argv).returncode == 0
    assert list(tmp_path.iterdir()) == []


WHOLE = MARKER + b"0 3 2\nab\nxy1 0 0\n"
TWO = (Probe("a", []), Probe("b", []))


@given(st.integers(0, len(WHOLE) - 1))
def test_an_answer_cut_at_any_byte_is_no_answer(length):
    if WHOLE[:length] == WHOLE.rstrip():  # only the last line's end is missing
        return
    with pytest.raises(TryAgain):
        parse_answers(TWO, WHOLE[:length])


def test_the_whole_one_is():
    answers, _ = parse_answers(TWO, b"Welcome\n" + WHOLE)
    assert answers["a"].stdout == b"ab\n"
    assert answers["a"].stderr == b"xy"
    assert answers["b"].code == 1
