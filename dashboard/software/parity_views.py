"""The parity report on a draft's page: inspect environments, waive differences."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from dashboard.access.rights import by_link, get_editable, get_readable, require, visible_row
from dashboard.typed_requests import OpenRequest, Request, parse_whole_number, read_posted_text
from experiments.access.permissions import may_change, may_use, why_not_use
from experiments.models import Environment, Experiment, User
from experiments.natural_order import sort_items_naturally
from experiments.notify import enqueue_tick
from experiments.presets.program_checks import list_known_programs
from experiments.software import inspections, parity_reports
from experiments.software.parity import list_libraries


@by_link
@require_safe
def software(request: OpenRequest, pk: int) -> HttpResponse:
    """Show the parity report alone, which reloads during an inspection; else the whole page."""
    row = get_readable(request, pk)
    if not request.htmx:
        return redirect(_report_address(row))
    context = {"experiment": row, "can_edit": may_change(request.user, row)}
    return render(request, "software/parity.html", context | prepare_report(row))


def prepare_report(row: Experiment) -> dict[str, Any]:
    """Return what the template of the parity report shows of a draft; nothing after its launch."""
    reports = parity_reports.make_reports(row) if row.is_draft else []
    unknown = [software for report in reports for software in report.unknown]
    under_way = any(software.under_way for software in unknown)
    return {
        "reports": reports,
        "own_programs": parity_reports.list_own_programs(row) if reports else [],
        "inspection_under_way": under_way,
        "may_inspect": any(not software.under_way for software in unknown),
    }


@require_POST
def inspect_all(request: Request, pk: int) -> HttpResponse:
    """Have the cluster inspect every environment whose software is not known."""
    row = get_editable(request, pk)
    try:
        parity_reports.request_inspections(row, request.user)
    except inspections.NotRequested as refusal:
        messages.error(request, f"No inspection was requested. {refusal}")
    enqueue_tick(row.cluster_id)
    return redirect(_report_address(row))


@require_POST
def inspect_environment(request: Request, pk: int) -> HttpResponse:
    """Have the cluster inspect one environment, from its own page."""
    row = visible_row(request, Environment, pk)
    require(why_not_use(request.user, row))
    try:
        inspections.request_inspection(row, request.user)
    except inspections.NotRequested as refusal:
        messages.error(request, f"No inspection was requested. {refusal}")
    enqueue_tick(row.cluster_id)
    return redirect(f"{reverse('environment', args=[pk])}#inside")


def prepare_inventory(row: Environment, reader: User) -> dict[str, Any]:
    """Return what the page of an environment shows of its software inventory."""
    software = inspections.find_known_software([row])[row.pk]
    facts = software.inspection.facts if software.inspection else {}
    return {
        "software": software,
        "libraries": list(list_libraries(facts)),
        "packages": sort_items_naturally(facts.get("packages", {})),
        "system_packages": sort_items_naturally(facts.get("system_packages", {})),
        "programs": list_known_programs(facts),
        "may_inspect": may_use(reader, row) and may_use(reader, row.cluster),
    }


@require_POST
def waive(request: Request, pk: int) -> HttpResponse:
    """Waive the chosen differences of one environment with a reason; or undo that."""
    row = get_editable(request, pk)
    environment = get_object_or_404(
        row.environments, pk=parse_whole_number(request.POST.get("environment"))
    )
    if request.POST.get("action") == "withdraw":
        parity_reports.withdraw_waivers(row, environment, request.user)
        return redirect(_report_address(row))
    reason, chosen = read_posted_text(request, "reason"), request.POST.getlist("what")
    if count := parity_reports.waive_differences(row, environment, chosen, reason, request.user):
        plural = "" if count == 1 else "s"
        messages.success(request, f"{count} difference{plural} of {environment} waived.")
    elif not reason:
        messages.error(request, "Nothing waived: write down why. The reason follows the verdict.")
    else:
        messages.error(request, "Nothing waived: no difference was chosen that is there today.")
    return redirect(_report_address(row))


def _report_address(row: Experiment) -> str:
    return f"{row.get_absolute_url()}#software"
