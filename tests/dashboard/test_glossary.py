"""The glossary: open to everybody, in order, and every link of a page leads to an entry."""

from __future__ import annotations

import re
from html import escape

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.glossary_views import Entry, read_entries
from tests.source_tree import BASE

LINK = re.compile(r"(?:\{% url 'glossary' %\}|/glossary/)#([\w-]+)")
SOURCES = [*(BASE / "templates").rglob("*.html"), *(BASE / "dashboard").rglob("*.py")]


def test_the_glossary_shows_every_term_to_people_without_an_account(client: Client) -> None:
    answer = client.get(reverse("glossary"))
    assert answer.status_code == 200
    page = answer.content.decode()
    for entry in read_entries():
        assert f'<div id="{entry.anchor}">' in page
        assert escape(entry.term) in page
    assert "Data files call it <code>cell</code>." in page
    assert "Older words" not in page


def test_every_link_of_a_page_to_the_glossary_leads_to_an_entry() -> None:
    anchors = {entry.anchor for entry in read_entries()}
    linked = {anchor for path in SOURCES for anchor in LINK.findall(path.read_text())}
    assert {"verdict", "holm-correction", "interim-analysis", "parity-report"} <= linked
    assert linked - anchors == set()


def test_terms_stand_in_the_order_of_the_alphabet_and_once() -> None:
    terms = [entry.term.lower() for entry in read_entries()]
    assert terms == sorted(terms)
    assert len({entry.anchor for entry in read_entries()}) == len(terms)


@pytest.mark.parametrize("entry", read_entries(), ids=lambda entry: entry.term)
def test_an_entry_is_a_few_plain_sentences(entry: Entry) -> None:
    text = re.sub(r"<code>[^<]*</code>", "x", entry.explanation)
    assert text.endswith(".")
    assert len(re.findall(r"\.(?= |$)", text)) <= 3
    assert not re.search(r"[\[\]*_|`<]", text), "the page shows code marked up, and nothing else"
