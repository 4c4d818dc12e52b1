"""What a job's directory says, once it is fetched. Pure: files in, values out.

A job can be killed at any point, so everything may be missing; what is there is whole, except for
the journal's last line.
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
from runners.schedulers import Failure, LastWord
from runners.shapes import CODE, EVENTS, INSIDE, LINE
from runners.transports.base import MIB
from runners.untrusted import (
    Damaged,
    Shape,
    Table,
    Text,
    clean_text,
    parse_document,
    take,
)

TAIL = 20_000  # characters of output that are kept
LONGEST = 500_000  # of a command, and of what one tool printed about a node
LONGEST_LINE = 1 << 16  # bytes of a journal's line
MOST_LINES = 100_000  # of a journal: reading millions would keep other jobs waiting
LONGEST_DOCUMENT = 4 * MIB  # of what a run saw: a large one has 100 kB
ALL_DOCUMENTS = 32 * MIB  # of what all processes of a job's runs saw
LONGEST_ID = 100  # characters that are kept of what claims to be a scheduler's id
MOST_NAMED = 10  # lines that cannot be read, of a journal
FAILED_STEP = Table({"doing": Text(), "exit_code": CODE})
ENDED_BY_SIGNAL = (137, 143)  # KILL and TERM
PARTS = re.compile(r"(rank|instance)-(\d{1,6})/.+", re.DOTALL)
# What Slurm and the kernel leave in a job's output, where nobody else remembers how it ended.
WRITTEN: tuple[tuple[Failure, str], ...] = (
    ("time-out", r".*CANCELLED AT .* DUE TO TIME LIMIT.*"),
    ("node failure", r".*CANCELLED AT .* DUE TO NODE FAILURE.*"),
    ("out of memory", r".*(oom[-_ ]?kill|out of memory|exceeded .*memory limit).*"),
    ("cancelled outside", r".*CANCELLED AT .*"),
)

NO_ROOM = r".*(No space left on device|Disk quota exceeded).*"
DUPLICATE = re.compile(r"duplicate[ _]job[ _]?id", re.IGNORECASE)
# How the job script ends before it has begun, by exit code: see `claim` there.
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
    """What one run left. Times are seconds since the epoch, by the node's clock."""

    began: float | None
    ended: float | None
    exit_code: int | None  # of the program; 128 + n: ended by signal n
    failure: str  # why the run is worth nothing, if the script or the program has named it
    command: str
    output_tail: str
    runtime_version: str  # as the runtime printed it
    files: Mapping[str, bytes]  # all that it left, by name relative to its directory
    snapshot: dict[str, Any]  # from inside the wall; of several processes the first one's
    others: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The same of the other processes, by name: "rank 1", "instance 3"."""
    culprit: str = ""  # which of several processes failed, and how: "rank 1 ended with exit code 3"
    damage: str = ""  # what of it cannot be read, and why


@dataclass(frozen=True)
class Part:
    """What one of several processes left, apart from its results."""

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
        return f"ended with exit code {describe_exit_code(self.exit_code)}"

    @property
    def was_ended(self) -> bool:
        """Whether it only shared another one's end: launchers end all that are left."""
        return not self.failure and self.exit_code in (None, *ENDED_BY_SIGNAL)


@dataclass(frozen=True)
class Record:
    """What one job left."""

    started_by: str | None  # the scheduler's id of the copy that won
    exit_code: int | None  # None: it was killed before its end
    runs: dict[str, RunRecord]  # by uid, in the order in which they were to be run
    journal: list[dict[str, Any]]
    snapshot: dict[str, str]  # from outside the walls: text by name
    output_tail: str  # of the script and of the scheduler, for what went wrong around the runs
    time_limit_reached: bool  # noticed by the script itself, where there is no scheduler
    bad_checksums: list[str]  # names of files that differ from what the script listed
    missing: list[str]  # names of files that are read, listed by the script, and not there
    checksums: dict[str, str]  # sha256 in hex, as the script listed it, by name
    sizes: dict[str, int]  # in bytes, of all files that are there, by name
    failed_step: str = ""  # of a chore: which step ended it, and how
    result: bytes | None = None  # of a chore
    damage: tuple[str, ...] = ()  # lines of the journal that cannot be read: which, and why


