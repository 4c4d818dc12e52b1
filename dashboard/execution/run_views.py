"""A run: everything that is known about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib import messages
from django.db.models import Q, prefetch_related_objects
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from dashboard.access.hidden_names import are_names_hidden
from dashboard.access.rights import by_link, filter_readable_keys, get_editable
from dashboard.comparisons.figure_views import Subject, send_figure
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.drawing_process import Ending
from dashboard.environment_symbols import assign_symbols
from dashboard.execution.node_samples import find_node_use
from dashboard.execution.record_panel import describe_record_panel, leave_out_checkouts
from dashboard.execution.run_facts import (
    draw_traces,
    list_measurements,
    list_missing_measurements,
    list_phases,
    search_facts,
)
from dashboard.execution.run_figures import (
    NODE,
    SERIES,
    RunFileName,
    describe_run_figure,
    show_run_figure,
)
from dashboard.execution.run_parts import choose_seen, describe_state, prepare_live_part
from dashboard.lists import make_listing
from dashboard.live_parts import answer_news_only, keep_read, take_read
from dashboard.typed_requests import OpenRequest, Request, read_posted_text
from experiments.execution import excluded_runs
from experiments.execution.copy_requests import MOST_WANTED, request_copy
from experiments.execution.marked_rows import find_run
from experiments.execution.removed_files import explain_removal, find_removal
from experiments.execution.retention import describe_future
from experiments.images import store
from experiments.models import Cluster, Experiment, Run, RunFile

FILE_SORTS = {"size": "size_bytes", "path": "path"}


MOST_OF_CAUSE = 1000
"""Characters of a cause for which a run is excluded."""


def _mark_live_part(request: OpenRequest, uid: str) -> str | None:
    if "files" in request.GET or "facts" in request.GET:
        return None
    row: Any = find_run(request.user, uid)
    keep_read(request, row)
    # Where somebody looks at it, and it is time to read it, the part is made: that asks for it.
    is_to_be_read = row and row.is_to_be_read and request.user.is_authenticated
    return None if row is None or is_to_be_read else str(row.mark)


@by_link
@require_safe
@answer_news_only(_mark_live_part)
def run(request: OpenRequest, uid: str) -> HttpResponse:
    """Show one run; its fragments are what changes while it runs, and the snapshot's facts."""
    live_row = take_read(request)
    if live_row and not live_row.is_final:
        context = prepare_live_part(request, live_row)
        return render(request, "execution/runs/detail.html#live", context)
    row = _visible(request, uid)
    search_text = request.GET.get("facts", "").strip()
    mark = assign_symbols(row.experiment)[row.environment.name]
    prefetch_related_objects([row], "series")
    drawn = draw_traces(row, mark)
    content = row.snapshot_content
    if are_names_hidden(request.user):
        content = leave_out_checkouts(content)
    context = {
        "mark": mark,
        "search_text": search_text,
        "facts": search_facts(content, search_text),
        "record": describe_record_panel(row, content),
        "measurements": list_measurements(row),
        "missing_measurements": list_missing_measurements(row),
        "phases": list_phases(row),
        "node": find_node_use(row),
        **choose_seen(drawn),
        "figure": show_run_figure(row, SERIES, mark, request) if drawn else None,
        "node_figure": show_run_figure(row, NODE, mark, request),
        "events": row.job.events.filter(Q(run=None) | Q(run=row)).select_related("actor", "run"),
        "readable_clusters": filter_readable_keys(request.user, Cluster, [row.job.cluster_id]),
    }
    context |= describe_state(request, row)
    if row.files_count:
        context |= _files(request, row)
    if removal := find_removal(row.job):
        context["removal"] = removal
    elif row.is_final:
        context["retention"] = describe_future(row.job)
    if request.htmx and "files" in request.GET:
        return render(request, "execution/runs/files.html", context)
    fragment = "" if not request.htmx else "#facts" if "facts" in request.GET else "#live"
    return render(request, f"execution/runs/detail.html{fragment}", context)


