"""Filters that print parameters of workloads as text."""

from __future__ import annotations

from django import template
from django.utils.text import Truncator

from experiments.models import Workload
from experiments.planning import workloads

register = template.Library()

SHORT, MOST_SHOWN = 48, 4
LONG = {"files", "metrics"}


@register.filter
def in_short(setting: workloads.Setting) -> str:
    """Return a parameter's name with its value, cut short unless it is the command itself."""
    value = setting.value if setting.name == "argv" else Truncator(setting.value).chars(SHORT)
    return f"{setting.name}={value}"


@register.filter
def changed_settings(workload: Workload) -> list[workloads.Setting]:
    """Return the first parameters that differ from the defaults, without long ones."""
    settings = workloads.describe_settings(workload).differing
    return [setting for setting in settings if setting.name not in LONG][:MOST_SHOWN]


register.filter("in_words", workloads.format_value)
register.filter("limits", workloads.describe_limits)
