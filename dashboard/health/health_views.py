"""The page *Operations*: whether Tare's own parts work, for site administrators."""

from __future__ import annotations

import os
import socket
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.access.rights import require
from dashboard.live_parts import answer_news_only
from dashboard.typed_requests import Request
from experiments.access.permissions import may_see_operations, why_not_see_operations
from experiments.health.report_mark import mark_report
from experiments.health.status_report import find_storage_problems, read_report
from experiments.health.storage import read_storage

MOST_CLUSTERS = 100
MOST_GONE = 5  # processes that died or fell silent
WEB = {"host": socket.gethostname(), "started_at": timezone.now()}
"""This web server's process: it starts when it imports this."""


def _mark_live_part(request: Request) -> str | None:
    return mark_report() if may_see_operations(request.user) else None


@require_GET
@answer_news_only(_mark_live_part)
def operations(request: Request) -> HttpResponse:
    """Show services, queues, visits to clusters, storage, and what is stuck and why."""
    require(why_not_see_operations(request.user))
    report, storage = read_report(), read_storage()
    context: dict[str, Any] = {
        "report": report,
        "storage": storage,
        "problems": [*report.problems, *find_storage_problems(storage)],
        "visits": report.visits[:MOST_CLUSTERS],
        "more_clusters": max(len(report.visits) - MOST_CLUSTERS, 0),
        "gone": report.gone[:MOST_GONE],
        "web": {**WEB, "pid": os.getpid()},
    }
    return render(request, "health/operations.html" + ("#live" if request.htmx else ""), context)
