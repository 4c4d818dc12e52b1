"""RQ tasks. Redis is only the doorbell: a lost or doubled task changes nothing."""

from __future__ import annotations

from functools import partial

import django_rq
from django.db import close_old_connections, transaction
from redis.exceptions import RedisError

from experiments import execution


def tick(cluster_pk: int) -> str:
    """Visit a cluster. A worker lives long: a connection that broke meanwhile is dropped first."""
    close_old_connections()
    return execution.tick(cluster_pk)


def ring(cluster_pk: int) -> None:
    """Ask for a tick once the transaction is done. Without Redis the clock comes round anyway."""
    transaction.on_commit(partial(_enqueue, cluster_pk))


def _enqueue(cluster_pk: int) -> None:
    try:
        django_rq.get_queue().enqueue(tick, cluster_pk, result_ttl=0, failure_ttl=3600)
    except RedisError:
        return
