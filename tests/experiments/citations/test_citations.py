"""Authors with ORCID, licences by SPDX, and CITATION.cff."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from experiments.citations import (
    Author,
    Cited,
    describe_citation,
    save_citation,
    write_cff,
)
from experiments.citations.licences import OFFERED, parse_licence
from experiments.citations.orcid import compute_check_digit, parse_orcid
from experiments.models import AuditEntry, Experiment
from tests.factories import ExperimentFactory, UserFactory

MARIE = Author("Curie", "Marie", "0000-0002-1825-0097", "Sorbonne")
KEYS = {
    *("cff-version", "message", "type", "title", "authors", "license", "doi", "date-released"),
    *("url", "identifiers", "keywords"),
}
"""Of the root object, as the schema 1.2.0 names them; it allows no others."""


def make_cited(**parts: Any) -> Cited:
    facts: dict[str, Any] = {
        "experiment": 1,
        "title": "What does it cost?",
        "authors": (MARIE,),
        "licence": "CC-BY-4.0",
        "doi": "10.5281/zenodo.1",
        "is_published": True,
        "on": date(2026, 11, 26),
        "address": "https://tare.example.org/experiments/1/",
        "plan_hash": "ab" * 32,
    }
    return Cited(**(facts | parts))


@pytest.mark.parametrize(
    "text",
    [
        "0000-0002-1825-0097",  # of ORCID's own documentation
        " https://orcid.org/0000-0002-1825-0097/ ",
        "0000000218250097",
    ],
)
def test_an_orcid_is_read_however_it_is_written(text: str) -> None:
    assert parse_orcid(text) == "0000-0002-1825-0097"


def test_the_check_digit_may_be_an_x() -> None:
    assert parse_orcid("0000-0002-1694-233x") == "0000-0002-1694-233X"


@pytest.mark.parametrize(
    "text", ["", "0000-0002-1825-0098", "0000-0002-1825-009", "X000-0002-1825-0097", "٠" * 16]
)
def test_what_is_no_orcid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ORCID"):
        parse_orcid(text)


@given(st.text("0123456789", min_size=15, max_size=15), st.integers(0, 14), st.integers(1, 9))
def test_each_wrong_digit_is_noticed(digits: str, place: int, more: int) -> None:
    whole = digits + compute_check_digit(digits)
    wrong = str((int(digits[place]) + more) % 10)
    parse_orcid(whole)
    with pytest.raises(ValueError, match="check digit"):
        parse_orcid(whole[:place] + wrong + whole[place + 1 :])


def test_licences_are_those_of_spdx_in_its_spelling() -> None:
    assert [parse_licence(name.lower()) for name in OFFERED] == list(OFFERED)
    assert parse_licence("EUPL-1.2") == "EUPL-1.2"


@pytest.mark.parametrize("text", ["", "my own", "MIT OR Apache-2.0", "LicenseRef-mine", "(" * 5000])
def test_what_spdx_does_not_have_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="SPDX has no licence"):
        parse_licence(text)


def read_cff(content: bytes) -> Any:
    """Return the document, held to what the schema demands of the fields that Tare writes."""
    document = yaml.safe_load(content)
    assert document.keys() <= KEYS
    assert document["cff-version"] == "1.2.0"
    assert document["type"] == "dataset"
    assert document["authors"]
    for author in document["authors"]:
        assert author.keys() <= {"family-names", "given-names", "orcid", "affiliation"}
        assert all(isinstance(text, str) and text for text in author.values())
        if "orcid" in author:
            assert re.fullmatch(
                r"https://orcid\.org/[0-9]{4}(-[0-9]{4}){2}-[0-9]{3}[0-9X]", author["orcid"]
            )
    if "doi" in document:
        assert re.fullmatch(r"10\.\d{4,9}(\.\d+)?/[A-Za-z0-9:/_;\-\.\(\)\[\]\\]+", document["doi"])
    if "date-released" in document:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", document["date-released"])
    return document


def test_a_citation_file_has_all_that_is_known() -> None:
    other = Author("Ångström-Müller", "", "", "")
    document = read_cff(write_cff(make_cited(authors=(MARIE, other))))
    assert document["authors"] == [
        {
            "family-names": "Curie",
            "given-names": "Marie",
            "orcid": "https://orcid.org/0000-0002-1825-0097",
            "affiliation": "Sorbonne",
        },
        {"family-names": "Ångström-Müller"},
    ]
    assert document["license"] == "CC-BY-4.0"
    assert document["doi"] == "10.5281/zenodo.1"
    assert document["identifiers"][0]["value"] == "sha256:" + "ab" * 32


def test_what_is_not_known_is_left_out() -> None:
    document = read_cff(
        write_cff(make_cited(licence="", doi="", on=None, address="", plan_hash=""))
    )
    assert document.keys() == {"cff-version", "message", "type", "title", "authors", "keywords"}


@given(st.text(st.characters(codec="utf-8"), min_size=1))
def test_any_title_is_read_as_it_was_written(title: str) -> None:
    visible = "".join(sign if sign.isprintable() else " " for sign in title)
    document = read_cff(write_cff(make_cited(title=f"1{title}")))
    assert document["title"] == " ".join(f"1{visible}".split())


@pytest.mark.django_db
def test_a_change_after_the_end_is_saved_and_stands_in_the_audit_log() -> None:
    experiment, person = ExperimentFactory(), UserFactory()
    assert describe_citation(experiment).authors == ()
    for licence in ("MIT", "CC0-1.0"):
        save_citation(experiment, person, title="A title", licence=licence, authors=[MARIE])
    cited = describe_citation(Experiment.objects.get(pk=experiment.pk))
    assert (cited.title, cited.licence, cited.authors) == ("A title", "CC0-1.0", (MARIE,))
    entries = AuditEntry.objects.filter(kind="citation").order_by("pk")
    assert [entry.what for entry in entries] == ["added", "changed"]
    assert entries[1].changes == {"licence": ["MIT", "CC0-1.0"]}
