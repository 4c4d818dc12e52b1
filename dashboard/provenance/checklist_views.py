"""What an evaluation of an experiment as an artefact would ask: a page, and a file."""

from __future__ import annotations

from dataclasses import replace

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from dashboard.access.hidden_names import are_names_hidden
from dashboard.access.rights import by_link
from dashboard.comparisons.safe_files import make_file_name
from dashboard.provenance.launched_experiments import get_launched
from dashboard.typed_requests import OpenRequest
from experiments.access.permissions import may_change
from experiments.bundles.checklist_facts import ArtefactFacts, read_artefact_facts
from experiments.bundles.evaluation_checklist import (
    count_states,
    make_checklist,
    write_markdown,
)
from experiments.models import Experiment

HIDDEN = "hidden by this link"


@by_link
@require_safe
def checklist(request: OpenRequest, pk: int) -> HttpResponse:
    """Show the checklist of an experiment, by ACM's badges."""
    experiment = get_launched(request, pk)
    sections = make_checklist(_read_facts(request, experiment))
    context = {
        "experiment": experiment,
        "sections": sections,
        "states": list(count_states(sections).items()),
        "can_edit": may_change(request.user, experiment),
    }
    return render(request, "provenance/checklist.html", context)


@by_link
@require_safe
def checklist_file(request: OpenRequest, pk: int) -> HttpResponse:
    """Send the checklist as Markdown."""
    experiment = get_launched(request, pk)
    sections = make_checklist(_read_facts(request, experiment))
    content = write_markdown(sections, {"question": experiment.question})
    response = HttpResponse(content, content_type="text/markdown; charset=utf-8")
    name = make_file_name(experiment, "artefact-evaluation", ".md")
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


def _read_facts(request: OpenRequest, experiment: Experiment) -> ArtefactFacts:
    """Return the facts of an experiment; whose it is stays hidden where a link asks for that."""
    facts = read_artefact_facts(experiment, request.user)
    if not are_names_hidden(request.user):
        return facts
    return replace(
        facts,
        authors=[HIDDEN] if facts.authors else [],
        deposit_doi=HIDDEN if facts.deposit_doi else "",
        reproductions=[
            replace(row, sentence=f"Done again, {HIDDEN}: {row.outcome or 'no verdict yet'}.")
            for row in facts.reproductions
        ],
    )
