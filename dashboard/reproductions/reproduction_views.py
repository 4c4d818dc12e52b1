"""The page on which an experiment is done again: where, in what, and what cannot be the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from dashboard.access.rights import get_readable, require_maker_of
from dashboard.typed_requests import Request, parse_whole_number
from experiments.design import compute_hash
from experiments.execution import lifecycle
from experiments.images.staging import NotDone
from experiments.models import Cluster, Experiment, Partition
from experiments.models.database_time import database_now
from experiments.notify import enqueue_tick
from experiments.planning.rules import Forecast, forecast
from experiments.reproductions.frozen_plans import FrozenPlan, UnreadablePlan, read_plan
from experiments.reproductions.places import prepare
from experiments.reproductions.proposals import (
    Proposal,
    is_same_cluster,
    needs_partition,
    propose,
)
from experiments.reproductions.reproduction_drafts import NotMade, make_draft

CHOICE = "environment-"
"""What the names of the choices of environments begin with; the key in the plan follows."""
NO_PARTITION = "none"
JUST_NOW = timedelta(seconds=10)
CHANGED = (
    "Not done: what cannot be the same has changed since this page was opened. It is listed anew "
    "below; press once more if you agree."
)
TWICE = "It was pressed twice: this is what was made the first time."


@dataclass(frozen=True)
class Selection:
    """What a person has chosen on the page, or what stands there at first."""

    cluster: Cluster | None
    clusters: list[Cluster]
    partition: Partition | None
    partitions: list[Partition]
    choices: Mapping[str, str]
    may_go_without: bool = False
    """Whether the cluster runs jobs without a partition too."""


@require_maker_of(Experiment)
@require_http_methods(["GET", "POST"])
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
    seen = compute_hash({"differences": proposal.differences})
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
        "forecast": _forecast(proposal),
    }
    return render(request, "reproductions/form.html", context)


def _read_selection(
    request: Request, plan: FrozenPlan, source: Experiment, values: QueryDict
) -> Selection:
    """Return what was chosen; at first the plan's own cluster and partition, where they are."""
    clusters = list(Cluster.objects.usable_by(request.user).order_by("name"))
    by_key = {str(cluster.pk): cluster for cluster in clusters}
    cluster = by_key.get(values.get("cluster", ""))
    if cluster is None and clusters:
        own = [row for row in clusters if row.pk == source.cluster_id]
        same = [row for row in clusters if is_same_cluster(plan, row)]
        cluster = (own or same or clusters)[0]
    partitions: list[Partition] = []
    may_go_without = False
    if cluster:
        partitions = list(cluster.partitions.filter(enabled=True).order_by("name"))
        may_go_without = not needs_partition(cluster)
    asked = values.get("partition", "")
    partition = next((row for row in partitions if row.pk == parse_whole_number(asked)), None)
    if partition is None and asked != NO_PARTITION:
        same_name = [row for row in partitions if row.name == plan.partition]
        partition = next(iter(same_name or partitions), None)
    choices = {
        spec.key: values.get(f"{CHOICE}{spec.key}", "")
        for spec in plan.environments
        if values.get(f"{CHOICE}{spec.key}")
    }
    return Selection(cluster, clusters, partition, partitions, choices, may_go_without)


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


def _forecast(proposal: Proposal) -> Forecast | None:
    environments = [place.chosen for place in proposal.places if place.chosen]
    if len(environments) < len(proposal.places):
        return None
    settings = proposal.plan.settings
    return forecast(
        workloads=proposal.workloads,
        environments=environments,
        scales=settings["scales"],
        repeats=settings["repeats"],
        paired=settings["design"] == Experiment.Design.PAIRED,
        cooldown_seconds=settings.get("cooldown_seconds", 0),
        rejected_again=settings.get("rejected_again", 0),
    )


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
    source = proposal.source
    try:
        with transaction.atomic():
            # Whoever presses twice waits here, and is shown what was made the first time.
            locked = Experiment.objects.select_for_update(of=("self",), no_key=True)
            list(locked.filter(pk=source.pk).values_list("pk"))
            made = Experiment.objects.filter(
                reproduces=source,
                owner=request.user,
                cluster=proposal.cluster,
                created_at__gt=database_now() - JUST_NOW,
            ).first()
            if made:
                messages.info(request, TWICE)
                return redirect(made)
            draft = make_draft(proposal, request.user)
    except NotMade as refusal:
        messages.error(request, f"No draft was made. {refusal}")
        return redirect(f"{request.path}?{query}")
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
