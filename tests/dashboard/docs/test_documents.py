"""The documents as pages: readable by everybody, every link and anchor leads somewhere."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import cache
from urllib.parse import urldefrag, urlsplit

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from dashboard.docs import documents
from dashboard.docs.contents import list_decisions, list_groups
from dashboard.docs.documents import (
    GLOSSARY,
    START,
    find_address,
    map_files,
    map_pictures,
    read_document,
)

pytestmark = pytest.mark.django_db

NAMES = [name for name in map_files() if name != GLOSSARY]
ODD_NAMES = (
    "nothing",
    "Statistics",
    "statistics.md",
    "../README",
    "..%2f..%2fetc%2fpasswd",
    "decisions/../statistics",
    "x" * 5000,
    "é\u202e",
    "words/words",
    "%ff",
    "a//b",
)


@cache
def read_page(address: str) -> BeautifulSoup:
    answer = Client().get(address)
    assert answer.status_code == 200, (address, answer.status_code)
    return BeautifulSoup(answer.content.decode(), "html.parser")


def find_anchors(address: str) -> set[str]:
    return {str(tag["id"]) for tag in read_page(address).find_all(id=True)}


def list_links(name: str) -> Iterator[str]:
    """Yield where the links and pictures of a document lead, as they are written."""
    for token in documents.parse_document(name)[0]:
        for part in token.children or []:
            target = part.attrGet("href" if part.type == "link_open" else "src")
            if part.type in ("link_open", "image"):
                yield str(target)


def test_all_links_of_all_documents_lead_somewhere() -> None:
    anchors = {name: {h.anchor for h in documents.parse_document(name)[1]} for name in map_files()}
    names = {find_address(name): name for name in anchors}
    pictures = {reverse("document_picture", args=[name]) for name in map_pictures()}
    wrong = []
    for name in anchors:
        for href in list_links(name):
            parts = urlsplit(href)
            if parts.scheme or parts.netloc:
                leads = parts.scheme == "https" and "." in parts.netloc
            else:
                address, anchor = urldefrag(documents.lead_link(href, name) or "")
                target = names.get(address, name if href.startswith("#") else "")
                is_file = address == "" and (map_files()[name].parent / parts.path).exists()
                leads = address in pictures or (
                    (not anchor or anchor in anchors[target]) if target else is_file
                )
            if not leads:
                wrong.append(f"{name}: {href}")
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_every_link_and_anchor_of_a_document_leads_somewhere(name: str) -> None:
    address = find_address(name)
    article = read_page(address).article
    assert article
    missing = []
    for link in article.find_all("a"):
        href = str(link["href"])
        if urlsplit(href).scheme:
            assert urlsplit(href).scheme == "https", href
            continue
        page, anchor = urldefrag(href)
        if anchor and anchor not in find_anchors(page or address):
            missing.append(href)
        elif page:
            read_page(page)
    assert missing == []
    for picture in article.find_all("img"):
        assert Client().get(str(picture["src"])).status_code == 200
        assert picture["alt"]


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_one_title_and_anchors_of_its_own(name: str) -> None:
    page = read_page(find_address(name))
    assert [title.get_text() for title in page.find_all("h1")] == [read_document(name).title]
    anchors = [str(tag["id"]) for tag in page.find_all(id=True)]
    assert len(anchors) == len(set(anchors))


@pytest.mark.parametrize("name", NAMES)
def test_every_header_of_a_table_has_a_text(name: str) -> None:
    assert not re.search(r"<th[^>]*>\s*</th>", read_document(name).html)


@pytest.mark.parametrize("name", NAMES)
def test_the_keyboard_can_scroll_tables_and_code(name: str) -> None:
    page = BeautifulSoup(read_document(name).html, "html.parser")
    assert [str(box) for box in page.select("pre, .scroll") if box.get("tabindex") != "0"] == []


@pytest.mark.parametrize("name", map_files())
def test_no_document_holds_raw_html(name: str) -> None:
    tokens = MarkdownIt("commonmark").parse(documents.read_markdown(name))
    parts = [part for token in tokens for part in (token, *(token.children or []))]
    assert [part.content for part in parts if part.type in ("html_block", "html_inline")] == []


@given(st.text(alphabet="<>/scriptonerd=\"'()[]:!&javu`*_ \n#|-\0é", max_size=200))
def test_no_text_becomes_a_tag_that_markdown_does_not_know(text: str) -> None:
    page = BeautifulSoup(documents._make_parser().render(text), "html.parser")
    assert page.find_all(["script", "svg", "iframe", "style", "object"]) == []
    for tag in page.find_all(True):
        assert {name for name in tag.attrs if name.startswith("on")} == set()
        assert not str(tag.get("href", "")).lower().strip().startswith("javascript:")


def test_raw_html_and_scripts_are_shown_as_text() -> None:
    shown = documents._make_parser().render("<script>alert(1)</script> [x](javascript:alert(1))")
    assert html.escape("<script>alert(1)</script>") in shown
    assert "href" not in shown


def test_the_list_names_every_document_once_and_links_to_it() -> None:
    lines = [line for _, group in list_groups() for line in group]
    named = [line.name for line in lines] + [line.name for line in list_decisions()]
    assert sorted(named) == sorted(set(map_files()) - {START})
    links = {str(link["href"]) for link in read_page(reverse("docs")).find_all("a")}
    assert {line.get_absolute_url() for line in lines} <= links
    decisions = read_page(reverse("document", args=["decisions"])).find_all("a")
    shown = {str(link["href"]) for link in decisions}
    assert {line.get_absolute_url() for line in list_decisions()} <= shown


def test_a_new_document_is_listed_before_anybody_gives_it_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = map_files()["parity"]
    monkeypatch.setattr("dashboard.docs.contents.map_files", lambda: {"something-new": path})
    monkeypatch.setattr("dashboard.docs.contents.read_title", lambda name: name)
    title, lines = list_groups.__wrapped__()[-1]
    assert (title, [line.name for line in lines]) == ("Further", ["something-new"])


def test_a_link_to_a_file_that_is_not_on_the_site_is_text_with_its_path() -> None:
    article = read_page(reverse("document", args=["architecture"])).article
    assert article
    assert "CONTRIBUTING (CONTRIBUTING.md in Tare's repository)" in article.get_text()


@pytest.mark.parametrize(
    ("href", "address"),
    [
        ("statistics.md", "/docs/statistics/"),
        ("statistics.md#the-verdict", "/docs/statistics/#the-verdict"),
        ("words.md#block", "/glossary/#block"),
        ("decisions/", "/docs/decisions/"),
        ("decisions/README.md", "/docs/decisions/"),
        ("rooms.svg", "/docs/files/rooms.svg"),
        ("#here", "#here"),
        ("https://example.org/x.md", "https://example.org/x.md"),
        ("../CONTRIBUTING.md", None),
        ("../../etc/passwd", None),
        ("missing.md", None),
        ("../docs/../docs/parity.md", "/docs/parity/"),
    ],
)
def test_links_lead_to_the_same_place_as_in_the_repository(href: str, address: str | None) -> None:
    assert documents.lead_link(href, "workloads") == address


def test_links_of_a_decision_begin_in_its_own_folder() -> None:
    decision = list_decisions()[0].name
    assert documents.lead_link("../statistics.md", decision) == "/docs/statistics/"
    assert documents.lead_link("statistics.md", decision) is None


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("address", ["/docs/{}/", "/docs/files/{}"])
def test_odd_names_are_not_found(name: str, address: str) -> None:
    assert Client().get(address.format(name)).status_code == 404


def test_a_nul_in_a_name_is_refused() -> None:
    assert Client().get("/docs/%00/").status_code == 400


@pytest.mark.parametrize(("name", "address"), [(GLOSSARY, "glossary"), (START, "docs")])
def test_a_document_with_a_page_of_its_own_has_one_address(name: str, address: str) -> None:
    assert Client().get(f"/docs/{name}/")["Location"] == reverse(address)


def test_each_kind_of_reader_is_led_to_their_first_page() -> None:
    article = read_page(reverse("docs")).article
    assert article
    rows = [row.get_text(" ") for row in article.select("tbody tr")]
    links = [str(row.select("a")[0]["href"]) for row in article.select("tbody tr")]
    readers = ("researcher", "administrator", "referee", "contributor")
    assert [reader in row for reader, row in zip(readers, rows, strict=True)] == [True] * 4
    first = ("quick-start", "administration", "statistics-for-referees", "contributing")
    assert links == [f"/docs/{name}/" for name in first]


def test_pages_that_stood_before_the_sections_have_their_addresses() -> None:
    earlier = """architecture bring-your-own-benchmark clusters comparison-page compose confounders
    data-sets experiments exports formats how-runs-end images imports life-of-a-run lists
    measurements mutants newcomer notifications operations parity permissions published-tables
    publishing reliability reproducing runtimes statistics words workloads decisions"""
    assert set(earlier.split()) <= set(map_files())


def test_pictures_are_sent_with_their_type() -> None:
    assert map_pictures()
    for name in map_pictures():
        answer = Client().get(reverse("document_picture", args=[name]))
        assert answer["Content-Type"] in documents.PICTURES.values()
        assert b"".join(answer.streaming_content)


@pytest.mark.parametrize("name", NAMES)
def test_a_document_read_in_parts_is_the_same(name: str) -> None:
    """What reads across a heading, such as an address below all text, would be lost."""
    tokens, headings = documents.parse_document(name)
    parts = list(documents.parse_parts(name))
    assert tuple(heading for _, found in parts for heading in found) == headings
    described = [(each.type, each.content, each.attrs, str(each.children)) for each in tokens]
    assert [
        (each.type, each.content, each.attrs, str(each.children))
        for found, _ in parts
        for each in found
    ] == described


def test_a_heading_that_stands_twice_has_two_anchors() -> None:
    taken: dict[str, int] = {}
    assert documents.make_anchor("A `b` (c), d!", taken) == "a-b-c-d"
    assert documents.make_anchor("A `b` (c), d!", taken) == "a-b-c-d-1"
