"""An experiment as an entry of BibTeX."""

from __future__ import annotations

from dashboard.comparisons.latex import escape
from experiments.citations import Author, Cited
from experiments.citations.orcid import ADDRESS


def write_bibtex(cited: Cited) -> str:
    """Return the entry, which the usual styles understand."""
    fields = {
        "author": " and ".join(map(_write_name, cited.authors)),
        "title": f"{{{escape(cited.title)}}}",
        "year": str(cited.on.year) if cited.on else "",
        "howpublished": "Measurements by Tare",
        "doi": cited.doi,
        "url": cited.doi_address if cited.is_published else cited.address,
        "note": _write_note(cited),
    }
    lines = [f"  {name} = {{{text}}}," for name, text in fields.items() if text]
    return "\n".join([f"@misc{{tare-e{cited.experiment},", *lines, "}", ""])


def _write_name(author: Author) -> str:
    """Return a name. One with `and` in it, or without given names, is not to be taken apart."""
    family, given = escape(author.family), escape(author.given)
    if not given:
        return f"{{{family}}}"
    return (
        f"{{{family}}}, {{{given}}}" if " and " in f" {family} {given} " else f"{family}, {given}"
    )


def _write_note(cited: Cited) -> str:
    people = [f"{author.name}: {ADDRESS}{author.orcid}" for author in cited.authors if author.orcid]
    parts = [f"Plan sha256:{cited.plan_hash}"] if cited.plan_hash else []
    parts += [f"Licence {cited.licence}"] if cited.licence else []
    return escape(". ".join([*parts, *people]))
