"""The forms of a citation, and of what people state of themselves for publishing."""

from __future__ import annotations

from collections.abc import Iterable

from django import forms
from django.core.exceptions import ValidationError

from dashboard.form_styles import Styled
from experiments.citations import Author
from experiments.citations.licences import OFFERED, parse_licence
from experiments.citations.orcid import parse_orcid
from experiments.models import Citation

MOST_CHARACTERS = 60_000


class CitationForm(Styled, forms.Form):
    """Authors, licence and title of an experiment."""

    authors = forms.CharField(
        required=False,
        max_length=MOST_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}),
        help_text="One a line, in their order: family name, given names; ORCID; affiliation. "
        "ORCID and affiliation may be left out.",
    )
    licence = forms.CharField(
        required=False,
        max_length=80,
        widget=forms.TextInput(attrs={"list": "licences", "autocomplete": "off"}),
        help_text="An identifier of SPDX, such as CC-BY-4.0. Without one nobody may reuse it.",
    )
    title = forms.CharField(
        required=False,
        max_length=Citation.LONGEST_TITLE,
        help_text="Under which it is cited. Empty: its question.",
    )

    offered_licences = OFFERED

    def clean_authors(self) -> list[Author]:
        """Return the authors. The message of a refusal names the line."""
        return parse_authors(self.cleaned_data["authors"])

    def clean_licence(self) -> str:
        text = self.cleaned_data["licence"]
        try:
            return parse_licence(text) if text else ""
        except ValueError as error:
            raise ValidationError(str(error)) from None

    def clean_title(self) -> str:
        return " ".join(self.cleaned_data["title"].split())


def write_authors(authors: Iterable[Author]) -> str:
    """Return authors as the form takes them, one a line."""
    return "\n".join(
        "; ".join(part for part in (author.listed_name, author.orcid, author.affiliation) if part)
        for author in authors
    )


def parse_authors(text: str) -> list[Author]:
    """Return the authors that a text lists, one a line. ValidationError names the lines."""
    authors, problems = list[Author](), list[str]()
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > Citation.MOST_AUTHORS:
        raise ValidationError(f"There are at most {Citation.MOST_AUTHORS} authors.")
    for number, line in enumerate(lines, start=1):
        try:
            author = _parse_author(line)
        except ValueError as error:
            problems.append(f"Line {number}: {error}")
            continue
        if author.orcid and author.orcid in {other.orcid for other in authors}:
            problems.append(f"Line {number}: {author.orcid} is that of another author, too.")
        authors.append(author)
    if problems:
        raise ValidationError(problems)
    return authors


def _parse_author(line: str) -> Author:
    parts = [" ".join(_clean(part).split()) for part in line.split(";")]
    family, _, given = (part.strip() for part in parts[0].partition(","))
    if not family:
        raise ValueError("it names nobody. Family name, given names; ORCID; affiliation.")
    if max(len(family), len(given)) > Citation.LONGEST_NAME:
        raise ValueError(f"a name has at most {Citation.LONGEST_NAME} characters.")
    rest = parts[1:]
    has_orcid = bool(rest) and (sum(map(str.isdigit, rest[0])) >= 10 or "orcid" in rest[0].lower())
    orcid = parse_orcid(rest.pop(0)) if has_orcid else ""
    affiliation = "; ".join(part for part in rest if part)
    if len(affiliation) > Citation.LONGEST_AFFILIATION:
        raise ValueError(f"an affiliation has at most {Citation.LONGEST_AFFILIATION} characters.")
    return Author(family, given, orcid, affiliation)


def _clean(text: str) -> str:
    """Return a text without signs that no file of citations prints."""
    return "".join(sign if sign.isprintable() else " " for sign in text)


class OrcidForm(Styled, forms.Form):
    """A person's own ORCID."""

    orcid = forms.CharField(
        label="ORCID",
        required=False,
        max_length=60,
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Offered for you as an author. Members of this site see it where you are one.",
    )

    def clean_orcid(self) -> str:
        text = self.cleaned_data["orcid"]
        try:
            return parse_orcid(text) if text.strip() else ""
        except ValueError as error:
            raise ValidationError(str(error)) from None


class TokenForm(Styled, forms.Form):
    """A token of the service at which bundles are deposited. It is never shown again."""

    token = forms.RegexField(
        r"\A[\x21-\x7e]{1,1000}\Z",
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text="With the scopes deposit:write and deposit:actions. Stored encrypted, and shown "
        "to nobody again.",
        error_messages={"invalid": "A token is one word of plain letters, digits and punctuation."},
    )
