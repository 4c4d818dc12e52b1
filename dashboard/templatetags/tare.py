"""Template tags for states, verdicts, environments, times and sortable headings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from typing import Any

from django import template
from django.forms import BoundField
from django.template import Context
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.charts.style import SYMBOLS
from experiments.statistics import Pair

register = template.Library()

KEPT = 2048
"""So many states and names of environments are remembered as they were drawn: tables show the same
ones in every row. By their types, too: a text that is safe is not escaped."""
# Paths on a 16 x 16 grid; an open shape is drawn as a line.
SHAPES = {
    "circle": '<circle cx="8" cy="8" r="6"/>',
    "square": '<path d="M2.5 2.5h11v11h-11z"/>',
    "diamond": '<path d="M8 1l7 7-7 7-7-7z"/>',
    "triangle-up": '<path d="M8 1.5L15 14H1z"/>',
    "cross": '<path d="M5.5 1h5v4.5H15v5h-4.5V15h-5v-4.5H1v-5h4.5z"/>',
    "triangle-down": '<path d="M8 14.5L1 2h14z"/>',
    "pentagon": '<path d="M8 1l7 5.2L12.3 15H3.7L1 6.2z"/>',
    "hexagon": '<path d="M4.5 1.5h7L15 8l-3.5 6.5h-7L1 8z"/>',
    "play": '<path d="M3 1.5l11 6.5-11 6.5z"/>',
    "back": '<path d="M13 1.5L2 8l11 6.5z"/>',
    "equals": '<path d="M1.5 3.5h13v3.2h-13zM1.5 9.3h13v3.2h-13z"/>',
    "at-most": '<path d="M13 2L3 6l10 4M3 13.5h10"/>',
    "ring": '<circle cx="8" cy="8" r="6"/>',
    "pause": '<path d="M3 2h3.5v12h-3.5zM9.5 2h3.5v12h-3.5z"/>',
    "clock": '<circle cx="8" cy="8" r="6"/><path d="M8 4v4l3 2"/>',
    "down": '<path d="M8 2v9M3.5 7L8 11.5 12.5 7M2.5 14.5h11"/>',
    "x": '<path d="M3 3l10 10M13 3L3 13"/>',
    "struck": '<path d="M8 2l6 6-6 6-6-6zM2 14L14 2"/>',
    "dash": '<path d="M2 8h12"/>',
    "unequal": '<path d="M1.5 5h13M1.5 11h13M12 1.5L4 14.5"/>',
    "wave": '<path d="M1.5 9.5c2-5 4.5-5 6.5-1.5s4.5 3.5 6.5-1.5"/>',
}
LINES = {"ring", "clock", "down", "x", "struck", "dash", "wave", "at-most", "unequal"}
STATES = {
    "draft": "ring",
    "planned": "ring",
    "submitting": "clock",
    "paused": "pause",
    "queued": "clock",
    "staging": "play",
    "removing": "play",
    "running": "play",
    "collecting": "down",
    "succeeded": "circle",
    "done": "circle",
    "incomplete": "circle",
    "ready": "circle",
    "yes": "circle",
    "failed": "x",
    "missing": "x",
    "changed": "unequal",
    "no": "x",
    "cancelled": "square",
    "excluded": "struck",
    "removed": "struck",
}
# The result of a check -> the state that is drawn in the same way.
OUTCOMES = {"ok": "yes", "warning": "cancelled", "failed": "no", "not applicable": "planned"}
VERDICTS = {
    "EQUIVALENT": "equals",
    "DIFFERENT": "unequal",
    "NOT SLOWER": "at-most",
    "SLOWER": "play",
    "FASTER": "back",
    "INCONCLUSIVE": "wave",
    "NO INFERENCE": "dash",
    "NOT ATTRIBUTABLE": "struck",
    "NOT SHOWN": "wave",
    "NOT JUDGED BY THE PLAN": "dash",
    "REPRODUCED": "equals",
    "NOT REPRODUCED": "unequal",
}


@lru_cache(KEPT)
def shape(name: str) -> SafeString:
    """Return the drawn shape of a state, an outcome or a verdict."""
    return format_html(
        '<svg class="shape{}" viewBox="0 0 16 16" aria-hidden="true">{}</svg>',
        " line" if name in LINES else "",
        mark_safe(SHAPES[name]),  # noqa: S308  (the table above)
    )


@register.simple_tag
def state(value: str, text: Any = None, *, count: int | None = None) -> SafeString:
    """Return a state as shape, colour and word.

    `text` replaces the word; `count` stands before it.
    """
    return _draw_state(value, _words(value, text, count))


@lru_cache(KEPT, typed=True)
def _draw_state(value: str, words: Any) -> SafeString:
    """Return a state with words; the same ones stand on a page many times.

    `typed`: a text that is safe is not the same as one that is to be escaped.
    """
    return format_html(
        '<span class="state is-{}">{}{}</span>', value, shape(STATES.get(value, "ring")), words
    )


@register.simple_tag
def outcome(value: str, *, count: int | None = None) -> SafeString:
    """Return the result of a check as shape, colour and word, after a `count` if there is one."""
    return state(OUTCOMES[value], _words(value, None, count))


def _words(value: str, text: Any, count: int | None) -> Any:
    words = value if text is None else text
    return words if count is None else f"{count} {words}"


@register.simple_tag
def verdict(value: str) -> SafeString:
    """Return a verdict as shape, colour and word."""
    return format_html(
        '<span class="verdict verdict-{}">{}{}</span>',
        str(value).lower().replace(" ", "-"),
        shape(VERDICTS[str(value)]),
        str(value),
    )


@register.simple_tag
def counted_verdict(value: str, count: int) -> SafeString:
    """Return how many comparisons have a verdict, before its shape, colour and word."""
    return format_html('<span class="nowrap"><strong>{}</strong> {}</span>', count, verdict(value))


@register.simple_tag
def environment(name: Any, index: int) -> SafeString:
    """Return an environment's name after its symbol; index 0 is the baseline."""
    return _draw_environment(name if isinstance(name, str) else str(name), index % len(SYMBOLS))


