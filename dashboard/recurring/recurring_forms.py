"""The form of a recurring experiment: when it is launched again, and when it ends."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from dashboard.form_styles import Styled
from experiments.access.own_columns import OwnColumns
from experiments.access.visibility_fields import VisibilityFields
from experiments.models import RecurringExperiment, User
from experiments.recurring.charted_metrics import MOST_REQUESTED, list_chartable

MOST_YEARS = 10


class RecurringForm(OwnColumns, VisibilityFields, Styled, forms.ModelForm):  # type: ignore[type-arg]
    """The rule and its end; the plan is that of the experiment."""

    ends_on = forms.DateField(
        label="Last day",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text="UTC. Empty: it ends with the number of recurrences.",
    )

    charted_metrics = forms.MultipleChoiceField(
        label="Further metrics to chart",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=f"At most {MOST_REQUESTED}. Decisive metrics always have charts; each further "
        "chart makes the limits of all wider.",
    )

    class Meta:
        model = RecurringExperiment
        fields = (
            *("every_days", "on_changes", "most_recurrences", "charted_metrics"),
            *("visibility", "groups"),
        )
        labels = {
            "every_days": "Interval in days",
            "on_changes": "After a driver, a kernel or a runtime has changed",
            "most_recurrences": "Maximum number of recurrences",
        }
        help_texts = {
            "every_days": "7 is weekly. Empty: not launched by time.",
            "on_changes": "As seen by runs on its nodes and by checks of the cluster.",
            "most_recurrences": "The experiment itself counts as the first.",
        }
        widgets = {"visibility": forms.RadioSelect, "groups": forms.CheckboxSelectMultiple}

    field_order = (
        "every_days",
        "on_changes",
        "most_recurrences",
        "ends_on",
        "charted_metrics",
        "visibility",
        "groups",
    )

    def __init__(self, *args: Any, user: User, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.offer_groups_of(user)
        names = list_chartable(self.instance.source)
        self.fields["charted_metrics"].choices = [(name, name) for name in names]  # type: ignore[attr-defined]
        if self.instance.ends_at:
            self.initial["ends_on"] = self.instance.ends_at.date()

    def clean_most_recurrences(self) -> int:
        most = int(self.cleaned_data["most_recurrences"])
        if most < self.instance.last_number:
            raise ValidationError(
                f"{self.instance.last_number} recurrences were launched already: choose that "
                "number or a larger one."
            )
        return most

    def clean_charted_metrics(self) -> list[str]:
        names: list[str] = self.cleaned_data["charted_metrics"]
        if len(names) > MOST_REQUESTED:
            raise ValidationError(f"Choose {MOST_REQUESTED} further metrics at most.")
        return names

    def clean_ends_on(self) -> Any:
        day, today = self.cleaned_data["ends_on"], timezone.now().date()
        if day is None or ("ends_on" not in self.changed_data and self.instance.pk):
            return day
        if day < today:
            raise ValidationError("This day is over: choose a later one.")
        if day > today + timedelta(days=366 * MOST_YEARS):
            raise ValidationError(f"Choose a day within {MOST_YEARS} years.")
        return day

    def save(self, commit: bool = True) -> Any:
        """Store the rule, and when it is due next by it."""
        row, day, now = self.instance, self.cleaned_data["ends_on"], timezone.now()
        row.ends_at = datetime.combine(day, time.max, UTC) if day else None
        if "every_days" in self.changed_data or row.pk is None:
            row.due_at = now + timedelta(days=row.every_days) if row.every_days else None
        return super().save(commit)
