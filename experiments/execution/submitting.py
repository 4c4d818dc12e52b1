"""Submitting a portion of rows: their scripts are stored, sent and submitted together.

What the site says of each row decides what becomes of it. A site that refuses a row for now pauses
all that it would refuse likewise.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction
from django.db.models import prefetch_related_objects
from django.utils import timezone

from experiments.clusters.pauses import end_pauses, hold
from experiments.execution.attempts_by_rule import allow_avoided_nodes
from experiments.execution.experiment_pauses import find_stopped
from experiments.execution.guard import (
    contain_failure,
    is_about_the_visit,
    make_storable,
    note_failure,
)
from experiments.execution.lifecycle import REFUSED, end_runs
from experiments.execution.limits import note_submissions
from experiments.execution.moves import Move, move, move_each
from experiments.execution.node_spreading import allow_excluded_nodes, decide_excluded_nodes
from experiments.execution.operations import (
    NotPossible,
    end_unsent,
    make_operation_spec,
    name_operation_directory,
)
from experiments.execution.own_failures import describe_failure
from experiments.execution.sending_rights import find_forbidden
from experiments.execution.specs import (
    explain_partition_problem,
    make_job_spec,
    name_job_directory,
    read_sent_files,
)
from experiments.models import Job, Operation, Pause, Run
from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import JobSpec
from runners.payload import hash_payload
from runners.runner import Runner
from runners.scripts import render
from runners.submissions import NotReached, Outcome
from runners.transports.base import MIB
from runners.unknown_nodes import UNKNOWN_NODE
from runners.untrusted import clean_text

logger = logging.getLogger(__name__)

Row = Job | Operation
PAUSED_BEFORE = "its experiment was paused before it was sent"
CANCELLED_BEFORE = "cancelled before it was sent"
NOT_REACHED = "not submitted yet: one before it was refused, or those before it took long"
MOST_BYTES = 32 * MIB
"""As much of people's own files is sent together; the rows after it stay planned."""


class SendingPaused(TryAgain):
    """The site refused the row `uid` for now; `pause` holds back those it would refuse likewise."""

    def __init__(self, refusal: NotNow, pause: Pause, uid: str) -> None:
        super().__init__(str(refusal), kind=refusal.kind)
        self.pause = pause
        self.uid = uid


def send_portion(rows: Sequence[Row], runner: Runner) -> None:
    """Send planned rows of one kind together, up to the first that the site refuses.

    Raises SendingPaused for that one; those after it stay planned, and so do those whose files are
    too much for one portion. One odd row is sent, and fails, alone.
    """
    if len(rows) == 1:
        send_alone(rows[0], runner)
        return
    try:
        _prepare_and_submit(rows, runner)
    except Exception as error:
        if is_about_the_visit(error):
            raise
        for row in rows:
            row.refresh_from_db(fields=["state"])
            if row.state == row.State.PLANNED:
                send_alone(row, runner)
            elif row.state == row.State.SUBMITTING:  # `recover` finds out whether it was sent
                note_failure(row.cluster, describe_failure(error), of=row)


def send_alone(row: Row, runner: Runner) -> None:
    """Send one planned row; a failure of Tare's own ends it, or postpones one that may be sent."""
    with contain_failure(row, row.cluster, lambda problem: _give_up(row, problem)):
        _prepare_and_submit([row], runner)


def _give_up(row: Row, problem: str) -> None:
    if row.state == row.State.PLANNED:  # else the cluster may have it: `recover` finds out
        refuse(row, problem)


def _prepare_and_submit(rows: Sequence[Row], runner: Runner) -> None:
    if isinstance(rows[0], Job):
        prefetch_related_objects(rows, "runs")
    jobs = [row for row in rows if isinstance(row, Job)]
    # *Any node* may change them meanwhile: such a job is left to the next visit.
    known = {job.pk: {"node": job.node, "excluded_nodes": job.excluded_nodes} for job in jobs}
    decide_excluded_nodes(jobs)
    specs: dict[int, JobSpec] = {}
    moves: list[Move[Row]] = []
    size = 0
    pause: SendingPaused | None = None
    for row in rows:
        try:
            prepared = _prepare(row, runner)
        except SendingPaused as error:
            pause = error
            break
        if prepared:
            spec, script = prepared
            size += sum(len(content) for _, content in spec.sent)
            if moves and size > MOST_BYTES:
                break
            specs[row.pk] = spec
            columns: dict[str, Any] = {"script": script, "directory": spec.directory}
            if isinstance(row, Job):  # as it is asked for, whatever was planned
                resources = spec.resources
                gpus = resources.nodes * resources.gpus_per_node
                columns["gpu_seconds"] = gpus * resources.time_limit_seconds
                columns["excluded_nodes"] = row.excluded_nodes
                columns["payload_hash"] = hash_payload()  # Tare may be newer than the launch
            moves.append(Move(row, columns=columns, known=known.get(row.pk, {})))
    if moved := move_each(moves, "planned", "submitting"):
        submit([(row, specs[row.pk]) for row in moved], runner)
    if pause:
        raise pause


