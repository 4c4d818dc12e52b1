"""What became of the runs of an ended job, by what they left. No query, no network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

from django.utils import timezone

from experiments.design import Scale
from experiments.execution.files_left import explain_unread_files, list_damaged_files
from experiments.execution.journals import find_journal_line, parse_moment
from experiments.execution.run_measures import Measures, measure_run
from experiments.execution.segment_facts import (
    CONTINUED,
    explain_unfinished,
)
from experiments.execution.stored_records import make_stored_record
from experiments.loaded_files import shorten_loaded
from experiments.models import Job, Run, StoredRecord
from experiments.models.segment import count_most_segments
from experiments.models.states import NOT_STARTED
from experiments.snapshots import find_differing_facts, replace_paths
from runners.job_failures import name_run_failure
from runners.node_rules import OF_GPUS, Judgement, judge
from runners.records import Record, RunRecord
from runners.untrusted import clean_text
from runners.workloads import WORKLOADS, Result, SanityError

LONGEST_MESSAGE = 5000  # characters
RECORD_PHASE = "record"
"""In which the payload writes down what has run, after all that it measures."""


@dataclass(frozen=True)
class Ending:
    """How a job has ended: what it left, why it failed, and whether a person cancelled it.

    Reason, message and location are "" for a success.
    """

    job: Job
    record: Record
    reason: str = ""
    message: str = ""
    cancelled: bool = False
    location: str = ""  # a sentence on where its files are, said of the job and not of each run

    @property
    def damage(self) -> str:
        """Return what is the matter with the job's journal, as a sentence; "" if nothing is."""
        lines = "; ".join(self.record.damage)
        return f"Its journal cannot be read: {lines}." if lines else ""


@dataclass(frozen=True)
class RunEnd:
    """The end of one run: its new state, the columns that change with it, and what is stored."""

    run: Run
    to: str
    columns: Mapping[str, Any]
    why: str = ""
    run_record: RunRecord | None = None  # None: it left no files
    record: Record | None = None
    result: Result | None = None  # of a run that has succeeded
    steps: Result | None = None  # how far another one came; shown, never compared
    snapshot: Mapping[str, Any] | None = None
    measures: Measures = field(default_factory=Measures)
    """Of a run that has succeeded, or of one job's part of a run that may take several."""
    stored: StoredRecord | None = None

    def list_columns(self) -> frozenset[str]:
        """Return what changes with the state: runs with the same columns are stored together."""
        files = {"files"} if self.run_record else set()
        snapshot = {"snapshot"} if self.snapshot is not None else set()
        return frozenset({*self.columns, *files, *snapshot})


def decide_run_end(ending: Ending, run: Run, runs: Sequence[Run]) -> RunEnd:
    """Return the end of one run; `runs` are all of its job."""
    record = ending.record
    run_record = record.runs.get(run.uid)
    if run_record and has_ended_by_itself(run_record, record):
        return describe_own_end(run, run_record, record)
    if ending.reason and not ending.cancelled and _has_never_begun(run, record):
        message = _explain_unstarted(record, ending.message, runs)
        columns: dict[str, Any] = {"reason": NOT_STARTED, "message": message}
        to = Run.State.FAILED
    else:
        message = ending.message or ending.damage or "The job ended without a word about this run."
        columns = {
            "reason": ending.reason or ("damaged" if ending.damage else "not run"),
            "message": message,
        }
        to = Run.State.CANCELLED if ending.cancelled else Run.State.FAILED
        if ended := find_journal_line(record, "run ended", run.uid):
            columns["exit_code"] = ended.get("exit_code")
    if run_record is None:
        return RunEnd(run, to, columns, message)
    columns |= {"command": run_record.command, "output_tail": run_record.output_tail}
    return RunEnd(
        *(run, to, columns, message, run_record, record),
        steps=_read_steps(run, run_record),
        measures=measure_run(run, run_record, record)
        if count_most_segments(run.spec["workload"]) > 1
        else Measures(),
        stored=make_stored_record(run, run_record, record),
    )


def describe_own_end(run: Run, run_record: RunRecord, record: Record) -> RunEnd:
    """Return the end of a run that has ended by itself."""
    state, reason, message, result = decide_outcome(run, run_record, record)
    columns = {
        "reason": reason,
        "message": message,
        "exit_code": run_record.exit_code,
        "node": find_journal_line(record, "run began", run.uid).get("node") or run.node,
        "began_at": parse_moment(run_record.began) or run.began_at,
        "ended_at": parse_moment(run_record.ended) or run.ended_at or timezone.now(),
        "command": run_record.command,
        "output_tail": run_record.output_tail,
        "phases": result.phases if result else {},
    }
    steps = None if result else _read_steps(run, run_record)
    snapshot = describe_snapshot(run, run_record)
    record_seconds = result.phases.get(RECORD_PHASE, 0.0) if result else 0.0
    is_segment = count_most_segments(run.spec["workload"]) > 1
    measures = (
        measure_run(run, run_record, record, record_seconds) if result or is_segment else Measures()
    )
    stored = make_stored_record(run, run_record, record)
    return RunEnd(
        *(run, state, columns, message, run_record, record),
        *(result, steps, snapshot, measures, stored),
    )


