"""Names with numbers in the order of people: node2 before node10, in Python and in PostgreSQL."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.models import User
from experiments.natural_columns import DIGITS, pad_numbers
from experiments.natural_order import make_natural_key, sort_items_naturally, sort_naturally

WORDS = st.text("abcxyz", max_size=4)
SIGNS = st.text("ab -._/+²٣é", max_size=3)
NUMBERS = st.integers(0, 10**40).map(str)
NAMES = st.lists(st.one_of(WORDS, NUMBERS), min_size=1, max_size=5).map("".join)


def test_nodes_packages_and_versions_are_in_order() -> None:
    assert sort_naturally(["node10", "node2", "node1"]) == ["node1", "node2", "node10"]
    assert sort_naturally({"3.11", "3.9", "3.9.1"}) == ["3.9", "3.9.1", "3.11"]
    assert sort_naturally(["1x16", "1x2", "2x1"]) == ["1x2", "1x16", "2x1"]
    assert sort_naturally(["b", "a10", "a", ""]) == ["", "a", "a10", "b"]
    assert sort_items_naturally({"p10": 1, "p9": 2}) == [("p9", 2), ("p10", 1)]


@given(st.text("ab", max_size=3), st.lists(st.integers(0, 10**30)), st.text("ab", max_size=3))
def test_what_differs_in_a_number_alone_comes_in_the_order_of_numbers(
    before: str, numbers: list[int], after: str
) -> None:
    names = [f"{before}{number}{after}" for number in numbers]
    assert sort_naturally(names) == [f"{before}{number}{after}" for number in sorted(numbers)]


@given(st.lists(st.text("ab1٣² 0.-", max_size=8)))
def test_any_texts_have_one_order_and_none_is_lost(texts: list[str]) -> None:
    ordered = sort_naturally(texts)
    assert sorted(ordered) == sorted(texts)
    assert sort_naturally(reversed(ordered)) == ordered
    assert all(
        (make_natural_key(one) == make_natural_key(other)) == (one == other)
        for one, other in pairwise(ordered)
    )


@given(st.lists(st.text("abxyz", max_size=8)))
def test_without_numbers_it_is_the_order_of_strings(texts: list[str]) -> None:
    assert sort_naturally(texts) == sorted(texts)


def test_a_number_of_thousands_of_digits_is_one() -> None:
    large = "node" + "9" * 5000
    assert sort_naturally([large, "node10", "node9"]) == ["node9", "node10", large]


@pytest.mark.django_db
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(
        st.lists(
            st.one_of(WORDS, SIGNS, st.integers(0, 10**DIGITS - 1).map(str)),
            min_size=1,
            max_size=3,
        )
        .map("".join)
        .filter(
            lambda name: name and max(map(len, re.findall("[0-9]+", name)), default=0) < DIGITS
        ),
        max_size=8,
        unique=True,
    )
)
def test_postgresql_has_the_same_order(names: list[str]) -> None:
    User.objects.all().delete()
    User.objects.bulk_create(User(username=name) for name in names)
    rows = User.objects.order_by(pad_numbers("username"), "username")
    assert list(rows.values_list("username", flat=True)) == sort_naturally(names)


@pytest.mark.django_db
def test_postgresql_sorts_capitals_and_signs_like_python_by_any_collation() -> None:
    """Else a list that is cut into pages would have another order than all other pages."""
    User.objects.all().delete()
    names = ["a10", "B2", "a9", "_b", "Ä1", "a-2", "a 3", "ä1", "A9"]
    User.objects.bulk_create(User(username=name) for name in names)
    rows = User.objects.order_by(pad_numbers("username"))
    assert list(rows.values_list("username", flat=True)) == sort_naturally(names)