def _prepare(row: Row, runner: Runner) -> tuple[JobSpec, str] | None:
    """Return what is to be sent and the job's script; None if it is not to be, and the row ended.

    Raises SendingPaused where the fault is the partition's.
    """
    try:
        spec = replace(make_spec(row), directory=_name_directory(row))
        return spec, render(spec, runner.scheduler)
    except ValueError as error:  # what cannot be said safely in a script is not sent
        message = f"The job script cannot be written: {error}."
        partition = row.experiment.partition if isinstance(row, Job) else row.asked_partition()
        if partition and explain_partition_problem(partition, row.cluster.scheduler):
            refusal = NotNow(message, kind="partition", scope="partition")
            raise pause_sending(row, refusal) from None
        refuse(row, message)
    except NotPossible as problem:
        refuse(row, str(problem))
    return None


def make_spec(row: Row) -> JobSpec:
    """Return the specification of a row's job, with the files that travel with it.

    Raises NotPossible.
    """
    if not isinstance(row, Job):
        return make_operation_spec(row)
    try:
        return replace(make_job_spec(row), sent=tuple(read_sent_files(row).items()))
    except KeyError as missing:
        raise NotPossible(
            f"A file that {row.workload} sends is gone: sha256 {missing.args[0]}. Upload it anew."
        ) from None


def _name_directory(row: Row) -> str:
    return name_job_directory(row) if isinstance(row, Job) else name_operation_directory(row)


def submit(prepared: Sequence[tuple[Row, JobSpec]], runner: Runner) -> None:
    """Submit rows in the state SUBMITTING, and give each the state that the answer means.

    Raises SendingPaused or TryAgain, after all answers have been stored.
    """
    prepared = _take_back_stopped(prepared)
    forbidden = find_forbidden([row for row, _ in prepared if isinstance(row, Job)])
    allowed = [(row, spec) for row, spec in prepared if row.pk not in forbidden]
    outcomes: Sequence[Outcome] = []
    if allowed:
        note_submissions(allowed[0][0].cluster, len(allowed))
        try:
            outcomes = runner.submit_all([spec for _, spec in allowed])
        except NotNow as refusal:  # nothing of theirs can be stored there
            outcomes = [refusal, *[NotReached()] * (len(allowed) - 1)]
        except Refused as refusal:  # one of them cannot be sent at all, and none was submitted
            if len(allowed) > 1:
                for alone in prepared:
                    submit([alone], runner)
                return
            outcomes = [refusal]
    _store_outcomes([row for row, _ in allowed], outcomes)
    answers: dict[Row, Outcome] = dict(zip((row for row, _ in allowed), outcomes, strict=True))
    answers |= _send_back_forbidden([row for row, _ in prepared], forbidden)
    specs = {row.pk: spec for row, spec in allowed}
    problems = [
        problem
        for row, outcome in answers.items()
        if isinstance(outcome, TryAgain | Refused)
        and (problem := _react(row, outcome, runner, specs.get(row.pk)))
    ]
    if problems:
        raise min(problems, key=_rank)


def _take_back_stopped(prepared: Sequence[tuple[Row, JobSpec]]) -> Sequence[tuple[Row, JobSpec]]:
    """Return what may still be sent: a person may have paused or cancelled an experiment meanwhile.

    It is asked here, after the rows have become SUBMITTING: whoever presses a button later has
    pressed it after they were sent.
    """
    jobs = [row for row, _ in prepared if isinstance(row, Job)]
    if not jobs:
        return prepared
    stopped = find_stopped(job.experiment_id for job in jobs)
    paused = [job for job in jobs if job.experiment_id in stopped.paused]
    move_each([Move(job, PAUSED_BEFORE) for job in paused], "submitting", "planned")
    cancelled = [job for job in jobs if job.experiment_id in stopped.cancelled]
    for job in cancelled:
        end_without_sending(job, "cancelled", CANCELLED_BEFORE, Job.State.CANCELLED)
    withdrawn = {job.pk for job in (*paused, *cancelled)}
    return [
        (row, spec) for row, spec in prepared if not (isinstance(row, Job) and row.pk in withdrawn)
    ]


