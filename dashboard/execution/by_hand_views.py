"""Jobs that people carry to a machine that Tare cannot reach, and the results that they bring."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import get_editable, require
from dashboard.form_styles import Styled
from dashboard.typed_requests import Request
from dashboard.uploads import was_too_large
from experiments.access.permissions import why_not_use
from experiments.execution import NotBrought, NothingToCarry, bring_uploaded_results, write_jobs
from experiments.imports import LIMITS
from experiments.models import Experiment

MOST_MEGABYTES = LIMITS.archive_bytes // 1_000_000
TOO_LARGE = (
    f"The file is larger than {MOST_MEGABYTES} MB. Copy it to Tare's host, and enter it there by "
    "manage.py bring_results."
)


class ResultsForm(Styled, forms.Form):
    """The archive that came back, and whether anything still runs there."""

    archive = forms.FileField(
        label="Archive of results",
        help_text="results-experiment-N.tar.gz, as run-all.sh packs it: a tar, tar.gz or tar.xz of "
        f"at most {MOST_MEGABYTES} MB.",
        error_messages={"required": "Choose the archive.", "empty": "The file is empty."},
    )
    is_final = forms.BooleanField(
        label="Nothing runs there any more",
        required=False,
        help_text="Jobs without an end, or with missing files, then end as they are. Otherwise "
        "they are listed, and can be uploaded later.",
    )


@require_POST
def jobs(request: Request, pk: int) -> HttpResponseBase:
    """Send the archive with all jobs that wait to be carried."""
    row = _get_carried(request, pk)
    try:
        archive = write_jobs(row, request.user)
    except NothingToCarry as problem:
        messages.error(request, str(problem))
        return redirect(row)
    response = StreamingHttpResponse(archive.content, content_type="application/gzip")
    response["Content-Disposition"] = f'attachment; filename="{archive.name}"'
    return response


@require_http_methods(["GET", "HEAD", "POST"])
def results(request: Request, pk: int) -> HttpResponse:
    """Ask for the archive that came back; then say of each of its jobs what became of it."""
    row = _get_carried(request, pk)
    is_brought = request.method == "POST"
    form = ResultsForm(request.POST, request.FILES) if is_brought else ResultsForm()
    context: dict[str, Any] = {"experiment": row, "form": form}
    if is_brought:
        if was_too_large(request):
            form.fields["archive"].error_messages["required"] = TOO_LARGE
        if form.is_valid():
            archive = form.cleaned_data["archive"]
            try:
                context["brought"] = bring_uploaded_results(
                    row,
                    archive.file,
                    request.user,
                    name=archive.name,
                    is_final=form.cleaned_data["is_final"],
                )
            except NotBrought as refusal:
                form.add_error("archive", f"{refusal} Nothing of it was entered.")
    return render(request, "execution/by_hand/results.html", context)


def _get_carried(request: Request, pk: int) -> Experiment:
    row = get_editable(request, pk)
    require(why_not_use(request.user, row.cluster))
    return row
