"""A run: everything that is known about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.contrib import messages
from django.db.models import Q, prefetch_related_objects
from django.http import FileResponse, Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from dashboard.access.hidden_names import are_names_hidden
from dashboard.access.rights import by_link, filter_readable_keys, get_editable
from dashboard.comparisons.figure_views import Subject, send_figure
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.drawing_process import Ending
from dashboard.environment_symbols import assign_symbols
from dashboard.execution.live_run import describe_live_run
from dashboard.execution.node_samples import describe_live_use, find_node_use
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
from dashboard.execution.segment_panel import describe_segments
from dashboard.lists import make_listing
from dashboard.live_parts import answer_news_only
from dashboard.typed_requests import OpenRequest, Request, read_posted_text
from experiments.access.permissions import may_change
from experiments.execution import excluded_runs
from experiments.execution.copy_requests import MOST_WANTED, request_copy
from experiments.execution.further_attempts import MAY_CHANGE, find_attempts_of_jobs
from experiments.execution.live_marks import mark_run
from experiments.execution.live_readings import watch
from experiments.execution.overdue_visits import find_overdue_visit
from experiments.execution.progress import explain_hold
from experiments.execution.removed_files import explain_removal, find_removal
from experiments.execution.retention import describe_future
from experiments.images import store
from experiments.models import Cluster, Experiment, Job, Run, RunFile
from experiments.planning.interim import read_stage
from experiments.planning.workloads import describe_parameters

MOST_TRACES, FIRST_TRACES = 4, 2
"""Series that are seen at once; of more, the first ones, and the others by who opens them."""
FILE_SORTS = {"size": "size_bytes", "path": "path"}


MOST_OF_CAUSE = 1000
"""Characters of a cause for which a run is excluded."""


def _mark_live_part(request: OpenRequest, uid: str) -> str | None:
    is_other = "files" in request.GET or "facts" in request.GET
    return None if is_other else mark_run(request.user, uid)


@by_link
@require_GET
@answer_news_only(_mark_live_part)
def run(request: OpenRequest, uid: str) -> HttpResponse:
    """Show one run; its fragments are what changes while it runs, and the snapshot's facts."""
    row = _visible(request, uid)
    search_text = request.GET.get("facts", "").strip()
    mark = assign_symbols(row.experiment)[row.environment.name]
    prefetch_related_objects([row], "series")
    drawn = draw_traces(row, mark)
    content = row.snapshot_content
    if are_names_hidden(request.user):
        content = leave_out_checkouts(content)
    seen = len(drawn) if len(drawn) <= MOST_TRACES else FIRST_TRACES
    parameters = describe_parameters(row.spec.get("workload", {}))
    context = {
        "run": row,
        "experiment": row.experiment,
        "mark": mark,
        "search_text": search_text,
        "parameters": parameters,
        "unset_parameters": [name for name, text in parameters if text == "none"],
        "facts": search_facts(content, search_text),
        "record": describe_record_panel(row, content),
        "measurements": list_measurements(row),
        "missing_measurements": list_missing_measurements(row),
        "phases": list_phases(row),
        "segments": describe_segments(row),
        "node": find_node_use(row),
        "traces": drawn[:seen],
        "more_traces": drawn[seen:],
        "figure": show_run_figure(row, SERIES, mark, request) if drawn else None,
        "node_figure": show_run_figure(row, NODE, mark, request),
        "events": row.job.events.filter(Q(run=None) | Q(run=row)).select_related("actor", "run"),
        "readable_clusters": filter_readable_keys(request.user, Cluster, [row.job.cluster_id]),
        "can_edit": may_change(request.user, row.experiment),
        "may": None,
    }
    if row.state == Run.State.PLANNED and row.job.state == Job.State.PLANNED:
        context["hold"] = explain_hold(row.experiment)
    if not row.is_final:
        context |= {
            "overdue_since": find_overdue_visit(row.experiment, timezone.now()),
            "waiting_jobs": int(row.job.state == Job.State.PLANNED),
            "live_jobs": int(row.job.state in Job.LIVE),
        }
    # Visitors with a link see the run, and nothing is fetched from a cluster for them.
    if row.state == Run.State.RUNNING and request.user.is_authenticated:
        reading = watch(row)
        context["live"] = describe_live_run(row, reading)
        context["node"] = describe_live_use(row, reading)
    if context["can_edit"] and row.state in MAY_CHANGE:
        may = find_attempts_of_jobs([row.job_id], read_stage(row.experiment))
        context["may"] = may.get(row.job_id)
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
@require_GET
def run_figure(request: OpenRequest, uid: str, ending: Ending, name: str) -> HttpResponse:
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


@require_GET
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
