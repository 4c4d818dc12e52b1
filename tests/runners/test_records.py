"""What is read from a job's directory, whole or not."""

import hashlib
import json
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners import journals, records
from runners.directories import Fetched
from runners.job_failures import name_failure
from runners.journals import parse_journal
from runners.records import read_record
from runners.schedulers import JobEnding


def journal(*lines: dict[str, object]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


WHOLE = {
    "job.sh": b"#!/bin/bash\n",
    "started": b"42\n",
    "exit_code": b"0\n",
    "job.out": b"around\n",
    "scheduler-42.out": b"slurmstepd: words\n",
    "journal.ndjson": journal(
        {"time": 1.5, "event": "job started", "node": "node1"},
        {"time": 2.5, "event": "run began", "run": "b-b"},
        {"time": 4.5, "event": "run ended", "run": "b-b", "exit_code": 3},
        {"time": 5.0, "event": "run ended", "run": "a", "exit_code": None},
    ),
    "snapshot/hostname": b"node1\n",
    "runs/0-b-b/spec.json": b"{}",
    "runs/0-b-b/command": b"python main.py ",
    "runs/0-b-b/output.txt": "Größe\r\nNUL: \0 and \xff\n".encode("latin-1"),
    "runs/0-b-b/exit_code": b"3\n",
    "runs/0-b-b/result.json": b"{not json",
    "runs/0-b-b/inside.json": b'{"hostname": "node1"}',
    "runs/0-b-b/runtime_version": b"apptainer version 1.4.5\n",
    "runs/10-a/spec.json": b"{}",
    "runs/10-a/failure": b"image missing: /x.sif\n",
}


def test_a_whole_record_is_read():
    record = read_record(WHOLE)
    assert record.started_by == "42"
    assert record.exit_code == 0
    assert record.snapshot == {"hostname": "node1"}
    assert record.output_tail == "around\nslurmstepd: words"
    assert [line["event"] for line in record.journal][:2] == ["job started", "run began"]
    assert list(record.runs) == ["b-b", "a"]

    ran, missing = record.runs.values()
    assert (ran.began, ran.ended, ran.exit_code, ran.failure) == (2.5, 4.5, 3, "")
    assert ran.command == "python main.py"
    assert ran.output_tail == "Gr\ufffd\ufffde\nNUL: \ufffd and \ufffd"
    assert ran.files["result.json"] == b"{not json"
    assert ran.files["spec.json"] == b"{}"
    assert ran.snapshot == {"hostname": "node1"}
    assert ran.runtime_version == "apptainer version 1.4.5"
    assert (missing.began, missing.exit_code) == (None, None)
    assert missing.failure == "image missing: /x.sif"


def test_an_empty_directory_says_nothing():
    record = read_record({})
    assert record.started_by is None
    assert record.exit_code is None
    assert record.runs == {}
    assert record.bad_checksums == []


@given(st.sets(st.sampled_from(sorted(WHOLE))), st.integers(0, 400))
def test_any_part_of_a_record_can_be_read(names, cut):
    """A job can be killed at any point."""
    files = {name: WHOLE[name] for name in names}
    if "journal.ndjson" in files:
        files["journal.ndjson"] = files["journal.ndjson"][:cut]
    record = read_record(files)
    assert record.exit_code == (0 if "exit_code" in names else None)
    assert set(record.runs) <= {"a", "b-b"}


@given(st.dictionaries(st.sampled_from(sorted(WHOLE)), st.binary(max_size=60)))
def test_nothing_that_a_file_holds_stops_the_reading(files):
    read_record(files)


def test_a_journal_is_read_on_from_where_it_was_left():
    content = journal({"time": 1, "event": "a"}, {"time": 2, "event": "b"})
    content += b'{"time": 3, "event": "c'
    lines, offset = parse_journal(content)
    assert [line["event"] for line in lines] == ["a", "b"]
    lines, more = parse_journal((content + b'"}\n')[offset:])
    assert lines == [{"time": 3.0, "event": "c"}]
    assert offset + more == len(content) + 3


@given(st.lists(st.binary(max_size=30)))
def test_a_journal_of_anything_is_consumed_by_whole_lines(lines):
    content = b"\n".join(lines)
    _, offset = parse_journal(content)
    assert content[:offset] == b"" or content[:offset].endswith(b"\n")
    assert b"\n" not in content[offset:]


def test_a_tampered_file_shows():
    name = "runs/0-b-b/weird\nname\\x"
    files = {"result": b"1", "kept": b"2", name: b"3"}
    listed = [hashlib.sha256(content).hexdigest() for content in files.values()]
    sums = f"{listed[0]}  ./result\n{listed[1]}  ./kept\n"
    sums += f"\\{listed[2]}  ./runs/0-b-b/weird\\nname\\\\x\n"
    assert read_record({**files, "sha256sums": sums.encode()}).bad_checksums == []
    files["result"] = b"tampered"
    files[name] = b""
    assert read_record({**files, "sha256sums": sums.encode()}).bad_checksums == ["result", name]


def test_what_stayed_on_the_cluster_is_not_damaged():
    """Of a file that was listed and did not come home, only one that is read can be missed."""
    digest = hashlib.sha256(b"x").hexdigest()
    names = ("runs/0-b-b/result.json", "runs/0-b-b/output.txt", "runs/0-b-b/model.ckpt")
    sums = "".join(f"{digest}  ./{name}\n" for name in names) + f"{digest}  ./runs/0-b"
    files = Fetched({"sha256sums": sums.encode()}, {"runs/0-b-b/output.txt": 10**9})
    record = read_record(files)
    assert (record.bad_checksums, record.missing) == ([], ["runs/0-b-b/result.json"])
    assert list(record.checksums) == list(names)  # without the stump that a full disk left


def test_no_file_is_looked_at_once_for_each_directory():
    """A program may make as many directories as it likes: of these it took seven minutes."""
    files = {f"runs/{number}-u{number}/exit_code": b"3" for number in range(60_000)}
    record = read_record(Fetched(files, dict.fromkeys(files, 1)))
    assert {run.exit_code for run in record.runs.values()} == {3}
    assert len(record.runs) == len(files)


def test_a_number_is_written_in_ascii():
    files = {"runs/0-a/exit_code": "\u0663".encode(), "exit_code": "\u0660".encode()}
    record = read_record(files)
    assert (record.exit_code, record.runs["a"].exit_code) == (None, None)


def test_names_with_odd_line_ends_have_their_check_sums():
    name = "runs/0-a/line\u2028end\x0b"
    line = f"{hashlib.sha256(b'x').hexdigest()}  ./{name}\n"
    record = read_record({name: b"y", "sha256sums": line.encode()})
    assert record.bad_checksums == [name]


CANCELLED = "slurmstepd-node1: error: *** JOB 29 ON node1 CANCELLED AT 2026-11-20T13:50:08"
MEMORY = (
    "slurmstepd-node1: error: StepId=16.batch exceeded memory limit (964042752 > 314572800), "
    "being killed"
)


@pytest.mark.parametrize(
    ("word", "output", "named"),
    [
        ("TIMEOUT 0:0 time-out", f"{CANCELLED} ***", ("time-out", "sacct: TIMEOUT 0:0, node1")),
        ("NODE_FAIL 1:0 node failure", "", ("node failure", "sacct: NODE_FAIL 1:0, node1")),
        ("FAILED 0:9 failed", "Killed", ("failed", "sacct: FAILED 0:9, node1")),
        ("FAILED 0:9 failed", f"a\n{MEMORY}\nb", ("out of memory", f"its output: {MEMORY}")),
        (
            "PREEMPTED 0:0 preempted",
            f"{CANCELLED} DUE TO PREEMPTION ***",
            ("preempted", "sacct: PREEMPTED 0:0, node1"),
        ),
        ("COMPLETED 0:0 ", "", ("lost", "the job left no exit code (sacct says COMPLETED)")),
    ],
)
def test_the_last_word_names_the_failure(word, output, named):
    native, exit_code, kind = word.split(" ", 2)
    record = read_record({"scheduler-7.out": output.encode()})
    assert name_failure(record, JobEnding(native, exit_code, "", "node1", kind, "sacct")) == named


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        (f"{CANCELLED} DUE TO TIME LIMIT ***", "time-out"),
        (f"{CANCELLED} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***", "node failure"),
        (f"{CANCELLED} DUE TO PREEMPTION ***", "preempted"),
        (f"{CANCELLED} DUE TO JOB REQUEUE ***", "requeued"),
        (f"{CANCELLED} ***", "cancelled outside"),
        (MEMORY, "out of memory"),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 5.batch cgroup.",
            "out of memory",
        ),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=5.batch.", "out of memory"),
    ],
)
def test_without_accounting_the_output_names_the_failure(written, kind):
    record = read_record({"exit_code": b"143\n", "scheduler-7.out": f"a\n{written}\n".encode()})
    assert name_failure(record, None) == (kind, f"its output: {written}")


