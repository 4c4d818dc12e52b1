"""Requests for copies of files that runs have left on their clusters."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from experiments.access import audit
from experiments.execution.removed_files import find_removal
from experiments.images import store
from experiments.models import Job, RunFile, User
from experiments.notify import enqueue_copy

MOST_WANTED = 20
"""Copies that one person may wait for at a time: each takes the queue's one worker for a while."""


def request_copy(row: RunFile, by: User) -> bool:
    """Have a worker fetch the file and return True.

    False if it cannot be fetched, is on its way, or the person waits for too many already.
    """
    if not row.can_be_fetched or row.is_wanted:
        return False
    if RunFile.objects.to_be_copied().filter(asked_by=by).count() >= MOST_WANTED:
        return False
    with transaction.atomic():
        # The rule of the cluster may be choosing its directory for removal at this moment.
        rows = Job.objects.select_for_update(no_key=True).only("attempt")
        job = audit.get_stored(rows, runs=row.run_id)
        if find_removal(job):
            return False
        row.requested_at, row.asked_by, row.seen_at, row.done_bytes = timezone.now(), by, None, 0
        row.copied_at, row.problem = None, ""
        row.save(
            update_fields=[
                *("requested_at", "asked_by", "seen_at", "done_bytes", "copied_at", "problem")
            ]
        )
    store.copy_of(str(row.pk)).unlink(missing_ok=True)
    enqueue_copy(row)
    return True
