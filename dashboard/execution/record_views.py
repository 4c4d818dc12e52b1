"""The record of a run as files: one document, and all that it printed."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from dashboard.comparisons.safe_files import make_json_response
from dashboard.typed_requests import Request
from experiments.execution.record_documents import describe_record, write_patches
from experiments.models import Experiment, Run, StoredRecord


@require_safe
def run_record(request: Request, uid: str) -> HttpResponse:
    """Send the record of a run as JSON."""
    row = get_object_or_404(
        Run.objects.filter(experiment__in=Experiment.objects.visible_to(request.user))
        .select_related(
            *("experiment", "job__snapshot", "workload", "environment", "snapshot", "stored_record")
        )
        .defer("experiment__plan", "output_tail", "stored_record__output"),
        uid=uid,
    )
    return make_json_response(describe_record(row), f"tare-run-{row.uid}-record.json")


@require_safe
def run_output(request: Request, uid: str) -> HttpResponse:
    """Send what is kept of all that a run has printed, byte for byte, to be saved."""
    stored = get_object_or_404(
        StoredRecord.objects.filter(
            run__experiment__in=Experiment.objects.visible_to(request.user)
        ).defer("files"),
        run__uid=uid,
    )
    if not stored.output_bytes:
        raise Http404("This run has printed nothing.")
    answer = HttpResponse(stored.read_output(), content_type="application/octet-stream")
    answer["Content-Disposition"] = content_disposition_header(
        as_attachment=True, filename=f"tare-run-{uid}-output.txt"
    )
    return answer


@require_safe
def run_changes(request: Request, uid: str) -> HttpResponse:
    """Send the text of what had changed in the git checkouts of a run's program, as a patch."""
    row = get_object_or_404(
        Run.objects.filter(experiment__in=Experiment.objects.visible_to(request.user))
        .select_related("job__snapshot", "snapshot")
        .only("uid", "position", "job__uid", "job__directory", "job__snapshot", "snapshot"),
        uid=uid,
    )
    text = write_patches(row)
    if not text:
        raise Http404("No changes are recorded.")
    answer = HttpResponse(text, content_type="application/octet-stream")
    answer["Content-Disposition"] = content_disposition_header(
        as_attachment=True, filename=f"tare-run-{uid}-changes.patch"
    )
    return answer
