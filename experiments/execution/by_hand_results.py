"""Results that a person brings back from a machine that Tare cannot reach.

Each job's files pass the same checks as those of other clusters: the same list of files, the same
check sums, the same rules on what became of its runs. A job enters as a whole, or not at all and is
named; another one is never stopped by it. Whether it enters is decided in one transaction, so that
whoever brings an archive twice, or two people at once, enter it once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from django.db import transaction
from django.utils import timezone

from experiments.execution.by_hand_jobs import make_identity
from experiments.execution.collect import make_ending
from experiments.execution.collect_together import PORTION
from experiments.execution.files_left import list_files_of_workloads
from experiments.execution.guard import is_about_the_visit, make_storable
from experiments.execution.keeping import keep_endings
from experiments.execution.moves import Move, move_each, record_event
from experiments.execution.own_failures import describe_failure
from experiments.execution.run_ends import Ending
from experiments.models import Experiment, Job, User
from experiments.notify import enqueue_tick
from runners.by_hand import (
    BEGINS,
    IDENTITY,
    PAYLOAD_HASH,
    TooMuch,
    Unpacked,
    add_left_there,
    read_identity,
    read_payload_hash,
    unpack_results,
)
from runners.directories import Fetched, fetch_record, fetch_records
from runners.errors import Refused
from runners.job_failures import name_failure
from runners.records import Record, read_record
from runners.schedulers import SCHEDULERS
from runners.scratch_folders import open_scratch_folder
from runners.transports import Local
from runners.transports.base import MIB
from runners.untrusted import Damaged, clean_text

OTHERWISE = (
    "Bring it in parts, or copy it to Tare’s host, and enter it there by manage.py bring_results."
)
MOST_WORDS = 2000  # characters of an event about what was refused
MOST_SHOWN = 200  # refused jobs on a page
MOST_LOOKED_UP = 1000  # names of no job of the experiment: of further ones it is not said whose
FOLDER = re.compile(r"([0-9a-f]{32})-([0-9]{1,7})")


class NotBrought(Exception):
    """Nothing of an archive was entered; the message says why."""


@dataclass(frozen=True)
class Answer:
    """What became of one job of an archive. `block` is 0 where it is of no block of this plan."""

    name: str
    block: int
    why: str = ""  # it did not enter; "" if it did

    @property
    def title(self) -> str:
        """Return what it is called: by its block, where that is known."""
        return f"block {self.block}" if self.block else self.name


@dataclass
class Brought:
    """What came of an archive of results."""

    sha256: str = ""
    entered: list[Answer] = field(default_factory=list)
    known: list[Answer] = field(default_factory=list)  # they had entered before
    refused: list[Answer] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # on the archive itself
    left: int = 0  # jobs whose results are still to come

    @property
    def shown(self) -> list[Answer]:
        """Return the refused jobs that a page names: those of blocks of this plan first."""
        return sorted(self.refused, key=lambda answer: not answer.block)[:MOST_SHOWN]

    @property
    def not_shown(self) -> int:
        """Return how many refused jobs a page does not name."""
        return max(0, len(self.refused) - MOST_SHOWN)

    @property
    def entered_blocks(self) -> str:
        """Return the numbers of the blocks that entered, those in a row as a range."""
        return describe_numbers(answer.block for answer in self.entered)

    @property
    def known_blocks(self) -> str:
        """Return the numbers of the blocks that had entered before."""
        return describe_numbers(answer.block for answer in self.known)

    def describe(self) -> str:
        """Return all of it in one sentence."""
        parts = [f"{len(self.entered)} job{'s' * (len(self.entered) != 1)} entered"]
        if self.known:
            parts.append(f"{len(self.known)} had entered before")
        if self.refused:
            parts.append(f"{len(self.refused)} refused")
        return f"{', '.join(parts)}; {self.left} still to come."


def describe_numbers(numbers: Iterable[int]) -> str:
    """Return numbers as text, those in a row as a range: 1–4, 7."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}–{high}" for low, high in ranges)


