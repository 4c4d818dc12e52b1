"""The button "Run against itself" of an environment's page: it makes the draft of an A/A test."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.access.rights import require, require_maker_of, visible_row
from dashboard.planning.power import propose_repeats
from dashboard.typed_requests import Request, parse_whole_number
from experiments.access.permissions import why_not_use
from experiments.models import Environment, Experiment
from experiments.presets.aa_drafts import (
    CannotBeTested,
    choose_workload,
    list_partitions_to_offer,
    make_aa_draft,
)

MARGIN = 0.02
NO_WORKLOAD = "No workload is known that it can run: choose one below."


@require_maker_of(Experiment)
@require_POST
def new(request: Request, pk: int) -> HttpResponse:
    """Make the draft of an A/A test, and open it in the form of experiments."""
    row = visible_row(request, Environment, pk, "cluster", "runtime", "staged_image__image")
    if row.copy_of:
        row = row.copy_of
    require(why_not_use(request.user, row.cluster))
    asked = request.POST.get("partition", "")
    offered = list_partitions_to_offer(row.cluster)
    chosen = [each for each in offered if not asked or each.pk == parse_whole_number(asked)]
    if asked and not chosen:
        messages.error(request, "This partition is not in service any more: choose another.")
        return redirect("environment", pk=row.pk)
    partition = chosen[0] if chosen else None
    workload = choose_workload(row, partition, request.user)
    repeats = propose_repeats(row.cluster, workload, margin=MARGIN, reader=request.user)
    try:
        draft, is_new = make_aa_draft(
            row, partition, request.user, workload=workload, repeats=repeats, margin=MARGIN
        )
    except CannotBeTested as problem:
        messages.error(request, str(problem))
        return redirect("environment", pk=row.pk)
    text = "A draft that compares the environment with itself. Look it through, and launch it."
    messages.success(request, text if is_new else "This draft of yours was there already.")
    if workload is None:
        messages.warning(request, NO_WORKLOAD)
    return redirect("experiment_edit", pk=draft.pk)
