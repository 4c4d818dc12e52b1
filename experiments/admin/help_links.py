"""Links from fields of the administration to the documents, behind their help texts."""

from __future__ import annotations

from typing import Any

from django import forms
from django.urls import reverse
from django.utils.html import format_html

from experiments.help_targets import find_field_help, split_target


class HelpLinks(forms.BaseForm):
    """A form whose fields link to their paragraphs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = [base.__name__ for base in type(self).__mro__]
        for name, field in self.fields.items():
            target = find_field_help(names, name)
            if target is not None:
                document, anchor = split_target(target)
                field.help_text = format_html(
                    '{} <a href="{}#{}" target="tare-docs" aria-label="Help on {}">Help</a>',
                    field.help_text,
                    reverse("document", args=[document]),
                    anchor,
                    field.label or name,
                )
