"""Presets of one's own: saved from an experiment, used, renamed, shared and deleted."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import changeable_row, get_readable, require_maker_of, visible_row
from dashboard.presets.own_preset_forms import OwnPresetForm, save_preset
from dashboard.typed_requests import Request
from experiments.access import audit
from experiments.models import Experiment, OwnPreset
from experiments.presets.experiment_copies import OF_OTHERS
from experiments.presets.own_presets import CannotBeUsed, describe_definition, make_draft


@require_maker_of(OwnPreset)
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: Request, pk: int) -> HttpResponse:
    """Save the definition of an experiment as a preset."""
    experiment = get_readable(request, pk)
    if experiment.imported_at or experiment.is_from_bundle:
        raise PermissionDenied(OF_OTHERS)
    preset = OwnPreset(owner=request.user, definition=describe_definition(experiment))
    initial = {"name": experiment.question[:100]}
    form = OwnPresetForm(request.POST or None, instance=preset, user=request.user, initial=initial)
    if request.method == "POST" and form.is_valid() and save_preset(form, request.user):
        messages.success(request, f"Saved as the preset {preset}.")
        return redirect(preset)
    context = {"form": form, "experiment": experiment}
    return render(request, "presets/own_form.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def edit(request: Request, pk: int) -> HttpResponse:
    """Rename a preset, or decide who may view it."""
    preset = changeable_row(request, OwnPreset, pk)
    form = OwnPresetForm(request.POST or None, instance=preset, user=request.user)
    if request.method == "POST" and form.is_valid() and save_preset(form, request.user):
        messages.success(request, f"Saved. {preset} is visible to: {preset.visibility_text}.")
        return redirect(preset)
    return render(request, "presets/own_form.html", {"form": form, "preset": preset})


@require_maker_of(Experiment)
@require_POST
def use(request: Request, pk: int) -> HttpResponse:
    """Make a draft of a preset, and open it in the usual form."""
    preset = visible_row(request, OwnPreset, pk)
    try:
        draft, problems = make_draft(preset, request.user)
    except CannotBeUsed as reason:
        messages.error(request, f"No draft was made of {preset}. {reason}")
        return redirect(preset)
    messages.success(request, f"A draft of the preset {preset}. Look it through and launch it.")
    for problem in problems:
        messages.warning(request, problem)
    return redirect("experiment_edit", pk=draft.pk)


@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Delete a preset; experiments that were made of it stay."""
    preset = changeable_row(request, OwnPreset, pk)
    audit.delete(request.user, preset)
    messages.success(request, f"The preset {preset} is deleted. Experiments made of it stay.")
    return redirect("presets")
