"""Names that a link hides are found however they are written: with long letters, in any form."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.access.anonymity import Anonymity

LETTERS = st.text("abisfıßẞİŉéñöﬁx ", min_size=4, max_size=8).filter(lambda text: text.strip())


@pytest.mark.parametrize(
    "name", ["Groß", "Weißenberg", "İbrahim", "Ρωμαῖος", "Straßer-Hoff", "Müller", "Nuñez"]
)
def test_a_name_is_hidden_in_any_case_and_form(name: str) -> None:
    hidden = Anonymity({name}, set())
    machine = Anonymity(set(), set(), {name: "cluster-1"})
    for written in (name, name.upper(), name.lower(), name.casefold()):
        for form in ("NFC", "NFD"):
            text = unicodedata.normalize(form, written)
            assert hidden.hide(f"by {text}.") == "by account-1."
            assert hidden.hide_in_page(f'<p title="{text}">{text}</p>') == (
                '<p title="account-1">account-1</p>'
            )
            assert machine.hide(f"on {text}:") == "on cluster-1:"


@given(LETTERS)
def test_no_spelling_of_a_name_stays(name: str) -> None:
    hidden = Anonymity({name}, set())
    for written in (name, name.upper(), name.lower(), name.title()):
        if written.casefold() == name.casefold():
            assert hidden.hide(f"({written})") == "(account-1)"