def bring_results(
    experiment: Experiment,
    archive: BinaryIO,
    by: User | None,
    *,
    name: str,
    is_final: bool = False,
    most_bytes: int | None = None,
) -> Brought:
    """Enter the results in an archive, job by job. Raises NotBrought if it cannot be trusted.

    `is_final`: nothing runs there any more, so that jobs that began and have no end, or lack files,
    end as they are. `most_bytes` of files are unpacked; None: as many as an archive may hold.
    """
    if not experiment.cluster.is_by_hand:
        raise NotBrought(f"{experiment.cluster} is reached by Tare itself.")
    brought = Brought()
    jobs = {
        f"{job.uid}-{job.attempt}": job
        for job in experiment.jobs.select_related("workload").defer("script")
    }
    for job in jobs.values():
        job.experiment, job.cluster = experiment, experiment.cluster

    unknown: set[str] = set()

    def why_not(folder: str) -> str:
        if job := jobs.get(folder):
            return _why_not_now(job)
        unknown.add(folder)
        if len(unknown) > MOST_LOOKED_UP:
            return "no job of this experiment has this name"
        return _why_unknown(experiment, folder)

    with open_scratch_folder("results") as scratch:
        try:
            unpacked = unpack_results(archive, scratch, why_not, most_bytes=most_bytes)
        except TooMuch as refusal:
            raise NotBrought(f"{refusal} {OTHERWISE}") from None
        except Refused as refusal:
            raise NotBrought(str(refusal)) from None
        brought.sha256 = unpacked.sha256
        brought.notes += [*filter(None, [unpacked.damage]), *unpacked.notes]
        if not unpacked.jobs:
            brought.notes.append("The archive holds no results of jobs.")
        for portion in _split(unpacked, jobs, brought):
            _enter_portion(portion, scratch / "jobs", brought, by, is_final=is_final)
    brought.left = _list_awaited(experiment)
    why = f"{make_storable(name)}, sha256 {brought.sha256}: {brought.describe()}"
    refusals = "; ".join(f"{each.title}: {each.why}" for each in brought.refused)
    record_event(experiment, "results brought", why=f"{why} {refusals}"[:MOST_WORDS].strip(), by=by)
    enqueue_tick(experiment.cluster_id)  # what is tried again by rule is handed out
    return brought


def _list_awaited(experiment: Experiment) -> int:
    return experiment.jobs.exclude(state__in=Job.FINAL).count()


def _why_unknown(experiment: Experiment, folder: str) -> str:
    """Return why a folder's name is that of no job of this experiment as it is now."""
    match = FOLDER.fullmatch(folder)  # what no database takes is no name of a job either
    job = match and Job.objects.filter(uid=match[1]).only("experiment", "attempt").first()
    if match is None or job is None:
        return "no job of this site has this name"
    if job.experiment_id != experiment.pk:
        return f"it is of another experiment ({job.experiment_id})"
    return f"it is attempt {match[2]} of a job that has attempt {job.attempt} now"


def _why_not_now(job: Job) -> str:
    """Return why nothing can be entered for a job; "" if something can."""
    if job.state == Job.State.QUEUED and job.scheduler_id.startswith(BEGINS):
        return "it was cancelled in Tare" if job.cancel_requested_at else ""
    if job.state == Job.State.CANCELLED:
        return "it was cancelled in Tare"
    return KNOWN if job.state in Job.FINAL else f"it is {job.state} in Tare, and was never carried"


KNOWN = "it has entered before"


def _split(unpacked: Unpacked, jobs: dict[str, Job], brought: Brought) -> Iterator[list[Job]]:
    """Yield portions of the jobs whose files were unpacked; note the others as refused."""
    good = []
    for folder, files in unpacked.jobs.items():
        job = jobs.get(folder)
        answer = Answer(clean_text(folder)[:100], job.number if job else 0, files.problem)
        if files.problem == KNOWN:
            brought.known.append(answer)
        elif files.problem or job is None:
            brought.refused.append(answer)
        else:
            good.append(job)
    for start in range(0, len(good), PORTION):
        yield good[start : start + PORTION]


def _enter_portion(
    jobs: Sequence[Job], folder: Path, brought: Brought, by: User | None, *, is_final: bool
) -> None:
    """Enter the jobs of a portion whose files are theirs, and whole."""
    whole = []
    for job, record in read_jobs(
        {job: folder / f"{job.uid}-{job.attempt}" for job in jobs}, brought
    ):
        place = folder / f"{job.uid}-{job.attempt}"
        why = _why_not_its_own(job, place / IDENTITY)
        why = why or why_not_whole(record, is_final=is_final)
        if why := why or _take_payload_hash(job, place / PAYLOAD_HASH):
            brought.refused.append(_answer(job, why))
        else:
            whole.append((job, record))
    enter(whole, brought, by)


def enter(records: Sequence[tuple[Job, Record]], brought: Brought, by: User | None) -> None:
    """End jobs by their records together; where one of them makes that fail, each alone."""
    endings = []
    for job, record in records:
        named = ("", "") if record.exit_code == 0 else name_failure(record, None)
        endings.append(make_ending(job, record, *named))
    entered: set[int] = set()
    failed: set[int] = set()
    try:
        entered = _keep(endings, by)
    except Exception as error:
        if is_about_the_visit(error):
            raise
        for ending in endings:
            try:
                entered |= _keep([ending], by)
            except Exception as problem:
                if is_about_the_visit(problem):
                    raise
                failed.add(ending.job.pk)
                brought.refused.append(_answer(ending.job, describe_failure(problem).message))
    for job, _ in records:
        if job.pk in entered:
            brought.entered.append(_answer(job))
        elif job.pk not in failed:  # somebody else has entered it meanwhile
            brought.known.append(_answer(job, KNOWN))


