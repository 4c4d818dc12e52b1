"""The order of the jobs that wait in Slurm's queue: texts of Slurm 24.11.5, as it printed them."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.errors import TryAgain
from runners.schedulers import SCHEDULERS, Slurm
from runners.schedulers.slurm_queue import MOST_BYTES, MOST_JOBS, PENDING
from runners.transports import Completed

SLURM = Slurm()
# Of a queue with an array, a held job and components of a heterogeneous one.
PRINTED = "100|14\n1|4\n1|6_1\n1|6_2\n1|10\n1|12+0\n1|12+1\n0|7\nexit 0\n"


def completed(stdout: str | bytes, stderr: str = "") -> Completed:
    content = stdout if isinstance(stdout, bytes) else stdout.encode()
    return Completed(0, content, stderr.encode())


def run_pending(squeue: str, folder: Path) -> Completed:
    """Run the command with a squeue of the test's own; it gets the real one's options."""
    program = folder / "squeue"
    program.write_text(f"#!/bin/sh\n{squeue}\n")
    program.chmod(0o755)
    done = subprocess.run(
        SLURM.build_pending_command("gpu"),
        capture_output=True,
        check=False,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    return Completed(done.returncode, done.stdout, done.stderr)


def test_places_are_those_of_priorities_and_held_jobs_have_none():
    pending = SLURM.parse_pending(completed(PRINTED))
    assert pending.ids == ("14", "4", "6_1", "6_2", "10", "12")
    assert pending.is_all


def test_a_queue_may_be_empty():
    assert SLURM.parse_pending(completed("exit 0\n")).ids == ()


@pytest.mark.parametrize("id_", ["123_[1-5%2]", "123_[1,3,7-9,...]", "123_[0-1000:2]", "123_4"])
def test_each_form_of_an_id_is_a_job(id_):
    assert SLURM.parse_pending(completed(f"5|{id_}\nexit 0\n")).ids == (id_,)


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "5|1\n",
        "5|1\nexit 0\n5|2\n",
        "Welcome to the cluster\n5|1\nexit 0\n",
        "5|1 2\nexit 0\n",
        "5|\nexit 0\n",
        "-5|1\nexit 0\n",
        "5|٣\nexit 0\n",
        "5|123_x\nexit 0\n",
        "5|123_[1-5%2]|x\nexit 0\n",
        b"5|1\xff\nexit 0\n",
        "nan|1\nexit 0\n",
        "exit 1\n",
        "5|1\nexit 1\n",
    ],
)
def test_half_an_answer_and_odd_ones_give_no_place(printed):
    with pytest.raises(TryAgain):
        SLURM.parse_pending(completed(printed))


def test_slurm_says_why_it_does_not_answer():
    failed = completed("exit 1\n", "slurm_load_jobs error: Socket timed out\n")
    with pytest.raises(TryAgain, match="does not answer: slurm_load_jobs error: Socket timed out"):
        SLURM.parse_pending(failed)


@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode))
def test_whatever_is_printed_there_is_an_answer_or_a_sentence(content):
    """Bytes that are not UTF-8 among them."""
    for printed in (content, content + b"\nexit 0\n"):
        with suppress(TryAgain):
            pending = SLURM.parse_pending(completed(printed))
            assert all(id_[0].isdecimal() for id_ in pending.ids)


IDS = st.integers(1, 10**9).map(str)
FORMS = st.one_of(
    IDS,
    st.builds("{}_{}".format, IDS, st.integers(0, 10**6)),
    st.builds("{}_[{}-9%2]".format, IDS, st.integers(0, 8)),
)


@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), FORMS), max_size=50, unique_by=lambda row: row[1])
)
def test_the_order_is_slurms_and_each_job_counts_once(rows):
    rows.sort(key=lambda row: -row[0])
    text = "".join(f"{priority}|{id_}\n" for priority, id_ in rows)
    pending = SLURM.parse_pending(completed(f"{text}exit 0\n"))
    assert list(pending.ids) == [id_ for priority, id_ in rows if priority]


def test_five_thousand_jobs_are_read_to_the_last():
    text = "".join(f"{9000 - number}|{number}\n" for number in range(1, 5001))
    pending = SLURM.parse_pending(completed(f"{text}exit 0\n"))
    assert (len(pending.ids), pending.ids[-1]) == (5000, "5000")


def test_of_a_longer_queue_the_first_jobs_are_read(tmp_path):
    done = run_pending("seq -f '7|%.0f' 1000000000 1000200000", tmp_path)
    assert len(done.stdout) < MOST_BYTES // 2
    pending = SLURM.parse_pending(done)
    assert not pending.is_all
    assert (len(pending.ids), pending.ids[0]) == (MOST_JOBS, "1000000000")


def test_a_queue_of_just_as_many_is_whole(tmp_path):
    pending = SLURM.parse_pending(run_pending(f"seq -f '7|%.0f' {MOST_JOBS}", tmp_path))
    assert (len(pending.ids), pending.is_all) == (MOST_JOBS, True)


def test_a_line_without_an_end_is_cut(tmp_path):
    done = run_pending("head -c 100000000 /dev/zero | tr '\\0' 7", tmp_path)
    assert len(done.stdout) == MOST_BYTES
    with pytest.raises(TryAgain):
        SLURM.parse_pending(done)


def test_a_squeue_that_fails_or_is_missing_is_no_empty_queue(tmp_path):
    done = run_pending("echo 'slurm_load_jobs error: no' >&2; exit 3", tmp_path)
    with pytest.raises(TryAgain, match="slurm_load_jobs error: no"):
        SLURM.parse_pending(done)
    with pytest.raises(TryAgain, match="not found"):
        SLURM.parse_pending(run_pending("exec no-such-program", tmp_path))


def test_one_command_lists_ids_and_priorities_alone(tmp_path):
    done = run_pending('printf "%s\\n" "$*" >&2', tmp_path)
    options = done.stderr.decode().split()
    assert {"--states=PENDING", "--array", "--partition=gpu", "--sort=-p,i"} <= set(options)
    assert options[-1] == "--format=%Q|%i"
    assert PENDING.count("squeue ") == 1


@pytest.mark.parametrize("name", ["gpu,debug", "gpu-2.a_b"])
def test_several_partitions_may_be_named(name):
    assert SLURM.build_pending_command(name)[-1] == name


@pytest.mark.parametrize("name", ["", "a b", "$(id)", "-x", "gpu,", "ü", "a\nb"])
def test_another_name_is_not_asked_for(name):
    with pytest.raises(TryAgain):
        SLURM.build_pending_command(name)


def test_only_slurm_lists_by_priorities():
    assert [name for name, kind in SCHEDULERS.items() if kind.orders_by_priority] == ["slurm"]
