"""Parameters of workloads, in words."""

from __future__ import annotations

from django import template

from experiments.planning import workloads

register = template.Library()

register.filter("in_words", workloads.in_words)
register.filter("limits", workloads.limits)