@lru_cache(KEPT, typed=True)
def _draw_environment(name: str, index: int) -> SafeString:
    return format_html(
        '<span class="environment env-{}">{}<span>{}</span></span>',
        index,
        shape(SYMBOLS[index]),
        name,
    )


@register.simple_tag
def point(x: float, index: int) -> SafeString:
    """Return an environment's symbol for a strip plot, `x` units from its left end."""
    path = mark_safe(SHAPES[SYMBOLS[index % len(SYMBOLS)]])  # noqa: S308  (the table above)
    return format_html(
        '<g transform="translate({} 7.2) scale(0.6)">{}</g>', round(x - 4.8, 1), path
    )


@register.simple_tag
def dot(css: str) -> SafeString:
    """Return a coloured square for a legend."""
    return format_html('<i class="{}">{}</i>', css, shape("square"))


WRITTEN = {"seconds": "%Y-%m-%d %H:%M:%S UTC", "clock": "%H:%M UTC"}
"""How times are written that are more, or less, precise than minutes of a day."""


@register.filter
def when(value: datetime | None, precision: str = "minutes") -> SafeString:
    """Return a time in UTC; the reader's browser turns it into local time."""
    if value is None:
        return SafeString('<span class="muted">–</span>')
    utc = value.astimezone(UTC)
    text = utc.strftime(WRITTEN.get(precision, "%Y-%m-%d %H:%M UTC"))
    moment = utc.isoformat(timespec="seconds")
    # Of digits and our own words, so that nothing has to be escaped.
    return SafeString(f'<time datetime="{moment}" data-when="{escape(precision)}">{text}</time>')


@register.filter
def at_or(value: datetime | None, otherwise: str) -> SafeString:
    """Return a time that is ahead, with "at" before it; `otherwise` once it has passed.

    `otherwise` is a text of the template, such as "at its next visit".
    """
    if value is None or value <= timezone.now():
        return conditional_escape(otherwise)
    return format_html("at {}", when(value, "seconds"))


TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)? UTC")


