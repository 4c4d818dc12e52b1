"""The fields of an experiment's form for further decisive metrics, each with its margin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError

from dashboard.form_styles import PercentField
from experiments.statistics.margins import Margin
from experiments.statistics.metric_rules import MOST_METRICS

PLACES = range(2, MOST_METRICS + 1)
"""Of the further metrics among the decisive ones: the primary metric is the first."""
PARTS = ("metric", "margin", "margin_faster")
"""How the names of the fields of one metric begin; its place follows."""


def name_fields(place: int) -> tuple[str, str, str]:
    """Return the names of the fields of the metric at a place: metric, margin, margin if faster."""
    metric, margin, faster = (f"{part}_{place}" for part in PARTS)
    return metric, margin, faster


def make_fields() -> dict[str, forms.Field]:
    """Return the fields of all places, none of them required."""
    fields: dict[str, forms.Field] = {}
    for place in PLACES:
        metric, margin, faster = name_fields(place)
        fields[metric] = forms.ChoiceField(label=f"Decisive metric {place}", required=False)
        fields[margin] = PercentField(label=f"Margin of metric {place}", required=False)
        fields[faster] = PercentField(label=f"Metric {place}, if faster", required=False)
        for name in (margin, faster):
            fields[name].unit = "%"  # type: ignore[attr-defined]
    return fields


class DecisiveMetricsFields(forms.BaseModelForm):  # type: ignore[type-arg]
    """A form with rows of further decisive metrics, which one column of the experiment keeps."""

    declared_fields: ClassVar = make_fields()
    further_metrics: Mapping[int, Mapping[str, Any]] = {}
    """What was typed, by place, once the form has been checked."""

    def offer_further_metrics(self, choices: list[tuple[str, Any]]) -> None:
        """Offer these metrics in every row, and show what the draft has."""
        usual: list[tuple[str, Any]] = [("", "none")]
        for place, entry in zip(PLACES, self.instance.further_metrics, strict=False):
            for part, name in zip(PARTS, name_fields(place), strict=True):
                self.initial.setdefault(name, entry.get(part))
        for place in PLACES:
            field: Any = self.fields[name_fields(place)[0]]
            field.choices = [*usual, *(choice for choice in choices if choice[0])]

    def read_further_metrics(self, cleaned: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
        """Return what was typed by place, without rows that are empty."""
        rows = {}
        for place in PLACES:
            values = dict(zip(PARTS, map(cleaned.get, name_fields(place)), strict=True))
            if values["margin_faster"] in (None, values["margin"]):
                del values["margin_faster"]  # it is the same in both directions
            if any(values.values()):
                rows[place] = values
        return rows

    def add_metric_problems(
        self, problems: Mapping[str, list[str]], rows: Mapping[int, Mapping[str, Any]]
    ) -> set[str]:
        """Add what stands against further metrics; return the names of these fields.

        A margin that is still missing is being typed: the preview keeps quiet about it.
        """
        names = {name for place in PLACES for name in name_fields(place)}
        for name in names & problems.keys() - self.errors.keys():
            part, _, place = name.rpartition("_")
            code = None if rows[int(place)].get(part) else "required"
            self.add_error(
                name, [ValidationError(message, code=code) for message in problems[name]]
            )
        return names

    def list_further_margins(self, goal: str) -> list[tuple[str, Margin]]:
        """Return the further metrics that are complete and right, each with its margin."""
        return [
            (row["metric"], Margin.make(goal, row["margin"], row.get("margin_faster")))
            for place, row in self.further_metrics.items()
            if row["metric"] and row["margin"]
            if not any(name in self.errors for name in name_fields(place))
        ]

    @property
    def metric_rows(self) -> list[list[forms.BoundField]]:
        """Return the fields of each further metric."""
        return [[self[name] for name in name_fields(place)] for place in PLACES]

    @property
    def has_several_metrics(self) -> bool:
        """Return whether any of the fields, which are folded away, is filled in or wrong."""
        return any(
            field.value() not in (None, "") or (self.is_bound and field.errors)
            for row in self.metric_rows
            for field in row
        )
