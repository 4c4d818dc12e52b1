"""Recurring experiments: made of a launched one, shown with their control charts, and stopped."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access.rights import changeable_row, get_editable
from dashboard.comparisons.figure_kinds import CONTROL_CHARTS
from dashboard.comparisons.figure_views import Subject, send_figure
from dashboard.comparisons.safe_files import make_file_name, make_json_response, stream_csv
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.drawing_process import Ending
from dashboard.lists import Listing, make_listing
from dashboard.recurring.recurring_files import describe_page, list_point_rows
from dashboard.recurring.recurring_forms import RecurringForm
from dashboard.recurring.recurring_page import (
    FileName,
    choose_charts,
    describe_figure,
    make_figure,
    make_rows,
)
from dashboard.typed_requests import Request, parse_whole_number
from experiments.access import audit
from experiments.access.permissions import may_change
from experiments.models import RecurringExperiment
from experiments.models.database_time import database_now
from experiments.planning.forecasts import forecast
from experiments.recurring import (
    describe_state,
    explain_why_not_recur,
    read_history,
    recurring_actions,
)
from experiments.recurring.recurring_actions import (
    NOT_LAUNCHED,
    OVER,
    begin_recurring,
    is_recurrable,
    prepare_recurring,
    request_launch,
    stop_recurring,
)
from experiments.statistics.control_charts import FALSE_ALARMS, FEWEST, MOST

LIMITS = {"fewest": FEWEST, "most": MOST, "false_alarms": FALSE_ALARMS}
PER_PAGE = 12
"""Recurrences on a page: it is some 4,000 pixels high on a phone then."""
SORTS = {"question": "question", "created": "created_at", "due": "due_at", "number": "last_number"}


@require_safe
def recurring_list(request: Request) -> HttpResponse:
    """List the recurring experiments that the reader may view."""
    rows = RecurringExperiment.objects.visible_to(request.user).select_related("owner")
    listing = make_listing(request, rows, sorts=SORTS, default="-created")
    context = {"listing": listing, "now": database_now()}
    return render(request, "recurring/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request, pk: int) -> HttpResponse:
    """Let a launched experiment recur."""
    source = get_editable(request, pk)
    if not is_recurrable(source):
        raise PermissionDenied(NOT_LAUNCHED)
    if why_not := explain_why_not_recur(source):
        messages.error(request, why_not)
        return redirect(source)
    row = prepare_recurring(source, request.user)
    form = RecurringForm(request.POST or None, instance=row, user=request.user)
    if request.method == "POST" and form.is_valid():
        with audit.log_change(request.user, row):
            form.save()
            begin_recurring(row)
        messages.success(
            request, "Saved. It is launched again by this rule; its results are charted here."
        )
        return redirect(row)
    context = {"form": form, "experiment": source, "gpu_hours": _count_gpu_hours(source)}
    return render(request, "recurring/form.html", context)


def _count_gpu_hours(source: Any) -> float:
    """Return how many GPU-hours a recurrence may take at most."""
    return forecast(
        workloads=list(source.workloads.all()),
        environments=list(source.environments.all()),
        scales=source.scales,
        repeats=source.repeats,
        paired=source.is_paired,
    ).gpu_hours_at_most


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Change the rule of a recurring experiment, or who may view it."""
    row = changeable_row(request, RecurringExperiment, pk, "source", "owner")
    form = RecurringForm(request.POST or None, instance=row, user=request.user)
    if request.method == "POST" and form.is_valid():
        with audit.log_change(request.user, row):
            form.save()
        messages.success(request, "Saved.")
        return redirect(row)
    context = {"form": form, "recurring": row, "gpu_hours": _count_gpu_hours(row.source)}
    return render(request, "recurring/form.html", context)


@require_safe
def recurring(request: Request, pk: int) -> HttpResponse:
    """Show a recurring experiment: its state, the charts of one configuration, its recurrences."""
    row = _find(request, pk)
    history = read_history(row)
    now = database_now()
    choice = choose_charts(request, history)
    paginator = Paginator(make_rows(history, choice.charts), PER_PAGE)
    context = {
        "recurring": row,
        "state": describe_state(row, now),
        "history": history,
        "choice": choice,
        "has_limits": any(point.limits for chart in choice.charts for point in chart.points),
        "figure": make_figure(choice.charts, history),
        "listing": Listing(paginator.get_page(request.GET.get("page")), ""),
        "can_edit": may_change(request.user, row),
        "is_over": row.is_over(now),
        **LIMITS,
    }
    return render(request, "recurring/detail.html", context)


@require_safe
def recurring_csv(request: Request, pk: int) -> HttpResponseBase:
    """Send the points of all charts as a CSV file."""
    row = _find(request, pk)
    rows = list_point_rows(read_history(row))
    return stream_csv(rows, make_file_name(FileName(row), "over-time", ".csv"))


@require_safe
def recurring_json(request: Request, pk: int) -> HttpResponseBase:
    """Send all that the page shows as a JSON file."""
    row = _find(request, pk)
    content = {
        "address": request.build_absolute_uri(row.get_absolute_url()),
        **describe_page(read_history(row)),
    }
    return make_json_response(content, make_file_name(FileName(row), "over-time", ".json"))


@require_safe
def recurring_figure(request: Request, pk: int, ending: Ending) -> HttpResponseBase:
    """Send the control charts of one configuration."""
    row = _find(request, pk)

    def describe() -> AxesFigure:
        history = read_history(row)
        described = describe_figure(choose_charts(request, history).charts, history)
        if described is None:
            raise Http404("Nothing of it has a value yet.")
        return described

    return send_figure(request, Subject(FileName(row), "", describe), CONTROL_CHARTS, ending)


@require_POST
def stop(request: Request, pk: int) -> HttpResponse:
    """Launch nothing of it any more; what was launched goes on."""
    row = changeable_row(request, RecurringExperiment, pk)
    if stop_recurring(row, request.user):
        messages.success(request, "Stopped: nothing of it is launched any more.")
    return redirect(row)


@require_POST
def launch_now(request: Request, pk: int) -> HttpResponse:
    """Ask for the next recurrence now; it waits while another one lives."""
    row = changeable_row(request, RecurringExperiment, pk)
    if not request_launch(row):
        messages.error(request, OVER)
        return redirect(row)
    messages.success(request, "The next recurrence was asked for.")
    return redirect(row)


@require_POST
def restart_limits(request: Request, pk: int) -> HttpResponse:
    """Compute limits of the recurrences from one on, as after a change that is meant to stay."""
    row = changeable_row(request, RecurringExperiment, pk)
    first = parse_whole_number(request.POST.get("from"))
    if why_not := recurring_actions.restart_limits(row, first, request.user):
        messages.error(request, why_not)
        return redirect(row)
    messages.success(request, f"Limits are computed of recurrences from {first} on.")
    return redirect(row)


def _find(request: Request, pk: int) -> RecurringExperiment:
    rows = RecurringExperiment.objects.visible_to(request.user)
    rows = rows.select_related("owner", "source", "stopped_by").defer("source__plan")
    return get_object_or_404(rows, pk=pk)
