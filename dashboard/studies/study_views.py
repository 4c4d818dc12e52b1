"""Studies: listed, shown, made of experiments or of a file, changed, launched and exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.db.models import Count
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_htmx.http import HttpResponseClientRefresh

from dashboard.access.rights import changeable_row, require_maker_of, visible_row
from dashboard.lists import PICKED, WordFilter, make_listing, read_picked_keys
from dashboard.live_parts import answer_news_only
from dashboard.planning.definition_views import TYPES
from dashboard.studies.study_forms import StudyForm
from dashboard.studies.study_page import (
    make_study_matrix,
    measure_study,
    read_across,
)
from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.access.permissions import may_change
from experiments.definitions.described_experiments import CannotBeWritten
from experiments.execution import live_marks
from experiments.models import Experiment, Study, User
from experiments.studies.described_studies import write_study_file
from experiments.studies.study_actions import (
    Done,
    NotAllLaunched,
    cancel_all,
    launch_drafts,
    pause_all,
    resume_all,
)
from experiments.studies.study_members import NotPutIn, put_in, read_members, take_out

SORTS = {"name": "name", "created": "created_at", "owner": "owner__username"}
ACTIONS: dict[str, tuple[Callable[[Study, User], Done], str]] = {
    "launch": (launch_drafts, "Launched"),
    "cancel": (cancel_all, "Cancelled"),
    "pause": (pause_all, "Paused"),
    "continue": (resume_all, "Continued"),
}
RESULTS = "results"
"""The part of the page with the verdicts, which is fetched anew less often."""


@require_safe
def study_list(request: Request) -> HttpResponse:
    """List the studies that the reader may view."""
    filters = WordFilter(request)
    rows = Study.objects.visible_to(request.user).select_related("owner")
    if filters.search_text:
        rows = rows.filter(name__icontains=filters.search_text)
    listing = make_listing(request, rows, sorts=SORTS, default="-created")
    keys = [row.pk for row in listing.page.object_list]
    visible = Experiment.objects.visible_to(request.user).filter(studies__in=keys)
    counted = visible.order_by().values_list("studies").annotate(count=Count("pk"))
    counts = dict(counted.filter(studies__in=keys))
    context = {"listing": listing, "filter": filters, "counts": counts}
    return render(request, "studies/list.html", context)


def _mark_live_part(request: Request, pk: int) -> str | None:
    return live_marks.STUDY.read(request.user, pk)


@require_safe
@answer_news_only(_mark_live_part)
def study(request: Request, pk: int) -> HttpResponse:
    """Show a study; its two parts are fetched anew until all runs have ended."""
    row = visible_row(request, Study, pk, "owner")
    members = read_members(row, request.user)
    progress = measure_study(members)
    is_results = bool(request.htmx) and request.htmx.target == RESULTS
    context: dict[str, Any] = {
        "study": row,
        "progress": progress,
        "can_edit": may_change(request.user, row),
    }
    if request.htmx and not is_results:
        # What was waited for has ended: the whole page has something new to say.
        fragment = render(request, "studies/detail.html#live", context)
        return fragment if progress.is_alive else HttpResponseClientRefresh()
    across = read_across(request.user, members.experiments)
    context |= {"across": across, "matrix": make_study_matrix(across, progress.alive)}
    if is_results:
        return render(request, "studies/detail.html#results", context)
    return render(request, "studies/detail.html", context)


@require_maker_of(Study)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Make a study of experiments that exist."""
    keys = read_picked_keys(request.POST if request.method == "POST" else request.GET)
    row = Study(owner=request.user)
    form = StudyForm(request.POST or None, instance=row, user=request.user)
    problem = ""
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                with audit.log_change(request.user, row):
                    form.save()
                put_in(row, keys, request.user)
        except NotPutIn as reason:
            problem = str(reason)
        else:
            messages.success(request, "Made.")
            return redirect(row)
    visible = Experiment.objects.visible_to(request.user).without_plan()
    by_key = visible.select_related("cluster").in_bulk(keys)
    picked = [by_key[key] for key in keys if key in by_key]
    context = {"form": form, "picked": picked, "problem": problem, "name": PICKED}
    return render(request, "studies/form.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Change what a study says of itself, and which experiments are in it."""
    row = changeable_row(request, Study, pk, "owner")
    form = StudyForm(request.POST or None, instance=row, user=request.user)
    if request.method == "POST" and form.is_valid():
        with transaction.atomic():
            with audit.log_change(request.user, row):
                form.save()
            take_out(row, read_picked_keys(request.POST), request.user)
        messages.success(request, "Saved.")
        return redirect(row)
    members = read_members(row, request.user)
    context = {"form": form, "study": row, "members": members, "name": PICKED}
    return render(request, "studies/form.html", context)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a study; its experiments stay."""
    row = changeable_row(request, Study, pk)
    audit.delete(request.user, row)
    messages.success(request, f"Deleted the study {row}. Its experiments stay.")
    return redirect("study_list")


@require_POST
def act(request: Request, pk: int, action: str) -> HttpResponse:
    """Launch, cancel, pause or continue what is in a study."""
    row = changeable_row(request, Study, pk)
    change, verb = ACTIONS[action]
    try:
        done = change(row, request.user)
    except NotAllLaunched as refused:
        messages.error(request, f"Nothing was launched. {refused}")
    else:
        is_odd = not done.count or done.forbidden
        (messages.warning if is_odd else messages.success)(request, done.describe(verb))
    return redirect(row)


@require_safe
def definition(request: Request, pk: int, ending: str) -> HttpResponse:
    """Send the file of a study."""
    row = visible_row(request, Study, pk)
    try:
        text = write_study_file(row, request.user, ending)
    except CannotBeWritten as error:
        return HttpResponse(
            f"There is no file. {error}\n", content_type="text/plain; charset=utf-8", status=409
        )
    response = HttpResponse(text.encode(), content_type=f"{TYPES[ending]}; charset=utf-8")
    parts = ("tare", f"study-{row.pk}", slugify(row.name)[:50].strip("-"))
    name = "-".join(part for part in parts if part) + f".{ending}"
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response
