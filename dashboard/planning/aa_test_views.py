"""The button "Run against itself" of an environment's page: it makes the draft of an A/A test."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.access.rights import require, require_maker_of, visible_row
from dashboard.planning.aa_tests import draft_against_itself
from dashboard.typed_requests import Request, parse_whole_number
from experiments.access.permissions import why_not_use
from experiments.models import Environment, Experiment
from experiments.presets.aa_drafts import CannotBeTested

NO_WORKLOAD = "No workload is known that it can run: choose one below."
NO_PARTITION = 0
"""What is asked for where the form names no partition that there could be."""


@require_maker_of(Experiment)
@require_POST
def new(request: Request, pk: int) -> HttpResponse:
    """Make the draft of an A/A test, and open it in the form of experiments."""
    row = visible_row(request, Environment, pk, "cluster", "runtime", "staged_image__image")
    if row.copy_of:
        row = row.copy_of
    require(why_not_use(request.user, row.cluster))
    asked = request.POST.get("partition", "")
    partition = (parse_whole_number(asked) or NO_PARTITION) if asked else None
    try:
        made = draft_against_itself(row, partition, request.user)
    except CannotBeTested as problem:
        messages.error(request, str(problem))
        return redirect("environment", pk=row.pk)
    text = "A draft that compares the environment with itself. Look it through, and launch it."
    messages.success(request, text if made.is_new else "This draft of yours was there already.")
    if not made.has_workload:
        messages.warning(request, NO_WORKLOAD)
    return redirect("experiment_edit", pk=made.experiment.pk)
