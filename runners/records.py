"""Reads the record of a job from the files of its directory. No I/O: files in, values out.

A job can be killed at any point, so each file may be missing; those that exist are complete, except
for the journal's last line.
"""

import hashlib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

from runners.claims import is_claimed_by_tare
from runners.directories import END, Fetched, is_needed
from runners.exit_codes import describe_exit_code
from runners.journals import read_lines
from runners.loaded_modules import FILE as MODULES
from runners.loaded_modules import read_modules
from runners.node_samples import PROCESSES, RAPL, SAMPLES, Samples, read_samples
from runners.page_cache_records import FILE as PAGE_CACHE
from runners.page_cache_records import describe_page_cache
from runners.shapes import CODE, INSIDE
from runners.transports.base import MIB
from runners.untrusted import Damaged, Shape, Table, Text, clean_text, parse_document

TAIL = 20_000  # characters of output that are kept
LONGEST = 500_000  # characters of a command, or of what one tool printed about a node
LONGEST_DOCUMENT = 4 * MIB  # of a process's snapshot: a large one has 100 kB
ALL_DOCUMENTS = 32 * MIB  # of the snapshots of all processes of a job
LONGEST_ID = 100  # characters that are kept of a text that should be a scheduler's id
FAILED_STEP = Table({"doing": Text(), "exit_code": CODE})
KILLED, TERMINATED = 137, 143  # exit codes after the signals KILL and TERM
SKEW_SECONDS = 0.5  # by which clocks of two nodes may differ
RUN_FILE = re.compile(r"runs/([0-9]{1,9}-[^/]+)/(.*)", re.DOTALL)
PARTS = re.compile(r"(rank|instance)-([0-9]{1,6})/.+", re.DOTALL)


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
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What each process held at most, by name as in `others`; "" is the first of several."""
    own_facts: dict[str, Any] = field(default_factory=dict)
    """What the first process wrote of this run alone, such as its command inside the container."""
    modules: dict[str, Any] = field(default_factory=dict)
    """The environment modules outside the container: names and files."""
    page_cache: str = ""
    """What the page cache held of its files before it began; "" where that was not prepared."""
    culprit: str = ""  # which of several processes failed, and how: "rank 1 ended with exit code 3"
    damage: str = ""  # which file cannot be read, and why


@dataclass(frozen=True)
class Part:
    """The record of one of several processes of a run, apart from its results."""

    name: str  # "rank 1", "instance 3"
    exit_code: int | None  # None: it was killed
    ended: float | None  # seconds since the epoch by its node's clock; None: not written down
    failure: str
    output: str
    snapshot: dict[str, Any]
    damage: str

    @property
    def has_failed(self) -> bool:
        return bool(self.failure or self.exit_code)

    @property
    def end(self) -> str:
        """Return the process's end, to follow its name in a sentence."""
        return f"ended with exit code {describe_exit_code(self.exit_code)}"

    @property
    def was_ended(self) -> bool:
        """Return whether a launcher ended it because another process had failed.

        What a launcher kills takes with it the shell that writes down how it ended.
        """
        is_killed = self.exit_code == KILLED and self.ended is None
        return not self.failure and (is_killed or self.exit_code in (None, TERMINATED))


@dataclass(frozen=True)
class Record:
    """The record of one job."""

    started_by: str | None  # the scheduler's id of the copy that won; None also if Tare did
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
    failure: str = ""  # why no run could begin, if the script has named it
    failed_step: str = ""  # of an operation: which step ended it, and how
    result: bytes | None = None  # of an operation
    damage: tuple[str, ...] = ()  # lines of the journal that cannot be read: which, and why
    uncompared: tuple[str, ...] = ()  # needed files that were not fetched whole, by name
    samples: Mapping[str, bytes] = field(default_factory=dict)  # of its node, by name

    @cached_property
    def node_samples(self) -> Samples:
        """Return what its samples say. They are read once, for all runs of the job."""
        return read_samples(self.samples)

    @property
    def is_verified(self) -> bool:
        """Return whether the record is whole, and all that Tare reads has its check sum."""
        flaws = self.missing or self.bad_checksums or self.uncompared or self.damage
        return self.exit_code is not None and bool(self.checksums) and not flaws


