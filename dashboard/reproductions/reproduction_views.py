"""The page on which an experiment is done again: where, in what, and what cannot be the same."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.access.rights import get_readable, require_maker_of
from dashboard.typed_requests import Request
from experiments.execution import lifecycle
from experiments.images.staging import NotDone
from experiments.models import Experiment
from experiments.notify import enqueue_tick
from experiments.reproductions.frozen_plans import FrozenPlan, UnreadablePlan, read_plan
from experiments.reproductions.places import prepare
from experiments.reproductions.proposals import Proposal, propose
from experiments.reproductions.reproduction_choices import (
    NO_PARTITION,
    Selection,
    forecast_proposal,
    identify_differences,
    select_place,
)
from experiments.reproductions.reproduction_drafts import NotMade, make_draft_once

CHOICE = "environment-"
"""What the names of the choices of environments begin with; the key in the plan follows."""
CHANGED = (
    "Not done: what cannot be the same has changed since this page was opened. It is listed anew "
    "below; press once more if you agree."
)
TWICE = "It was pressed twice: this is what was made the first time."


@require_maker_of(Experiment)
@require_http_methods(["GET", "HEAD", "POST"])
def reproduce(request: Request, pk: int) -> HttpResponse:
    """Show what a reproduction would be; prepare its images, make its draft or launch it."""
    source = get_readable(request, pk, with_plan=True)
    try:
        plan = read_plan(source.plan)
    except UnreadablePlan as problem:
        messages.error(request, f"It cannot be reproduced. {problem}")
        return redirect(source)
    values = request.POST if request.method == "POST" else request.GET
    selection = _read_selection(request, plan, source, values)
    context: dict[str, Any] = {"experiment": source, "plan": plan, "selection": selection}
    if selection.cluster is None:
        return render(request, "reproductions/form.html", context)
    proposal = propose(
        source, request.user, selection.cluster, selection.partition, selection.choices
    )
    query = _make_query(selection)
    seen = identify_differences(proposal)
    if request.method == "POST":
        action = request.POST.get("action", "")
        if action == "prepare":
            return _prepare(request, proposal, query)
        if action in ("draft", "launch"):
            if request.POST.get("seen") == seen:
                return _make(request, proposal, query, launches=action == "launch")
            messages.error(request, CHANGED)
    context |= {
        "proposal": proposal,
        "seen": seen,
        "query": query,
        "forecast": forecast_proposal(proposal),
    }
    return render(request, "reproductions/form.html", context)


def _read_selection(
    request: Request, plan: FrozenPlan, source: Experiment, values: QueryDict
) -> Selection:
    return select_place(
        plan,
        source,
        request.user,
        cluster=values.get("cluster", ""),
        partition=values.get("partition", ""),
        choices={spec.key: values.get(f"{CHOICE}{spec.key}", "") for spec in plan.environments},
    )


def _make_query(selection: Selection) -> str:
    """Return the address's query by which the page is opened with this selection."""
    query = QueryDict(mutable=True)
    query["cluster"] = str(selection.cluster.pk) if selection.cluster else ""
    if selection.partitions:
        row = selection.partition
        query["partition"] = str(row.pk) if row else NO_PARTITION
    for key, choice in selection.choices.items():
        query[f"{CHOICE}{key}"] = choice
    return query.urlencode()


def _prepare(request: Request, proposal: Proposal, query: str) -> HttpResponse:
    """Request the images that the cluster lacks, and come back to the page."""
    for place in proposal.to_prepare:
        try:
            messages.success(request, prepare(place, proposal.cluster, request.user))
        except NotDone as problem:
            messages.error(request, f"{place.spec.label}: {problem}")
    return redirect(f"{request.path}?{query}")


def _make(request: Request, proposal: Proposal, query: str, *, launches: bool) -> HttpResponse:
    """Make the draft, and launch it where that was asked for; a draft that is refused stays."""
    try:
        draft, is_new = make_draft_once(proposal, request.user)
    except NotMade as refusal:
        messages.error(request, f"No draft was made. {refusal}")
        return redirect(f"{request.path}?{query}")
    if not is_new:
        messages.info(request, TWICE)
        return redirect(draft)
    if not launches:
        messages.success(request, "A draft with the same plan. Its order is drawn at the launch.")
        return redirect(draft)
    try:
        lifecycle.launch(draft, request.user)
    except lifecycle.NotLaunchable as refusal:
        messages.error(request, f"A draft was made, but not launched. {refusal}")
        return redirect(draft)
    enqueue_tick(draft.cluster_id)
    messages.success(
        request, "Launched with the same plan and a new order. The design can no longer be changed."
    )
    return redirect(draft)
