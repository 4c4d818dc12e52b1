"""Readings of clusters that nobody needs any more."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import F, Q

from experiments.models import ClusterReading
from experiments.models.database_time import database_now

KEPT = timedelta(days=30)
"""As long a reading stays: partitions, limits and versions of a cluster are others by then."""


def forget_old_readings() -> None:
    """Delete what was read more than 30 days ago, and what was asked for then and never answered.

    The reading that fetched the host key which the owner of a draft has confirmed stays as long as
    the draft: it says when the key was shown.
    """
    before = database_now() - KEPT
    is_old = Q(ended_at__lt=before) | Q(ended_at=None, requested_at__lt=before)
    is_confirmed = Q(kind=ClusterReading.Kind.HOST_KEY, draft__host_key=F("key"))
    ClusterReading.objects.filter(is_old).exclude(is_confirmed).delete()
