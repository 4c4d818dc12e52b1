"""Chores: from rows to the steps that a cluster does, and from what came back to rows.

Each kind of chore is one class, and one name in KINDS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from experiments.execution.journals import times
from experiments.execution.lifecycle import move
from experiments.execution.specs import lines_of, on_partition
from experiments.models import Chore, StagedImage
from runners.jobs import JobSpec, Resources, Step
from runners.records import Record, read_record
from runners.schedulers import SCHEDULERS
from runners.terminal import plain_text
from runners.transports.base import MIB
from runners.untrusted import Damaged, Shape, Table, parse_document

LONGEST_SECONDS = 7200
LONGEST_RESULT = 8 * MIB  # of one: the packages of a large image take 200 kB
LAST_WORDS = 500  # characters of the output's end that a message repeats


class NotPossible(Exception):
    """This chore cannot be done; the message says why, to the person who asked."""


@dataclass(frozen=True)
class Work:
    """What a chore has the cluster do."""

    steps: tuple[Step, ...]
    files: tuple[tuple[str, bytes], ...] = ()  # that travel with it: name, content
    setup_lines: tuple[str, ...] = ()  # after the cluster's own
    seconds: int = LONGEST_SECONDS


class ChoreKind(ABC):
    """One kind of chore."""

    def waits_for(self, chore: Chore) -> StagedImage | None:
        """The archive that must be on the cluster before this can begin."""
        return None

    @abstractmethod
    def work(self, chore: Chore) -> Work:
        """What the cluster is to do. Raises NotPossible."""

    @abstractmethod
    def finish(self, chore: Chore, problem: str, record: Record) -> str:
        """Write down what came of it, and return what was wrong after all; empty: nothing.

        `problem` says why it failed, if it did; `record` is what it left. Runs in the transaction
        that ends the chore.
        """


KINDS: dict[str, ChoreKind] = {}

NOTHING = read_record({})  # what a chore leaves that nobody has begun


def chore_directory(chore: Chore) -> str:
    return f"{chore.cluster.work_directory.rstrip('/')}/chores/{chore.uid}-{chore.attempt}"


def chore_handle(chore: Chore) -> JobSpec:
    """Return what is enough to find it again."""
    directory = chore.directory or chore_directory(chore)
    return JobSpec(chore.uid, chore.name, directory, (), Resources(LONGEST_SECONDS))


def chore_spec(chore: Chore) -> JobSpec:
    """Return what is sent. Raises NotPossible."""
    work = KINDS[chore.kind].work(chore)
    return JobSpec(
        uid=chore.uid,
        name=chore.name,
        directory=chore.directory or chore_directory(chore),
        runs=(),
        resources=_resources(chore, work.seconds),
        setup_lines=(*lines_of(chore.cluster.setup_lines), *work.setup_lines),
        steps=work.steps,
        files=work.files,
    )


def _resources(chore: Chore, seconds: int) -> Resources:
    cluster = chore.cluster
    partition = chore.asked_partition()
    if partition is None:
        if SCHEDULERS[cluster.scheduler].has_partitions:
            raise NotPossible(f"{cluster} has no partition yet: where is this to run?")
        return Resources(seconds)
    return on_partition(Resources(min(seconds, partition.time_limit_minutes * 60)), partition)


def keep_chore(chore: Chore, record: Record, reason: str, message: str) -> None:
    """Write what came of a chore, and end it: all of it or nothing."""
    problem = message
    if reason == "failed" and record.failed_step:
        said = plain_text(record.output_tail).rpartition("\n")[2][-LAST_WORDS:]
        problem = f"{record.failed_step}: {said or 'nothing was printed'}"
    cancelled = bool(reason and chore.cancel_requested_at)
    if cancelled:
        reason, problem = "cancelled", "cancelled by a person"
    with transaction.atomic():
        found = KINDS[chore.kind].finish(chore, problem, record)
        ended = Chore.State.FAILED if found else Chore.State.DONE
        move(
            chore,
            Chore.State.CANCELLED if cancelled else ended,
            why=found,
            reason=reason or ("refuted" if found else ""),
            message=found,
            exit_code=record.exit_code,
            output_tail=record.output_tail,
            result=result_of(record),
            **times(chore, record),
        )


def is_due(chore: Chore) -> bool:
    """Whether a planned chore can be sent: its archive is on the cluster, or never will be.

    In the second case its `work` says so.
    """
    archive = KINDS[chore.kind].waits_for(chore)
    return archive is None or archive.state != StagedImage.State.STAGING


def end_unsent(chore: Chore, reason: str, problem: str, *, to: str = Chore.State.FAILED) -> None:
    """End a chore that no cluster has taken up."""
    with transaction.atomic():
        found = KINDS[chore.kind].finish(chore, problem, NOTHING)
        move(chore, to, why=found, reason=reason, message=found)


def result_of(record: Record, shape: Shape = Table()) -> dict[str, Any]:  # noqa: B008
    """The result that the steps have written; nothing if it is odd.

    That is, without the shape that it must have, or too long to be read while others wait.
    """
    content = record.result or b"{}"
    if len(content) > LONGEST_RESULT:
        return {}
    try:
        result: dict[str, Any] = parse_document(content, shape)
    except Damaged:
        return {}
    return result