@by_link
@require_safe
def run_figure(request: OpenRequest, uid: str, ending: Ending, name: str) -> HttpResponseBase:
    """Send a figure of a run that has ended."""
    row = _visible(request, uid)

    def describe() -> AxesFigure:
        mark = assign_symbols(row.experiment)[row.environment.name]
        described = describe_run_figure(row, name, mark, request)
        if described is None:
            raise Http404("The run has recorded nothing of it, or has not ended.")
        return described

    return send_figure(request, Subject(RunFileName(row), "", describe), name, ending)


def _files(request: OpenRequest, row: Run) -> dict[str, Any]:
    """Return a page of the files that the run has left, and whether one is being copied."""
    return {
        "files": make_listing(request, row.files.all(), sorts=FILE_SORTS, default="-size"),
        "copying": row.files.to_be_copied().exists(),
        "run_directory": f"{row.job.directory}/{row.folder}",
    }


def _visible(request: OpenRequest, uid: str) -> Run:
    visible = Experiment.objects.visible_to(request.user)
    related = (
        *("experiment__baseline", "job__cluster", "job__snapshot"),
        *("workload", "environment", "snapshot", "node_samples"),
        *("measure_notes", "stored_record"),
    )
    return get_object_or_404(
        Run.objects.filter(experiment__in=visible)
        .select_related(*related)
        .defer("experiment__plan", "stored_record__output", "stored_record__files"),
        uid=uid,
    )


def _read_cause(request: Request) -> str:
    """Return the written cause in one line: stamps and papers print it."""
    return " ".join(read_posted_text(request, "why").split())[:MOST_OF_CAUSE]


@require_POST
def exclude(request: Request, uid: str) -> HttpResponse:
    """Take a run out of the comparison, with a written cause."""
    row = _visible(request, uid)
    get_editable(request, row.experiment_id)
    if excluded_runs.exclude(row, request.user, _read_cause(request)):
        messages.success(request, "Excluded from the comparison. The run and its numbers stay.")
    else:
        messages.error(
            request, "Not excluded: a run that succeeded and a written cause are needed."
        )
    return redirect(row)


@require_POST
def include(request: Request, uid: str) -> HttpResponse:
    """Undo the exclusion of a run, with a written cause."""
    row = _visible(request, uid)
    get_editable(request, row.experiment_id)
    if excluded_runs.include_again(row, request.user, _read_cause(request)):
        messages.success(request, "Included again: the comparison counts the run as before.")
    else:
        messages.error(request, "Not included: an excluded run and a written cause are needed.")
    return redirect(row)


@require_POST
def fetch_file(request: Request, uid: str, pk: int) -> HttpResponse:
    """Have a file that the run has left copied from its cluster."""
    row = _visible(request, uid)
    get_editable(request, row.experiment_id)
    file = get_object_or_404(RunFile, run=row, pk=pk)
    if request_copy(file, request.user):
        messages.success(request, f"{file} is being fetched. Its copy is kept for a day.")
    else:
        why = f"it cannot be fetched, or is on its way, or you wait for {MOST_WANTED} others."
        messages.error(request, explain_removal(row.job) or f"{file}: {why}")
    return redirect(f"{row.get_absolute_url()}#files")


@require_safe
def run_file(request: Request, uid: str, pk: int) -> FileResponse:
    """Send the copy of a file that the run has left, to be saved."""
    row = _visible(request, uid)
    get_editable(request, row.experiment_id)
    file = get_object_or_404(RunFile, run=row, pk=pk)
    copy = find_copy(file)
    if copy is None:
        raise Http404(f"There is no copy of {file} here any more: fetch it again.")
    name = "".join(
        character if character.isprintable() else "_" for character in file.path.rpartition("/")[2]
    )
    return FileResponse(
        copy.open("rb"), as_attachment=True, filename=name, content_type="application/octet-stream"
    )


def find_copy(file: RunFile) -> Path | None:
    """Return where the copy of a file is; None where there is none, or none any more."""
    copy = store.copy_of(str(file.pk))
    return copy if file.has_copy and copy.is_file() else None
