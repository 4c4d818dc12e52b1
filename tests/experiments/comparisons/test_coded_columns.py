"""Long columns come back from their bytes to the bit, and what is no such column is refused."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.comparisons.coded_columns import LONG, FewValues, Floats, Texts, code_column
from experiments.comparisons.packed_json import pack_json, unpack_json

BARE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.just(-0.0)
)
VALUES = st.one_of(BARE, st.lists(BARE, max_size=3))
LISTS = st.one_of(
    st.lists(VALUES, max_size=9),
    st.lists(st.one_of(st.floats(), st.none()), min_size=LONG, max_size=2 * LONG),
    st.lists(st.text("0123456789abcdef", min_size=4, max_size=4), min_size=LONG, max_size=90),
    st.lists(st.sampled_from([0, 0.0, -0.0, False, "0", [0], [], None]), min_size=LONG),
    st.lists(VALUES, min_size=1, max_size=9).map(lambda few: few * LONG),
    st.integers(257, 400).map(lambda count: [*range(count)] * 5),
)


def decode(column: Any) -> list[Any]:
    if isinstance(column, FewValues):
        return column.decode(column.values)
    return column.decode() if isinstance(column, Floats | Texts) else column


@given(columns=st.lists(LISTS, max_size=3))
def test_columns_come_back_to_the_bit(columns: list[list[Any]]) -> None:
    packed = pack_json({"columns": [code_column(column) for column in columns], "at": [1]})
    plain = unpack_json(packed)
    assert [repr(decode(column)) for column in plain["columns"]] == [*map(repr, columns)]
    assert [len(column) for column in plain["columns"]] == [*map(len, columns)]
    assert plain["at"] == [1]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.1 * number for number in range(LONG)], Floats),
        ([None, *(0.1 * number for number in range(LONG))], Floats),
        (["a", "b"] * LONG, FewValues),
        ([f"{number:08}" for number in range(LONG)], Texts),
        ([[]] * LONG, FewValues),
        ([{}] * LONG, list),
        ([float(number) for number in range(LONG - 1)], list),
        ([*range(LONG)], list),
    ],
)
def test_long_columns_of_simple_values_are_coded(values: list[Any], kind: type) -> None:
    assert isinstance(code_column(values), kind)


def test_numbers_take_eight_bytes_each() -> None:
    column = code_column([0.1 * number for number in range(20_000)])
    assert len(pack_json({"values": column})) < 8 * 20_000 + 200


ODD: list[Any] = [None, True, -1, 1.5, 10**9, "", "x", [], [0], [None, 1], {}, [[]]]


@given(
    place=st.sampled_from(["coded", "at", "size", "of"]),
    odd=st.sampled_from(ODD),
    values=st.sampled_from([["a", "b"] * LONG, [0.5 * n for n in range(LONG)] + [None]]),
)
def test_an_odd_place_is_refused_or_read(place: str, odd: Any, values: list[Any]) -> None:
    packed = pack_json([code_column(values)])
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed)
    plain = unpack_json(zlib.compress(text.replace(b'"coded"', b'"other"')))
    spec = {("coded" if name == "other" else name): value for name, value in plain[0].items()}
    changed = pack_json([spec | {place: odd}]) + unpacker.unused_data
    try:
        (column,) = unpack_json(changed)
    except ValueError:
        return
    assert len(decode(column)) == len(column)


def test_texts_that_are_too_long_are_not_unpacked() -> None:
    column = Texts(2, 3, zlib.compress(b"x" * 10**6))
    with pytest.raises(ValueError, match="more texts than rows"):
        column.decode()
