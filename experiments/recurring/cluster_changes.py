"""Facts of a cluster that are other than a recurrence has seen: drivers, kernels, runtimes.

They are seen by the runs of all experiments there, on the nodes of the last recurrence, and by the
checks of the cluster. What was never seen is no change. However many recur there, each kind of row
is read by one statement for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Now

from experiments.models import (
    CheckReport,
    Experiment,
    LaunchReason,
    Recurrence,
    RecurringExperiment,
    Run,
    Runtime,
)
from experiments.natural_order import sort_naturally
from experiments.notify import enqueue_recur

OF_NODES = ("GPU driver", "kernel")
"""Facts of snapshots that belong to a node."""
LONGEST = 2000
SHOWN = 200
"""Letters of a value that are shown."""
AT_ONCE = 500
"""Rows that one statement changes."""

Seen = tuple[datetime, dict[str, Any]]
"""When the last run on a node ended, and what its snapshot says of the node."""


def request_after_changes(cluster_pk: int) -> list[int]:
    """Ask for the next recurrence where a cluster is other than the last one has seen it.

    Of those that are to recur after changes there, return the keys that it was asked for. One
    statement where there are none, a dozen however many there are.
    """
    rows = RecurringExperiment.objects.filter(
        Q(ends_at=None) | Q(ends_at__gt=Now()),
        on_changes=True,
        source__cluster=cluster_pk,
        stopped_at=None,
        requested_at=None,
        last_number__lt=F("most_recurrences"),
    )
    keys = list(rows.order_by("pk").values_list("pk", flat=True))
    if not keys:
        return []
    changes = {pk: found for pk, found in list_changes(keys, cluster_pk).items() if found}
    return _request(changes) if changes else []


def _request(changes: Mapping[int, Sequence[str]]) -> list[int]:
    """Ask for a recurrence of each of these rows; return those that nobody has asked for."""
    with transaction.atomic():
        # Whoever was faster has asked already, or has stopped it.
        rows = RecurringExperiment.objects.select_for_update(of=("self",), no_key=True)
        free = list(
            rows.filter(pk__in=changes, requested_at=None, stopped_at=None)
            .order_by("pk")
            .only("pk")
        )
        for row in free:
            row.requested_at = Now()
            row.requested_reason = LaunchReason.CHANGE
            row.requested_detail = "; ".join(changes[row.pk])[:LONGEST]
        columns = ["requested_at", "requested_reason", "requested_detail"]
        RecurringExperiment.objects.bulk_update(free, columns, batch_size=AT_ONCE)
        for row in free:
            enqueue_recur(row.pk)
    return [row.pk for row in free]


def list_watched_clusters() -> list[int]:
    """Return the clusters on which something is to recur after changes."""
    rows = RecurringExperiment.objects.filter(on_changes=True, stopped_at=None)
    return list(rows.order_by().values_list("source__cluster", flat=True).distinct())


def list_changes(keys: Sequence[int], cluster_pk: int) -> dict[int, list[str]]:
    """Return what of a cluster is other than the last recurrences have seen it, in words.

    By the keys of recurring experiments. Nothing of one that lives: it may see the change itself.
    """
    reports = CheckReport.objects.filter(cluster=cluster_pk).exclude(ended_at=None)
    before = reports.filter(ended_at__lte=OuterRef("launched_at")).order_by("-ended_at", "-pk")
    rows = Recurrence.objects.filter(recurring__in=keys, number=F("recurring__last_number"))
    rows = rows.exclude(Exists(Experiment.objects.alive().filter(pk=OuterRef("experiment"))))
    last = list(rows.annotate(report_before=Subquery(before.values("pk")[:1])).defer("points"))
    by_node = _compare_nodes({row.experiment_id for row in last}, cluster_pk)
    by_check = _compare_checks(last, reports)
    return {
        row.recurring_id: [*by_node.get(row.experiment_id, []), *by_check.get(row.pk, [])]
        for row in last
    }


def _compare_nodes(experiments: Iterable[int], cluster_pk: int) -> dict[int, list[str]]:
    """Return the facts of each experiment's nodes that later runs there have seen other."""
    succeeded = Run.objects.filter(state=Run.State.SUCCEEDED, snapshot__isnull=False)
    seen: dict[int, dict[str, Seen]] = {}
    for (experiment, node), facts in _read_newest(
        succeeded.filter(experiment__in=list(experiments)).exclude(node=""), "experiment_id", "node"
    ).items():
        seen.setdefault(experiment, {})[node] = facts
    if not seen:
        return {}
    ends = {key: max(ended_at for ended_at, _ in nodes.values()) for key, nodes in seen.items()}
    later = succeeded.filter(
        experiment__cluster=cluster_pk,
        node__in={node for nodes in seen.values() for node in nodes},
        ended_at__gt=min(ends.values()),
    )
    newest = {node: facts for (node,), facts in _read_newest(later, "node").items()}
    return {key: list(_name_changes(nodes, newest, ends[key])) for key, nodes in seen.items()}


