"""The form of a published table: its text, the roles of its columns, and its baseline."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from dashboard.form_styles import PercentField, Styled
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.comparisons.published_tables import (
    MOST_BYTES,
    Preview,
    dump_reading,
    load_reading,
    preview_table,
)
from experiments.comparisons.same_data import find_exported_experiments
from experiments.models import Experiment, PublishedTable, User
from experiments.statistics import numbers
from experiments.statistics.published.columns import ROLES, Reading
from experiments.statistics.published.formats import FORMATS, join_files
from experiments.statistics.published.formats.base import Format
from experiments.statistics.published.printed import TableError
from experiments.statistics.published.sheets import decode_text

ROLE_WORDS = {
    "environment": "environment",
    "mean": "mean",
    "sd": "standard deviation",
    "se": "standard error",
    "cv": "CV in percent",
    "ci_low": "lower bound of the interval",
    "ci_high": "upper bound of the interval",
    "n": "runs (n)",
    "steps": "steps of one run",
    "value": "value of one run",
    "block": "block of the run",
    "run": "name of the run",
    "node": "node of the run",
    "began": "when the run began",
    "state": "state: only succeeded counts",
    "unit": "unit",
    "direction": "lower or higher is better",
    "precision": "rounded to",
    "arm": "numbers of this environment",
    "label": "label of the configuration",
    "ignore": "ignored",
}
HINTS = {
    "better is not said": "It can be said above, under “What no column says”.",
    "the unit is hh:mm": "It can be said above, under “What no column says”.",
    "say how the numbers are written": "It can be said above, under “What no column says”.",
    "name it sd or se": "It can be chosen here, below the name of the column.",
    "has the same labels": "Columns that tell no configurations apart can be ignored here.",
}
"""A part of a problem's text -> where in the form to solve it."""
TOO_LARGE = (
    f"This is more than the {MOST_BYTES // 10**6} MB that a page takes; nothing was read or kept. "
    "A table of results has one row a run: steps of a run are one value, their mean. For a larger "
    "file there is manage.py compare_table."
)


