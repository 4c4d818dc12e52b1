"""The first page and the health check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.db import InterfaceError, OperationalError, connection
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRefresh

from dashboard.comparisons.diagnosis import diagnose
from dashboard.comparisons.strips import make_strips
from dashboard.execution.matrix import count_cells, estimate_all_left
from dashboard.live_parts import answer_news_only
from dashboard.typed_requests import OpenRequest, Request
from experiments.access.permissions import may_see_operations
from experiments.access.viewing import list_shown
from experiments.comparisons import (
    ExperimentComparison,
    Latest,
    read_all_kept,
    read_kept_verdicts,
    read_latest,
)
from experiments.execution import live_marks
from experiments.execution.ended_since import list_ended_since
from experiments.execution.marked_experiments import JOB_COUNTS
from experiments.execution.overdue_visits import find_overdue_of_clusters
from experiments.execution.progress import measure_progress
from experiments.health.processes import list_missing, read_processes
from experiments.models import Cluster, Experiment, LastVisit, Pause, User
from experiments.models.compiled_rows import (
    CompiledReaderRows,
    CompiledRows,
    select_json,
    select_sql,
)
from experiments.notify import is_valkey_there
from experiments.recurring.attention import list_latest

RECENT = 3
ALIVE = 20
ENDED = 8
"""Experiments that have ended since the last visit."""
RECURRING = 5
IN_A_LINE = (
    *("question", "launched_at", "imported_at", "cancelled_at", "paused_at", "cooldown_seconds"),
    "cluster__name",
)
"""Columns of an experiment that lives, for its line and its state."""


HAS_SHARED_PAUSES = """
EXISTS (
    SELECT FROM experiments_pause AS pause
    WHERE pause.cluster_id = experiments_cluster.id AND pause.experiment_id IS NULL
)
"""


def _select_clusters() -> QuerySet[Cluster]:
    """Select what is in service, without what only its own page shows."""
    rows = Cluster.objects.filter(enabled=True).defer("host_key", "setup_lines")
    return rows.annotate(has_shared_pauses=select_sql(HAS_SHARED_PAUSES))


def _select_pauses() -> QuerySet[Pause]:
    """Select what holds back more than one experiment."""
    return Pause.objects.filter(experiment=None).select_related("partition")


def _list_clusters(reader: User) -> list[Cluster]:
    """Return the clusters in service that the reader sees, with what they wait for."""
    rows: list[Any] = CLUSTERS.read()
    clusters = list_shown(reader, rows)
    for row in clusters:
        row.shared_pauses = []
    if any(row.has_shared_pauses for row in clusters):
        by_key = {row.pk: row for row in clusters}
        for pause in PAUSES.read():
            if cluster := by_key.get(pause.cluster_id):
                pause.cluster = cluster
                cluster.shared_pauses.append(pause)
    return clusters


def _select_under_way(reader: User) -> QuerySet[Experiment]:
    """Select the newest that live, with what stands in a line of each."""
    rows = Experiment.objects.visible_to(reader).alive().select_related("cluster")
    rows = rows.only(*IN_A_LINE).annotate(job_counts=select_json(JOB_COUNTS))
    return rows.order_by("-launched_at", "-pk")[:ALIVE]


CLUSTERS = CompiledRows(_select_clusters)
PAUSES = CompiledRows(_select_pauses)
UNDER_WAY = CompiledReaderRows(_select_under_way)


def _mark_live_part(request: Request) -> str | None:
    return live_marks.OVERVIEW.read(request.user)


@require_safe
@answer_news_only(_mark_live_part)
def overview(request: Request) -> HttpResponse:
    """Show the results of the last experiments, what runs now, and the state of clusters."""
    clusters = _list_clusters(request.user)
    shown: list[Any] = UNDER_WAY.read(request.user)
    cells = count_cells(shown)
    runs = {key: sum(counts.values(), Counter[str]()) for key, (counts, _) in cells.items()}
    jobs = {row.pk: Counter[str](row.job_counts) for row in shown}
    context: dict[str, Any] = {
        "alive": shown,
        "all_progress": measure_progress(shown, runs, jobs),
        "clusters": clusters,
        "preparing": [cluster for cluster in clusters if cluster.preparing],
        "is_new": not shown and not Experiment.objects.visible_to(request.user).exists(),
    }
    context["all_left"] = estimate_all_left(shown, context["all_progress"], cells)
    live = {row.cluster_id for row in shown if context["all_progress"][row.pk].has_live_jobs}
    context["overdue"] = find_overdue_of_clusters(clusters, followed=live)
    context["troubled"] = {
        row.pk for row in clusters if row.pk in context["overdue"] or _is_held_up(row)
    }
    context["is_live"] = context["alive"] or context["preparing"] or not clusters
    if request.htmx:
        # What was waited for has ended: the whole page has something new to say.
        fragment = render(request, "overview.html#live", context)
        return fragment if context["is_live"] else HttpResponseClientRefresh()
    if may_see_operations(request.user):
        context["missing"] = list_missing(read_processes())
    context |= _read_ended(request.user)
    context["recurring"] = list_latest(request.user, timezone.now(), RECURRING)
    visible = Experiment.objects.visible_to(request.user)
    rows = visible.filter(archived_at=None).with_results().without_plan()
    ended = rows.select_related("baseline", "cluster").newest_first()[:RECENT]
    context["results"] = [
        (comparison, latest, diagnose(comparison), make_strips(comparison))
        for comparison, latest in _read_results(list(ended))
    ]
    return render(request, "overview.html", context)


def _is_held_up(cluster: Cluster) -> bool:
    """Return whether there is more to be said of a cluster than its state."""
    is_limited = cluster.waits_for_connections or cluster.shared_pauses
    return bool(is_limited or cluster.recent_failure)


def _read_results(
    experiments: Sequence[Experiment],
) -> list[tuple[ExperimentComparison, Latest]]:
    """Return the last kept comparison of each; one is computed here where none is kept."""
    return [
        (comparison, latest) if comparison else read_latest(row)
        for row, (comparison, latest) in zip(experiments, read_all_kept(experiments), strict=True)
    ]


def _read_ended(user: User) -> dict[str, Any]:
    """Return what has ended since the last visit; nothing for somebody who comes first."""
    visited_at = LastVisit.objects.note_visit(user)
    if visited_at is None:
        return {}
    rows = list_ended_since(user, visited_at, ENDED + 1)
    shown = rows[:ENDED]
    all_progress, all_verdicts = measure_progress(shown), read_kept_verdicts(shown)
    return {
        "visited_at": visited_at,
        "ended": [(row, all_progress[row.pk], all_verdicts.get(row.pk, {})) for row in shown],
        "more_ended": len(rows) > ENDED,
    }


@login_not_required
@require_safe
def healthz(request: OpenRequest) -> HttpResponse:
    """Tell whether the database and Valkey answer; with status 503 if the database does not.

    Pages do without Valkey, so nobody should take the web server away because of it.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except (OperationalError, InterfaceError):
        is_database_there = False
    else:
        is_database_there = True
    answers = {"database": is_database_there, "valkey": is_valkey_there()}
    lines = [f"{name}: {'ok' if answer else 'no answer'}\n" for name, answer in answers.items()]
    status = 200 if is_database_there else 503
    return HttpResponse("".join(lines), content_type="text/plain", status=status)
