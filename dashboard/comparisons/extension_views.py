"""The extension of an experiment after an inconclusive verdict: what is offered, and its button.

It stands where the verdict does, with its price; what was added is shown there ever after.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from dashboard.access.rights import get_editable
from dashboard.typed_requests import OpenRequest, Request, parse_whole_number
from experiments.access.permissions import may_change
from experiments.comparisons import Comparison, ExperimentComparison
from experiments.comparisons.extension_offers import (
    Offer,
    explain_why_not,
    list_open_groups,
    make_offer,
)
from experiments.execution import extending
from experiments.execution.further_attempts import NotDone
from experiments.models import Extension
from experiments.notify import enqueue_tick
from experiments.planning.extension_plans import NO_WORKLOADS
from experiments.statistics import numbers


@dataclass(frozen=True)
class ExtensionPart:
    """What a page says of the extension of its experiment."""

    unit: str
    """What a repeat adds to a configuration: "block", or "repeat" of independent runs."""
    record: Extension | None = None
    offer: Offer | None = None
    why_not: str = ""
    """Why it cannot be extended, for those who could want to."""


def prepare_extension(request: OpenRequest, comparison: Comparison) -> ExtensionPart | None:
    """Return what the page says of an extension; None where there is nothing to say.

    No query for an experiment that is neither inconclusive nor extended.
    """
    if not isinstance(comparison, ExperimentComparison):
        return None
    experiment, stage = comparison.experiment, comparison.stage
    unit = "block" if experiment.is_paired else "repeat"
    record = _find_record(comparison)
    is_open = experiment.launched_at and not stage.alive and list_open_groups(comparison)
    if not is_open or not may_change(request.user, experiment):
        return ExtensionPart(unit, record) if record else None
    if why_not := explain_why_not(comparison):
        return ExtensionPart(unit, record, why_not=why_not)
    offer = make_offer(comparison)
    return ExtensionPart(unit, offer=offer, why_not="" if offer else NO_WORKLOADS)


def _find_record(comparison: ExperimentComparison) -> Extension | None:
    experiment = comparison.experiment
    if not experiment.extended_repeats:
        return None
    rows = Extension.objects.select_related("extended_by").defer("plan")
    return rows.filter(experiment=experiment).first()


@require_POST
def extend(request: Request, pk: int) -> HttpResponse:
    """Add further blocks to an experiment whose verdict is inconclusive, once."""
    row = get_editable(request, pk)
    added = parse_whole_number(request.POST.get("repeats"))
    try:
        extension = extending.extend(row, added or 0, request.user)
    except NotDone as refusal:
        messages.error(request, str(refusal))
        return redirect("comparison", pk=pk)
    enqueue_tick(row.cluster_id)
    jobs = numbers.count(len(extension.plan["blocks"]), "job")
    messages.success(
        request,
        f"Extended: {jobs} will be sent. The verdict after them is judged at the level "
        f"{extension.plan['levels'][-1]:g}, and stamped EXTENDED.",
    )
    return redirect("comparison", pk=pk)