@register.filter
def timed(text: Any) -> SafeString:
    """Return a sentence with each time that it names as `when` has it, in the reader's own zone."""

    def show(match: re.Match[str]) -> str:
        precision = "seconds" if match[1] else "minutes"
        try:
            moment = datetime.fromisoformat(match[0].removesuffix(" UTC"))
        except ValueError:  # there is no 30 February
            return match[0]
        return when(moment.replace(tzinfo=UTC), precision)

    return mark_safe(TIME.sub(show, conditional_escape(text)))  # noqa: S308  (escaped)


@register.filter
def ago(value: datetime | None) -> str:
    """Return how long ago a time was, in the largest unit: `40 s ago`."""
    if value is None:
        return "never"
    seconds = max(0, int((timezone.now() - value).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


@register.filter
def roughly(seconds: float) -> str:
    """Return an estimated duration, rounded to a whole unit."""
    if seconds < 90:
        return "a minute"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    size, unit = (3600, "h") if seconds < 48 * 3600 else (86_400, "days")
    count = seconds / size
    return f"{count:.0f} {unit}" if count >= 10 else f"{count:.1f} {unit}".replace(".0 ", " ")


@register.filter
def last_lines(text: str, count: int = 6) -> str:
    """Return the last lines of a program's output."""
    return "\n".join(text.splitlines()[-count:])


@register.filter
def chosen_in(value: Any, field: BoundField) -> bool:
    """Return whether a choice is that of a form's field, which has a number or its text."""
    return str(value) == str(field.value())


@register.filter
def linked(rows: Iterable[Any]) -> SafeString:
    """Return rows that have pages in a row, each as a link to its page."""
    return format_html_join(
        ", ", '<a href="{}">{}</a>', ((row.get_absolute_url(), row) for row in rows)
    )


@register.filter
def beyond(values: Sized, shown: int) -> int:
    """Return how many values there are beyond those shown, 0 if there are none."""
    return max(len(values) - shown, 0)


@register.filter
def get(mapping: Any, key: Any) -> Any:
    """Return the value of a key, or None."""
    return mapping.get(key)


@register.filter
def item(values: Any, index: int) -> Any:
    """Return the item at an index."""
    return values[index]


@register.filter
def stamps(pair: Pair) -> list[tuple[str, str]]:
    """Return the stamps of a verdict, each with its reason."""
    return [(stamp.label, why) for stamp, why in zip(pair.stamps, pair.reasons, strict=True)]


BELOW = {"experiments": ("study_list", "recurring_list"), "clusters": ("credentials",)}
"""Lists that belong to an entry of the top bar, and have addresses of their own."""


@register.simple_tag(takes_context=True)
def nav(context: Context, name: str, text: str) -> SafeString:
    """Return a link of the top bar, marked as current on all pages that belong to it."""
    address = reverse(name)
    addresses = (address, *(reverse(below) for below in BELOW.get(name, ())))
    is_current = context["request"].path.startswith(addresses)
    mark = SafeString(' aria-current="page"') if is_current else ""
    return format_html('<a href="{}"{}>{}</a>', address, mark, text)


@register.simple_tag(takes_context=True)
def details_tab(context: Context, name: str, text: str) -> SafeString:
    """Return a link to a tab below the page's head; it begins on its first page, unsorted."""
    query = context["request"].GET.copy()
    query.pop("page", None)
    query.pop("sort", None)
    query["tab"] = name
    mark = SafeString(' aria-current="page"') if context["tab"] == name else ""
    return format_html('<a href="?{}#details"{}>{}</a>', query.urlencode(), mark, text)


@register.simple_tag(takes_context=True)
def heading(context: Context, key: str, text: str, css: str = "", title: str = "") -> SafeString:
    """Return a column's heading that sorts its list; a second click reverses the order.

    A `title` is shown on hover.
    """
    sort = context["listing"].sort
    query = context["request"].GET.copy()
    query.pop("page", None)
    query["sort"] = f"-{key}" if sort == key else key
    order = {key: "ascending", f"-{key}": "descending"}.get(sort)
    mark = format_html(' aria-sort="{}"', order) if order else ""
    return format_html(
        '<th scope="col" class="{}"{}{}><a href="?{}">{}</a></th>',
        css,
        mark,
        format_html(' title="{}"', title) if title else "",
        query.urlencode(),
        text,
    )