def test_a_job_that_its_scheduler_started_again_was_requeued():
    """As in the lab: the second start steps aside and ends well, so sacct says COMPLETED."""
    aside = "Job 3 has started these runs; job 3 steps aside."
    files = {"started": b"3\n", "exit_code": b"143\n", "scheduler-3.out": aside.encode()}
    ending = JobEnding("COMPLETED", "0:0", "BeginTime", "node1", "", "sacct")
    kind, evidence = name_failure(read_record(files), ending)
    assert (kind, "job 3 was started again" in evidence) == ("requeued", True)
    twin = {**files, "scheduler-7.out": aside.replace("job 3", "job 7").encode()}
    del twin["scheduler-3.out"]
    assert name_failure(read_record(twin), None)[0] == "failed", "another job is no requeue"


def test_a_job_that_was_seen_to_wait_again_was_requeued():
    """Tare has taken it out of the queue, so sacct says that it was cancelled."""
    begun = read_record({"started": b"3\n", "exit_code": b"143\n"})
    ending = JobEnding("CANCELLED by 20001", "0:0", "", "node1", "cancelled outside", "sacct")
    assert name_failure(begun, ending, was_requeued=True)[0] == "requeued"
    assert name_failure(begun, ending) == (
        "cancelled outside",
        "sacct: cancelled by uid 20001, node1",
    )