def read_record(files: Mapping[str, bytes], *, extra_files: Collection[str] = ()) -> Record:
    """Read the files that `fetch_record` returned; `extra_files` as there."""
    checksums = _checksums(files)
    sizes = dict(files.sizes if isinstance(files, Fetched) else _sizes(files))
    unread = _too_many_documents(files)
    files = {name: content for name, content in files.items() if name not in unread}
    journal, damage = _read_lines(files.get("journal.ndjson", b""))
    times = {(line["event"], str(line.get("run"))): line["time"] for line in journal}
    directories = {name.split("/")[1] for name in files if re.match(r"runs/\d{1,9}-[^/]+/", name)}
    in_order = sorted(directories, key=lambda name: int(name.partition("-")[0]))
    outputs = [
        name for name in sizes if re.fullmatch(r"output\.txt|job\.out|scheduler[^/]*\.out", name)
    ]
    return Record(
        started_by=_text(files, "started")[:LONGEST_ID] or None,
        exit_code=_number(files, "exit_code"),
        runs={
            name.partition("-")[2]: _read_run(files, f"runs/{name}", times, unread)
            for name in in_order
        },
        journal=journal,
        snapshot={
            clean_text(name.removeprefix("snapshot/")): _text(files, name)[:LONGEST]
            for name in sorted(files)
            if name.startswith("snapshot/")
        },
        output_tail="\n".join(_tail(files, name) for name in sorted(outputs)).strip(),
        time_limit_reached="time-limit" in files,
        bad_checksums=[
            name
            for name, digest in checksums.items()
            if name in files and hashlib.sha256(files[name]).hexdigest() != digest
        ],
        missing=[name for name in checksums if name not in sizes and is_needed(name, extra_files)],
        checksums=checksums,
        sizes=sizes,
        failed_step=_failed_step(files),
        result=files.get("result.json"),
        damage=tuple(damage),
    )


def parse_journal(content: bytes) -> tuple[list[dict[str, Any]], int]:
    """The whole lines of a journal and the bytes that they take: read on from there next time.

    Lines that are none of ours are left out: a disk that was full for a while leaves a stump.
    """
    whole = content[: content.rfind(b"\n") + 1]
    if not whole and len(content) > LONGEST_LINE:
        return [], len(content)  # whatever this is, its end is none of ours either
    return _read_lines(whole)[0], len(whole)


def _read_lines(content: bytes) -> tuple[list[dict[str, Any]], list[str]]:
    """The whole lines of a journal; of the others, which they are and what is wrong with them."""
    lines: list[dict[str, Any]] = []
    damage: list[str] = []
    for number, line in _number_lines(content):
        try:
            if len(line) > LONGEST_LINE:
                raise Damaged(f"it has {len(line)} bytes")
            parsed = parse_document(line, LINE)
            take(parsed, Table(needed=EVENTS.get(parsed["event"], ())))
            lines.append(parsed)
        except Damaged as error:
            if len(damage) < MOST_NAMED:
                damage.append(f"line {number}: {error}")
    if (count := content.count(b"\n")) > MOST_LINES:
        damage.append(f"{count - MOST_LINES} of its {count} lines are too many to be read")
    return lines, damage


