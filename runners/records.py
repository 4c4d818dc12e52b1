"""Reads the record of a job from the files of its directory. No I/O: files in, values out.

A job can be killed at any point, so each file may be missing; those that exist are complete, except
for the journal's last line.
"""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import re2

from runners.directories import END, Fetched, is_needed
from runners.exit_codes import describe_exit_code
from runners.schedulers import Failure, JobEnding
from runners.shapes import CODE, EVENTS, INSIDE, LINE
from runners.transports.base import MIB
from runners.untrusted import (
    Damaged,
    Shape,
    Table,
    Text,
    clean_text,
    parse_document,
    validate,
)

TAIL = 20_000  # characters of output that are kept
LONGEST = 500_000  # characters of a command, or of what one tool printed about a node
LONGEST_LINE = 1 << 16  # bytes of a journal's line
MOST_LINES = 100_000  # of a journal: reading millions would keep other jobs waiting
LONGEST_DOCUMENT = 4 * MIB  # of a process's snapshot: a large one has 100 kB
ALL_DOCUMENTS = 32 * MIB  # of the snapshots of all processes of a job
LONGEST_ID = 100  # characters that are kept of a text that should be a scheduler's id
MOST_NAMED = 10  # lines that cannot be read, of a journal
FAILED_STEP = Table({"doing": Text(), "exit_code": CODE})
ENDED_BY_SIGNAL = (137, 143)  # KILL and TERM
PARTS = re.compile(r"(rank|instance)-(\d{1,6})/.+", re.DOTALL)
# Messages of Slurm and the kernel in a job's output, for jobs that the scheduler has forgotten.
WRITTEN: tuple[tuple[Failure, str], ...] = (
    ("time-out", r".*CANCELLED AT .* DUE TO TIME LIMIT.*"),
    ("node failure", r".*CANCELLED AT .* DUE TO NODE FAILURE.*"),
    ("out of memory", r".*(oom[-_ ]?kill|out of memory|exceeded .*memory limit).*"),
    ("cancelled outside", r".*CANCELLED AT .*"),
)

NO_ROOM = r".*(No space left on device|Disk quota exceeded).*"
DUPLICATE = re.compile(r"duplicate[ _]job[ _]?id", re.IGNORECASE)
# Exit codes of a job script that could not claim its directory: see `claim` there.
NOT_BEGUN: dict[str, tuple[Failure, str]] = {
    "73": (
        "disk full",
        "the job could not write into its directory (exit code 73): the disk or the quota is full, "
        "or nothing may be written there",
    ),
    "71": (
        "failed",
        "the job's directory is on a file system without hard links (exit code 71), and nothing "
        "else says safely which copy of a job may start: choose another work directory",
    ),
}


@dataclass(frozen=True)
class RunRecord:
    """The record of one run. Times are seconds since the epoch, by the node's clock."""

    began: float | None
    ended: float | None
    exit_code: int | None  # of the program; 128 + n: ended by signal n
    failure: str  # why the run has failed, if the script or the program has named it
    command: str
    output_tail: str
    runtime_version: str  # as the runtime printed it
    files: Mapping[str, bytes]  # all files that it left, by name relative to its directory
    snapshot: dict[str, Any]  # from inside the container, of the first of several processes
    others: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The snapshots of the other processes, by name: "rank 1", "instance 3"."""
    culprit: str = ""  # which of several processes failed, and how: "rank 1 ended with exit code 3"
    damage: str = ""  # which file cannot be read, and why


@dataclass(frozen=True)
class Part:
    """The record of one of several processes of a run, apart from its results."""

    name: str  # "rank 1", "instance 3"
    exit_code: int | None  # None: it was killed
    failure: str
    output: str
    snapshot: dict[str, Any]
    damage: str

    @property
    def has_failed(self) -> bool:
        return bool(self.failure or self.exit_code)

    @property
    def end(self) -> str:
        """The process's end, to follow its name in a sentence."""
        return f"ended with exit code {describe_exit_code(self.exit_code)}"

    @property
    def was_ended(self) -> bool:
        """Whether a launcher ended it because another process had failed."""
        return not self.failure and self.exit_code in (None, *ENDED_BY_SIGNAL)


