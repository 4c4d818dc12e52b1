"""The glossary page: the entries of `docs/words.md`, each with an anchor."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from dashboard.typed_requests import OpenRequest


@dataclass(frozen=True)
class Entry:
    """A term of the glossary with its explanation, in HTML."""

    term: str
    explanation: SafeString

    @property
    def anchor(self) -> str:
        """Return the id of the entry on the page, the same as on a Markdown host."""
        return slugify(self.term)


@login_not_required
@require_safe
def glossary(request: OpenRequest) -> HttpResponse:
    """Show the glossary to everybody: it holds no data."""
    return render(request, "glossary.html", {"entries": read_entries()})


@cache
def read_entries() -> tuple[Entry, ...]:
    """Return the entries of the glossary's file in their order, without what follows the rule."""
    text = (settings.BASE_DIR / "docs" / "words.md").read_text(encoding="utf-8")
    _, *sections = text.partition("\n---\n")[0].split("\n## ")
    entries = []
    for section in sections:
        term, _, explanation = section.partition("\n")
        entries.append(Entry(term.strip(), _format_code(explanation.strip())))
    return tuple(entries)


def _format_code(text: str) -> SafeString:
    """Return text as HTML, in which only what stands in backticks is marked up."""
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
    return mark_safe(html)  # noqa: S308 (escaped above)
