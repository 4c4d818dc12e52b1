"""Pages on workloads: their kinds, and the rows of the catalogue."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from dashboard.access.rights import (
    changeable_row,
    filter_readable_keys,
    require_maker_of,
    visible_row,
)
from dashboard.catalogue import row_changes
from dashboard.code_copies.code_copy_views import describe_code
from dashboard.planning.command_forms import read_typed_parameters
from dashboard.planning.pattern_matches import try_patterns
from dashboard.planning.workload_forms import (
    KindForm,
    NotEditable,
    WorkloadForm,
    choose_form,
    store_workload,
)
from dashboard.typed_requests import Request, parse_whole_number
from experiments.access import permissions
from experiments.models import DataSet, Workload
from experiments.planning import workloads
from experiments.planning.free_names import find_free_name
from experiments.presets.commands import COMMANDS, place_in_folder
from experiments.presets.programs import Ready
from experiments.software import environments
from runners.workloads import KNOWN_WORKLOADS, WORKLOADS

FOLDER_PATH = re.compile(r"(?:\{code\}|(?:/[\w.@+-]+))(?:/[\w.@+-]+){0,39}/?")
"""A folder that the address may name for a known program."""
LONGEST_FOLDER = 300


@require_safe
def kinds(request: Request) -> HttpResponse:
    """Show each kind of workload with its metrics and parameters."""
    return render(request, "planning/workload_kinds.html", {"kinds": WORKLOADS.values()})


@require_maker_of(Workload)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request) -> HttpResponse:
    """Choose a kind, then fill in its parameters; or begin with those of another workload."""
    copied = _copied(request)
    kind = copied.kind if copied else request.GET.get("kind", "")
    kind = kind if kind in WORKLOADS else next(iter(WORKLOADS))
    fresh = Workload(owner=request.user)
    if copied:
        fresh.name = find_free_name(copied.name)
        fresh.parameters, fresh.time_limit_seconds = copied.parameters, copied.time_limit_seconds
        if copied.data_set_id and filter_readable_keys(request.user, DataSet, [copied.data_set_id]):
            fresh.data_set, fresh.data_proof = copied.data_set, copied.data_proof
    elif ready := COMMANDS.get(request.GET.get("ready", "")):
        if ready.has_folder:
            ready = _place_in_asked_folder(request, ready)
        kind = ready.piece.kind
        fresh.name = find_free_name(ready.piece.name)
        fresh.parameters = ready.parameters
        fresh.time_limit_seconds = ready.piece.time_limit_seconds
    form = choose_form(kind).begin(request, fresh, kind)
    if request.method == "POST" and form.is_valid():
        return _save(request, form)
    return _form(request, form, kinds=KindForm(initial={"kind": kind}), copied=copied)


@require_safe
def workload(request: Request, pk: int) -> HttpResponse:
    """Show a workload, its metrics, and the experiments that use it."""
    row = visible_row(request, Workload, pk, "owner", "data_set")
    code = describe_code(row, request.user)
    if request.htmx and code:
        return render(request, "planning/workload.html#code", {"workload": row, "code": code})
    kind = KNOWN_WORKLOADS[row.kind]
    context = {
        "workload": row,
        "code": code,
        "kind": kind,
        "settings": workloads.describe_settings(row),
        "metrics": kind.list_all_metrics(row.parameters),
        "primary": kind.choose_primary_metric(row.parameters),
        "uses": environments.find_uses(row, request.user),
        "can_change": permissions.may_change(request.user, row),
        "why_not_edit": workloads.why_not_edit(row),
        "launchable": row.kind in WORKLOADS,
        "data_set_is_readable": row.data_set_id
        and bool(filter_readable_keys(request.user, DataSet, [row.data_set_id])),
    }
    return render(request, "planning/workload.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Show the form of a workload, and store its changes."""
    row = changeable_row(request, Workload, pk, "owner")
    if problem := workloads.why_not_edit(row):
        messages.error(request, problem)
        return redirect("workload", pk=pk)
    form = choose_form(row.kind).begin(request, row, row.kind)
    if request.method == "POST" and form.is_valid():
        return _save(request, form)
    return _form(request, form, workload=row)


@require_maker_of(Workload)
@require_POST
def try_numbers(request: Request) -> HttpResponse:
    """Show what the metrics that are being typed would read in a pasted log."""
    matches = try_patterns(
        read_typed_parameters(request.POST, request.user), request.POST.get("log", "")
    )
    return render(request, "planning/pattern_matches.html", {"matches": matches})


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a workload, or say why it cannot be deleted yet."""
    row = changeable_row(request, Workload, pk)
    why_not = workloads.why_not_delete(row)
    return row_changes.delete(request, row, why_not, f"Deleted {row.name}.")


def _place_in_asked_folder(request: Request, ready: Ready) -> Ready:
    """Return the known program in the folder that the address names, if it is one."""
    folder = request.GET.get("folder", "").strip()
    if len(folder) <= LONGEST_FOLDER and FOLDER_PATH.fullmatch(folder):
        return place_in_folder(ready, folder.rstrip("/"))
    if folder:
        messages.warning(
            request,
            f"{folder[:80]} is no absolute path, or one below {{code}}, of letters, digits and "
            ". _ @ + -. The command below names the usual folder: write the path there.",
        )
    return ready


def _copied(request: Request) -> Workload | None:
    """Return the workload to begin with, if the address names one."""
    asked = parse_whole_number(request.GET.get("copy"))
    return None if asked is None else visible_row(request, Workload, asked)


def _save(request: Request, form: WorkloadForm) -> HttpResponse:
    state = "changed" if form.instance.pk else "in the catalogue"
    try:
        row = store_workload(form, request.user)
    except NotEditable as problem:  # launched since this request began
        messages.error(request, str(problem))
    else:
        messages.success(request, f"{row} is {state}.")
    return redirect("workload", pk=form.instance.pk)


def _form(request: Request, form: WorkloadForm, **context: Any) -> HttpResponse:
    return render(request, "planning/workload_form.html", context | {"form": form})
