"""The search of the documents: sections with all words, the best first, whatever is typed."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.docs.documents import map_files, read_document
from dashboard.docs.section_search import MOST_RESULTS, list_sections, search_sections


def test_a_section_whose_heading_says_it_comes_first() -> None:
    first = search_sections("equivalence margin")[0].section
    assert (first.document, first.anchor) == ("words", "equivalence-margin")
    places = [result.section.get_absolute_url() for result in search_sections("job directories")]
    assert "/docs/clusters/#job-directories-on-its-disk" in places[:3]


def test_decisions_come_after_what_explains() -> None:
    kinds = [r.section.document.startswith("decisions/") for r in search_sections("scheduler")]
    assert kinds == sorted(kinds)


def test_other_forms_of_a_word_are_found_and_all_words_are_wanted() -> None:
    for word in ("margins", "margin", "MARGIN"):
        assert search_sections(word)
    assert search_sections("margin qqxyz") == []
    for result in search_sections("cancelled job"):
        text = f"{result.section.title} {result.section.heading} {result.section.text}".lower()
        assert "cancel" in text
        assert "job" in text


def test_every_section_has_an_anchor_of_its_page() -> None:
    anchors = {
        name: {heading.anchor for heading in read_document(name).headings} | {""}
        for name in map_files()
    }
    assert [s for s in list_sections() if s.anchor not in anchors[s.document]] == []


@settings(deadline=None)
@given(st.text(max_size=300))
def test_whatever_is_typed_has_an_answer(text: str) -> None:
    results = search_sections(text)
    assert len(results) <= MOST_RESULTS
    for result in results:
        assert "".join(piece for piece, _ in result.excerpt).strip(" …") in result.section.text


@pytest.mark.django_db
def test_the_page_shows_sections_to_everybody_and_escapes_what_was_typed() -> None:
    address = reverse("docs")
    page = BeautifulSoup(Client().get(f"{address}?q=interim+analyses").content, "html.parser")
    links = [str(link["href"]) for link in page.select(".doc-results a")]
    assert "/glossary/#interim-analysis" in links
    assert page.select(".doc-results mark")
    hostile = Client().get(f"{address}?q={quote('<script>alert(1)</script>')}").content.decode()
    assert "<script>alert" not in hostile
    assert "No section has all of" in hostile


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["", "   ", "%", "(", "\\", "a" * 5000, "é" * 100, "NaN", "😀"])
def test_odd_words_have_a_page(text: str) -> None:
    assert Client().get(reverse("docs"), {"q": text}).status_code == 200


def test_guides_come_before_references() -> None:
    """The API has a section for each address, and most of them have the word "token"."""
    names = [result.section.document for result in search_sections("token")]
    assert "api" in names[:5]
    assert "api-reference" in names
    places = [place for place, name in enumerate(names) if name == "api-reference"]
    assert places[0] > max(place for place, name in enumerate(names) if name == "command-line")
