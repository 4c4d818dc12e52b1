"""What one job's part of a run says of itself. No query, no network."""

from __future__ import annotations

from typing import Any

from experiments.models import Run
from experiments.models.segment import count_most_segments
from runners.payload.main import UNFINISHED
from runners.records import RunRecord
from runners.shapes import SEGMENT
from runners.untrusted import Damaged, parse_document

FILE = "segment.json"
CONTINUED = "to be continued"
"""The reason of a run that has left a checkpoint: a further job goes on with it."""


def read_segment_facts(run_record: RunRecord | None) -> dict[str, Any]:
    """Return what the program wrote down of its segment; empty if it is not there or no such."""
    content = run_record.files.get(FILE) if run_record else None
    if content is None:
        return {}
    try:
        facts: dict[str, Any] = parse_document(content, SEGMENT)
    except Damaged:
        return {}
    return facts


def explain_unfinished(run: Run, run_record: RunRecord) -> str:
    """Return how far a run came that a further job goes on with; "" for any other end."""
    if count_most_segments(run.spec["workload"]) == 1 or run_record.failure:
        return ""
    facts = read_segment_facts(run_record)
    if run_record.exit_code != UNFINISHED or facts.get("ended") != "unfinished":
        return ""
    if not facts["of_steps"]:
        return "Its program stopped at a checkpoint of its own when its time was nearly over."
    return f"{facts['steps']} of {facts['of_steps']} steps were done when its time was nearly over."
