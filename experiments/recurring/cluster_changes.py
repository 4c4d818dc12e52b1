"""Facts of a cluster that are other than a recurrence has seen: drivers, kernels, runtimes.

They are seen by the runs of all experiments there, on the nodes of the last recurrence, and by the
checks of the cluster. What was never seen is no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import F, Q
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
from experiments.notify import enqueue_recur

OF_NODES = {"GPU driver": "GPU driver", "kernel": "kernel"}
"""Facts of snapshots that belong to a node, with what they are called."""
LONGEST = 2000
SHOWN = 200
"""Letters of a value that are shown."""


def request_after_changes(cluster_pk: int) -> list[int]:
    """Ask for the next recurrence where a cluster is other than the last one has seen it.

    Of those that are to recur after changes there, return the keys that it was asked for. One
    statement where there are none.
    """
    rows = RecurringExperiment.objects.filter(
        Q(ends_at=None) | Q(ends_at__gt=Now()),
        on_changes=True,
        source__cluster=cluster_pk,
        stopped_at=None,
        requested_at=None,
        last_number__lt=F("most_recurrences"),
    )
    asked = []
    for row in rows.order_by("pk"):
        changes = list_changes_since(row, cluster_pk)
        if not changes:
            continue
        # Whoever was faster has asked already.
        asked_now = RecurringExperiment.objects.filter(pk=row.pk, requested_at=None).update(
            requested_at=Now(),
            requested_reason=LaunchReason.CHANGE,
            requested_detail="; ".join(changes)[:LONGEST],
        )
        if asked_now:
            enqueue_recur(row.pk)
            asked.append(row.pk)
    return asked


def list_watched_clusters() -> list[int]:
    """Return the clusters on which something is to recur after changes."""
    rows = RecurringExperiment.objects.filter(on_changes=True, stopped_at=None)
    return list(rows.order_by().values_list("source__cluster", flat=True).distinct())


def list_changes_since(row: RecurringExperiment, cluster_pk: int) -> list[str]:
    """Return what of a cluster is other than the last recurrence has seen it, in words.

    Nothing while that one lives: it may see the change itself.
    """
    last = Recurrence.objects.filter(recurring=row, number=row.last_number).first()
    if last is None or Experiment.objects.alive().filter(pk=last.experiment_id).exists():
        return []
    return [
        *_compare_nodes(last, cluster_pk),
        *_compare_checks(last, cluster_pk),
    ]


def _compare_nodes(last: Recurrence, cluster_pk: int) -> Iterator[str]:
    """Yield the facts of each node of the last recurrence that later runs there have seen other."""
    seen = Run.objects.filter(
        experiment=last.experiment_id, state=Run.State.SUCCEEDED, snapshot__isnull=False
    ).exclude(node="")
    before = _read_newest(seen)
    if not before:
        return
    later = Run.objects.filter(
        experiment__cluster=cluster_pk,
        state=Run.State.SUCCEEDED,
        snapshot__isnull=False,
        node__in=before,
        ended_at__gt=max(ended_at for ended_at, _ in before.values()),
    )
    for node, (_, facts) in sorted(_read_newest(later).items()):
        for fact, name in OF_NODES.items():
            old, new = before[node][1].get(fact), facts.get(fact)
            if old and new and old != new:
                yield f"{name} of {node}: {str(old)[:SHOWN]} → {str(new)[:SHOWN]}"


def _read_newest(runs: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return when the last of these runs on each node ended, and the facts of its snapshot."""
    rows = runs.order_by("node", "-ended_at", "-pk").distinct("node")
    return {
        node: (ended_at, facts if isinstance(facts, dict) else {})
        for node, ended_at, facts in rows.values_list("node", "ended_at", "snapshot__facts")
        if ended_at
    }


def _compare_checks(last: Recurrence, cluster_pk: int) -> Iterator[str]:
    """Yield the runtimes whose version is another one in the last check of the cluster.

    Compared with the check before the last recurrence was launched.
    """
    reports = CheckReport.objects.filter(cluster=cluster_pk).exclude(ended_at=None)
    newest = reports.order_by("-ended_at", "-pk").first()
    earlier = reports.filter(ended_at__lte=last.launched_at).order_by("-ended_at", "-pk").first()
    if newest is None or earlier is None or newest.pk == earlier.pk:
        return
    endings = _list_endings(last)
    old, new = (_read_versions(report, endings) for report in (earlier, newest))
    for name in sorted(old.keys() & new.keys()):
        if old[name] != new[name]:
            yield f"version of {name}: {old[name][:SHOWN]} → {new[name][:SHOWN]}"


def _list_endings(last: Recurrence) -> tuple[str, ...]:
    """Return how the names of checks end that are about runtimes of the experiment."""
    runtimes = Runtime.objects.filter(environments__experiments=last.experiment_id)
    names = runtimes.order_by().values_list("executable", flat=True).distinct()
    return tuple(f" at {executable}" for executable in names)


def _read_versions(report: CheckReport, endings: Iterable[str]) -> dict[str, str]:
    """Return the version of each runtime that a check has found, by what the check calls it."""
    return {
        f"{check.name} ({check.area})": check.value
        for check in report.checks
        if check.value and check.name.endswith(tuple(endings))
    }
