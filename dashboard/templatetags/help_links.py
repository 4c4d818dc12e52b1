"""Template tags for the small links beside fields and panels that lead into the documents."""

from __future__ import annotations

from django import template
from django.forms import BoundField
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dashboard.docs.documents import find_address
from experiments.help_targets import find_field_help, find_panel_help, split_target

register = template.Library()


@register.simple_tag
def field_help(field: BoundField) -> SafeString:
    """Return the link from a form's field to its paragraph; nothing where there is none."""
    forms = [base.__name__ for base in type(field.form).__mro__]
    return _link(find_field_help(forms, field.name), str(field.label))


@register.simple_tag
def panel_help(page: str, panel: str, name: str) -> SafeString:
    """Return the link from a panel, which is read as `name`, to its paragraph."""
    return _link(find_panel_help(page, panel), name)


def _link(target: str | None, name: str) -> SafeString:
    """Return the link; it opens in one tab beside the page, so that a form keeps what was typed."""
    if target is None:
        return SafeString("")
    return format_html(
        '<a class="help-link no-print" href="{}" target="tare-docs" title="Help on {}">'
        '<span aria-hidden="true">?</span></a>',
        find_address(*split_target(target)),
        name,
    )
