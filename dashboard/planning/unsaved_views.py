"""What is typed into the form of an experiment is kept, without a click."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from dashboard.access.rights import get_editable, require, require_maker_of
from dashboard.planning.experiment_forms import ExperimentForm
from dashboard.planning.sweep_fields import list_sweep_names
from dashboard.typed_requests import Request
from experiments.models import Experiment, UnsavedForm
from experiments.planning.unsaved_forms import (
    KeptElsewhere,
    NotKept,
    Page,
    Values,
    find_kept,
    forget_kept,
    keep_values,
    name_key,
)

KEY, TAB = re.compile(r"[0-9a-f]{1,40}|draft-[0-9]{1,20}"), re.compile(r"[0-9a-f]{1,40}")
KEPT_BESIDE = ("seen",)
"""Hidden fields that are kept with those of the form."""


def read_page(data: QueryDict) -> Page | None:
    """Return the page that the form was sent from; None where it names none."""
    key, tab = data.get("kept_key", ""), data.get("kept_tab", "")
    if not (KEY.fullmatch(key) and TAB.fullmatch(tab)):
        return None
    return Page(key, tab, data.get("kept_before", ""))


def read_values(data: QueryDict) -> Values:
    """Return the values of the form's fields, as they were sent."""
    names = [*ExperimentForm.base_fields, *list_sweep_names(data), *KEPT_BESIDE]
    return {name: data.getlist(name) for name in names if name in data}


def make_data(row: UnsavedForm) -> QueryDict:
    """Return what was typed as if it had just been sent."""
    data = QueryDict(mutable=True)
    for name, texts in row.values.items():
        data.setlist(name, texts)
    return data


@require_maker_of(Experiment)
@require_POST
def keep_new(request: Request) -> HttpResponse:
    """Keep what is being typed for a new experiment."""
    return _keep(request, None)


@require_POST
def keep(request: Request, pk: int) -> HttpResponse:
    """Keep what is being typed for a draft."""
    experiment = get_editable(request, pk)
    require("" if experiment.is_draft else "A launched experiment is frozen.")
    return _keep(request, experiment)


def _keep(request: Request, experiment: Experiment | None) -> HttpResponse:
    page = read_page(request.POST)
    context: dict[str, Any] = {"page": page, "experiment": experiment}
    belongs = page and (
        page.key == name_key(experiment) if experiment else not page.key.startswith("draft-")
    )
    if page is None or not belongs:
        context["problem"] = "this page is too old: load it again"
        return render(request, "planning/kept.html", context)
    before = find_kept(request.user, page.key)
    try:
        row = keep_values(
            request.user,
            page,
            experiment,
            read_values(request.POST),
            anyway=request.POST.get("action") == "keep",
        )
    except NotKept as problem:
        return render(request, "planning/kept.html", {**context, "problem": str(problem)})
    except KeptElsewhere as conflict:
        return render(request, "planning/kept.html", {**context, "elsewhere": conflict.at})
    if before and before.tab == row.tab and _is_same_minute(before, row):
        return HttpResponse(status=204)  # nothing new to be said, nor to be read out
    answer = render(request, "planning/kept.html", {**context, "kept": row})
    if experiment is None:
        answer["HX-Replace-Url"] = f"{reverse('experiment_new')}?unsaved={row.key}"
    return answer


def _is_same_minute(before: UnsavedForm, row: UnsavedForm) -> bool:
    return before.kept_at.replace(second=0, microsecond=0) == row.kept_at.replace(
        second=0, microsecond=0
    )


@require_maker_of(Experiment)
@require_POST
def discard(request: Request, key: str) -> HttpResponse:
    """Delete what was typed and not saved; the stored draft stays as it is."""
    row = find_kept(request.user, key)
    draft = row.experiment if row else None
    if forget_kept(request.user, key):
        messages.success(request, "Discarded what was not saved.")
    return redirect("experiment_edit", pk=draft.pk) if draft else redirect("experiment_new")
