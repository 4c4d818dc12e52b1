"""Tell the workers that there is something to do, by the names of `experiments.execution.tasks`.

Valkey only shortens the wait: a task that is lost or enqueued twice changes nothing, because
PostgreSQL knows what is to be done and the clock comes round anyway. Tasks are named, not
imported, so that any room may ask for them and none depends on what they do.
"""

from __future__ import annotations

import secrets
from functools import partial

import django_rq
from django.conf import settings
from django.db import transaction
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from rq import Queue

from experiments import valkey_pause
from experiments.models import (
    CheckReport,
    ClusterReading,
    ConnectionTest,
    HostKey,
    ImageImport,
    RunFile,
    StagedImage,
)

TASKS = "experiments.execution.tasks"
VISITS = {
    CheckReport: "check",
    HostKey: "fetch_host_key",
    ConnectionTest: "test_connection",
    ClusterReading: "read_cluster",
}
# A queue of its own for what takes minutes: a tick must not wait behind it.
BULK = "bulk"
LONGEST_WAIT = 1.0
"""Seconds that a click waits for Valkey before it does without."""
OWN_QUEUE_SECONDS = 60
"""After as many the queue of a process that takes nothing from it is forgotten."""


def enqueue_tick(cluster_pk: int) -> None:
    """Ask for a visit to a cluster as soon as the transaction is committed."""
    _enqueue_on_commit("tick", cluster_pk)


def hand_over_tick(cluster_pk: int, process: str) -> None:
    """Have the process that has the connection to a cluster visit it."""
    enqueue(f"{TASKS}.tick", cluster_pk, queue=name_own_queue(process))


def name_own_queue(process: str) -> str:
    """Return the queue of visits that one process alone is to make."""
    return f"default-{process}"


def get_queue(name: str, connection: Redis | None = None) -> Queue:
    """Return a queue by its name; one of a single process is gone soon after it."""
    if name in settings.RQ_QUEUES:
        return django_rq.get_queue(name, connection=connection)
    like = django_rq.get_queue("default", connection=connection)
    return Queue(
        name,
        connection=like.connection,
        serializer=like.serializer,
        default_timeout=like._default_timeout,
        job_class=like.job_class,
    )


def enqueue_visit(row: CheckReport | HostKey | ConnectionTest | ClusterReading) -> None:
    """Ask for the visit that somebody has requested; the clock asks again if this is lost."""
    _enqueue_on_commit(VISITS[type(row)], row.pk)


def enqueue_send(row: StagedImage) -> None:
    """Ask for an image's archive to be sent to its cluster."""
    _enqueue_on_commit("send", row.pk, queue=BULK)


def enqueue_receive(row: ImageImport) -> None:
    """Ask for an image that somebody wants in the catalogue."""
    _enqueue_on_commit("receive", row.pk, queue=BULK)


def enqueue_copy(row: RunFile) -> None:
    """Ask for a copy of a file that a run has left on its cluster."""
    _enqueue_on_commit("copy_file", row.pk, queue=BULK)


def enqueue_deposit(deposit_pk: int) -> None:
    """Ask for a bundle to be deposited; the clock asks again."""
    _enqueue_on_commit("deposit", deposit_pk, queue=BULK)


def enqueue_keep(experiment_pk: int) -> None:
    """Ask for an experiment's comparison to be computed and kept, for the pages.

    However many ask, one task waits.
    """
    _enqueue_on_commit("keep", experiment_pk, queue=BULK)


def enqueue_watch(experiment_pk: int) -> None:
    """Ask whether an experiment's owner is to be told something; the clock asks again."""
    _enqueue_on_commit("watch", experiment_pk)


def enqueue_recur(recurring_pk: int) -> None:
    """Ask for the next recurrence of a recurring experiment; the clock asks again."""
    _enqueue_on_commit("recur", recurring_pk)


def enqueue_find_changes(cluster_pk: int) -> None:
    """Ask whether something is to recur because a cluster is another one; the clock asks again."""
    _enqueue_on_commit("find_changes", cluster_pk, queue=BULK)


def enqueue_store_values(experiment_pk: int) -> None:
    """Ask for the values of all changed experiments to be stored; the clock asks again.

    As for other tasks a key names the request: that of the experiment that has waited longest.
    """
    _enqueue_on_commit("store_values", experiment_pk, queue=BULK)


def enqueue_deliver(person_pk: int) -> None:
    """Ask for what a person is to be told to be sent; the clock asks again."""
    _enqueue_on_commit("deliver", person_pk)


def is_bulk_free() -> bool:
    """Return whether no task waits in the queue `bulk`. Without Valkey none can be added."""
    try:
        return bool(django_rq.get_queue(BULK).count == 0)
    except RedisError:
        return False


def is_valkey_there() -> bool:
    """Return whether Valkey answers within two seconds."""
    connection = _connect(settings.REDIS_URL, 2.0)
    try:
        return bool(connection.ping())
    except RedisError:
        return False
    finally:
        connection.close()


def _connect(url: str, longest_wait: float) -> Redis:
    """Return a connection that is waited for so many seconds; the usual ones take 5, and more."""
    return Redis.from_url(
        url,
        socket_timeout=longest_wait,
        socket_connect_timeout=longest_wait,
        retry=Retry(NoBackoff(), 0),
    )


def _enqueue_on_commit(task: str, pk: int, *, queue: str = "default") -> None:
    transaction.on_commit(partial(enqueue, f"{TASKS}.{task}", pk, queue=queue))


def enqueue(task: str, pk: int, *, queue: str = "default") -> None:
    """Put a task into its queue, unless it waits there; its name and key begin the job's id.

    Without Valkey, do nothing: the clock comes round anyway.
    """
    if valkey_pause.is_paused():
        return
    name = f"{task.rpartition('.')[2]}-{pk}"
    connection = _connect(str(settings.RQ_QUEUES["default"]["URL"]), LONGEST_WAIT)
    try:
        tasks = get_queue(queue, connection)
        if any(job_id.rpartition("-")[0] == name for job_id in tasks.get_job_ids()):
            return
        job_id = f"{name}-{secrets.token_hex(8)}"
        is_lasting = queue in settings.RQ_QUEUES
        ttl = None if is_lasting else OWN_QUEUE_SECONDS
        tasks.enqueue(task, pk, job_id=job_id, result_ttl=0, failure_ttl=3600, ttl=ttl)
        if not is_lasting:
            tasks.connection.expire(tasks.key, OWN_QUEUE_SECONDS)
    except RedisError:
        valkey_pause.begin_pause()
    finally:
        connection.close()
