"""The field of scales: text in a form, a list in the model."""

from __future__ import annotations

from typing import Any

from django import forms

from experiments.design import Scale


class ScalesField(forms.CharField):
    """Scales as text, `1x1, 1x2`, and as the list that the model stores."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value) or ""
        return [_normal(part.strip()) for part in text.split(",") if part.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(initial != self.to_python(data))


def _normal(text: str) -> str:
    """Return a scale's one spelling, or the text itself for the rules to refuse."""
    try:
        return str(Scale.parse(text))
    except ValueError:
        return text
