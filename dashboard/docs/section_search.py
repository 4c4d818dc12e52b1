"""Search in the documents by words; what is found are sections.

The documents are some hundred files that change with the code: each process reads them at its first
search and keeps their words, with no index in the database that could be out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from dashboard.docs.documents import (
    DECISIONS,
    find_address,
    map_files,
    parse_parts,
)

MOST_WORDS = 10
MOST_RESULTS = 30
EXCERPT = 220
"""Characters of an excerpt."""
ENDINGS = ("ations", "ation", "ings", "ing", "ies", "ed", "es", "s")
REFERENCES = ("api-reference", "client-reference")
TITLE, HEADING, TEXT = 20, 10, 1
"""What a word counts for by where it stands."""


@dataclass(frozen=True)
class Section:
    """A part of a document below one heading."""

    document: str
    title: str
    heading: str
    anchor: str
    text: str

    @cached_property
    def lower_text(self) -> str:
        """Return all of it in lower case: most sections are told by that to lack a word."""
        return f"{self.title} {self.heading} {self.text}".lower()

    def get_absolute_url(self) -> str:
        return find_address(self.document, self.anchor)


@dataclass(frozen=True)
class Result:
    """A section that holds all words, with its text around the first of them."""

    section: Section
    excerpt: tuple[tuple[str, bool], ...]
    """Pieces of text, each with whether it is a word that was searched."""


def search_sections(text: str) -> list[Result]:
    """Return the sections that hold every word of a text, in any of its forms, the best first."""
    words = re.findall(r"\w+", text.lower())[:MOST_WORDS]
    if not words:
        return []
    stems = [_find_stem(word) for word in words]
    patterns = [re.compile(rf"\b{re.escape(stem)}\w*", re.IGNORECASE) for stem in stems]
    ranked = []
    for place, section in enumerate(list_sections()):
        if not all(stem in section.lower_text for stem in stems):
            continue
        score = _rank(section, patterns)
        if score:
            is_named = section.heading.lower().split() == words
            ranked.append((_find_shelf(section), not is_named, -score, place, section))
    either = re.compile("|".join(pattern.pattern for pattern in patterns), re.IGNORECASE)
    return [Result(row[-1], _cut_excerpt(row[-1].text, either)) for row in sorted(ranked)][
        :MOST_RESULTS
    ]


def _find_shelf(section: Section) -> int:
    """Return which documents come before others: guides, then references, then decisions.

    A reference has a section for each address and type, and most of them have most words.
    """
    if section.document.startswith(f"{DECISIONS}/"):
        return 2
    return 1 if section.document in REFERENCES else 0


@cache
def list_sections() -> tuple[Section, ...]:
    """Return all sections of all documents."""
    return tuple(section for name in map_files() for section in _split_document(name))


def _split_document(name: str) -> Iterator[Section]:
    title, heading, anchor = name, "", ""
    parts: list[str] = []
    is_heading = False
    for tokens, headings in parse_parts(name):
        coming = iter(headings)
        for token in tokens:
            if token.type == "heading_open":
                if parts or heading:
                    yield Section(name, title, heading, anchor, " ".join(parts))
                parts, is_heading = [], True
                current = next(coming)
                if current.level == 1:
                    title, heading, anchor = current.text, "", ""
                else:
                    heading, anchor = current.text, current.anchor
            elif token.type == "inline":
                if not is_heading:
                    parts.append(" ".join("".join(_list_texts(token)).split()))
                is_heading = False
            elif token.type in ("fence", "code_block"):
                parts.append(" ".join(token.content.split()))
    yield Section(name, title, heading, anchor, " ".join(parts))


def _list_texts(token: object) -> Iterator[str]:
    for part in getattr(token, "children", None) or []:
        yield " " if part.type in ("softbreak", "hardbreak") else part.content


def _find_stem(word: str) -> str:
    """Return a word without the ending of another form of it: margins, cancelled, staging."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


def _rank(section: Section, patterns: list[re.Pattern[str]]) -> int:
    """Return how well a section fits; 0 where a word is missing."""
    score = 0
    for pattern in patterns:
        own = (
            TITLE * bool(pattern.search(section.title))
            + HEADING * 2 * bool(pattern.search(section.heading))
            + TEXT * min(len(pattern.findall(section.text)), HEADING)
        )
        if not own:
            return 0
        score += own
    return score


def _cut_excerpt(text: str, pattern: re.Pattern[str]) -> tuple[tuple[str, bool], ...]:
    """Return the text around the first word, in pieces, of which those searched are marked."""
    first = pattern.search(text)
    begin = max(0, (first.start() if first else 0) - EXCERPT // 3)
    if begin:
        begin = text.find(" ", begin) + 1
    cut = text[begin : begin + EXCERPT]
    if begin + EXCERPT < len(text):
        cut = cut.rpartition(" ")[0] or cut
    pieces: list[tuple[str, bool]] = [("… ", False)] if begin else []
    place = 0
    for match in pattern.finditer(cut):
        pieces += [(cut[place : match.start()], False), (match.group(), True)]
        place = match.end()
    pieces.append((cut[place:] + (" …" if begin + EXCERPT < len(text) else ""), False))
    return tuple(pieces)
