"""The menus of the list of runs in which columns are chosen: there are a hundred and more of them.

Each is drawn once a process, as it is the same for everybody: by the template they took a third of
the time of the page.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from dashboard.execution.run_columns import Column, Columns
from experiments.execution.stored_values import FACT

KEPT = 4096
"""So many columns are remembered as they were drawn."""


@dataclass(frozen=True)
class ColumnGroup:
    """Columns under one heading: as options of a filter, and as boxes to choose them by."""

    heading: str
    options: SafeString
    boxes: SafeString
    is_of_facts: bool = False
    """Whether other facts may be added to it by their names."""


def draw_menus(
    offered: Columns, chosen: Sequence[Column]
) -> tuple[list[ColumnGroup], SafeString | None]:
    """Return the offered columns in groups, and further options: facts that were added by name.

    Their boxes are among those of the other facts, as they are chosen.
    """
    keys = {column.key for column in chosen}
    known = {column.key for _, columns in offered.groups for column in columns}
    others = [column for column in chosen if column.key not in known]
    groups = []
    for heading, columns in offered.groups:
        is_of_facts = columns[0].key.startswith(FACT)
        shown = [*columns, *others] if is_of_facts else columns
        boxes = _join(_draw_box(column, is_chosen=column.key in keys) for column in shown)
        groups.append(ColumnGroup(heading, _draw_options(columns), boxes, is_of_facts))
    return groups, _draw_options(others) if others else None


def _draw_options(columns: Collection[Column]) -> SafeString:
    return _join(map(_draw_option, columns))


@lru_cache(KEPT)
def _draw_option(column: Column) -> SafeString:
    return format_html('<option value="{}">{}</option>', column.key, column.label)


@lru_cache(KEPT)
def _draw_box(column: Column, *, is_chosen: bool) -> SafeString:
    return format_html(
        '<label class="check"{}><input type="checkbox" class="form-check-input" name="column"'
        ' value="{}"{}> {}</label>\n',
        format_html(' title="{}"', column.help) if column.help else "",
        column.key,
        SafeString(" checked" if is_chosen else ""),
        column.label,
    )


def _join(parts: Iterable[SafeString]) -> SafeString:
    return mark_safe("".join(parts))  # noqa: S308  (each is escaped)
