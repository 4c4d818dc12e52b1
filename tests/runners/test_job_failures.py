"""Why single runs failed, by their exit codes and last words: texts as the tools print them."""

from __future__ import annotations

from typing import Any

import pytest

from runners.job_failures import name_failure, name_run_failure
from runners.records import Record, RunRecord, read_record
from runners.schedulers import JobEnding

OOM = "slurmstepd-node1: error: Detected 1 oom_kill event in StepId=5.batch."


def failed(code: int, output: str, scheduler: str = "") -> tuple[RunRecord, Record]:
    files = {"runs/0-r/exit_code": f"{code}\n", "runs/0-r/output.txt": output}
    files |= {"journal.ndjson": "", "scheduler-7.out": scheduler}
    record = read_record({name: text.encode() for name, text in files.items()})
    return record.runs["r"], record


@pytest.mark.parametrize(
    ("code", "output", "scheduler", "reason"),
    [
        (1, "ValueError: bad shape", "", "crashed"),
        (1, "", "", "crashed"),
        (127, "/usr/bin/env: 'python9': No such file or directory", "", "program missing"),
        (127, "bash: line 1: python9: command not found", "", "program missing"),
        (
            127,
            "timeout: failed to run command 'x': No such file or directory",
            "",
            "program missing",
        ),
        (127, "it says no more", "", "crashed"),
        (1, "FileNotFoundError: [Errno 2] No such file or directory: 'x'", "", "crashed"),
        (1, "a\nOSError: [Errno 28] No space left on device\nb", "", "disk full"),
        (1, "tar: x: Cannot write: Disk quota exceeded", "", "quota"),
        (137, "step 3", OOM, "out of memory"),
        (137, "step 3", "", "crashed"),
        (1, "step 3", OOM, "crashed"),
        (1, "numpy._core._exceptions._ArrayMemoryError: Unable to allocate", "", "out of memory"),
        (1, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate", "", "out of memory"),
        (1, "MemoryError", "", "out of memory"),
        (134, "terminate called after throwing 'std::bad_alloc'", "", "out of memory"),
        (1, "OSError: [Errno 12] Cannot allocate memory", "", "out of memory"),
    ],
)
def test_a_runs_last_words_name_its_failure(
    code: int, output: str, scheduler: str, reason: str
) -> None:
    named, message = name_run_failure(*failed(code, output, scheduler))
    assert named == reason
    assert message.startswith(f"The program ended with exit code {code}")


def test_words_of_long_ago_name_nothing() -> None:
    output = "No space left on device, trying another disk\n" + "step\n" * 50
    assert name_run_failure(*failed(1, output))[0] == "crashed"


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("set-up failed (exit code 3)", "set-up failed"),
        ("set-up failed (exit code 3) on node2", "set-up failed"),
        ("runtime missing: node1 has no apptainer", "runtime missing"),
        ("image missing: /none/it's.sif", "image missing"),
    ],
)
def test_a_named_failure_is_its_reason(failure: str, reason: str) -> None:
    files = {"runs/0-r/failure": failure.encode(), "journal.ndjson": b""}
    record = read_record(files)
    assert name_run_failure(record.runs["r"], record) == (reason, failure)


def test_a_job_without_any_gpu_is_named_by_what_the_node_says() -> None:
    said = "node1: nvidia-smi says: No devices were found"
    record = read_record({"failure": f"no GPU: {said}\n".encode(), "exit_code": b"1\n"})
    assert name_failure(record, None) == ("no GPU", said)


@pytest.mark.parametrize(
    ("native", "kind", "source", "files", "reason"),
    [
        ("CANCELLED by 0", "cancelled outside", "sacct", {}, "node failure"),
        ("CANCELLED", "controller failure", "sacct", {}, "node failure"),
        ("CANCELLED by 20001", "cancelled outside", "sacct", {}, "cancelled outside"),
        ("CANCELLED", "cancelled outside", "scontrol", {}, "cancelled outside"),
        ("CANCELLED by 0", "cancelled outside", "sacct", {"started": b"7"}, "cancelled outside"),
    ],
)
def test_a_prolog_that_fails_is_the_nodes_failure(
    native: str, kind: Any, source: str, files: dict[str, bytes], reason: str
) -> None:
    """As in the lab: root, a moment later nobody, has cancelled what never began on its node."""
    ending = JobEnding(native, "0:0", "", "node1", kind, source)
    assert name_failure(read_record(files), ending)[0] == reason
    waiting = JobEnding(native, "0:0", "", "", kind, source)
    assert name_failure(read_record(files), waiting)[0] == kind, "it never had a node"
