"""Back-offs: after failed visits Tare leaves a cluster alone for a while, longer each time."""

from __future__ import annotations

from django.db import transaction

from experiments.access import audit
from experiments.models import Cluster, User
from experiments.models.cluster import CONNECTION_LIMIT

ASKED = "asked to try again"


def end_back_off(cluster: Cluster, by: User) -> bool:
    """Let the next visit begin at once; return False if Tare was not waiting after a failure.

    Its own limit of connections is no failure, and stays.
    """
    rows = Cluster.objects.filter(pk=cluster.pk, retry_at__isnull=False)
    with transaction.atomic():
        if not rows.exclude(last_error_kind=CONNECTION_LIMIT).update(retry_at=None):
            return False
        audit.note(by, ASKED, cluster)
    return True