def test_who_has_cancelled_a_job_is_said_in_words():
    ending = JobEnding("CANCELLED by 0", "0:0", "", "node1", "cancelled outside", "sacct")
    record = read_record({"started": b"3\n"})
    assert name_failure(record, ending) == ("cancelled outside", "sacct: cancelled by root, node1")
    killed = JobEnding("CANCELLED by 0", "0:15", "None", "", "cancelled outside", "sacct")
    assert name_failure(record, killed)[1] == "sacct: cancelled by root (0:15 None)"


def test_without_any_word_the_exit_code_is_told():
    assert name_failure(read_record({}), None) == ("lost", "the job left no exit code")
    ended = read_record({"exit_code": b"143\n"})
    kind, message = name_failure(ended, None)
    assert kind == "failed"
    assert message.startswith("the job script ended with exit code 143 (SIGTERM: asked to end")
    late = read_record({"exit_code": b"143\n", "time-limit": b""})
    assert name_failure(late, None) == ("time-out", "the time limit was reached")


@pytest.mark.parametrize("word", ["exceeded ", "oom", "CANCELLED AT ", "due to "])
def test_no_output_keeps_everybody_waiting(word):
    """Python's own engine took 50 s for 5,000 such characters, while all clusters waited."""
    written = (word * 20_000)[:60_000]
    record = read_record({"scheduler-7.out": written.encode(), "job.out": written.encode()})
    assert name_failure(record, None)[0] in ("lost", "cancelled outside")


def test_a_full_disk_is_named_where_the_job_could_not_begin():
    """Slurm only knows FAILED 73:0."""
    word = JobEnding("FAILED", "73:0", "NonZeroExitCode", "node1", "failed")
    kind, message = name_failure(read_record({}), word)
    assert (kind, "73" in message, "quota" in message) == ("disk full", True, True)
    begun = read_record({"started": b"7\n"})
    kind, message = name_failure(begun, word)
    assert (kind, "its last files" in message) == ("disk full", True)
    whole = read_record({"started": b"7\n", "exit_code": b"1\n"})
    assert name_failure(whole, word)[0] == "failed"  # it is the code of something else


