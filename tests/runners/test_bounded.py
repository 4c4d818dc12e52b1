"""Builds within bounds: their time, their output, their processes, and the line that explains."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners.payload import bounded, build_failures

PROGRAM = Path(bounded.__file__)


def build(script: str, *, seconds: int = 60) -> tuple[int, bytes]:
    """Return the exit code and the output of a build that is a shell script."""
    command = [sys.executable, str(PROGRAM), str(seconds), ".", "sh", "-c", script]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False)
    return done.returncode, done.stdout


def is_running(word: str) -> bool:
    done = subprocess.run(["pgrep", "-f", word], stdout=subprocess.PIPE, check=False)
    return done.returncode == 0


def test_what_a_build_prints_is_passed_on_whatever_it_is() -> None:
    assert build("printf 'a\\377\\376\\0b\\n'") == (0, b"a\xff\xfe\0b\n")


def test_of_five_megabytes_the_beginning_and_the_end_are_passed_on() -> None:
    code, output = build(
        "head -c 5000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo; echo the end; exit 3"
    )
    assert code == 1
    assert len(output) < bounded.MOST_OUTPUT + bounded.TAIL + 1000
    assert b"bytes of the build's output are left out" in output
    assert output.splitlines()[-1] == b"the end"


def test_a_build_that_never_ends_is_ended_with_all_that_it_has_started() -> None:
    mark = f"9{os.getpid()}"
    code, output = build(f"setsid sleep {mark}7 & trap '' TERM; sleep 1{mark}", seconds=1)
    assert (code, output.splitlines()[-1].startswith(b"The build did not end within")) == (1, True)
    assert not is_running(mark)


def test_nothing_outlives_a_build_that_has_ended() -> None:
    mark = f"8{os.getpid()}"
    code, output = build(f"setsid sleep {mark} >/dev/null 2>&1 & setsid sleep {mark} & echo done")
    assert (code, output) == (0, b"done\n")
    assert not is_running(mark)


def test_a_build_whose_job_is_ended_ends_with_it() -> None:
    mark = f"7{os.getpid()}"
    command = [sys.executable, str(PROGRAM), "60", ".", "sh", "-c", f"echo on; sleep {mark}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGTERM)
    output = process.stdout.read()
    assert (process.wait(30), output) == (143, b"The build was ended with its job.\n")
    assert not is_running(mark)


def test_a_program_that_is_not_there_is_named() -> None:
    command = [sys.executable, str(PROGRAM), "60", ".", "/no/such/program"]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1
    assert b"/no/such/program cannot be started" in done.stdout


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("Err: x\n  Could not resolve 'deb.example.org'\nE: Failed\n", "asked the network"),
        ("curl: (6) Could not resolve host: a.org\nError: x", "asked the network"),
        ("FATAL: dial tcp: lookup a.org: no such host", "got no answer (FATAL: dial tcp"),
        ("E: Unable to locate package nonsense", "has the Debian package nonsense."),
        ("E: Version '9' for 'hello' was not found", "has version 9 of the Debian package hello."),
        ("cp: No space left on device", "The disk of"),
        ("Error: x: image not known", "an image that is not here"),
        ('Error: building at STEP "RUN false": exit status 1', "RUN false ended with exit code 1."),
        (
            'Error: building at STEP "RUN a\n b": while running runtime: exit status 7',
            "RUN a b ended with exit code 7.",
        ),
        ("newuidmap: write to uid_map failed", "needs a range of subordinate user ids"),
        ("a\nFATAL:   While performing build: no\nb\n", "FATAL:   While performing build: no"),
        ("nothing known\n\n", "nothing known"),
        ("", "It ended with exit code 5."),
        ("x" * 5000, " ... "),
    ],
)
def test_one_line_explains_what_stopped_a_build(output: str, line: str) -> None:
    explained = build_failures.explain(output, 5)
    assert line in explained
    assert "\n" not in explained
    assert len(explained) < 800


def test_what_is_read_for_the_explanation_is_bounded() -> None:
    """5,000 lines of it are read in no time."""
    output = ('Error: building at STEP "RUN x\n' * 5000)[: bounded.TAIL]
    began = time.perf_counter()
    assert build_failures.explain(output, 1)
    assert time.perf_counter() - began < 5
