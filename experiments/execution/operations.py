"""Operations on a cluster: how rows become steps that it runs, and how results become rows.

Their model is Chore. Each kind of operation is one class, and one name in KINDS.
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
LONGEST_RESULT = 8 * MIB  # the packages of a large image take 200 kB
MOST_OUTPUT_CHARACTERS = 500  # characters of the output's end that a message repeats


class NotPossible(Exception):
    """This operation cannot be done; the message says why, to the person who requested it."""


@dataclass(frozen=True)
class Work:
    """The steps that a cluster runs for an operation, and what they need."""

    steps: tuple[Step, ...]
    files: tuple[tuple[str, bytes], ...] = ()  # that travel with it: name, content
    setup_lines: tuple[str, ...] = ()  # after the cluster's own
    seconds: int = LONGEST_SECONDS


class ChoreKind(ABC):
    """One kind of operation."""

    def waits_for(self, chore: Chore) -> StagedImage | None:
        """Return the archive that must be on the cluster before this can begin."""
        return None

    @abstractmethod
    def work(self, chore: Chore) -> Work:
        """Return what the cluster is to do. Raises NotPossible."""

    @abstractmethod
    def finish(self, chore: Chore, problem: str, record: Record) -> str:
        """Store the outcome, and return the problem in the end; "" if there is none.

        `problem` says why the job failed, if it did; `record` is what it left. Runs in the
        transaction that ends the operation.
        """


KINDS: dict[str, ChoreKind] = {}

EMPTY_RECORD = read_record({})  # of an operation that never began


def chore_directory(chore: Chore) -> str:
    return f"{chore.cluster.work_directory.rstrip('/')}/chores/{chore.uid}-{chore.attempt}"


def chore_handle(chore: Chore) -> JobSpec:
    """Return a specification with which the runner finds the operation's job again."""
    directory = chore.directory or chore_directory(chore)
    return JobSpec(chore.uid, chore.name, directory, (), Resources(LONGEST_SECONDS))


def chore_spec(chore: Chore) -> JobSpec:
    """Return the specification of the operation's job. Raises NotPossible."""
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


def finish_chore(chore: Chore, record: Record, reason: str, message: str) -> None:
    """Store the outcome of an operation and end it, in one transaction."""
    problem = message
    if reason == "failed" and record.failed_step:
        last_line = plain_text(record.output_tail).rpartition("\n")[2][-MOST_OUTPUT_CHARACTERS:]
        problem = f"{record.failed_step}: {last_line or 'nothing was printed'}"
    cancelled = bool(reason and chore.cancel_requested_at)
    if cancelled:
        reason, problem = "cancelled", "cancelled by a person"
    with transaction.atomic():
        final_problem = KINDS[chore.kind].finish(chore, problem, record)
        ended = Chore.State.FAILED if final_problem else Chore.State.DONE
        move(
            chore,
            Chore.State.CANCELLED if cancelled else ended,
            why=final_problem,
            reason=reason or ("refuted" if final_problem else ""),
            message=final_problem,
            exit_code=record.exit_code,
            output_tail=record.output_tail,
            result=parse_result(record),
            **times(chore, record),
        )


def is_due(chore: Chore) -> bool:
    """Return whether a planned operation can be sent: it waits for no archive any more.

    Where the archive will never be on the cluster, its `work` raises NotPossible.
    """
    archive = KINDS[chore.kind].waits_for(chore)
    return archive is None or archive.state != StagedImage.State.STAGING


def end_unsent(chore: Chore, reason: str, problem: str, *, to: str = Chore.State.FAILED) -> None:
    """End an operation that was never sent."""
    with transaction.atomic():
        final_problem = KINDS[chore.kind].finish(chore, problem, EMPTY_RECORD)
        move(chore, to, why=final_problem, reason=reason, message=final_problem)


def parse_result(record: Record, shape: Shape = Table()) -> dict[str, Any]:  # noqa: B008
    """Return the result that the steps have written; empty if it is not usable.

    That is, if it has not the required shape, or is too long to be read while others wait.
    """
    content = record.result or b"{}"
    if len(content) > LONGEST_RESULT:
        return {}
    try:
        result: dict[str, Any] = parse_document(content, shape)
    except Damaged:
        return {}
    return result
