"""One visit to a cluster at a time: a lease in PostgreSQL, kept by a heartbeat, which expires soon.

A visit may take minutes; the lease of one that has died must not. So a thread renews it every few
seconds for as long as the visit lives, and a process that has died on this machine is known by its
token at once. When it expires is said and asked by PostgreSQL's clock alone: those of several hosts
need not agree.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import BinaryIO

from django.db import InterfaceError, OperationalError, close_old_connections, connection
from django.db.models import Q
from django.db.models.expressions import CombinedExpression
from django.db.models.functions import Now

from experiments.execution.holder import is_dead, make_token
from experiments.models import Cluster
from runners.transports import Completed, Transport

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=15)  # longer than some lost beats, and than a database takes to restart
BEAT_SECONDS = 3.0
RENEWED_SECONDS = 1.0
RELEASE_AGAIN_SECONDS = 0.5
DATABASE_AWAY = (OperationalError, InterfaceError)


class LeaseLost(Exception):
    """Another worker has taken the cluster over: stop at once."""


@dataclass
class Lease:
    """A cluster that this process holds, with what it takes to keep and to check the hold."""

    cluster: Cluster
    token: str
    renewed_at: float = float("-inf")
    at_end: dict[str, object] = field(default_factory=dict)
    """Columns of the cluster that change when the hold ends."""

    def renew(self, **columns: object) -> None:
        """Make sure that the lease is still held, and extend it. Raises LeaseLost.

        `columns` of the cluster change with it. Right after another renewal this does nothing:
        nobody can have taken a lease over that was good for seconds.
        """
        now = _read_clock()
        if now - self.renewed_at < RENEWED_SECONDS:
            return
        held = Cluster.objects.filter(pk=self.cluster.pk, lease_token=self.token)
        if not held.update(lease_until=_expires(), **columns):
            raise LeaseLost
        self.renewed_at = now

    def note_change(self) -> None:
        """Have the cluster remember that jobs changed there now: it is visited more often then."""
        self.at_end["changed_at"] = Now()

    def guard(self, transport: Transport) -> Transport:
        """Return the transport of the visit, which stops with the lease."""
        return Guarded(transport, self)


class Guarded(Transport):
    """Asks the cluster nothing, and returns no answer to be kept, once the lease is lost."""

    label = "guarded"

    def __init__(self, transport: Transport, held: Lease) -> None:
        self.transport = transport
        self.held = held

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 30,
        stdin: bytes | BinaryIO = b"",
        stdout: BinaryIO | None = None,
    ) -> Completed:
        self.held.renew()
        done = self.transport.run(argv, timeout=timeout, stdin=stdin, stdout=stdout)
        self.held.renew(last_seen_at=Now())
        return done

    @property
    def is_open(self) -> bool:
        return self.transport.is_open

    def close(self) -> None:
        self.transport.close()


@contextmanager
def hold_lease(
    cluster: Cluster, columns: Mapping[str, object] = MappingProxyType({})
) -> Iterator[Lease | None]:
    """Hold the cluster for the length of the block, or yield None: somebody else does.

    `columns` of the cluster change as the hold begins.
    """
    token = make_token()
    taken_at = _read_clock()
    if not _take(cluster, token, columns):
        yield None
        return
    held = Lease(cluster, token, renewed_at=taken_at)
    try:
        with _heartbeat(cluster.pk, token):
            yield held
    finally:
        _release(held)


def _take(cluster: Cluster, token: str, columns: Mapping[str, object]) -> bool:
    """Write the token where no lease is held, or that of the dead. Compare-and-swap."""
    free = Q(lease_until=None) | Q(lease_until__lt=Now())
    if cluster.lease_token and is_dead(cluster.lease_token):  # as it was when the row was read
        free |= Q(lease_token=cluster.lease_token)
    taken = {"lease_token": token, "lease_until": _expires(), **columns}
    return bool(Cluster.objects.filter(free, pk=cluster.pk).update(**taken))


@contextmanager
def _heartbeat(cluster_pk: int, token: str) -> Iterator[None]:
    """Extend the lease every few seconds while the block runs; with this process it stops."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_SECONDS):
            try:
                extend(cluster_pk, token)
            except DATABASE_AWAY as error:  # the next beat may find it again
                logger.warning("The lease of cluster %s was not extended: %s", cluster_pk, error)
                close_old_connections()
        connection.close()  # this thread's own

    thread = threading.Thread(target=beat, name=f"lease {cluster_pk}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def extend(cluster_pk: int, token: str) -> None:
    """Hold the lease for longer, if it is still held: whoever visits asks `renew` for that."""
    held = Cluster.objects.filter(pk=cluster_pk, lease_token=token)
    held.update(lease_until=_expires())


def _read_clock() -> float:
    """Return seconds of a clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _expires() -> CombinedExpression:
    """Return when a lease expires that is taken or renewed now."""
    return Now() + LEASE


def _release(held: Lease) -> None:
    """Give the lease back; while the database is away, again and again until it has expired."""
    rows = Cluster.objects.filter(pk=held.cluster.pk, lease_token=held.token)
    released = {"lease_token": "", "lease_until": None, **held.at_end}
    _until_the_database_answers(lambda: rows.update(**released))


def _until_the_database_answers(work: Callable[[], object]) -> None:
    deadline = time.monotonic() + LEASE.total_seconds()
    while True:
        try:
            work()
        except DATABASE_AWAY as error:
            close_old_connections()
            if time.monotonic() > deadline:
                logger.warning("A lease was left to expire: %s", error)
                return
            time.sleep(RELEASE_AGAIN_SECONDS)
        else:
            return
