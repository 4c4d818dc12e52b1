"""The page *Operations*: whether Tare's own parts work, for site administrators."""

from __future__ import annotations

import os
import socket
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access.rights import require
from dashboard.live_parts import answer_news_only
from dashboard.typed_requests import Request
from experiments.access.permissions import may_see_operations, why_not_see_operations
from experiments.health.report_mark import mark_report
from experiments.health.status_report import (
    Report,
    find_disk_problems,
    read_report,
    read_service_report,
)
from experiments.health.storage import read_disks, read_storage

LIVE, DETAILS = "live", "operations-details"
"""The ids of the page's two parts: services, asked for every few seconds; and clusters and storage,
which are many rows and statements, less often.
"""
MOST_CLUSTERS = 100
MOST_GONE = 5  # processes that died or fell silent
WEB = {"host": socket.gethostname(), "started_at": timezone.now()}
"""This web server's process: it starts when it imports this."""


def _mark_live_part(request: Request) -> str | None:
    return mark_report() if may_see_operations(request.user) else None


@require_safe
@answer_news_only(_mark_live_part)
def operations(request: Request) -> HttpResponse:
    """Show services, queues, visits to clusters, storage, and what is stuck and why."""
    require(why_not_see_operations(request.user))
    part = (request.htmx.target or LIVE) if request.htmx else ""
    report = read_report() if part in ("", DETAILS) else read_service_report()
    context: dict[str, Any] = {
        "report": report,
        "gone": report.gone[:MOST_GONE],
        "web": {**WEB, "pid": os.getpid()},
    }
    if isinstance(report, Report):
        storage = read_storage()
        context |= {
            "storage": storage,
            "visits": report.visits[:MOST_CLUSTERS],
            "more_clusters": max(len(report.visits) - MOST_CLUSTERS, 0),
        }
        disks = storage.database_disk, storage.store_disk
    else:
        disks = read_disks()
    context["problems"] = [*report.problems, *find_disk_problems(*disks)]
    fragment = {"": "", DETAILS: "#details"}.get(part, "#live")
    return render(request, f"health/operations.html{fragment}", context)
