"""Filters that print parameters of workloads as text."""

from __future__ import annotations

from django import template

from experiments.planning import workloads

register = template.Library()

register.filter("in_words", workloads.format_value)
register.filter("limits", workloads.describe_limits)