def read_record(files: Mapping[str, bytes], *, extra_files: Collection[str] = ()) -> Record:
    """Read the files that `fetch_record` returned; `extra_files` as there."""
    checksums = _parse_checksums(files)
    started = _read_text(files, "started")[:LONGEST_ID]
    sizes = dict(files.sizes if isinstance(files, Fetched) else _measure_sizes(files))
    unread = _find_excess_documents(files)
    files = {name: content for name, content in files.items() if name not in unread}
    journal, damage = read_lines(files.get("journal.ndjson", b""))
    if "journal.ndjson" in sizes and "journal.ndjson" not in files:
        damage.append(f"it was not fetched, and has {sizes['journal.ndjson'] / MIB:.0f} MiB")
    times = {(line["event"], str(line.get("run"))): line["time"] for line in journal}
    run_files = _group_by_run(files)
    in_order = sorted(run_files, key=lambda name: int(name.partition("-")[0]))
    unread_files = _group_by_run(dict.fromkeys(unread, b""))
    outputs = [
        name for name in sizes if re.fullmatch(r"output\.txt|job\.out|scheduler[^/]*\.out", name)
    ]
    return Record(
        started_by=None if is_claimed_by_tare(started) else started or None,
        exit_code=_read_number(files, "exit_code"),
        runs={
            (uid := name.partition("-")[2]): _read_run(
                run_files[name], uid, times, unread_files.get(name, ())
            )
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
        failure=_read_text(files, "failure")[-TAIL:],
        failed_step=_describe_failed_step(files),
        result=files.get("result.json"),
        damage=tuple(damage),
        uncompared=tuple(
            name for name in checksums if name not in files and is_needed(name, extra_files)
        ),
        samples={
            name: content
            for name in (*SAMPLES, PROCESSES, RAPL)
            if (content := files.get(name, files.get(name + END, b"")))
        },
    )


def _group_by_run(files: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Return the files of each run's directory by its name, and by their names there.

    A program may leave thousands of directories beside those of runs: no file is looked at twice.
    """
    groups: dict[str, dict[str, bytes]] = {}
    for path, content in files.items():
        if match := RUN_FILE.fullmatch(path):
            groups.setdefault(match[1], {})[clean_text(match[2])] = content
    return groups


def _read_run(
    run_files: Mapping[str, bytes],
    uid: str,
    times: Mapping[tuple[str, str], float],
    unread: Collection[str],
) -> RunRecord:
    parts = _read_parts(run_files)
    failed_part = _choose_culprit(parts)
    snapshots = {part.name: part.snapshot for part in parts if part.snapshot}
    snapshot_inside, damage = _read_document(run_files, "inside.json", INSIDE)
    first = "" if snapshot_inside else "instance 0"
    snapshot_inside = snapshot_inside or snapshots.pop("instance 0", {})
    # Not facts: with them no two runs would share a snapshot.
    known = {first: snapshot_inside, **snapshots} if snapshot_inside else snapshots
    memory: dict[str, dict[str, Any]] = {
        part.name: {} for part in parts if part.name not in ("rank 0", first)
    }
    memory |= {name: content.pop("memory", None) or {} for name, content in known.items()}
    own_facts = [content.pop("run", None) or {} for content in known.values()]
    too_many = [
        f"{name}: with those beside it there are more than {ALL_DOCUMENTS // MIB} MiB"
        for name in unread
    ]
    return RunRecord(
        began=times.get(("run began", uid)),
        ended=times.get(("run ended", uid)),
        exit_code=_read_number(run_files, "exit_code"),
        failure=_read_text(run_files, "failure")[-TAIL:] or _describe_failure(failed_part),
        command=_read_text(run_files, "command")[:LONGEST],
        output_tail=_join_outputs(_read_tail(run_files, "output.txt"), parts, failed_part),
        runtime_version=_read_text(run_files, "runtime_version")[:TAIL],
        files=run_files,
        snapshot=snapshot_inside,
        others=snapshots,
        memory=memory,
        own_facts=own_facts[0] if own_facts else {},
        modules=read_modules(run_files.get(MODULES, b"")),
        page_cache=describe_page_cache(run_files.get(PAGE_CACHE, b"")),
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
        ended=_read_time(run_files, f"{noun}-{number}/ended"),
        failure=_read_text(run_files, f"{noun}-{number}/failure")[-TAIL:],
        output=_read_tail(run_files, f"{noun}-{number}/output.txt"),
        snapshot=snapshot,
        damage=damage,
    )


def _choose_culprit(parts: Sequence[Part]) -> Part | None:
    """Return the process that failed by itself; None if none did.

    That is the one that names its failure, else the first to end: those that lose it fail too,
    moments later. None of them is killed by that, so of ends that clocks cannot tell apart a kill
    was the first.
    """

    def rank(part: Part) -> tuple[bool, bool, float]:
        return not part.failure, part.was_ended, math.inf if part.ended is None else part.ended

    failed = sorted((part for part in parts if part.has_failed), key=rank)
    if not failed or failed[0].failure:
        return failed[0] if failed else None
    latest = rank(failed[0])[2] + SKEW_SECONDS
    killed = (part for part in failed if part.exit_code == KILLED and rank(part)[2] <= latest)
    return next((part for part in killed if not part.was_ended), failed[0])


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
        texts.append(f"--- {part.name}{how} ---\n{part.output[-share:] or 'nothing was printed'}")
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


def _read_time(files: Mapping[str, bytes], name: str) -> float | None:
    """Return the seconds since the epoch that a file holds; None if it holds nothing like it."""
    try:
        seconds = float(_read_text(files, name))
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else None


def _read_number(files: Mapping[str, bytes], name: str) -> int | None:
    text = _read_text(files, name)
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


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
