"""Presets: known experiments of others, and drafts made of them."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.access.rights import require_maker_of
from dashboard.presets.preset_forms import PresetForm
from dashboard.typed_requests import Request
from experiments.access.permissions import list_changeable_keys
from experiments.code_copies.code_requests import put_code_of_draft
from experiments.models import Experiment, OwnPreset
from experiments.presets import PRESETS
from experiments.presets.commands import FOLDER, group_commands
from experiments.presets.program_checks import describe_missing_programs


@require_safe
def presets(request: Request) -> HttpResponse:
    """List one's own presets, those of one's groups, and those of papers."""
    rows = OwnPreset.objects.visible_to(request.user).select_related("owner")
    own = list(rows.prefetch_related("groups"))
    context = {
        "presets": PRESETS.values(),
        "own": sorted(own, key=lambda row: row.owner_id != request.user.pk),
        "changeable": list_changeable_keys(request.user, own),
        "groups": list(group_commands()),
        "folder": FOLDER,
    }
    return render(request, "presets/list.html", context)


@require_maker_of(Experiment)
@require_http_methods(["GET", "HEAD", "POST"])
def preset(request: Request, key: str) -> HttpResponse:
    """Choose cluster, size and environments of a preset; the draft opens in the usual form."""
    chosen = PRESETS.get(key)
    if chosen is None:
        raise Http404
    sent = (request.POST, request.FILES) if request.method == "POST" else ()
    form = PresetForm(*sent, preset=chosen, user=request.user, cluster=request.GET.get("cluster"))
    if request.method == "POST" and form.is_valid() and (draft := form.save()):
        size, asked = chosen.sizes[form.cleaned_data["size"]], form.cleaned_data
        messages.success(
            request,
            f"A draft of “{chosen.title}”. Look it through, and launch it below. What it is made "
            f"for is on its comparison page: {chosen.ends_in}.",
        )
        done, why_not = put_code_of_draft(draft, request.user)
        if done:
            messages.info(request, done)
        missing = describe_missing_programs(draft.workloads.all(), list(asked["environments"]))
        for warning in filter(None, [why_not, *missing]):
            messages.warning(request, warning)
        for refusal in form.refusals(size, list(asked["environments"]), asked["baseline"]):
            messages.warning(request, f"Not launchable here as it is. {refusal}")
        return redirect("experiment_edit", pk=draft.pk)
    return render(request, "presets/detail.html", {"preset": chosen, "form": form})
