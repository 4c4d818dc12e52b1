"""Asking for copies of files that runs have left on their clusters."""

from __future__ import annotations

from django.utils import timezone

from experiments import store, tasks
from experiments.models import RunFile, User


def ask_for_copy(row: RunFile, by: User) -> bool:
    """Have a worker fetch the file; False if it cannot be fetched, or is on its way."""
    if not row.can_be_fetched or row.is_wanted:
        return False
    row.asked_at, row.asked_by, row.seen_at, row.done_bytes = timezone.now(), by, None, 0
    row.copied_at, row.problem = None, ""
    row.save(
        update_fields=["asked_at", "asked_by", "seen_at", "done_bytes", "copied_at", "problem"]
    )
    store.copy_of(str(row.pk)).unlink(missing_ok=True)
    tasks.ring_to_copy(row)
    return True