@pytest.mark.parametrize(
    ("message", "reason"),
    [("No space left on device", "disk full"), ("Disk quota exceeded", "quota")],
)
def test_a_full_disk_is_named_without_accounting(message, reason):
    """As far as there was room for the shell's own complaint."""
    complaint = f"/w/jobs/u-1/job.sh: line 33: printf: write error: {message}"
    files = {"scheduler-7.out": f"{complaint}\n".encode()}
    assert name_failure(read_record(files), None) == (reason, f"its output: {complaint}")
    begun = read_record({**files, "started": b"7\n"})
    assert name_failure(begun, None)[0] == "lost", "that was a program's"


@pytest.mark.parametrize("reason", ["Duplicate jobid", "Duplicate_jobid"])
def test_a_controller_that_lost_its_state_is_nobody_cancelling(reason):
    word = JobEnding("CANCELLED", "0:0", reason, "node1", "cancelled outside")
    assert name_failure(read_record({}), word)[0] == "controller failure"


@pytest.mark.parametrize("junk", [b"{\n", b"\n", b'{"time": 3, "event": "step"}\n'])
def test_of_millions_of_lines_the_first_and_the_last_are_read(junk):
    lines = WHOLE["journal.ndjson"].splitlines(keepends=True)
    content = b"".join([*lines[:2], junk * 3_000_000, *lines[2:]])
    with mock.patch.object(journals, "parse_document", wraps=journals.parse_document) as parse:
        record = read_record({**WHOLE, "journal.ndjson": content})
    assert parse.call_count < journals.MOST_LINES + 10
    assert (record.runs["b-b"].began, record.runs["b-b"].ended) == (2.5, 4.5)
    assert "2900004 of its 3000004 lines" in record.damage[-1]
    assert parse_journal(content)[1] == len(content)


@pytest.mark.parametrize("more", [-1, 0, 1, 2])
def test_each_line_is_read_once_around_the_limit(monkeypatch, more):
    monkeypatch.setattr(journals, "MOST_LINES", 4)
    content = journal(*({"time": at, "event": "a"} for at in range(4 + more)))
    record = read_record({"journal.ndjson": content + b'{"time": 9'})
    times = list(range(4 + more))
    assert [line["time"] for line in record.journal] == times[:2] + times[2:][-2:]
    assert bool(record.damage) == (more > 0)


def test_what_a_run_saw_is_no_book():
    content = b'{"cpu": [' + b"[]," * 2_000_000 + b"1]}"
    run = read_record({**WHOLE, "runs/0-b-b/inside.json": content}).runs["b-b"]
    assert (run.snapshot, run.damage) == ({}, "inside.json: it has 6 MiB")


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        ("[]", "program is a list, not a table"),
        ('{"libraries": 3}', "program.libraries is a number, not a table"),
        ('{"files": [1]}', "program.files[0] is a number, not a table"),
        ('{"checkouts": {"/a": {"changed_files": 7}}}', "changed_files is a number, not a list"),
        ('{"checkouts": {"/a": {"changed": -1}}}', "changed is -1"),
    ],
)
def test_a_program_of_another_shape_is_damage(program: str, problem: str) -> None:
    content = f'{{"program": {program}}}'.encode()
    run = read_record({**WHOLE, "runs/0-b-b/inside.json": content}).runs["b-b"]
    assert run.snapshot == {}
    assert problem in run.damage


def test_what_many_processes_saw_is_bounded_in_sum_the_largest_last(monkeypatch):
    monkeypatch.setattr(records, "ALL_DOCUMENTS", 5_000)
    small, large = b'{"cpu": "small"}', b'{"cpu": "%s"}' % (b"x" * 1_000)
    saw = {f"runs/0-b-b/rank-{number}/inside.json": large for number in range(1, 200)}
    record = read_record({**WHOLE, "runs/0-b-b/inside.json": small, **saw})
    run = record.runs["b-b"]
    assert run.snapshot == {"cpu": "small"}
    assert len(run.others) == 4
    assert "with those beside it there are more than" in run.damage
    others = [other for name, other in record.runs.items() if name != "b-b"]
    assert not any(other.damage for other in others), "the fault of one run is not another's"
    assert len(record.sizes) >= 200, "what is not read is still named"
