"""Clusters that Tare cannot reach: stored as a person describes them, nothing is read there."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from experiments.access import audit
from experiments.clusters.cluster_drafts import NotDone
from experiments.models import Cluster, Partition, User


def add_by_hand(cluster: Cluster, partition: Partition | None, by: User) -> Cluster:
    """Store a cluster with its partition, in one transaction, with an audit entry for each row.

    Raises NotDone if there is one of this name.
    """
    try:
        with transaction.atomic():
            with audit.log_change(by, cluster, why="added as a machine without a connection"):
                cluster.save()
            if partition:
                partition.cluster = cluster
                with audit.log_change(by, partition):
                    partition.save()
    except IntegrityError:
        raise NotDone(f"There is a cluster called {cluster.name} already.") from None
    return cluster
