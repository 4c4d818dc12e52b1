"""What a cluster offers now against what is stored of it, and taking over what somebody chooses.

Only what a reading knows is compared. What people type by hand, such as directives, set-up lines,
options and executables, is neither compared nor written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError
from django.utils import timezone

from experiments.access import audit
from experiments.access.permissions import why_not_write_setup_lines
from experiments.clusters.visit_requests import (
    DIED,
    find_under_way,
    list_unanswered,
    save_unless_under_way,
)
from experiments.models import Cluster, ClusterReading, Partition, Runtime, User
from experiments.models.cluster_draft import compute_access_digest
from experiments.statistics import numbers
from runners.cluster_reading import Found, FoundPartition, FoundRuntime
from runners.cluster_reading.answers import RUNTIME_AREA, SCHEDULER
from runners.runtimes import RUNTIMES

WHY = "read from the cluster"
ANY_QUEUE = "*"  # leaves the queue to Grid Engine
UNLIMITED_MINUTES = 24 * 60  # proposed where the scheduler has no limit

FACTS = {
    "nodes": "Nodes",
    "gpus_per_node": "GPUs per node",
    "gpu_model": "GPU model",
    "gres": "GPU resource",
    "cpus_per_node": "CPUs per node",
}
LABELS = {
    **FACTS,
    "cpus_per_run": "CPUs per run",
    "memory_mb": "Memory, MB",
    "time_limit_minutes": "Time limit",
    "account": "Account",
    "qos": "QOS",
    "enabled": "In service",
    "version": "Version",
}
KNOWN_FACTS = {
    "slurm": tuple(FACTS),
    "direct": ("gpus_per_node", "gpu_model", "cpus_per_node"),
}
"""The facts that a reading knows, by scheduler; of others it knows the number of nodes alone."""

ExplainProblem = Callable[[Partition, str], str]


class NotApplied(Exception):
    """Nothing was changed; the message says why."""


@dataclass(frozen=True)
class Difference:
    """One value, or one whole row, that the cluster has otherwise than Tare.

    `column` is empty where a row is added or deleted. `read` is what would be stored.
    """

    part: str  # "partition" or "runtime"
    name: str
    column: str
    stored: Any
    read: Any
    text: str = ""  # instead of the two values
    is_proposed: bool = False
    is_possible: bool = True
    pk: int | None = None  # of the stored row; None: it is added
    offered: FoundPartition | FoundRuntime | None = None  # what is added

    @property
    def label(self) -> str:
        return LABELS.get(self.column, "")

    @property
    def stored_text(self) -> str:
        return "–" if self.stored in ("", None) else self._describe(self.stored)

    @property
    def read_text(self) -> str:
        return "the scheduler’s default" if self.read == "" else self._describe(self.read)

    def _describe(self, value: Any) -> str:
        is_limit = self.column == "time_limit_minutes"
        return numbers.time_limit(value) if is_limit else str(value)

    @property
    def key(self) -> str:
        """Return what a form names it by: another one as soon as either side has changed."""
        whole = [self.part, self.name, self.column, repr(self.stored), repr(self.read), self.pk]
        return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:32]


def why_not_read(user: User, cluster: Cluster) -> str:
    """Return why `user` may neither read a cluster again nor take over what differs; "" if so."""
    if cluster.recorded:
        return f"{cluster} is known from imported logs: nobody logs in there."
    return why_not_write_setup_lines(user, cluster)


def request_reading(cluster: Cluster, by: User) -> ClusterReading:
    """Store a request to read a cluster, or return the one under way. Earlier ones are forgotten.

    Raises NotStored.
    """
    rows = ClusterReading.objects.filter(cluster=cluster)
    ended = rows.exclude(ended_at=None).order_by("-ended_at", "-pk")
    rows.filter(pk__in=ended.values("pk")[1:]).delete()
    under_way, digest = rows.filter(ended_at=None), compute_access_digest(cluster)
    list_unanswered(under_way).update(
        ended_at=timezone.now(), outcome=DIED.outcome, rows=[DIED.as_json()]
    )
    kind = ClusterReading.Kind.OFFER
    row = ClusterReading(kind=kind, cluster=cluster, owner=by, digest=digest)
    return save_unless_under_way(row, under_way)


def find_reading_under_way(cluster: Cluster) -> ClusterReading | None:
    """Return the reading that a worker has been asked for and has not ended."""
    return find_under_way(cluster.readings.all())


def find_last_reading(cluster: Cluster) -> ClusterReading | None:
    """Return the last reading; None where the way to the cluster has changed since."""
    ended = cluster.readings.exclude(ended_at=None).select_related("owner")
    last = ended.order_by("-ended_at", "-pk").first()
    return last if last and last.digest == compute_access_digest(cluster) else None


def list_differences(cluster: Cluster, reading: ClusterReading) -> list[Difference]:
    """Return what differs between what is stored of a cluster and what was read from it."""
    offer = reading.offer
    if offer is None:
        return []
    partitions = list(cluster.partitions.order_by("name"))
    runtimes = list(cluster.runtimes.order_by("kind", "executable"))
    warned = {(check.area, check.name) for check in reading.checks if check.is_bad}
    return [
        *_compare_partitions(partitions, offer, warned),
        *_compare_runtimes(runtimes, offer, warned),
    ]


def _compare_partitions(
    stored: list[Partition], offer: Found, warned: Collection[tuple[str, str]]
) -> Iterator[Difference]:
    if offer.scheduler == "direct" and stored and offer.partitions:
        for row in stored:  # a machine's partitions are its own, by whatever names
            yield from _compare_partition(row, offer.partitions[0], offer.scheduler)
        return
    offered = {row.name: row for row in offer.partitions}
    for row in stored:
        if row.name in offered:
            yield from _compare_partition(row, offered[row.name], offer.scheduler)
    # Where a line could not be read, the partition that is missing may be in that one.
    is_whole = offered and not {(SCHEDULER, "Partitions"), (SCHEDULER, "Other lines")} & set(warned)
    for row in stored:
        if is_whole and row.enabled and row.name not in (*offered, ANY_QUEUE):
            text = "Gone from the cluster, or hidden from the account: take it out of service."
            yield Difference("partition", row.name, "enabled", True, False, text, pk=row.pk)
    known = {row.name for row in stored}
    if ANY_QUEUE in known:
        return  # which queue is left to Grid Engine
    for name, new in offered.items():
        if name not in known:
            text = f"New: {_describe_partition(new)}"
            yield Difference("partition", name, "", None, text, text, offered=new)


def _compare_partition(
    row: Partition, offered: FoundPartition, scheduler: str
) -> Iterator[Difference]:
    def differ(column: str, read: Any, *, is_proposed: bool) -> Difference:
        stored = getattr(row, column)
        return Difference(
            "partition", row.name, column, stored, read, is_proposed=is_proposed, pk=row.pk
        )

    if not row.enabled and scheduler != "direct":
        text = "On the cluster, and out of service here: put it into service again."
        yield Difference("partition", row.name, "enabled", False, True, text, pk=row.pk)
    for column in KNOWN_FACTS.get(scheduler, ("nodes",)):
        stored, read = getattr(row, column), _read_fact(offered, column)
        has_no_gpus = column in ("gres", "gpu_model") and not offered.gpus_per_node
        if stored != read and not has_no_gpus and read != "":
            lower = isinstance(read, int) and read < stored
            yield differ(column, read, is_proposed=lower or stored == "")
    if scheduler in KNOWN_FACTS:
        for column, most in (
            ("cpus_per_run", offered.cpus_per_node),
            ("memory_mb", offered.memory_mb),
        ):
            if most and (getattr(row, column) or 0) > most:
                yield differ(column, most, is_proposed=True)
    minutes = offered.time_limit_minutes
    if minutes and minutes != row.time_limit_minutes:
        yield differ("time_limit_minutes", minutes, is_proposed=minutes < row.time_limit_minutes)
    for column, names in (("account", offered.accounts), ("qos", offered.qos)):
        if names and getattr(row, column) and getattr(row, column) not in names:
            # Another one is chosen only where there is no choice: "" is the scheduler's own.
            yield differ(column, names[0] if len(names) == 1 else "", is_proposed=False)


def _read_fact(offered: FoundPartition, column: str) -> Any:
    """Return a fact as it is stored: a partition has a node and a CPU, and a name for GPUs."""
    value = getattr(offered, column)
    if column in ("nodes", "cpus_per_node"):
        return max(value, 1)
    return value or "gpu" if column == "gres" else value


def _compare_runtimes(
    stored: list[Runtime], offer: Found, warned: Collection[tuple[str, str]]
) -> Iterator[Difference]:
    offered = {row.kind: row for row in offer.runtimes}
    for row in stored:
        name = row.get_kind_display()
        read = offered.get(row.kind)
        # A path of its own, or one that set-up lines bring, is not what was asked.
        if row.setup_lines or (read and row.executable != read.executable):
            continue
        if read and read.version and read.version != row.version:
            yield Difference(
                *("runtime", name, "version", row.version, read.version),
                is_proposed=True,
                pk=row.pk,
            )
        is_asked = row.executable == RUNTIMES[row.kind].command
        if not read and is_asked and (RUNTIME_AREA, name) not in warned:
            is_used = row.environments.exists()
            text = "Does not answer on the login node by its usual name: "
            text += "environments use it, so it stays." if is_used else "delete it here."
            yield Difference(
                *("runtime", name, "", str(row), None, text), is_possible=not is_used, pk=row.pk
            )
    known = {(row.kind, row.executable) for row in stored}
    for new in offer.runtimes:
        if (new.kind, new.executable) not in known:
            text = f"{new.executable}, version {new.version}" if new.version else new.executable
            text = f"New: {text}"
            yield Difference("runtime", new.label, "", None, text, text, offered=new)


def _describe_partition(offered: FoundPartition) -> str:
    new = propose_partition(offered)
    gpus = f"{new.gpus_per_node} x {new.gpu_model or 'GPU'} each, " if new.gpus_per_node else ""
    limit = numbers.time_limit(new.time_limit_minutes)
    state = "" if offered.is_up else f" It is {offered.state}."
    return (
        f"{new.nodes} node{'s' * (new.nodes != 1)}, {gpus}{new.cpus_per_run} of "
        f"{new.cpus_per_node} CPUs a run, at most {limit}.{state}"
    )


def propose_partition(offered: FoundPartition) -> Partition:
    """Return a partition as it is proposed for a cluster, not saved: a GPU's share of the CPUs."""
    share = offered.cpus_per_node // offered.gpus_per_node if offered.gpus_per_node else 1
    return Partition(
        name=offered.name,
        nodes=max(offered.nodes, 1),
        gpus_per_node=offered.gpus_per_node,
        gpu_model=offered.gpu_model,
        gres=offered.gres or "gpu",
        cpus_per_node=max(offered.cpus_per_node, 1),
        cpus_per_run=max(share, 1),
        time_limit_minutes=offered.time_limit_minutes or UNLIMITED_MINUTES,
    )