def describe_damaged_end(run: Run, problem: str) -> RunEnd:
    """Return the end of a run whose files cannot be read; others of its job keep their results."""
    message = f"{problem.rstrip('.')}."
    columns = {"reason": "damaged", "message": message, "ended_at": timezone.now()}
    return RunEnd(run, Run.State.FAILED, columns, message)


def describe_snapshot(run: Run, run_record: RunRecord) -> dict[str, Any]:
    """Return what was true inside the container, without the names of this run and its job.

    So runs that met the same machine and software share one snapshot.
    """
    snapshot: dict[str, Any] = {
        "inside": run_record.snapshot,
        "runtime": run_record.runtime_version,
        "image": run.spec["environment"]["image_digest"],
        **({"modules": run_record.modules} if run_record.modules else {}),
    }
    others = {name: shorten_loaded(content) for name, content in run_record.others.items()}
    if differing_facts := find_differing_facts(shorten_loaded(run_record.snapshot), others):
        snapshot["others"] = differing_facts
    named: dict[str, Any] = replace_paths(snapshot, run.job.directory, run.folder)
    return named


def _has_never_begun(run: Run, record: Record) -> bool:
    """Return whether the job's journal is complete and does not mention this run."""
    is_mentioned = (
        record.damage or not record.journal or find_journal_line(record, "run began", run.uid)
    )
    return run.state == Run.State.PLANNED and not is_mentioned


def _explain_unstarted(record: Record, message: str, runs: Sequence[Run]) -> str:
    """Return why a run did not start: its job ended earlier, in the run that began last."""
    uid = find_journal_line(record, "run began").get("run")
    last = next((run for run in runs if run.uid == uid), None)
    when = f"in its run of {last.environment}" if last else "before its first run"
    return f"Not started, because its job ended {when}: {message}"


def has_ended_by_itself(run_record: RunRecord, record: Record) -> bool:
    """Return whether the run ended by itself, rather than being cut off together with its job."""
    if run_record.failure:
        return True
    if run_record.exit_code is not None and record.exit_code == 0:
        return True  # its script was not told to end, whatever the journal has kept
    terminated = find_journal_line(record, "terminated").get("time", math.inf)
    return (
        run_record.exit_code is not None
        and run_record.ended is not None
        and run_record.ended < terminated
    )


def _read_steps(run: Run, run_record: RunRecord) -> Result:
    """Return the steps of a run without a result."""
    workload = run.spec["workload"]
    kind = WORKLOADS[workload["kind"]]
    return kind.read_partial(run_record.files, workload["parameters"])


def decide_outcome(
    run: Run, run_record: RunRecord, record: Record
) -> tuple[str, str, str, Result | None]:
    """Return the run's state, reason and message, and its result if it passed its sanity check."""
    unfinished = explain_unfinished(run, run_record)
    if run_record.failure or (run_record.exit_code != 0 and not unfinished):
        return Run.State.FAILED, *name_run_failure(run_record, record), None
    if changed_files := list_damaged_files(run, record):
        message = f"{clean_text(', '.join(changed_files))} does not match its check sum."
        return Run.State.FAILED, "damaged", message, None
    if run_record.damage:
        return Run.State.FAILED, "damaged", f"{run_record.damage}.", None
    judgement = judge_node(run, run_record, record)
    if judgement.violations:
        message = f"By the plan's rules: {'; '.join(judgement.violations)}."
        rejected = Run.State.FAILED, "rejected", message, None
    else:
        rejected = None
    if unfinished:
        return rejected or (Run.State.FAILED, CONTINUED, unfinished, None)
    try:
        workload = run.spec["workload"]
        result = WORKLOADS[workload["kind"]].read(run_record.files, workload["parameters"])
    except SanityError as error:
        explanations = explain_unread_files(run, run_record, record)
        reason = "too large" if explanations else "not sane"
        message = clean_text(" ".join([*explanations, str(error)]))
        return Run.State.FAILED, reason, shorten(message, LONGEST_MESSAGE, placeholder=" ..."), None
    if rejected:
        return rejected
    note = result.note
    if judgement.not_applied:
        kinds = ", ".join(judgement.not_applied)
        note = f"{note} The plan's rules on {kinds} were not applied: no samples.".strip()
    return Run.State.SUCCEEDED, "", note, result


def judge_node(run: Run, run_record: RunRecord, record: Record) -> Judgement:
    """Return what the rules of the plan say of the run's node; they see none of its numbers."""
    rules = dict(run.spec.get("reject", {}))
    if Scale.parse(run.scale).gpus_per_node == 0:
        rules = {name: value for name, value in rules.items() if name not in OF_GPUS}
    if not rules:
        return Judgement()
    began, ended = run_record.began, run_record.ended
    if began is None or ended is None:
        began = ended = 0.0  # the journal is damaged: no sample can be told to be of this run
    return judge(rules, record.node_samples, began, ended, count_cpus(run, run_record))


def count_cpus(run: Run, run_record: RunRecord) -> int | None:
    """Return on how many CPUs of its node the run may run, by its own snapshot.

    None of one with several processes: each may have CPUs of its own, and one of them tells.
    """
    scale = Scale.parse(run.scale)
    cpus = run_record.snapshot.get("cpus")
    if scale.launcher or scale.is_packed or scale.nodes > 1 or not isinstance(cpus, list):
        return None
    known = {cpu for cpu in cpus if type(cpu) is int and cpu >= 0}
    return len(known) or None
