"""Filters that print parameters of workloads as text."""

from __future__ import annotations

from django import template
from django.utils.text import Truncator

from experiments.planning import workloads

register = template.Library()

SHORT = 48


@register.filter
def in_short(setting: workloads.Setting) -> str:
    """Return a parameter's name with its value, cut short unless it is the command itself."""
    value = setting.value if setting.name == "argv" else Truncator(setting.value).chars(SHORT)
    return f"{setting.name}={value}"


register.filter("in_words", workloads.format_value)
register.filter("limits", workloads.describe_limits)
