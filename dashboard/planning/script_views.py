"""The job script of a block, beside the form of an experiment."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_POST

from dashboard.access.rights import require_maker_of
from dashboard.planning.experiment_forms import ExperimentForm
from dashboard.typed_requests import Request, parse_whole_number
from experiments.execution.script_previews import ScriptPreview, preview_script
from experiments.models import Experiment

NEEDED = ("cluster", "partition", "workloads", "environments", "scales", "repeats", "design")
"""The fields from which a job script is made."""


@require_maker_of(Experiment)
@require_POST
def script(request: Request) -> HttpResponse:
    """Show the job script of the block that is asked for, from what was typed so far."""
    form = ExperimentForm(request.POST, instance=Experiment(owner=request.user), user=request.user)
    return render(request, "planning/script.html", describe_script(form, request.POST))


def describe_script(form: ExperimentForm, data: Any) -> dict[str, Any]:
    """Return what the template of the script shows: the script, or which fields it waits for."""
    form.is_valid()
    cleaned = form.cleaned_data
    missing = [
        str(form[name].label)
        for name in (*NEEDED, *(name for name in form.errors if name not in form.base_fields))
        if name in form.errors or (name != "partition" and not cleaned.get(name))
    ]
    preview: ScriptPreview | None = None
    if not missing:
        preview = preview_script(
            form.instance,
            workloads=sorted(form.planned_workloads, key=lambda row: row.pk),
            environments=sorted(cleaned["environments"], key=lambda row: row.pk),
            scales=cleaned["scales"],
            number=parse_whole_number(data.get("block")) or 1,
        )
    return {"script": preview, "missing": missing}
