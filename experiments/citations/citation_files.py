"""CITATION.cff of an experiment, by the Citation File Format 1.2.0."""

from __future__ import annotations

import json
from collections.abc import Iterator

from experiments.citations.citing import Author, Cited
from experiments.citations.orcid import ADDRESS

NAME = "CITATION.cff"
MESSAGE = "If you use these measurements, please cite them as below."
KEYWORDS = ("containers", "performance", "benchmark", "reproducibility")


def write_cff(cited: Cited) -> bytes:
    """Return the file. The format wants authors: ValueError without any."""
    if not cited.authors:
        raise ValueError("Without authors there is nothing to cite.")
    return ("\n".join(_write_lines(cited)) + "\n").encode()


def _write_lines(cited: Cited) -> Iterator[str]:
    yield "cff-version: 1.2.0"
    yield f"message: {_quote(MESSAGE)}"
    yield "type: dataset"
    yield f"title: {_quote(cited.title)}"
    yield "authors:"
    for author in cited.authors:
        yield from _write_author(author)
    if cited.licence:
        yield f"license: {_quote(cited.licence)}"
    if cited.doi:
        yield f"doi: {_quote(cited.doi)}"
    if cited.on:
        yield f"date-released: {_quote(cited.on.isoformat())}"
    if cited.address.startswith(("https://", "http://")):
        yield f"url: {_quote(cited.address)}"
    if cited.plan_hash:
        yield "identifiers:"
        yield "  - type: other"
        yield f"    value: {_quote(f'sha256:{cited.plan_hash}')}"
        yield f"    description: {_quote('The hash of the plan, or of the logs it was made of.')}"
    yield "keywords:"
    yield from (f"  - {_quote(word)}" for word in KEYWORDS)


def _write_author(author: Author) -> Iterator[str]:
    parts = {
        "family-names": author.family,
        "given-names": author.given,
        "orcid": author.orcid and ADDRESS + author.orcid,
        "affiliation": author.affiliation,
    }
    mark = "-"
    for name, text in parts.items():
        if text:
            yield f"  {mark} {name}: {_quote(text)}"
            mark = " "


def _quote(text: str) -> str:
    """Return a text in the double quotes of YAML, which reads those of JSON.

    Signs that YAML does not print become blanks: no form takes them, a question may have some.
    """
    printable = "".join(sign if sign.isprintable() else " " for sign in text)
    return json.dumps(" ".join(printable.split()), ensure_ascii=False)
