"""The pages for files of experiments: importing one, exporting one, and the JSON schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.http import require_http_methods, require_safe

from dashboard.access.rights import get_readable, require_maker_of
from dashboard.form_styles import Styled
from dashboard.planning.definition_drafts import Applied
from dashboard.planning.study_drafts import AppliedStudy, check_file, store_file
from dashboard.typed_requests import OpenRequest, Request
from dashboard.uploads import was_too_large
from experiments.definitions.definition_problems import BadDefinition, Problem
from experiments.definitions.definition_schema import write_schema, write_study_schema
from experiments.definitions.described_experiments import (
    JSON_ENDING,
    YAML_ENDING,
    CannotBeWritten,
    write_file,
)
from experiments.definitions.yaml_tree import MOST_BYTES
from experiments.models import Experiment

TYPES = {YAML_ENDING: "application/yaml", JSON_ENDING: "application/json"}
DONE = {
    "import": "Imported as a draft. Nothing has been launched.",
    "launch": "Launched. The design can no longer be changed.",
}
REFUSED = {"check": "", "import": "Not imported", "launch": "Not launched"}
MOST_NAMES = 300
CONTEXT = 1
"""Lines that are shown above and below one with a problem."""
LONGEST_LINE = 300


@dataclass(frozen=True)
class ShownLine:
    """A line of the file beside its problems; one that is left out before it has a gap."""

    number: int
    text: str
    problems: Sequence[Problem]
    has_gap: bool


class DefinitionForm(Styled, forms.Form):
    """The form of a file: its text, or the file itself."""

    file = forms.FileField(
        required=False,
        label="File",
        help_text="YAML or JSON, at most 1 MB. It goes before what stands in the text.",
    )
    text = forms.CharField(
        required=False,
        strip=False,
        label="Text",
        widget=forms.Textarea(
            attrs={"rows": 20, "spellcheck": "false", "class": "form-control text"}
        ),
    )
    make_missing = forms.BooleanField(
        required=False,
        label="Make workloads that are not here.",
        help_text="As the file describes them, for you alone.",
    )


@require_maker_of(Experiment)
@require_http_methods(["GET", "HEAD", "POST"])
def import_file(request: Request) -> HttpResponse:
    """Show what stands against a file, and store it as a draft, or launch it, when asked to."""
    if request.method != "POST":
        return render(request, "planning/import.html", {"form": DefinitionForm()})
    content = _read_content(request)
    mapping = read_names(request)
    make_missing = bool(request.POST.get("make_missing"))
    action = request.POST.get("action", "check")
    problems: tuple[Problem, ...] = ()
    try:
        if action in DONE:
            is_launch = action == "launch"
            made = store_file(
                content, request.user, mapping, launch=is_launch, make_missing=make_missing
            )
            messages.success(request, DONE[action])
            return redirect(made)
    except BadDefinition as error:
        problems = error.problems
    applied = check_file(content, request.user, mapping, make_missing=make_missing)
    shown = b"" if was_too_large(request) else content
    text = shown.decode(errors="replace").replace("\0", "�")
    context = _describe(applied, applied.problems or problems, text, mapping)
    context["refused"] = REFUSED.get(action, "") if context["problems"] else ""
    context["form"] = DefinitionForm(initial={"text": text, "make_missing": make_missing})
    return render(request, "planning/import.html", context)


def _read_content(request: Request) -> bytes:
    """Return what was sent: the file, or the text with the ends of lines that files have.

    In place of a file that was dropped for its size, one that is refused for its size.
    """
    if was_too_large(request):
        return bytes(MOST_BYTES + 1)
    file = request.FILES.get("file")
    if file:
        return bytes(file.read(MOST_BYTES + 1))
    return request.POST.get("text", "").replace("\r\n", "\n").encode(errors="replace")


def read_names(request: Request) -> dict[str, dict[str, str]]:
    """Return the table of names that was chosen on the page."""
    columns = (
        request.POST.getlist(f"map_{name}")[:MOST_NAMES] for name in ("section", "name", "here")
    )
    mapping: dict[str, dict[str, str]] = {}
    for section, name, here in zip(*columns, strict=False):
        if here:
            mapping.setdefault(section, {})[name] = here
    return mapping


def _describe(
    applied: Applied | AppliedStudy,
    problems: Sequence[Problem],
    text: str,
    mapping: dict[str, dict[str, str]],
) -> dict[str, Any]:
    return {
        "is_checked": True,
        "problems": problems,
        "general": [problem for problem in problems if problem.line is None],
        "lines": list_lines(text, problems),
        "missing": applied.missing,
        "mapped": [
            (section, name, here)
            for section, names in mapping.items()
            for name, here in names.items()
            if not any((row.section, row.name) == (section, name) for row in applied.missing)
        ],
        "forecast": applied.forecast if applied.is_valid else None,
        "warnings": applied.warnings if applied.is_valid else [],
        "experiments": len(applied.entries) if isinstance(applied, AppliedStudy) else 0,
    }


def list_lines(text: str, problems: Sequence[Problem]) -> list[ShownLine]:
    """Return the lines that have problems, and those around them."""
    by_line: dict[int, list[Problem]] = {}
    for problem in problems:
        if problem.line is not None:
            by_line.setdefault(problem.line, []).append(problem)
    lines = text.splitlines()
    numbers = sorted(
        {
            number
            for line in by_line
            for number in range(line - CONTEXT, line + CONTEXT + 1)
            if 1 <= number <= max(len(lines), 1)
        }
    )
    return [
        ShownLine(
            number,
            (lines[number - 1] if number <= len(lines) else "")[:LONGEST_LINE],
            by_line.get(number, ()),
            has_gap=place > 0 and numbers[place - 1] < number - 1,
        )
        for place, number in enumerate(numbers)
    ]


@require_safe
def definition_yaml(request: Request, pk: int) -> HttpResponse:
    """Send the file of a draft or of a launched plan as YAML."""
    return _send(request, pk, YAML_ENDING)


@require_safe
def definition_json(request: Request, pk: int) -> HttpResponse:
    """Send the same as JSON."""
    return _send(request, pk, JSON_ENDING)


def _send(request: Request, pk: int, ending: str) -> HttpResponse:
    experiment = get_readable(request, pk, with_plan=True)
    try:
        text = write_file(experiment, request.user, ending)
    except CannotBeWritten as error:
        return HttpResponse(
            f"There is no file. {error}\n", content_type="text/plain; charset=utf-8", status=409
        )
    response = HttpResponse(text.encode(), content_type=f"{TYPES[ending]}; charset=utf-8")
    question = slugify(experiment.question)[:50].strip("-")
    parts = ("tare", experiment.key, question, "experiment")
    name = "-".join(part for part in parts if part) + f".{ending}"
    response["Content-Disposition"] = content_disposition_header(True, name)
    return response


@login_not_required
@require_safe
def schema(request: OpenRequest) -> HttpResponse:
    """Send the JSON schema of experiment files, which editors fetch without logging in."""
    return _send_schema(write_schema())


@login_not_required
@require_safe
def study_schema(request: OpenRequest) -> HttpResponse:
    """Send the JSON schema of study files."""
    return _send_schema(write_study_schema())


def _send_schema(text: str) -> HttpResponse:
    response = HttpResponse(text.encode(), content_type="application/schema+json")
    response["Access-Control-Allow-Origin"] = "*"
    response["Cache-Control"] = "public, max-age=3600"
    return response
