"""Operations on a cluster: how rows become steps that it runs, and how results become rows.

Their model is Operation. Each kind of operation is one class, and one name in KINDS.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from experiments.execution.journals import read_times
from experiments.execution.moves import move
from experiments.execution.specs import add_partition, split_lines
from experiments.models import Operation, StagedImage
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


class OperationKind(ABC):
    """One kind of operation."""

    def waits_for(self, operation: Operation) -> StagedImage | None:
        """Return the archive that must be on the cluster before this can begin."""
        return None

    @abstractmethod
    def work(self, operation: Operation) -> Work:
        """Return what the cluster is to do. Raises NotPossible."""

    @abstractmethod
    def finish(self, operation: Operation, problem: str, record: Record) -> str:
        """Store the outcome, and return the problem in the end; "" if there is none.

        `problem` says why the job failed, if it did; `record` is what it left. Runs in the
        transaction that ends the operation.
        """


KINDS: dict[str, OperationKind] = {}

EMPTY_RECORD = read_record({})  # of an operation that never began


def name_operation_directory(operation: Operation) -> str:
    """Return the operation's directory on its cluster."""
    return (
        f"{operation.cluster.work_directory.rstrip('/')}/chores/{operation.uid}-{operation.attempt}"
    )


def make_operation_handle(operation: Operation) -> JobSpec:
    """Return a specification with which the runner finds the operation's job again."""
    directory = operation.directory or name_operation_directory(operation)
    return JobSpec(operation.uid, operation.name, directory, (), Resources(LONGEST_SECONDS))


def make_operation_spec(operation: Operation) -> JobSpec:
    """Return the specification of the operation's job. Raises NotPossible."""
    work = KINDS[operation.kind].work(operation)
    return JobSpec(
        uid=operation.uid,
        name=operation.name,
        directory=operation.directory or name_operation_directory(operation),
        runs=(),
        resources=_resources(operation, work.seconds),
        setup_lines=(*split_lines(operation.cluster.setup_lines), *work.setup_lines),
        steps=work.steps,
        files=work.files,
    )


def _resources(operation: Operation, seconds: int) -> Resources:
    cluster = operation.cluster
    partition = operation.asked_partition()
    if partition is None:
        if SCHEDULERS[cluster.scheduler].has_partitions:
            raise NotPossible(f"{cluster} has no partition that is enabled: where is this to run?")
        return Resources(seconds)
    return add_partition(Resources(min(seconds, partition.time_limit_minutes * 60)), partition)


def finish_operation(operation: Operation, record: Record, reason: str, message: str) -> None:
    """Store the outcome of an operation and end it, in one transaction."""
    problem = message
    if reason == "failed" and record.failed_step:
        last_line = plain_text(record.output_tail).rpartition("\n")[2][-MOST_OUTPUT_CHARACTERS:]
        problem = f"{record.failed_step}: {last_line or 'nothing was printed'}"
    cancelled = bool(reason and operation.cancel_requested_at)
    if cancelled:
        reason, problem = "cancelled", "cancelled by a person"
    with transaction.atomic():
        final_problem = KINDS[operation.kind].finish(operation, problem, record)
        ended = Operation.State.FAILED if final_problem else Operation.State.DONE
        move(
            operation,
            Operation.State.CANCELLED if cancelled else ended,
            why=final_problem,
            reason=reason or ("refuted" if final_problem else ""),
            message=final_problem,
            exit_code=record.exit_code,
            output_tail=record.output_tail,
            result=parse_result(record),
            **read_times(operation, record),
        )


def is_due(operation: Operation) -> bool:
    """Return whether a planned operation can be sent: it waits for no archive any more.

    Where the archive will never be on the cluster, its `work` raises NotPossible.
    """
    archive = KINDS[operation.kind].waits_for(operation)
    return archive is None or archive.state != StagedImage.State.STAGING


def end_unsent(
    operation: Operation, reason: str, problem: str, *, to: str = Operation.State.FAILED
) -> None:
    """End an operation that was never sent."""
    with transaction.atomic():
        final_problem = KINDS[operation.kind].finish(operation, problem, EMPTY_RECORD)
        move(operation, to, why=final_problem, reason=reason, message=final_problem)


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