class TableForm(OwnColumns, VisibilityFields, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The form of a published table, which is read as soon as there is a text: see `preview`."""

    text = forms.CharField(
        label="The table",
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 9, "spellcheck": "false", "wrap": "off"}),
        help_text="Pasted from a spreadsheet or a CSV file: the first row names the columns.",
    )
    file = forms.FileField(
        label="or a file", required=False, help_text="Of several, each is one environment."
    )
    baseline = forms.CharField(required=False, max_length=200)
    margin = PercentField(
        initial=0.02, help_text="The largest difference that you would still call the same."
    )
    unit = forms.CharField(
        required=False, max_length=30, help_text="If no column says it: s, images/s, hh:mm."
    )
    better = forms.ChoiceField(
        label="Better is",
        required=False,
        choices=[("", "as the unit tells"), ("lower", "lower"), ("higher", "higher")],
    )
    n = forms.IntegerField(
        label="Runs behind each mean",
        required=False,
        min_value=1,
        max_value=1_000_000,
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
        help_text="If no column says it.",
    )
    decimal = forms.ChoiceField(
        label="Numbers are written",
        required=False,
        choices=[("", "as their digits tell"), ("point", "1,234.5"), ("comma", "1.234,5")],
    )

    class Meta:
        model = PublishedTable
        fields = ("question", "source", "text", "baseline", "margin", "visibility", "groups")
        widgets: ClassVar = {"groups": forms.CheckboxSelectMultiple}
        help_texts: ClassVar = {
            "question": "Empty: it is made from the environments.",
            "source": "Where it was published: a citation, or a link.",
        }

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        self.offer_groups_of(user)
        self.fields["question"].required = False
        self.fields["text"].validators = []  # reading the table gives better messages
        self.fields["margin"].unit = "%"  # type: ignore[attr-defined]
        self.unreadable = ""
        if not self.is_bound:
            stored_fields = ("unit", "better", "n", "decimal")
            self.initial.update({name: self.instance.reading.get(name) for name in stored_fields})

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("file"):
            # The size of the request was checked before it was read.
            try:
                cleaned["text"] = self._read_files()
            except TableError as error:
                self.unreadable = str(error)
        if not cleaned.get("text", "").strip() and not self.unreadable:
            self.add_error("text", ValidationError("Paste a table, or choose a file."))
        elif self.preview.problem:
            self.add_error(None, ValidationError(self.preview.problem))
        if not cleaned.get("question") and not self.preview.problem:
            cleaned["question"] = self.suggested_question
        cleaned["baseline"] = self.preview.baseline
        return cleaned

    def _read_files(self) -> str:
        """Return the text of all files that were chosen. TableError names the one it is about."""
        files = self.files.getlist("file")
        texts = []
        for file in files:
            try:
                texts.append((str(file.name), decode_text(file.read())))
            except TableError as error:
                raise TableError(
                    f"{file.name}: {error}" if len(files) > 1 else str(error)
                ) from None
        return join_files(texts)

    @property
    def formats(self) -> tuple[Format, ...]:
        """Return the formats that are read, for the list on the page."""
        return FORMATS

    @property
    def table_text(self) -> str:
        """Return the text that was pasted, or that of the file."""
        if not self.is_bound:
            return str(self.instance.text)
        text: str = getattr(self, "cleaned_data", {}).get("text") or ""
        return text

    @cached_property
    def reading(self) -> Reading:
        """Return how to read the table: the form's choices, and the roles changed in it."""
        if not self.is_bound:
            return load_reading(self.instance.reading)
        cleaned = getattr(self, "cleaned_data", {})
        return Reading(
            _roles(self.data),
            cleaned.get("unit") or "",
            cleaned.get("better") or None,
            cleaned.get("n"),
            cleaned.get("decimal") or "",
        )

    @cached_property
    def preview(self) -> Preview:
        if self.unreadable:
            return Preview(problem=self.unreadable)
        if not self.table_text.strip():
            return Preview()
        requested_baseline = (
            self.data.get("baseline", "") if self.is_bound else self.instance.baseline
        )
        margin = getattr(self, "cleaned_data", {}).get("margin") or self.instance.margin
        return preview_table(
            self.table_text, reading=self.reading, baseline=requested_baseline, margin=margin
        )

    @cached_property
    def exported_from(self) -> list[Experiment]:
        """Return the experiments whose exported runs or plans the table names."""
        if self.unreadable or not self.table_text.strip():
            return []
        given = getattr(self, "cleaned_data", {}).get("source") or self.instance.source
        return find_exported_experiments(
            self.user, PublishedTable(text=self.table_text, source=given)
        )

    @property
    def hint(self) -> str:
        """Return where in the form to enter what the table does not say."""
        return next(
            (hint for problem_part, hint in HINTS.items() if problem_part in self.preview.problem),
            "",
        )

    @property
    def said(self) -> str:
        """Return the roles of columns that a person chose, as JSON for a hidden field."""
        return json.dumps(dict(self.reading.roles))

    @property
    def suggested_question(self) -> str:
        """Return a question made from the names of the table's environments."""
        baseline = self.preview.baseline
        others = [name for name in self.preview.environments if name != baseline]
        if not others:
            return "A published table"
        listed = numbers.listed([*others[:2], "others"] if len(others) > 2 else others)
        do = "does" if len(others) == 1 else "do"
        question = f"What {do} {listed} cost compared with {baseline}?"
        return question if len(question) <= 300 else "A published table"

    @property
    def has_further_answers(self) -> bool:
        """Return whether something is filled in, or amiss, that no column of the table says."""
        return any(
            self[name].value() or self[name].errors for name in ("unit", "better", "n", "decimal")
        )

    @property
    def fields_beside_the_table(self) -> list[forms.BoundField]:
        """Return the fields whose problems a preview shows; the table's own stand in it."""
        return [field for field in self if field.name not in ("text", "file", "baseline")]

    @property
    def role_choices(self) -> list[tuple[str, str]]:
        return list(ROLE_WORDS.items())

    def save(self, commit: bool = True) -> PublishedTable:
        self.instance.reading = dump_reading(self.reading)
        row: PublishedTable = super().save(commit)
        return row


def _roles(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the role of each column: those chosen before, and those chosen now.

    Column k of the page has its name in `name-k`, the role shown in `shown-k` and the one sent
    in `role-k`.
    """
    try:
        chosen_before = json.loads(data.get("said") or "{}")
    except (ValueError, RecursionError):
        chosen_before = {}
    roles = dict(chosen_before) if isinstance(chosen_before, dict) else {}
    for key in data:
        place = key.removeprefix("name-")
        chosen = data.get(f"role-{place}")
        if place != key and chosen and chosen != data.get(f"shown-{place}"):
            roles[data[key]] = chosen
    metric = data.get("metric")
    if metric and metric != data.get("shown-metric"):
        roles = {name: role for name, role in roles.items() if role != "value"} | {metric: "value"}
    header = {data[key] for key in data if key.startswith("name-") and "\x00" not in data[key]}
    return {
        name: role
        for name, role in roles.items()
        if isinstance(role, str) and role in ROLES and name in header
    }