def _answer(job: Job, why: str = "") -> Answer:
    return Answer(f"{job.uid}-{job.attempt}", job.number, why)


def read_jobs(folders: Mapping[Job, Path], brought: Brought) -> Iterator[tuple[Job, Record]]:
    """Yield the records of jobs in folders here, read as those of jobs on clusters are."""
    extra = list_files_of_workloads(list(folders))
    places = {str(folder): job for job, folder in folders.items()}
    with Local() as transport:
        fetched = fetch_records(transport, {place: extra[job.pk] for place, job in places.items()})
        for place, job in places.items():
            try:
                files: Fetched = fetched.get(place) or fetch_record(
                    transport, place, extra_files=extra[job.pk]
                )
                left = add_left_there(files, folders[job], extra[job.pk])
                brought.notes += [_describe_left(job, *each) for each in left.items()]
                yield job, read_record(files, extra_files=extra[job.pk])
            except FileNotFoundError:
                brought.refused.append(_answer(job, "nothing but folders came of it"))
            except Exception as error:
                if is_about_the_visit(error):
                    raise
                brought.refused.append(_answer(job, describe_failure(error).message))


def _describe_left(job: Job, name: str, size: int) -> str:
    shown = clean_text(name)[:100]
    return f"Block {job.number}: {shown} has {size / MIB:,.0f} MiB, too large to come whole."


def why_not_whole(record: Record, *, is_final: bool) -> str:
    """Return why a job's files are not entered, unless `is_final`; "" if they are."""
    if record.exit_code is None and not record.started_by and not record.journal:
        return "it has not begun"
    if is_final:
        return ""
    again = "Bring it again, or say that nothing runs there any more."
    if record.exit_code is None:
        return f"it has begun and has not ended. {again}"
    if not record.checksums:
        return f"its list of check sums is missing. {again}"
    if record.missing:
        return f"half of it: {_name_some(record.missing)} did not come. {again}"
    if record.bad_checksums:
        return f"{_name_some(record.bad_checksums)} does not match its check sum. {again}"
    return ""


def _why_not_its_own(job: Job, path: Path) -> str:
    """Return why files are not those of this job as it was handed out; "" if they are."""
    try:
        with path.open("rb") as file:
            identity = read_identity(file.read(1 << 16))
    except FileNotFoundError:
        return f"{IDENTITY} is missing, by which results are known"
    except IsADirectoryError:
        return f"{IDENTITY} is a folder"
    except Damaged as problem:
        return f"{IDENTITY} cannot be read: {problem}"
    own = make_identity(job)
    if identity.plan != own.plan or identity.experiment != own.experiment:
        return "it was run for another plan"
    if identity != own:
        return "it was not handed out with this token: another archive was written since, or before"
    return ""


def _take_payload_hash(job: Job, path: Path) -> str:
    """Give a job the hash of what measured it there; return why that is not known, "" if it is.

    An archive from before an upgrade of Tare is as good as any other.
    """
    try:
        with path.open("rb") as file:
            job.payload_hash = read_payload_hash(file.read(100))
    except (FileNotFoundError, IsADirectoryError):
        return f"{PAYLOAD_HASH} is missing, which says what it was measured with"
    except Damaged as problem:
        return f"{PAYLOAD_HASH} cannot be read: {problem}"
    return ""


def _name_some(names: Sequence[str]) -> str:
    first = clean_text(names[0])[:100]
    return first if len(names) == 1 else f"{first} and {len(names) - 1} more"


def _keep(endings: Sequence[Ending], by: User | None) -> set[int]:
    """Enter the jobs that wait for results, in one transaction; return their keys."""
    if not endings:
        return set()
    scheduler = SCHEDULERS[endings[0].job.cluster.scheduler]()
    now = timezone.now()
    moves = []
    for ending in endings:
        started = ending.record.started_by or ""
        known = {"scheduler_id": ending.job.scheduler_id, "cancel_requested_at": None}
        columns = {
            "scheduler_id": started if scheduler.is_id(started) else ending.job.scheduler_id,
            "gone_at": now,
            "payload_hash": ending.job.payload_hash,
        }
        moves.append(Move(ending.job, "brought back by hand", columns, by, known))
    try:
        with transaction.atomic():
            moved = {job.pk for job in move_each(moves, Job.State.QUEUED, Job.State.COLLECTING)}
            keep_endings([ending for ending in endings if ending.job.pk in moved])
            # Nothing is there to be looked for later.
            Job.objects.filter(pk__in=moved).update(collect_at=None)
    except BaseException:
        for change in moves:  # what was rolled back is not what they say
            change.row.state = Job.State.QUEUED
            change.row.scheduler_id = change.known["scheduler_id"]
        raise
    return moved
