"""What does not go on, and why: each kind with what to do, and its oldest rows with their pages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from django.db.models import Value

from experiments.health.stuck_clusters import (
    list_failing_clusters,
    list_limits,
    list_paused_experiments,
    list_pauses,
)
from experiments.health.stuck_jobs import (
    list_collecting,
    list_not_cancelled,
    list_submitting,
    list_switched_off,
    list_unreadable,
)
from experiments.health.stuck_kinds import Kind, Stuck
from experiments.health.stuck_requests import (
    list_silent_transfers,
    list_unvisited,
)


def list_stuck(now: datetime) -> list[Stuck]:
    """Return all that does not go on by itself, or only when a site lets it."""
    kinds: tuple[Callable[[datetime], Sequence[Kind | Stuck]], ...] = (
        list_submitting,
        list_collecting,
        list_unreadable,
        list_not_cancelled,
        list_switched_off,
        list_failing_clusters,
        list_pauses,
        list_paused_experiments,
        list_limits,
        list_silent_transfers,
        list_unvisited,
    )
    entries = [entry for list_entries in kinds for entry in list_entries(now)]
    present = _find_present([entry for entry in entries if isinstance(entry, Kind)])
    all_stuck = (
        entry if isinstance(entry, Stuck) else entry.read()
        for entry in entries
        if isinstance(entry, Stuck) or id(entry) in present
    )
    return [stuck for stuck in all_stuck if stuck.count]


def _find_present(kinds: Sequence[Kind]) -> set[int]:
    """Return the identities of the kinds of which there are rows: mostly none, in one statement."""
    queries = [
        kind.rows.order_by().annotate(place=Value(place)).values_list("place")[:1]
        for place, kind in enumerate(kinds)
    ]
    return {id(kinds[place]) for (place,) in queries[0].union(*queries[1:], all=True)}