def _name_changes(
    nodes: Mapping[str, Seen], newest: Mapping[str, Seen], ended: datetime
) -> Iterator[str]:
    for node in sort_naturally(nodes.keys() & newest.keys()):
        (_, before), (ended_at, now) = nodes[node], newest[node]
        for name in OF_NODES if ended_at > ended else ():
            old, new = before.get(name), now.get(name)
            if old and new and old != new:
                yield f"{name} of {node}: {str(old)[:SHOWN]} → {str(new)[:SHOWN]}"


def _read_newest(runs: QuerySet[Run], *columns: str) -> dict[tuple[Any, ...], Seen]:
    """Return what the last of these runs for each value of the columns has seen of its node."""
    facts = {f"fact_{i}": KeyTransform(name, "snapshot__facts") for i, name in enumerate(OF_NODES)}
    # Their keys first: facts of all runs since then would be read to be sorted.
    last = runs.order_by(*columns, "-ended_at", "-pk").distinct(*columns).values("pk")
    rows = Run.objects.filter(pk__in=last).order_by(*columns).annotate(**facts)
    place = len(columns)
    return {
        tuple(row[:place]): (row[place], dict(zip(OF_NODES, row[place + 1 :], strict=True)))
        for row in rows.values_list(*columns, "ended_at", *facts)
        if row[place]
    }


def _compare_checks(last: Sequence[Recurrence], reports: QuerySet[CheckReport]) -> dict[int, Any]:
    """Return the runtimes whose version is another one in the last check, by recurrence.

    Compared with the check before it was launched.
    """
    newest = reports.order_by("-ended_at", "-pk").first()
    earlier: dict[int, int] = {row.pk: row.report_before for row in last if row.report_before}  # type: ignore[attr-defined]
    if newest is None or not set(earlier.values()) - {newest.pk}:
        return {}
    known = reports.in_bulk(set(earlier.values()))
    endings = _list_endings({row.experiment_id for row in last})
    changes: dict[int, list[str]] = {}
    for row in last:
        report = known.get(earlier.get(row.pk, 0))
        if report and report.pk != newest.pk:
            own = endings.get(row.experiment_id, ())
            old, new = (_read_versions(each, own) for each in (report, newest))
            changes[row.pk] = [
                f"version of {name}: {old[name][:SHOWN]} → {new[name][:SHOWN]}"
                for name in sort_naturally(old.keys() & new.keys())
                if old[name] != new[name]
            ]
    return changes


def _list_endings(experiments: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """Return how the names of checks end that are about runtimes of each experiment."""
    rows = Runtime.objects.filter(environments__experiments__in=list(experiments)).order_by()
    endings: dict[int, tuple[str, ...]] = {}
    pairs = rows.values_list("environments__experiments", "executable").distinct()
    for experiment, executable in pairs:
        endings[experiment] = (*endings.get(experiment, ()), f" at {executable}")
    return endings


def _read_versions(report: CheckReport, endings: Iterable[str]) -> dict[str, str]:
    """Return the version of each runtime that a check has found, by what the check calls it."""
    return {
        f"{check.name} ({check.area})": check.value
        for check in report.checks
        if check.value and check.name.endswith(tuple(endings))
    }
