"""Pinning an experiment: its files stay on the cluster, whatever the cluster's rule says."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from experiments.access import audit
from experiments.execution.moves import record_event
from experiments.execution.retention_operations import request_end
from experiments.models import Experiment, Operation, Removal, User

PINNED, UNPINNED = "files pinned", "files unpinned"


def pin(experiment: Experiment, by: User) -> int:
    """Pin the experiment's files; return how many directories are being removed already.

    The operation that removes them is asked to end.
    """
    with transaction.atomic():
        if not _set(experiment, by, PINNED):
            return 0
        under_way = Removal.objects.under_way().filter(job__experiment=experiment)
        count = under_way.count()
        for operation in Operation.objects.filter(pk__in=under_way.values("operation")):
            request_end(operation)
    return count


def unpin(experiment: Experiment, by: User) -> None:
    """Leave the experiment's files to the rule of the cluster again."""
    with transaction.atomic():
        _set(experiment, by, UNPINNED)


def _set(experiment: Experiment, by: User, what: str) -> bool:
    """Pin or unpin, with an event and an audit entry; return False if it was so already."""
    rows = Experiment.objects.filter(pk=experiment.pk, pinned_at__isnull=what == PINNED)
    at = timezone.now() if what == PINNED else None
    if not rows.update(pinned_at=at):
        return False
    experiment.pinned_at = at
    record_event(experiment, what, by=by)
    audit.note(by, what, experiment)
    return True
