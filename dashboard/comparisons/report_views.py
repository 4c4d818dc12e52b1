"""A comparison as one file of HTML that needs no other: it opens from a disk, and prints."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import find_anonymity, mark_as_hidden
from dashboard.access.rights import by_link, get_readable, get_readable_table
from dashboard.comparisons.diagnosis import diagnose
from dashboard.comparisons.figure_views import RETRY_SECONDS
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.report_facts import (
    describe_nodes,
    describe_runs,
    list_environments,
    list_versions,
)
from dashboard.comparisons.report_figures import PICTURE_MARK, draw_report_figures
from dashboard.comparisons.safe_files import make_file_name
from dashboard.comparisons.verdict_matrix import make_verdict_matrix
from dashboard.drawings.drawing_process import Busy
from dashboard.typed_requests import OpenRequest, is_head
from experiments.comparisons import Comparison, read_comparison
from experiments.comparisons.published_tables import compare_published
from experiments.execution.progress import measure_progress
from experiments.models import Experiment, PublishedTable
from experiments.statistics.published.printed import TableError

STYLE = "static/css/report.css"
STYLE_MARK = "<style></style>"
"""Where the style sheet goes, as `PICTURE_MARK` says where pictures go."""
POLICY = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src {}; '
    "img-src data:; form-action 'none'; base-uri 'none'\">"
)
"""What the file itself allows: its own style and its own pictures."""
MOST_SENTENCES = 300
"""Comparisons that have a sentence of their own, or a matrix; the table has them all."""


@by_link
@require_safe
def report(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send an experiment's comparison as one file; `?download` has browsers save it."""
    experiment = get_readable(request, pk)
    comparison = read_comparison(experiment)
    status = measure_progress([experiment])[experiment.pk].status
    return _send(request, comparison, experiment, {"experiment": experiment, "status": status})


@by_link
@require_safe
def table_report(request: OpenRequest, pk: int) -> HttpResponseBase:
    """Send the comparison of a published table as one file."""
    row = get_readable_table(request, pk)
    try:
        comparison = compare_published(row)
    except TableError as error:
        raise Http404(str(error)) from error
    return _send(request, comparison, row, {"table": row})


def _send(
    request: OpenRequest,
    comparison: Comparison,
    subject: Experiment | PublishedTable,
    context: dict[str, Any],
) -> HttpResponseBase:
    style, style_hash = _read_style()
    if is_head(request):  # its length is not known: that takes drawing its figures
        return _add_headers(request, comparison, StreamingHttpResponse(()), style_hash)
    is_compared = bool(comparison.pairs or comparison.decisive) and comparison.has_numbers
    try:
        figures = draw_report_figures(request, comparison) if is_compared else []
    except Busy as error:  # a file without its figures is not what anybody wants to keep
        response = HttpResponse(
            f"The report was not made. {error}\n",
            content_type="text/plain; charset=utf-8",
            status=HTTPStatus.SERVICE_UNAVAILABLE,
        )
        response["Retry-After"] = str(RETRY_SECONDS)
        return response
    has_matrix = (
        is_compared and len(comparison.groups) > 1 and len(comparison.pairs) <= MOST_SENTENCES
    )
    experiment = subject if isinstance(subject, Experiment) else None
    names = ("comparison", "comparison_json", "runs_parquet")
    if experiment is None:
        names = ("table", "table_json", "")
    page, results, runs = (
        request.build_absolute_uri(reverse(name, args=[subject.pk])) if name else ""
        for name in names
    )
    text: str = render_to_string(
        "comparisons/report.html",
        {
            **context,
            "comparison": comparison,
            "is_compared": is_compared,
            "diagnosis": diagnose(comparison) if is_compared else None,
            "matrix": make_verdict_matrix(comparison) if has_matrix else None,
            "figures": figures,
            "methods": describe_methods(comparison) if is_compared else [],
            "environments": list_environments(comparison),
            "nodes": describe_nodes(comparison),
            "runs": describe_runs(comparison),
            "versions": list_versions(experiment),
            "addresses": {"page": page, "results": results, "runs": runs},
            "made_at": timezone.now(),
            "shown_groups": _take_groups(comparison),
        },
    )
    anonymity = find_anonymity(request.user)
    if anonymity:
        # Before style and pictures are there: names may be words of one, or letters of the other.
        text = anonymity.hide_in_page(text)
    policy = POLICY.format(style_hash)
    text = text.replace(STYLE_MARK, f"{policy}\n  <style>{style}</style>", 1)
    pictures = [picture for figure in figures for picture in figure.pictures]
    for number, picture in enumerate(pictures):
        address = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
        text = text.replace(PICTURE_MARK.format(number), f'src="{address}"', 1)
    return _add_headers(request, comparison, HttpResponse(text), style_hash)


def _add_headers(
    request: OpenRequest,
    comparison: Comparison,
    response: HttpResponse | StreamingHttpResponse,
    style_hash: str,
) -> HttpResponseBase:
    """Add the file's name and the policy by which a browser runs and fetches nothing."""
    anonymity = find_anonymity(request.user)
    response._csp_replace = {  # type: ignore[union-attr]
        "default-src": ["'none'"],
        "script-src": ["'none'"],
        "style-src-elem": [style_hash],
        "style-src-attr": ["'none'"],
        "img-src": ["data:"],
    }
    name = make_file_name(comparison, "report", ".html", has_question=not anonymity)
    is_download = "download" in request.GET
    response["Content-Disposition"] = content_disposition_header(is_download, name) or "inline"
    return mark_as_hidden(response) if anonymity else response


def _take_groups(comparison: Comparison) -> list[Any]:
    """Return the configurations whose verdicts are said in sentences."""
    groups, count = [], 0
    for group in comparison.groups:
        count += max(1, len(group.pairs))
        if count > MOST_SENTENCES:
            break
        groups.append(group)
    return groups


@cache
def _read_style() -> tuple[str, str]:
    """Return the style sheet of the file, and its hash as policies have it."""
    style = (Path(settings.BASE_DIR) / STYLE).read_text()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return style, f"'sha256-{digest}'"