def apply_differences(
    cluster: Cluster,
    *,
    reading_pk: int | None,
    keys: Collection[str],
    by: User,
    explain_problem: ExplainProblem,
) -> list[Difference]:
    """Store the differences that somebody has chosen, by their keys, and return them.

    Nothing else of the rows is written, and all of it is one transaction with its audit entries.
    Raises NotApplied, also where anything has changed since `by` has seen it.
    """
    try:
        with transaction.atomic():
            locked = audit.get_stored(Cluster.objects.select_for_update(no_key=True), pk=cluster.pk)
            if reason := why_not_read(by, locked):
                raise NotApplied(reason)
            last = find_last_reading(locked)
            if last is None or last.pk != reading_pk:
                raise NotApplied("The cluster was read again meanwhile: look at what differs now.")
            for rows in (locked.partitions, locked.runtimes):
                list(rows.select_for_update(no_key=True))
            possible = {row.key: row for row in list_differences(locked, last) if row.is_possible}
            if not keys:
                raise NotApplied("Nothing was ticked.")
            if set(keys) - possible.keys():
                raise NotApplied("Something was changed meanwhile: look at what differs now.")
            chosen = [row for key, row in possible.items() if key in keys]
            _store(locked, chosen, by, explain_problem)
    except (IntegrityError, ProtectedError):
        raise NotApplied("Something was added meanwhile: look at what differs now.") from None
    return chosen


