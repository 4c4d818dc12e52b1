"""Shared parts of all forms: how their fields are rendered, and a field for percentages."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from django import forms
from django.core.exceptions import ValidationError
from django.forms.renderers import DjangoTemplates

from dashboard.form_problems import Problem, list_problems
from dashboard.form_widgets import DRAWN


class Renderer(DjangoTemplates):
    """Our field template, from the project's own templates; Django's widgets.

    It stands in the settings, so that all forms of a process share one, with one set of compiled
    templates. A form with a class of its own makes one each time, and compiles each template anew.
    """

    field_template_name = "forms/field.html"

    @cached_property
    def engine(self) -> Any:
        folders = [
            Path(__file__).parents[1] / "templates",
            Path(forms.__file__).parent / "templates",
        ]
        options = {"APP_DIRS": True, "DIRS": folders, "NAME": "forms", "OPTIONS": {}}
        return self.backend(options)

    def render(self, template_name: str, context: dict[str, Any], request: Any = None) -> str:
        """Return a part of a form; usual widgets are drawn without a template."""
        if draw := DRAWN.get(template_name):
            return draw(context["widget"])
        return str(super().render(template_name, context, request))


class Styled(forms.BaseForm):
    """Gives each widget Bootstrap's class, and leaves checking to the server."""

    use_required_attribute = False
    CLASSES: ClassVar = {
        "select": "form-select",
        "radio": "form-check-input",
        "checkbox": "form-check-input",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        self.style_fields()

    @property
    def problems(self) -> list[Problem]:
        """Return the problems for the summary above the form."""
        return list_problems(self)

    def style_fields(self) -> None:
        for field in self.fields.values():
            kind = getattr(field.widget, "input_type", "text")
            field.widget.attrs.setdefault("class", self.CLASSES.get(kind, "form-control"))


class PlainLineEnds(forms.Widget):
    """Reads lines with ends of one character each; browsers send two, and count one."""

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        value = super().value_from_datadict(data, files, name)
        return value.replace("\r\n", "\n") if isinstance(value, str) else value


class TextArea(PlainLineEnds, forms.Textarea):
    """Several lines; a limit of characters is that which browsers count."""


class HiddenLines(PlainLineEnds, forms.HiddenInput):
    """What such a field was opened with."""


class PercentField(forms.FloatField):
    """Shown in per cent, kept as a fraction."""

    widget = forms.TextInput(attrs={"inputmode": "decimal"})

    def prepare_value(self, value: Any) -> Any:
        return f"{value * 100:.10g}" if isinstance(value, float) else value

    def to_python(self, value: Any) -> Any:
        number = super().to_python(str(value).replace(",", ".").rstrip("% ") if value else value)
        return None if number is None else number / 100

    def validate(self, value: Any) -> None:
        super().validate(value)
        if value is not None and not 0.0001 <= value <= 1:
            raise ValidationError("A margin is from 0.01 % to 100 %.")
