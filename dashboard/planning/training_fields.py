"""The fields of an experiment's form for margins of training: in points, and of the loss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms

from experiments.comparisons.trainings import ACCURACIES
from experiments.models import Workload
from runners.workloads import WORKLOADS

METRICS = {"accuracy_margin": ACCURACIES, "loss_margin": ("loss",)}
"""Which metrics each margin is for: where no workload reports any of them it is not asked for."""


class DifferenceField(forms.FloatField):
    """A margin in the unit of its values, with a comma or a point."""

    widget = forms.TextInput(attrs={"inputmode": "decimal"})

    def prepare_value(self, value: Any) -> Any:
        return f"{value:.10g}" if isinstance(value, float) else value

    def to_python(self, value: Any) -> Any:
        return super().to_python(str(value).replace(",", ".").strip() if value else value)


def make_accuracy_field() -> DifferenceField:
    field = DifferenceField(
        label="Margin of accuracy",
        required=False,
        min_value=0.001,
        max_value=100,
        help_text="Percentage points of the last accuracy within which an environment counts as "
        "trained alike, such as 0.5. Empty: no verdict on it.",
    )
    field.unit = "points"  # type: ignore[attr-defined]
    return field


def make_loss_field() -> DifferenceField:
    return DifferenceField(
        label="Margin of the loss",
        required=False,
        min_value=1e-9,
        max_value=1e6,
        help_text="The same for the last loss, in its own unit, such as 0.02. It is the loss of "
        "one batch, so it takes more repeats than an accuracy. Empty: no verdict on it.",
    )


def list_reported(workloads: Iterable[Workload]) -> set[str]:
    """Return the margins for which any of the workloads reports a metric."""
    names = {
        metric.name
        for row in workloads
        for metric in WORKLOADS[row.kind].list_metrics(row.parameters)
    }
    return {margin for margin, metrics in METRICS.items() if names & set(metrics)}


class TrainingMargins:
    """What an experiment's form does with its margins of training."""

    @property
    def training_fields(self: Any) -> list[forms.BoundField]:
        """Return the margins to show: where a chosen workload reports the metric, or one is typed.

        So what no longer fits the workloads can be seen, and taken out.
        """
        reported = list_reported(self.offered.chosen)
        return [self[name] for name in METRICS if name in reported or self[name].value()]

    @property
    def has_training_margin(self: Any) -> bool:
        """Return whether any of them is filled in, or wrong."""
        return any(self[name].value() or self[name].errors for name in METRICS)

    @property
    def has_other_training_fields(self: Any) -> bool:
        """Return whether the page shows other ones than the chosen workloads ask for.

        Only then are they replaced: whoever is typing into one keeps it.
        """
        shown = {name for name in METRICS if name in self.data}
        return shown != {field.name for field in self.training_fields}

    @property
    def judged_training_fields(self: Any) -> set[str]:
        """Return the margins that the page shows, and goes on to show as they are."""
        if self.has_other_training_fields:
            return set()
        return {field.name for field in self.training_fields}

    def check_training_margins(
        self: Any, cleaned: dict[str, Any], workloads: Iterable[Workload]
    ) -> None:
        """Add a problem to each margin of a metric that no workload reports."""
        reported = list_reported(workloads)
        for name, metrics in METRICS.items():
            if cleaned.get(name) is not None and name not in reported:
                what = "a loss" if name == "loss_margin" else "an accuracy"
                self.add_error(
                    name, f"None of the workloads reports {what} ({metrics[0]}): leave this empty."
                )
