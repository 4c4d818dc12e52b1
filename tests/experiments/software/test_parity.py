"""Whether two environments hold the same software, from what was read in each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.confounder_table import Grade
from experiments.software.parity import (
    NONE,
    count_by_grade,
    list_differences,
    list_libraries,
    list_packages,
)

versions = st.from_regex(r"[0-9]{1,2}\.[0-9]{1,2}", fullmatch=True)
names = st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9]{1,4})?", fullmatch=True)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
facts = st.fixed_dictionaries(
    {},
    optional={
        "machine": texts,
        "python": st.fixed_dictionaries(
            {"version": versions}, optional={"compiler": texts, "build_flags": texts}
        ),
        "packages": st.dictionaries(names, versions, max_size=8),
        "cuda": versions,
        "blas": st.dictionaries(names, versions, max_size=2),
        "mpi": st.dictionaries(names, versions, max_size=2),
        "builds": st.dictionaries(names, st.dictionaries(names, texts, max_size=3), max_size=2),
    },
)


@given(facts)
def test_an_environment_does_not_differ_from_itself(known: dict[str, Any]) -> None:
    assert list_differences(known, known) == []


@given(facts, facts)
def test_whichever_side_is_the_baseline_the_differences_are_the_same(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    seen = [
        (row.what, row.on_baseline, row.in_environment, row.grade)
        for row in list_differences(one, other)
    ]
    back = [
        (row.what, row.in_environment, row.on_baseline, row.grade)
        for row in list_differences(other, one)
    ]
    assert seen == back


@given(st.dictionaries(names, versions, max_size=8), st.dictionaries(names, versions, max_size=8))
def test_every_package_that_differs_is_one_row_and_no_other_is(
    ours: dict[str, str], theirs: dict[str, str]
) -> None:
    rows = list_differences({"packages": ours}, {"packages": theirs})
    expected = {name for name in ours | theirs if ours.get(name) != theirs.get(name)}
    assert sorted(row.what for row in rows) == sorted(expected)
    for row in rows:
        assert (row.on_baseline, row.in_environment) == (
            ours.get(row.what, NONE),
            theirs.get(row.what, NONE),
        )


@given(facts, facts)
def test_the_gravest_come_first_and_are_counted(one: dict[str, Any], other: dict[str, Any]) -> None:
    rows = list_differences(one, other)
    order = [list(Grade).index(row.grade) for row in rows]
    assert order == sorted(order)
    assert sum(count_by_grade(rows).values()) == len(rows)


def test_the_pythons_of_the_published_comparison_are_told_apart() -> None:
    (row,) = list_differences({"python": {"version": "2.7.5"}}, {"python": {"version": "2.7.12"}})
    assert row.sentence == "Python: 2.7.5 on the baseline, 2.7.12 here"
    assert row.grade is Grade.BLOCKING


@pytest.mark.parametrize(
    ("name", "grade"),
    [
        ("numpy", Grade.BLOCKING),
        ("tensorflow-cpu", Grade.BLOCKING),
        ("nvidia-cudnn-cu12", Grade.BLOCKING),
        ("absl-py", Grade.LIKELY),
        ("pip", Grade.COSMETIC),
    ],
)
def test_a_package_is_graded_by_what_it_can_do(name: str, grade: Grade) -> None:
    (row,) = list_differences({"packages": {name: "1"}}, {"packages": {}})
    assert (row.grade, row.in_environment) == (grade, NONE)


def test_spelling_is_no_difference() -> None:
    assert list_packages({"packages": {"Keras_Preprocessing": "1.1"}}) == {
        "keras-preprocessing": "1.1"
    }


def test_a_library_counts_where_something_uses_it() -> None:
    mpi = {"mpi": {"openmpi": "4.1.4"}}
    assert (
        list_differences({**mpi, "packages": {"numpy": "2.0"}}, {"packages": {"numpy": "2.0"}})
        == []
    )
    uses = {"packages": {"mpi4py": "4.0"}}
    (row,) = list_differences({**mpi, **uses}, uses)
    assert (row.what, row.on_baseline, row.in_environment) == ("MPI", "openmpi 4.1.4", NONE)


def test_folders_are_not_told_as_build_flags() -> None:
    def built(flags: str) -> dict[str, Any]:
        return {"python": {"version": "3.13.5", "build_flags": flags}}

    here = built("'--prefix=/usr' '--enable-optimizations' 'CFLAGS=-O2 -ffile-prefix-map=/a=.'")
    there = built("'--prefix=/opt/python' 'CFLAGS=-O2 -ffile-prefix-map=/b=.'")
    (row,) = list_differences(here, there)
    assert (row.what, row.on_baseline, row.in_environment) == (
        "Python’s build flags",
        "--enable-optimizations",
        NONE,
    )


def test_a_library_whose_text_begins_with_its_name_is_named_once() -> None:
    build = {"BLAS": "scipy-openblas", "OpenBLAS": "OpenBLAS 0.3.31 Haswell", "compiler": "gcc"}
    libraries = dict(list_libraries({"builds": {"numpy": build}}))
    assert libraries["numpy’s build"] == (
        "BLAS scipy-openblas, OpenBLAS 0.3.31 Haswell, compiler gcc"
    )


def test_what_a_framework_was_built_with_is_compared_where_both_have_it() -> None:
    ours = {"builds": {"tensorflow": {"cuda_version": "12.5.1", "is_rocm_build": "False"}}}
    theirs = {"builds": {"tensorflow": {"cuda_version": "12.3", "is_rocm_build": "False"}}}
    (row,) = list_differences(ours, theirs)
    assert row.sentence == "tensorflow’s build: cuda_version: 12.5.1 on the baseline, 12.3 here"
    assert row.grade is Grade.LIKELY
    assert list_differences(ours, {}) == []