def _rank(problem: TryAgain) -> int:
    """Return the place of a problem among several: what ends the visit comes first."""
    if not isinstance(problem, SendingPaused):
        return 0
    return 1 if problem.pause.is_of_the_site else 2


def _send_back_forbidden(rows: Sequence[Row], forbidden: Mapping[int, str]) -> dict[Row, Outcome]:
    """Return the refusal of one row of each experiment, and have the others planned again."""
    first: dict[int, Row] = {}
    back: list[Move[Row]] = []
    for row in rows:
        if not isinstance(row, Job) or row.pk not in forbidden:
            continue
        if first.setdefault(row.experiment_id, row) is not row:
            back.append(Move(row, forbidden[row.pk]))
    move_each(back, "submitting", "planned")
    return {
        row: NotNow(forbidden[row.pk], kind="account", scope="request") for row in first.values()
    }


def _store_outcomes(rows: Sequence[Row], outcomes: Sequence[Outcome]) -> None:
    """Move the rows that were submitted, and those that were not reached."""
    now = timezone.now()
    queued, back = [], []
    for row, outcome in zip(rows, outcomes, strict=True):
        if isinstance(outcome, str):
            columns = {"scheduler_id": outcome, "submitted_at": now}
            queued.append(Move(row, f"scheduler job {outcome}", columns))
        elif isinstance(outcome, NotReached):
            back.append(Move(row, NOT_REACHED))
    move_each(back, "submitting", "planned")
    accepted = move_each(queued, "submitting", "queued")
    if accepted and accepted[0].cluster.pauses.exists():
        for row in accepted:
            end_pauses(row)


def _react(
    row: Row, problem: TryAgain | Refused, runner: Runner, spec: JobSpec | None
) -> TryAgain | None:
    """Do what the site's refusal of one row means; return what the visit is to know of it."""
    if isinstance(problem, NotNow):
        if isinstance(row, Job) and row.excluded_nodes and problem.kind == "nodes":
            unknown = _find_unknown_nodes(row, problem, runner, spec)
            allow_excluded_nodes(row, make_storable(str(problem)), unknown)
            return None
        if isinstance(row, Job) and row.avoided_nodes and problem.kind == "nodes":
            allow_avoided_nodes(row, make_storable(str(problem)))
            return None
        if isinstance(row, Operation) and problem.scope == "request":
            refuse(row, str(problem))  # nothing else asks for the same
            return None
        move(row, row.State.PLANNED, why=make_storable(str(problem)))
        return pause_sending(row, problem)
    if isinstance(problem, TryAgain):
        return problem
    refuse(row, str(problem))
    if isinstance(row, Job):  # the other jobs of its experiment may share the fault
        return pause_sending(row, NotNow(str(problem), kind="refused", scope="request"))
    return None


def _find_unknown_nodes(
    job: Job, problem: NotNow, runner: Runner, spec: JobSpec | None
) -> Sequence[str]:
    """Return which of the nodes that a job is kept off are unknown to its scheduler."""
    if spec is None or not UNKNOWN_NODE.search(f"{problem} {problem.details}"):
        return []
    only = replace(spec.resources, avoided_nodes=",".join(job.excluded_nodes or []))
    try:
        return runner.find_unknown_nodes(replace(spec, resources=only))
    except (TryAgain, Refused):  # nobody knows which: it may run anywhere
        return []


def pause_sending(row: Row, refusal: NotNow) -> SendingPaused:
    """Store a pause, and return the exception that reports it to the visit."""
    message, details = make_storable(str(refusal)), make_storable(refusal.details)
    pause = hold(row, message, kind=refusal.kind, scope=refusal.scope, details=details)
    logger.warning("%s: %s (%s)", row.cluster, clean_text(str(refusal)), refusal.kind)
    return SendingPaused(refusal, pause, row.uid)


def refuse(row: Row, message: str) -> None:
    """End a row that will not run, with the message of the refusal."""
    end_without_sending(row, REFUSED, make_storable(message), Job.State.FAILED)


@transaction.atomic
def end_without_sending(row: Row, reason: str, message: str, to: str) -> None:
    """End a row that no scheduler has accepted, with its runs."""
    if isinstance(row, Operation):
        end_unsent(row, reason, message, to=to)
        return
    if to == Job.State.CANCELLED:
        move(row, to, why=message)
        end_runs(row, Run.State.CANCELLED, reason=reason)
        return
    now = timezone.now()
    if move(row, to, why=message, reason=reason, message=message, ended_at=now):
        end_runs(row, Run.State.FAILED, reason="not submitted", message=message)
