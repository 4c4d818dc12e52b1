"""The page on which people rename, tag, annotate and archive an experiment."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from dashboard.access.rights import get_editable
from dashboard.form_styles import HiddenLines, Styled, TextArea
from dashboard.typed_requests import Request
from experiments.execution import labels
from experiments.models import Experiment

MOST_OF_TAGS = Experiment.MOST_TAGS * (Experiment.LONGEST_TAG + 2)


class LabelForm(Styled, forms.Form):
    """Question, tags and notes of an experiment.

    What the page was opened with is sent back, so that only what was changed there is stored.
    """

    question = forms.CharField(
        max_length=300, help_text="The plan that was launched keeps the question of then."
    )
    tags = forms.CharField(
        required=False, max_length=MOST_OF_TAGS, help_text="Separated by commas."
    )
    notes = forms.CharField(
        required=False,
        max_length=Experiment.LONGEST_NOTES,
        widget=TextArea(attrs={"rows": 6}),
        help_text="Visitors with a link see neither tags nor notes.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.show_hidden_initial, field.hidden_widget = True, HiddenLines

    @property
    def changed(self) -> dict[str, Any]:
        """Return what was changed on the page, by its name: others may have stored the rest."""
        was_sent = any(f"initial-{name}" in self.data for name in self.fields)
        names = self.changed_data if was_sent else self.fields
        return {name: self.cleaned_data[name] for name in names}

    def clean_tags(self) -> list[str]:
        try:
            return labels.parse_tags(self.cleaned_data["tags"])
        except ValueError as error:
            raise ValidationError(str(error)) from None


@require_http_methods(["GET", "HEAD", "POST"])
def experiment_labels(request: Request, pk: int) -> HttpResponse:
    """Show and save question, tags and notes."""
    row = get_editable(request, pk)
    now: dict[str, Any] = {
        "question": row.question,
        "tags": ", ".join(row.tags),
        "notes": row.notes,
    }
    form = LabelForm(request.POST or None, initial=now)
    if request.method == "POST" and form.is_valid():
        labels.relabel(row, request.user, **form.changed)
        messages.success(request, "Saved.")
        return redirect(row)
    return render(request, "execution/labels.html", {"form": form, "experiment": row})


@require_POST
def archive(request: Request, pk: int) -> HttpResponse:
    """Have lists leave an experiment out, or show it again."""
    row = get_editable(request, pk)
    rows = Experiment.objects.filter(pk=row.pk)
    if "restore" in request.POST:
        labels.restore(rows, request.user)
        messages.success(request, "Restored: lists show it again.")
    else:
        labels.archive(rows, request.user)
        text = (
            "Archived: lists leave it out unless they are filtered by Archived. Links still work."
        )
        messages.success(request, text)
    return redirect(row)