def _number_lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines, from 1 on; of too many the first and the last, which tell the end."""
    whole = content[: content.rfind(b"\n") + 1]
    count = whole.count(b"\n")
    half = MOST_LINES // 2
    first = whole.split(b"\n", half)
    rest = first.pop()
    yield from enumerate(first, start=1)
    if rest:
        last = rest.rsplit(b"\n", half + 1)[-half - 1 : -1]
        yield from enumerate(last, start=count - len(last) + 1)


def name_failure(record: Record, last_word: LastWord | None) -> tuple[Failure, str]:
    """Why a job did not come to its end, and in whose words; for a record without exit code 0."""
    if record.time_limit_reached:
        return "time-out", "the time limit was reached"
    if DUPLICATE.search(record.output_tail) or (last_word and DUPLICATE.search(last_word.reason)):
        return (
            "controller failure",
            "the scheduler knew two jobs by this number and ended one (Duplicate jobid): its "
            "controller had lost its state. Try the job again",
        )
    if last_word and record.started_by is None:
        code = last_word.exit_code.partition(":")[0]
        if code in NOT_BEGUN:
            return NOT_BEGUN[code]
    if record.started_by is None and (found := re2.search(NO_ROOM, record.output_tail)):
        return "disk full", found[0].strip()
    if last_word and last_word.kind and last_word.kind != "failed":
        return last_word.kind, _said(last_word)
    # Where single processes are killed for their memory, Slurm itself only knows FAILED 0:9.
    for kind, pattern in WRITTEN:
        if found := re2.search(f"(?i){pattern}", record.output_tail):
            return kind, found[0].strip()
    if last_word and last_word.kind:
        return last_word.kind, _said(last_word)
    if record.exit_code:
        return (
            "failed",
            f"the job script ended with exit code {describe_exit_code(record.exit_code)}",
        )
    said = f" (the scheduler says {last_word.native})" if last_word else ""
    return "lost", f"the job left no exit code{said}"


def _said(word: LastWord) -> str:
    return " ".join(filter(None, [word.native, word.exit_code, word.reason]))


def _read_run(
    files: Mapping[str, bytes],
    directory: str,
    times: Mapping[tuple[str, str], float],
    unread: Collection[str] = (),
) -> RunRecord:
    uid = directory.rpartition("/")[2].partition("-")[2]
    left = {
        clean_text(name.removeprefix(f"{directory}/")): content
        for name, content in files.items()
        if name.startswith(f"{directory}/")
    }
    parts = _parts(left)
    failed = next(iter(sorted((one for one in parts if one.has_failed), key=_own_end_first)), None)
    snapshots = {one.name: one.snapshot for one in parts if one.snapshot}
    inside, damage = _document(left, "inside.json", INSIDE)
    inside = inside or snapshots.pop("instance 0", {})
    too_many = [
        f"{name.removeprefix(directory + '/')}: with those beside it there are more than "
        f"{ALL_DOCUMENTS // MIB} MiB"
        for name in unread
        if name.startswith(f"{directory}/")
    ]
    return RunRecord(
        began=times.get(("run began", uid)),
        ended=times.get(("run ended", uid)),
        exit_code=_number(files, f"{directory}/exit_code"),
        failure=_text(left, "failure")[-TAIL:] or _failure_of(failed),
        command=_text(left, "command")[:LONGEST],
        output_tail=_output(_tail(left, "output.txt"), parts, failed),
        runtime_version=_text(left, "runtime_version")[:TAIL],
        files=left,
        snapshot=inside,
        others=snapshots,
        culprit=f"{failed.name} {failed.end}" if failed else "",
        damage=next(filter(None, [damage, *(one.damage for one in parts), *too_many]), ""),
    )


def _parts(left: Mapping[str, bytes]) -> list[Part]:
    """Each of several processes that left anything, by number."""
    found = {(place[1], int(place[2])) for place in map(PARTS.fullmatch, left) if place}
    return [_part(left, noun, number) for noun, number in sorted(found)]


def _part(left: Mapping[str, bytes], noun: str, number: int) -> Part:
    snapshot, damage = _document(left, f"{noun}-{number}/inside.json", INSIDE)
    return Part(
        name=f"{noun} {number}",
        exit_code=_number(left, f"{noun}-{number}/exit_code"),
        failure=_text(left, f"{noun}-{number}/failure")[-TAIL:],
        output=_tail(left, f"{noun}-{number}/output.txt"),
        snapshot=snapshot,
        damage=damage,
    )


def _own_end_first(part: Part) -> tuple[bool, bool]:
    return not part.failure, part.was_ended


def _failure_of(failed: Part | None) -> str:
    return f"{failed.failure} ({failed.name})" if failed and failed.failure else ""


def _output(printed: str, parts: Sequence[Part], failed: Part | None) -> str:
    """The end of what was printed, and of several processes whose it is: what failed comes last."""
    # What the first rank printed stands in the run's own output already.
    shown = [one for one in parts if one.name.startswith("instance ") and one is not failed]
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


def _failed_step(files: Mapping[str, bytes]) -> str:
    """Which step of a chore ended it, and how; empty if none did."""
    if "failure.json" not in files:
        return ""
    failure, _ = _document(files, "failure.json", FAILED_STEP)
    code = failure.get("exit_code")
    words = "unknown" if code is None else describe_exit_code(code)
    return f"{failure.get('doing') or 'set-up'}: exit code {words}"


def _text(files: Mapping[str, bytes], name: str) -> str:
    """A file as text. Databases take no NUL, and terminals write line ends of their own."""
    return clean_text(files.get(name, b"")).replace("\r\n", "\n").strip()


def _tail(files: Mapping[str, bytes], name: str) -> str:
    """Return the end of a file as text, however much of the file came home."""
    content = files.get(name, files.get(name + END, b""))
    return _text({name: content[-4 * TAIL :]}, name)[-TAIL:]


def _sizes(files: Mapping[str, bytes]) -> dict[str, int]:
    return {name: len(content) for name, content in files.items()}


def _number(files: Mapping[str, bytes], name: str) -> int | None:
    text = _text(files, name)
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None


def _document(files: Mapping[str, bytes], name: str, shape: Shape) -> tuple[dict[str, Any], str]:
    """A table in a file; none, and why, if it is not what it must be."""
    content = files.get(name, b"{}")
    if len(content) > LONGEST_DOCUMENT:
        return {}, f"{name}: it has {len(content) / MIB:.0f} MiB"
    try:
        return parse_document(content, shape), ""
    except Damaged as error:
        return {}, f"{name}: {error}"


def _too_many_documents(files: Mapping[str, bytes]) -> list[str]:
    """Return the names of the largest documents about processes, beyond what is read of a job."""
    sizes = {
        name: len(content)
        for name, content in files.items()
        if name.endswith("/inside.json") and len(content) <= LONGEST_DOCUMENT
    }
    by_size = sorted(sizes, key=lambda name: (sizes[name], name))
    totals = accumulate(sizes[name] for name in by_size)
    return [name for name, total in zip(by_size, totals, strict=True) if total > ALL_DOCUMENTS]


def _checksums(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return what the script listed. A disk that was full leaves a stump of the last line."""
    found = {}
    listed = files.get("sha256sums", b"").decode(errors="surrogateescape")
    for line in listed[: listed.rfind("\n") + 1].split("\n")[:-1]:
        digest, _, name = line.partition("  ")
        if digest.startswith("\\"):  # how sha256sum writes a name with a line break or backslash
            digest = digest[1:]
            name = re.sub(
                r"\\(.)", lambda found: {"n": "\n", "r": "\r"}.get(found[1], found[1]), name
            )
        found[name.removeprefix("./")] = digest
    return found