def _store(
    cluster: Cluster, chosen: list[Difference], by: User, explain_problem: ExplainProblem
) -> None:
    for part, stored in (("partition", cluster.partitions), ("runtime", cluster.runtimes)):
        differences = [row for row in chosen if row.part == part]
        changed = {row.pk for row in differences if row.pk is not None}
        rows: list[Any] = list(stored.filter(pk__in=changed))
        for row in rows:
            values = {each.column: each.read for each in differences if each.pk == row.pk}
            if "" in values:
                audit.delete(by, row, why=WHY)
                continue
            for column, value in values.items():
                setattr(row, column, value)
            _require_partition(row, cluster, explain_problem)
            with audit.log_change(by, row, why=WHY):
                row.save(update_fields=list(values))
        for difference in differences:
            if difference.offered:
                new = _make_row(difference.offered)
                new.cluster = cluster
                _require_partition(new, cluster, explain_problem)
                with audit.log_change(by, new, why=WHY):
                    new.save()


def _make_row(offered: FoundPartition | FoundRuntime) -> Partition | Runtime:
    if isinstance(offered, FoundPartition):
        return propose_partition(offered)
    return Runtime(kind=offered.kind, executable=offered.executable, version=offered.version)


def _require_partition(
    row: Partition | Runtime, cluster: Cluster, explain_problem: ExplainProblem
) -> None:
    """Raise NotApplied if it is a partition for which no job can be written."""
    problem = explain_problem(row, cluster.scheduler) if isinstance(row, Partition) else ""
    if problem:
        raise NotApplied(f"{row.name}: a job cannot be written so: {problem}.")  # type: ignore[union-attr]
