"""RQ tasks. Redis is only the doorbell: a lost or doubled task changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import django_rq
from django.db import close_old_connections, transaction
from redis.exceptions import RedisError

from experiments import execution
from experiments.models import Arrival, CheckReport, ConnectionTest, HostKey, RunFile, StagedImage

# A queue of its own for what takes minutes: a tick must not wait behind it.
BULK = "bulk"


def tick(cluster_pk: int) -> str:
    """Visit a cluster. A worker lives long: a connection that broke meanwhile is dropped first."""
    close_old_connections()
    return execution.tick(cluster_pk)


def check(pk: int) -> str:
    """Make a check that was asked for; then look after the cluster's jobs, if they waited."""
    close_old_connections()
    outcome = execution.check(pk)
    ring(CheckReport.objects.values_list("cluster_id", flat=True).get(pk=pk))
    return outcome


def fetch_host_key(pk: int) -> str:
    close_old_connections()
    return execution.fetch_host_key(pk)


def test_connection(pk: int) -> str:
    close_old_connections()
    return execution.test_connection(pk)


def send(pk: int) -> str:
    """Send an image's archive to its cluster, however long that takes."""
    close_old_connections()
    outcome = execution.send(pk)
    ring(StagedImage.objects.values_list("cluster_id", flat=True).get(pk=pk))
    return outcome


def receive(pk: int) -> str:
    """Fetch an image that somebody wants in the catalogue."""
    close_old_connections()
    return execution.receive(pk)


def copy_file(pk: int) -> str:
    """Fetch a copy of a run's file, however long that takes."""
    close_old_connections()
    return execution.copy_file(pk)


def ring(cluster_pk: int) -> None:
    """Ask for a tick once the transaction is done. Without Redis the clock comes round anyway."""
    transaction.on_commit(partial(_enqueue, tick, cluster_pk))


def ring_for(row: CheckReport | HostKey | ConnectionTest) -> None:
    """Ask for the visit that somebody has written down; the clock asks again if this is lost."""
    tasks: dict[type, Callable[[int], str]] = {
        CheckReport: check,
        HostKey: fetch_host_key,
        ConnectionTest: test_connection,
    }
    transaction.on_commit(partial(_enqueue, tasks[type(row)], row.pk))


def ring_to_send(row: StagedImage) -> None:
    """Ask for an archive to be sent to its cluster."""
    transaction.on_commit(partial(_enqueue, send, row.pk, queue=BULK))


def ring_to_receive(row: Arrival) -> None:
    """Ask for an image that somebody wants in the catalogue."""
    transaction.on_commit(partial(_enqueue, receive, row.pk, queue=BULK))


def ring_to_copy(row: RunFile) -> None:
    """Ask for a copy of a file that a run has left."""
    transaction.on_commit(partial(_enqueue, copy_file, row.pk, queue=BULK))


def bulk_is_free() -> bool:
    """Return whether no task waits in the queue `bulk`. Without Redis none can be added."""
    try:
        return bool(django_rq.get_queue(BULK).count == 0)
    except RedisError:
        return False


def _enqueue(task: Callable[[int], str], pk: int, *, queue: str = "default") -> None:
    try:
        django_rq.get_queue(queue).enqueue(task, pk, result_ttl=0, failure_ttl=3600)
    except RedisError:
        return
