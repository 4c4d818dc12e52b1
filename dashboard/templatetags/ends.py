"""Template tags for how a run, a job or an operation ended, and what it printed."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from experiments.execution.end_texts import (
    describe_exit_code,
    find_advice,
    plain_text,
    split_reason,
)

register = template.Library()
register.filter(describe_exit_code)
register.filter("advice", find_advice)
register.filter(plain_text)


@register.filter
def added_message(row: Any) -> str:
    """Return what a row's message adds to its reason."""
    return split_reason(row.reason, row.message)[1]


@register.filter
def reason_and_message(row: Any) -> SafeString:
    """Return "reason: message", nothing said twice, the whole of it."""
    reason, message = split_reason(row.reason, row.message)
    if not reason or not message:
        return format_html('<span class="message">{}</span>', reason or message)
    return format_html('<strong>{}</strong>: <span class="message">{}</span>', reason, message)
