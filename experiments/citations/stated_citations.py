"""What people have stated of an experiment, on its way from one Tare to another in a bundle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from experiments.access import audit
from experiments.citations.citing import Author, read_authors
from experiments.citations.licences import parse_licence
from experiments.citations.orcid import parse_orcid
from experiments.models import Citation, Experiment, User
from experiments.models.citation import find_citation

DOI = re.compile(r"10\.\d{4,9}/[!-~]{1,180}", re.A)


def write_statement(experiment: Experiment) -> dict[str, Any] | None:
    """Return title, authors, licence and DOI as plain values; None where nothing is stated."""
    row = find_citation(experiment)
    if row is None or not (row.title or row.authors or row.licence or row.doi):
        return None
    return {
        "title": row.title,
        "authors": [vars(author) for author in read_authors(row)],
        "licence": row.licence,
        "doi": row.doi,
        "doi_published_at": row.doi_published_at and row.doi_published_at.isoformat(),
    }


def keep_statement(
    experiment: Experiment,
    by: User,
    stated: Mapping[str, Any],
    *,
    published_at: datetime | None,
    why: str,
) -> Citation:
    """Store what another site's bundle states. ValueError, with the reason, for what is no such."""
    authors = [_read_author(entry) for entry in stated.get("authors") or []]
    licence, doi = stated.get("licence") or "", stated.get("doi") or ""
    if len(authors) > Citation.MOST_AUTHORS:
        raise ValueError(f"There are at most {Citation.MOST_AUTHORS} authors.")
    if doi and not DOI.fullmatch(doi):
        raise ValueError(f"{doi[:80]!r} is no DOI.")
    defaults = {
        "title": _read_line(stated.get("title"), Citation.LONGEST_TITLE),
        "authors": [vars(author) for author in authors],
        "licence": parse_licence(licence) if licence else "",
        "doi": doi,
        "doi_published_at": published_at if doi else None,
    }
    return audit.keep(by, Citation, why=why, defaults=defaults, experiment=experiment)


def _read_author(entry: Mapping[str, Any]) -> Author:
    family = _read_line(entry.get("family"), Citation.LONGEST_NAME)
    if not family:
        raise ValueError("An author has no name.")
    orcid = entry.get("orcid") or ""
    return Author(
        family,
        _read_line(entry.get("given"), Citation.LONGEST_NAME),
        parse_orcid(orcid) if orcid else "",
        _read_line(entry.get("affiliation"), Citation.LONGEST_AFFILIATION),
    )


def _read_line(text: str | None, longest: int) -> str:
    """Return a text as forms keep it: one line, without signs that no file prints."""
    printable = "".join(sign if sign.isprintable() else " " for sign in text or "")
    line = " ".join(printable.split())
    if len(line) > longest:
        raise ValueError(f"{line[:40]!r}... has more than {longest} characters.")
    return line
