"""A time that has passed is not named as one that is ahead."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.utils import timezone

from dashboard.templatetags.tare import at_or, counted_verdict
from tests.source_tree import BASE


def test_a_time_ahead_is_named_and_one_that_has_passed_is_not() -> None:
    ahead = timezone.now() + timedelta(minutes=5)
    assert at_or(ahead, "at its next visit").startswith('at <time datetime="')
    assert at_or(datetime(2026, 1, 1, tzinfo=UTC), "at its next visit") == "at its next visit"
    assert at_or(None, "soon") == "soon"


def test_no_page_says_when_something_is_tried_again_without_asking_whether_it_has_passed() -> None:
    pages = {path: path.read_text() for path in (BASE / "templates").rglob("*.html")}
    assert [path.name for path, text in pages.items() if "retry_at|when" in text] == []


def test_the_count_stands_before_the_word_of_a_verdict_on_every_page() -> None:
    html = counted_verdict("SLOWER", 2)
    assert html.index("<strong>2</strong>") < html.index("SLOWER")
    pages = {path: path.read_text() for path in (BASE / "templates").rglob("*.html")}
    # Of a mapping of verdicts to counts, which they name as `word` or `verdict`.
    assert [p.name for p, text in pages.items() if "{% verdict word %}" in text] == []