@dataclass(frozen=True)
class Record:
    """The record of one job."""

    started_by: str | None  # the scheduler's id of the copy that won
    exit_code: int | None  # None: it was killed before its end
    runs: dict[str, RunRecord]  # by uid, in the order in which they were to be run
    journal: list[dict[str, Any]]
    snapshot: dict[str, str]  # from outside the containers: text by name
    output_tail: str  # of the script and of the scheduler, for failures outside the runs
    time_limit_reached: bool  # noticed by the script itself, where there is no scheduler
    bad_checksums: list[str]  # names of files that differ from what the script listed
    missing: list[str]  # names of needed files that the script listed and that are not there
    checksums: dict[str, str]  # sha256 in hex, as the script listed it, by name
    sizes: dict[str, int]  # in bytes, of all files that are there, by name
    failed_step: str = ""  # of an operation: which step ended it, and how
    result: bytes | None = None  # of an operation
    damage: tuple[str, ...] = ()  # lines of the journal that cannot be read: which, and why


def read_record(files: Mapping[str, bytes], *, extra_files: Collection[str] = ()) -> Record:
    """Read the files that `fetch_record` returned; `extra_files` as there."""
    checksums = _parse_checksums(files)
    sizes = dict(files.sizes if isinstance(files, Fetched) else _measure_sizes(files))
    unread = _find_excess_documents(files)
    files = {name: content for name, content in files.items() if name not in unread}
    journal, damage = _read_lines(files.get("journal.ndjson", b""))
    times = {(line["event"], str(line.get("run"))): line["time"] for line in journal}
    directories = {name.split("/")[1] for name in files if re.match(r"runs/\d{1,9}-[^/]+/", name)}
    in_order = sorted(directories, key=lambda name: int(name.partition("-")[0]))
    outputs = [
        name for name in sizes if re.fullmatch(r"output\.txt|job\.out|scheduler[^/]*\.out", name)
    ]
    return Record(
        started_by=_read_text(files, "started")[:LONGEST_ID] or None,
        exit_code=_read_number(files, "exit_code"),
        runs={
            name.partition("-")[2]: _read_run(files, f"runs/{name}", times, unread)
            for name in in_order
        },
        journal=journal,
        snapshot={
            clean_text(name.removeprefix("snapshot/")): _read_text(files, name)[:LONGEST]
            for name in sorted(files)
            if name.startswith("snapshot/")
        },
        output_tail="\n".join(_read_tail(files, name) for name in sorted(outputs)).strip(),
        time_limit_reached="time-limit" in files,
        bad_checksums=[
            name
            for name, digest in checksums.items()
            if name in files and hashlib.sha256(files[name]).hexdigest() != digest
        ],
        missing=[name for name in checksums if name not in sizes and is_needed(name, extra_files)],
        checksums=checksums,
        sizes=sizes,
        failed_step=_describe_failed_step(files),
        result=files.get("result.json"),
        damage=tuple(damage),
    )


