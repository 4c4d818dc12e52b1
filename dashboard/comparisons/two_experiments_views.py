"""Two experiments of the reader's choice side by side, and the choice of the second one."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from dashboard.access.rights import by_link, get_readable
from dashboard.comparisons.two_experiments import (
    draw_paired_steps,
    list_candidates,
    list_experiment_facts,
    make_two_experiments,
)
from dashboard.typed_requests import OpenRequest, parse_whole_number

RIGHT = "right"
FACTS, CURVES = "facts", "curves"
PARTS = {"facts-found": FACTS, "curves": CURVES}
"""The parts of the page that can be replaced, by the ids of their elements."""


@by_link
@require_safe
def two_experiments(request: OpenRequest, left: int, right: int) -> HttpResponse:
    """Show two experiments side by side; as a fragment, their facts or the steps in their runs.

    `?find=` shows the facts that contain its words, and `?curves=` the steps of a configuration,
    by its number.
    """
    two = make_two_experiments(get_readable(request, left), get_readable(request, right))
    is_part = request.htmx and not request.htmx.history_restore_request
    part = PARTS.get(request.htmx.target or "", "") if is_part else ""
    search_text = request.GET.get("find", "").strip()
    number = parse_whole_number(request.GET.get("curves", ""))
    is_known = number is not None and 1 <= number <= len(two.pairs)
    chosen = number if is_known else None
    context = {"two": two, "search_text": search_text, "chosen": chosen}
    if part != CURVES:
        is_member = request.user.is_authenticated
        context["facts"] = list_experiment_facts(two, is_member=is_member, search_text=search_text)
    if part != FACTS and chosen is not None:
        context["plots"] = draw_paired_steps(two, chosen)
    fragment = f"#{part}" if part else ""
    return render(request, f"comparisons/two_experiments.html{fragment}", context)


@by_link
@require_safe
def choose_second_experiment(request: OpenRequest, left: int) -> HttpResponse:
    """List experiments to be shown beside one; `?keep=right` keeps that one on the right side."""
    row = get_readable(request, left)
    search_text = request.GET.get("q", "").strip()[:300]
    context = {
        "experiment": row,
        "candidates": list(list_candidates(request.user, row, search_text)),
        "search_text": search_text,
        "keeps_right": request.GET.get("keep") == RIGHT,
    }
    return render(request, "comparisons/choose_second.html", context)
