"""Open connections to clusters, and keep them while jobs are live there."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from django.utils import timezone

from experiments.encryption import WrongKey
from experiments.execution.holder import is_dead, name_process
from experiments.execution.limits import claim_connection
from experiments.models import Cluster, Credential, Job, Operation
from experiments.models.database_time import database_now
from runners.by_hand import CarriedRunner
from runners.errors import Refused, TryAgain
from runners.runner import Runner
from runners.schedulers import SCHEDULERS
from runners.transports import SSH, Local, SSHAddress, Transport
from runners.transports.by_hand import NO_CONNECTION
from runners.untrusted import clean_text

VISITOR_SECONDS = 15  # after as many without a visit another process may take a cluster over
CONNECT_SECONDS = 10.0
PROBE_SECONDS = 3.0  # where the last visit has failed: a host that hangs must not hang us for long
MOST_VISITOR_SECONDS = 60  # of a process on another host nobody here can tell whether it has died
SWEEP_SECONDS = 5.0
NOISY = (
    "The account's start-up files print something before every command, which cannot be told from "
    "its answer. Let .bashrc or .profile print for people only: [ -t 1 ] && echo ... They print:"
)
MOST_REPEATED = 300  # characters of it

# This process's connections, by cluster. One is kept from tick to tick while jobs are live there:
# to log in anew every few seconds would cost both sides more than the question asked.
_kept: dict[int, tuple[SSHAddress, SSH]] = {}
_in_use: Counter[int] = Counter()  # visits, by cluster
_kept_lock = threading.Lock()
_swept_at = 0.0


def find_visitor(cluster_pk: int) -> str:
    """Return the other process that visits a cluster now and has the connection to it, if any.

    Several workers, on several hosts, so have one connection to each cluster.
    """
    rows = Cluster.objects.only("visitor", "last_tick_at", "poll_seconds").filter(pk=cluster_pk)
    row = rows.exclude(visitor__in=("", name_process())).exclude(last_tick_at=None).first()
    if row is None or row.last_tick_at is None or is_dead(row.visitor):
        return ""
    kept = timedelta(seconds=max(VISITOR_SECONDS, min(3 * row.poll_seconds, MOST_VISITOR_SECONDS)))
    # What lies further ahead was written before the clock was turned back.
    return row.visitor if abs(database_now() - row.last_tick_at) < kept else ""


def _close_what_others_visit() -> None:
    """Close the connections to clusters that another process has taken over."""
    global _swept_at
    if not _kept or time.monotonic() - _swept_at < SWEEP_SECONDS:
        return
    _swept_at = time.monotonic()
    others = Cluster.objects.filter(pk__in=list(_kept)).exclude(visitor=name_process())
    for pk in others.values_list("pk", flat=True):
        with _kept_lock:
            if _in_use[pk]:  # a visit of this process has begun since that was asked
                continue
            _, transport = _kept.pop(pk, (None, None))
        if transport:
            transport.close()


@contextmanager
def connect(cluster: Cluster) -> Iterator[Runner]:
    """Hold the one connection of a tick. Raises TryAgain when the cluster cannot be reached."""
    if cluster.is_by_hand:
        yield CarriedRunner(SCHEDULERS[cluster.scheduler]())
        return
    _close_what_others_visit()
    with _keep_open(cluster.pk):
        transport = _transport_to(cluster)
        if isinstance(transport, SSH):
            transport.connect_timeout = PROBE_SECONDS if cluster.failures else CONNECT_SECONDS
        try:
            _greet(transport)
            yield Runner(transport, SCHEDULERS[cluster.scheduler]())
        except TryAgain:
            transport.close()
            raise
        finally:
            live = {"cluster": cluster, "state__in": Job.LIVE}
            rows = (Job.objects.filter(**live), Operation.objects.filter(**live))
            if not any(each.exists() for each in rows):
                transport.close()


@contextmanager
def _keep_open(cluster_pk: int) -> Iterator[None]:
    """Have no other slot close the connection to a cluster while the block runs."""
    with _kept_lock:
        _in_use[cluster_pk] += 1
    try:
        yield
    finally:
        with _kept_lock:
            _in_use[cluster_pk] -= 1


def _greet(transport: Transport) -> None:
    """Ask, before any state moves, whether anybody is there, and only answers when asked."""
    if transport.is_open:
        with suppress(TryAgain):
            _require_silence(transport)
            return
        transport.close()  # what was kept has broken meanwhile; only a new one's word counts
    _require_silence(transport)


def _require_silence(transport: Transport) -> None:
    """Raise TryAgain if a command that prints nothing comes back with something all the same."""
    try:
        printed = clean_text(transport.run(["true"]).stdout).strip()
    except Refused as too_much:
        printed = str(too_much)
    if printed:
        raise TryAgain(f"{NOISY} {printed[:MOST_REPEATED]}", kind="busy")


def _transport_to(cluster: Cluster) -> Transport:
    if cluster.transport == "local":
        return Local()
    address = make_ssh_address(cluster)
    with _kept_lock:
        known, transport = _kept.get(cluster.pk, (None, None))
        if transport is not None and known == address:
            return transport
        if transport:
            transport.close()
        transport = Link(address)
        _kept[cluster.pk] = address, transport
    return transport


def make_ssh_address(cluster: Cluster, *, trying: Credential | None = None) -> SSHAddress:
    """Return where and as whom to log in. The only place where secrets leave their column.

    `trying`: the credential whose next key is taken instead of the one in use.
    """
    if cluster.is_by_hand:
        raise TryAgain(NO_CONNECTION, kind="set-up")
    address: SSHAddress | None = None
    for hop in cluster.list_hops():
        address = _hop(hop, address, trying)
    assert address  # a way has at least one machine
    return address


def _hop(cluster: Cluster, jump: SSHAddress | None, trying: Credential | None) -> SSHAddress:
    credential = cluster.credential
    if credential is None or not cluster.host_key:
        missing = "credential" if credential is None else "pinned host key"
        raise TryAgain(f"{cluster} has no {missing} yet.", kind="set-up")
    is_tried = trying is not None and credential.pk == trying.pk
    try:
        key = (credential.next_private_key if is_tried else credential.private_key).reveal()
        passphrase = "" if is_tried else credential.passphrase.reveal()
    except WrongKey as problem:
        raise TryAgain(f"The key {credential} cannot be used. {problem}", kind="set-up") from None
    return SSHAddress(
        host=cluster.host,
        port=cluster.port,
        user=credential.user_name,
        host_key=cluster.host_key,
        private_key=key,
        passphrase=passphrase,
        certificate=credential.next_certificate if is_tried else credential.certificate,
        gated=credential.forced_command,
        owner=credential.pk,
        place=cluster.pk,
        jump=jump,
    )


class Link(SSH):
    """A connection with a stored key, which remembers when it was last used.

    It is opened only while the cluster's limit allows it: otherwise LimitReached, a TryAgain.
    """

    def prepare_log_in(self) -> None:
        if self.address.place is not None:
            claim_connection(self.address.place)

    def record_log_in(self) -> None:
        used = Credential.objects.filter(pk__in=[self.address.owner])
        used.update(last_used_at=timezone.now())