def parse_journal(content: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the complete lines of a journal, and their bytes: the offset to read from next time.

    Lines that cannot be read are left out: a disk that was full for a while leaves a cut-off line.
    """
    whole = content[: content.rfind(b"\n") + 1]
    if not whole and len(content) > LONGEST_LINE:
        return [], len(content)  # no line of a journal is as long as this, nor is its end one
    return _read_lines(whole)[0], len(whole)


def _read_lines(content: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the lines of a journal, and for each that cannot be read its number and the reason."""
    lines: list[dict[str, Any]] = []
    damage: list[str] = []
    for number, line in _number_lines(content):
        try:
            if len(line) > LONGEST_LINE:
                raise Damaged(f"it has {len(line)} bytes")
            parsed = parse_document(line, LINE)
            validate(parsed, Table(needed=EVENTS.get(parsed["event"], ())))
            lines.append(parsed)
        except Damaged as error:
            if len(damage) < MOST_NAMED:
                damage.append(f"line {number}: {error}")
    if (count := content.count(b"\n")) > MOST_LINES:
        damage.append(f"{count - MOST_LINES} of its {count} lines are too many to be read")
    return lines, damage


def _number_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the complete lines and their numbers, from 1; of too many the first and the last."""
    whole = content[: content.rfind(b"\n") + 1]
    count = whole.count(b"\n")
    half = MOST_LINES // 2
    first = whole.split(b"\n", half)
    rest = first.pop()
    yield from enumerate(first, start=1)
    if rest:
        last = rest.rsplit(b"\n", half + 1)[-half - 1 : -1]
        yield from enumerate(last, start=count - len(last) + 1)


def name_failure(record: Record, ending: JobEnding | None) -> tuple[Failure, str]:
    """Return why a job failed: its kind and a message; for a record without exit code 0."""
    if record.time_limit_reached:
        return "time-out", "the time limit was reached"
    if DUPLICATE.search(record.output_tail) or (ending and DUPLICATE.search(ending.reason)):
        return (
            "controller failure",
            "the scheduler knew two jobs by this number and ended one (Duplicate jobid): its "
            "controller had lost its state. Try the job again",
        )
    if ending and record.started_by is None:
        code = ending.exit_code.partition(":")[0]
        if code in NOT_BEGUN:
            return NOT_BEGUN[code]
    if record.started_by is None and (match := re2.search(NO_ROOM, record.output_tail)):
        return "disk full", match[0].strip()
    if ending and ending.kind and ending.kind != "failed":
        return ending.kind, _describe_ending(ending)
    # If single processes are killed for their memory, Slurm itself only reports FAILED 0:9.
    for kind, pattern in WRITTEN:
        if match := re2.search(f"(?i){pattern}", record.output_tail):
            return kind, match[0].strip()
    if ending and ending.kind:
        return ending.kind, _describe_ending(ending)
    if record.exit_code:
        return (
            "failed",
            f"the job script ended with exit code {describe_exit_code(record.exit_code)}",
        )
    scheduler_state = f" (the scheduler says {ending.native})" if ending else ""
    return "lost", f"the job left no exit code{scheduler_state}"


def _describe_ending(ending: JobEnding) -> str:
    return " ".join(filter(None, [ending.native, ending.exit_code, ending.reason]))


def _read_run(
    files: Mapping[str, bytes],
    directory: str,
    times: Mapping[tuple[str, str], float],
    unread: Collection[str] = (),
) -> RunRecord:
    uid = directory.rpartition("/")[2].partition("-")[2]
    run_files = {
        clean_text(name.removeprefix(f"{directory}/")): content
        for name, content in files.items()
        if name.startswith(f"{directory}/")
    }
    parts = _read_parts(run_files)
    failed_part = next(
        iter(sorted((part for part in parts if part.has_failed), key=_rank_own_failures_first)),
        None,
    )
    snapshots = {part.name: part.snapshot for part in parts if part.snapshot}
    snapshot_inside, damage = _read_document(run_files, "inside.json", INSIDE)
    snapshot_inside = snapshot_inside or snapshots.pop("instance 0", {})
    too_many = [
        f"{name.removeprefix(directory + '/')}: with those beside it there are more than "
        f"{ALL_DOCUMENTS // MIB} MiB"
        for name in unread
        if name.startswith(f"{directory}/")
    ]
    return RunRecord(
        began=times.get(("run began", uid)),
        ended=times.get(("run ended", uid)),
        exit_code=_read_number(files, f"{directory}/exit_code"),
        failure=_read_text(run_files, "failure")[-TAIL:] or _describe_failure(failed_part),
        command=_read_text(run_files, "command")[:LONGEST],
        output_tail=_join_outputs(_read_tail(run_files, "output.txt"), parts, failed_part),
        runtime_version=_read_text(run_files, "runtime_version")[:TAIL],
        files=run_files,
        snapshot=snapshot_inside,
        others=snapshots,
        culprit=f"{failed_part.name} {failed_part.end}" if failed_part else "",
        damage=next(filter(None, [damage, *(part.damage for part in parts), *too_many]), ""),
    )


def _read_parts(run_files: Mapping[str, bytes]) -> list[Part]:
    """Return the record of each of several processes that left files, by number."""
    numbered = {(match[1], int(match[2])) for match in map(PARTS.fullmatch, run_files) if match}
    return [_read_part(run_files, noun, number) for noun, number in sorted(numbered)]


def _read_part(run_files: Mapping[str, bytes], noun: str, number: int) -> Part:
    snapshot, damage = _read_document(run_files, f"{noun}-{number}/inside.json", INSIDE)
    return Part(
        name=f"{noun} {number}",
        exit_code=_read_number(run_files, f"{noun}-{number}/exit_code"),
        failure=_read_text(run_files, f"{noun}-{number}/failure")[-TAIL:],
        output=_read_tail(run_files, f"{noun}-{number}/output.txt"),
        snapshot=snapshot,
        damage=damage,
    )


def _rank_own_failures_first(part: Part) -> tuple[bool, bool]:
    return not part.failure, part.was_ended


def _describe_failure(failed: Part | None) -> str:
    return f"{failed.failure} ({failed.name})" if failed and failed.failure else ""


def _join_outputs(printed: str, parts: Sequence[Part], failed: Part | None) -> str:
    """Return the end of the output, with that of each process under its name, a failed one last."""
    # The output of the first rank is part of the run's own output already.
    shown = [part for part in parts if part.name.startswith("instance ") and part is not failed]
    if failed and not failed.was_ended:
        shown.append(failed)
    if not shown:
        return printed[-TAIL:]
    share = TAIL // (len(shown) + 1)
    texts = [printed[-share:]]
    for part in shown:
        how = f", which {part.end}" if part.has_failed else ""
        texts.append(f"--- {part.name}{how} ---\n{part.output[-share:]}")
    return "\n".join(filter(None, texts))


def _describe_failed_step(files: Mapping[str, bytes]) -> str:
    """Return which step of an operation ended it, and how; empty if none did."""
    if "failure.json" not in files:
        return ""
    failure, _ = _read_document(files, "failure.json", FAILED_STEP)
    code = failure.get("exit_code")
    code_text = "unknown" if code is None else describe_exit_code(code)
    return f"{failure.get('doing') or 'set-up'}: exit code {code_text}"


def _read_text(files: Mapping[str, bytes], name: str) -> str:
    """Return a file as text, without NUL, which databases refuse, and with "\\n" as line ends."""
    return clean_text(files.get(name, b"")).replace("\r\n", "\n").strip()


def _read_tail(files: Mapping[str, bytes], name: str) -> str:
    """Return the end of a file as text, even if only its end was fetched."""
    content = files.get(name, files.get(name + END, b""))
    return _read_text({name: content[-4 * TAIL :]}, name)[-TAIL:]


def _measure_sizes(files: Mapping[str, bytes]) -> dict[str, int]:
    return {name: len(content) for name, content in files.items()}


def _read_number(files: Mapping[str, bytes], name: str) -> int | None:
    text = _read_text(files, name)
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def _read_document(
    files: Mapping[str, bytes], name: str, shape: Shape
) -> tuple[dict[str, Any], str]:
    """Return the JSON object in a file and ""; if it has another shape, {} and the reason."""
    content = files.get(name, b"{}")
    if len(content) > LONGEST_DOCUMENT:
        return {}, f"{name}: it has {len(content) / MIB:.0f} MiB"
    try:
        return parse_document(content, shape), ""
    except Damaged as error:
        return {}, f"{name}: {error}"


def _find_excess_documents(files: Mapping[str, bytes]) -> list[str]:
    """Return the names of the largest snapshots of processes, beyond the limit for a job."""
    sizes = {
        name: len(content)
        for name, content in files.items()
        if name.endswith("/inside.json") and len(content) <= LONGEST_DOCUMENT
    }
    by_size = sorted(sizes, key=lambda name: (sizes[name], name))
    totals = accumulate(sizes[name] for name in by_size)
    return [name for name, total in zip(by_size, totals, strict=True) if total > ALL_DOCUMENTS]


def _parse_checksums(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the check sums that the script listed. A full disk may have cut off the last line."""
    checksums = {}
    listed = files.get("sha256sums", b"").decode(errors="surrogateescape")
    for line in listed[: listed.rfind("\n") + 1].split("\n")[:-1]:
        digest, _, name = line.partition("  ")
        if digest.startswith("\\"):  # how sha256sum writes a name with a line break or backslash
            digest = digest[1:]
            name = re.sub(
                r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), name
            )
        checksums[name.removeprefix("./")] = digest
    return checksums
