"""Facts of both sides, compared by the table of docs/confounders.md."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.comparisons.comparison import is_decided
from experiments.comparisons.run_facts import GroupFacts, read_waived
from experiments.confounder_table import Grade, Row, read_table
from experiments.fact_comparison import Waived, compare_blocks, compare_runs, read_number
from experiments.snapshot_facts import LONGEST, list_facts
from experiments.statistics import Pair, Stamp, Verdict
from experiments.statistics.attribution import attribute
from experiments.statistics.compared_facts import ComparedFacts
from experiments.statistics.margins import Goal
from experiments.statistics.metric_rules import MetricsRule
from experiments.statistics.multiple_comparisons import correct_by_holm
from experiments.statistics.several_metrics import Part, judge_together
from experiments.statistics.values import Measured
from tests.experiments.comparisons.confounding import (
    FIRST,
    OTHER,
    list_rows,
    make_content,
    make_unknown,
)
from tests.experiments.statistics.test_comparison import BARE, BOX, only, runs

PAIR = Counter({(1, 2): 3})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=10,
)
PARTS = sorted(
    {row.parent for row in read_table().rows}
    | {"cpus", "libraries", "blas_loaded", "program", "tensorflow_variables"}
)


def compare_contents(first: dict[str, Any], second: dict[str, Any]) -> ComparedFacts:
    return compare_blocks(PAIR, {1: list_facts(first), 2: list_facts(second)})


def judge(facts: ComparedFacts) -> Pair:
    """Return the pair of a comparison whose numbers alone say that both are equivalent."""
    pair = only(runs(8), differences={BOX: facts.sentences})
    assert pair.verdict is Verdict.EQUIVALENT
    return attribute(pair, facts)


READ, READ_ELSE = {"sha256": "a" * 64}, {"sha256": "b" * 64}
ENDS, OTHER_ENDS = {"ends_sha256": "a" * 64}, {"ends_sha256": "b" * 64}
UNREAD, GONE = {"problem": "there was no time to read it"}, {"problem": "deleted meanwhile"}


def load_torch(file: dict[str, str]) -> dict[str, Any]:
    """Return a snapshot of a run that had two libraries loaded, one of them as `file` says."""
    files = {"/opt/libc10.so.2.6": file, "/opt/libtorch.so": READ}
    return {"inside": {"kernel": "6.1", "loaded": {"files": files}}}


@pytest.mark.parametrize("one", [READ, ENDS])
@pytest.mark.parametrize("other", [UNREAD, GONE])
def test_a_library_that_was_not_read_is_no_difference(
    one: dict[str, str], other: dict[str, str]
) -> None:
    for both in ((one, other), (other, one)):
        facts = compare_contents(*map(load_torch, both))
        assert {row.grade for row in facts.differences} == {Grade.COSMETIC}
        assert Stamp.CONFOUNDED not in judge(facts).stamps
        (difference,) = facts.differences
        assert not difference.is_known


@pytest.mark.parametrize(("one", "other"), [(READ, READ_ELSE), (ENDS, OTHER_ENDS)])
def test_libraries_that_were_read_the_same_way_are_compared(
    one: dict[str, str], other: dict[str, str]
) -> None:
    assert Stamp.CONFOUNDED in judge(compare_contents(load_torch(one), load_torch(other))).stamps


def test_a_sum_of_the_whole_and_one_of_both_ends_cannot_be_compared() -> None:
    for other in (ENDS, OTHER_ENDS):
        facts = compare_contents(load_torch(READ), load_torch(other))
        assert Stamp.CONFOUNDED not in judge(facts).stamps
        assert {row.grade for row in facts.differences} == {Grade.COSMETIC}


def test_runs_of_which_some_were_not_read_are_judged_by_the_others() -> None:
    read, unread, other = (list_facts(load_torch(file)) for file in (READ, UNREAD, READ_ELSE))
    assert compare_runs([read] * 5, [unread] * 4 + [read]).differences == ()
    (difference,) = compare_runs([read] * 5, [unread] * 4 + [other]).differences
    assert difference.grade == Grade.LIKELY


def test_a_library_that_one_side_has_not_loaded_is_a_difference() -> None:
    without = {"inside": {"kernel": "6.1", "loaded": {"files": {"/opt/libtorch.so": READ}}}}
    assert Stamp.CONFOUNDED in judge(compare_contents(load_torch(READ), without)).stamps


@pytest.mark.parametrize("row", list_rows())
class TestEachRow:
    def test_alone_it_has_exactly_its_grade(self, row: Row) -> None:
        facts = compare_contents(make_content(row, FIRST), make_content(row, OTHER))
        differences = [each for each in facts.differences if each.key != "cpu_list"]
        if row.key == "cpu_list":  # how many there are always comes with which ones
            differences = list(facts.differences)
        (difference,) = differences
        assert (difference.key, difference.grade) == (row.key, row.grade)
        assert difference.is_known
        assert difference.pairs == facts.pairs == 3
        pair = judge(facts)
        assert (pair.verdict is Verdict.NOT_ATTRIBUTABLE) == (row.grade is Grade.BLOCKING)
        assert (Stamp.CONFOUNDED in pair.stamps) == (row.grade is not Grade.COSMETIC)

    def test_the_same_on_both_sides_it_says_nothing(self, row: Row) -> None:
        facts = compare_contents(make_content(row, FIRST), make_content(row, FIRST))
        assert facts.differences == ()
        assert facts.compared >= 1
        pair = judge(facts)
        assert Stamp.CONFOUNDED not in pair.stamps
        assert pair.verdict is not Verdict.NOT_ATTRIBUTABLE

    def test_known_on_one_side_it_is_not_known_and_never_the_same(self, row: Row) -> None:
        for sides in (
            (make_content(row, FIRST), make_unknown(row)),
            (make_unknown(row), make_content(row, FIRST)),
        ):
            facts = compare_contents(*sides)
            (difference,) = [each for each in facts.differences if each.key == row.key]
            assert not difference.is_known
            assert difference.grade == row.grade_if_unknown
            assert "not known" in facts.describe(difference)
            assert judge(facts).verdict is not Verdict.NOT_ATTRIBUTABLE


@pytest.mark.parametrize("row", [row for row in list_rows() if row.values[0].tolerance])
def test_numbers_within_the_tolerance_are_the_same(row: Row) -> None:
    def of(text: str) -> dict[str, str]:
        return {row.title: text, "node": "node1"}

    assert compare_runs([of("400.00 W")], [of("396.1 W")]).differences == ()
    assert compare_runs([of("400.00 W")], [of("395 W")]).differences != ()
    assert compare_runs([of("400 W, 300 W")], [of("400 W, 301 W")]).differences == ()
    assert compare_runs([of("400 W, 300 W")], [of("400 W, 200 W")]).differences != ()
    assert compare_runs([of("400 W, 400 W")], [of("400 W")]).differences != ()
    for odd in ("nan W", "inf", "-", "1e999", "none", "４00"):
        assert compare_runs([of(odd)], [of("400 W")]).differences != ()
        assert compare_runs([of(odd)], [of(odd)]).differences == ()


def test_a_version_that_is_less_exact_is_not_known() -> None:
    def of(*libraries: str) -> dict[str, Any]:
        return {"inside": {"libraries": [f"/usr/lib/{name}" for name in libraries]}}

    short, long = of("libcudnn.so.9"), of("libcudnn.so.9", "libcudnn_ops.so.9.1.0")
    (difference,) = compare_contents(short, long).differences
    assert (difference.on_baseline, difference.in_environment) == ("9", "9.1.0")
    assert difference.grade == "cosmetic"
    (difference,) = compare_contents(long, of("libcudnn.so.8.9.2")).differences
    assert difference.grade == "blocking"
    (difference,) = compare_contents(long, of("libc.so.6")).differences
    assert (difference.in_environment, difference.grade) == ("none", "blocking")


def test_a_verdict_from_before_there_were_grades_stays_what_it_was() -> None:
    def of(version: str) -> dict[str, str]:
        return {"kernel": "6.1", "CPUs at hand": "8", "package tensorflow": version}

    (difference,) = compare_runs([of("2.15")], [of("2.16")]).differences
    assert difference.grade == "likely"
    now = {"CPUs of the affinity mask": "0-7"}
    (difference,) = compare_runs([of("2.15") | now], [of("2.16") | now]).differences
    assert difference.grade == "blocking"


def test_what_is_absent_where_others_were_recorded_is_known_to_be_absent() -> None:
    def of(**variables: str) -> dict[str, Any]:
        return {"inside": {"variables": {"PATH": "/bin", **variables}}}

    facts = compare_contents(of(), of(OMP_NUM_THREADS="1", NCCL_DEBUG="INFO"))
    lines = [facts.describe(row) for row in facts.differences]
    assert lines == [
        "variable OMP_NUM_THREADS: not set on the baseline, 1 here",
        "variable NCCL_DEBUG: nothing on the baseline, INFO here",
    ]
    assert facts.differences[0].grade == "blocking"


def test_a_module_that_one_side_has_is_shown_and_another_version_is_likely() -> None:
    """Bare metal takes from modules what a container has in its image."""

    def compare(first: list[str], second: list[str]) -> list[tuple[str, str]]:
        facts = compare_contents(
            *({"inside": {"kernel": "6.1"}, "modules": {"names": n}} for n in (first, second))
        )
        return [(each.fact, each.grade) for each in facts.differences]

    assert compare(["gcc/13.2", "shared"], ["shared", "apptainer/1.4"]) == [
        ("module outside gcc", "cosmetic")
    ]
    assert compare(["mpi/openmpi/5.0"], ["mpi/openmpi/4.1", "gcc/13.2"]) == [
        ("module outside mpi/openmpi", "likely"),
        ("module outside gcc", "cosmetic"),
    ]
    assert compare(["apptainer/1.3"], ["apptainer/1.4"]) == []
    assert compare(["gcc/9", "gcc/10"], ["gcc/10", "gcc/9"]) == []


@pytest.mark.parametrize(
    "modules", [[], ["gcc/1"], "gcc/1", {"names": "gcc/1"}, {"names": [1, ""]}]
)
def test_modules_of_another_shape_are_none(modules: Any) -> None:
    content = {"inside": {"kernel": "6.1"}, "modules": modules}
    assert list_facts(content) == list_facts({"inside": {"kernel": "6.1"}})


def test_blocks_are_compared_one_by_one() -> None:
    """Both sides met both limits, but never the same one at once."""
    slow, fast = ({"GPU power limit": f"{watts} W"} for watts in (200, 300))
    facts = compare_blocks(Counter({(1, 2): 1, (2, 1): 1, (1, 1): 8}), {1: slow, 2: fast})
    (difference,) = facts.differences
    assert facts.describe(difference) == (
        "GPU power limit: 200 W, 300 W on the baseline, 200 W, 300 W here (in 2 of 10 blocks)"
    )
    assert judge(facts).verdict is Verdict.NOT_ATTRIBUTABLE
    assert compare_runs([slow, fast], [fast, slow]).differences == (), "independent runs"


def test_a_fact_counts_as_compared_where_it_was_in_every_block() -> None:
    full, poor = {"node": "a", "CPU": "x"}, {"node": "a"}
    facts = compare_blocks(Counter({(1, 1): 2, (1, 2): 1}), {1: full, 2: poor})
    assert facts.compared == 1
    assert facts.extent == f"1 of {facts.of} facts could be compared in every block."


def test_without_snapshots_nothing_is_stamped_and_that_is_said() -> None:
    facts = compare_blocks(Counter({(1, 2): 4}), {1: {}, 2: {"node": "a"}})
    assert facts.differences == ()
    assert facts.extent.startswith(f"None of {facts.of} facts could be compared")
    assert judge(facts).stamps == ()
    assert compare_runs([], [{"node": "a"}]).pairs == 0


def test_the_numbers_stay_beside_the_verdict_that_cannot_be_attributed() -> None:
    plain = judge(compare_runs([{"node": "a"}], [{"node": "a"}]))
    pair = judge(compare_runs([{"GPU power limit": "400 W"}], [{"GPU power limit": "300 W"}]))
    assert (pair.ratio, pair.ci95, pair.p_difference) == (
        plain.ratio, plain.ci95, plain.p_difference,
    )  # fmt: skip
    assert "GPU power limit" in pair.claim
    assert f"The numbers alone would say {plain.verdict}: {plain.claim}" in pair.evidence
    assert pair.detail == "GPU power limit differs"


def test_holms_correction_stamps_what_the_numbers_alone_would_say() -> None:
    """Of ten pairs one differs by chance; that facts differ too makes it no surer."""
    facts = compare_runs([{"CPU": "a"}], [{"CPU": "b"}])
    slower = replace(only(runs(8)), verdict=Verdict.SLOWER, p_difference=0.03)
    pair = attribute(slower, facts)
    assert pair.verdict_by_numbers is Verdict.SLOWER
    others = [only(runs(8))] * 9
    first, *_ = correct_by_holm([pair, *others])
    assert first.verdict is Verdict.NOT_ATTRIBUTABLE
    assert Stamp.NOT_AFTER_HOLM in first.stamps
    assert "adjusted p is 0.3" in first.reasons[first.stamps.index(Stamp.NOT_AFTER_HOLM)]
    (alone,) = correct_by_holm([pair])
    assert Stamp.NOT_AFTER_HOLM not in alone.stamps
    assert only(runs(8)).verdict_by_numbers is None


def test_a_waiver_covers_the_values_that_it_was_given_for() -> None:
    waived = Waived({"numpy": ("1.26.0", "2.4.6"), "scipy": ("none", "1.17")})
    old, new = {"package numpy": "1.26.0"}, {"package numpy": "2.4.6"}
    (difference,) = compare_runs([old], [new], waived).differences
    assert (difference.grade, difference.is_waived) == ("likely", True)
    (difference,) = compare_runs([old], [{"package numpy": "2.5"}], waived).differences
    assert (difference.grade, difference.is_waived) == ("blocking", False)
    (difference,) = compare_runs([old], [{**old, "package scipy": "1.17"}], waived).differences
    assert (difference.grade, difference.is_waived) == ("likely", True)


def test_what_a_plan_has_frozen_as_waived_is_what_counts() -> None:
    rows = [
        {"what": "numpy", "here": "1.26.0", "there": "2.4.6", "reason": "both are ours"},
        {"what": "scipy", "here": "1.16", "there": "1.17", "reason": ""},
    ]
    waived = read_waived({"differences": rows})
    assert waived
    assert waived.values == {"numpy": ("1.26.0", "2.4.6")}
    assert read_waived({"differences": rows[1:]}) is read_waived(None) is None


def test_what_cannot_be_attributed_is_no_verdict_to_stop_for() -> None:
    pair = judge(compare_runs([{"CPU": "a"}], [{"CPU": "b"}]))
    assert pair.verdict is Verdict.NOT_ATTRIBUTABLE
    assert not is_decided(pair)
    assert is_decided(judge(compare_runs([{"CPU": "a"}], [{"CPU": "a"}])))


def test_without_an_inference_there_is_nothing_to_attribute() -> None:
    facts = compare_runs([{"CPU": "a"}], [{"CPU": "b"}])
    pair = attribute(only(runs(1)), facts)
    assert pair.verdict is Verdict.NO_INFERENCE
    assert pair.facts == facts


def test_several_metrics_of_the_same_runs_cannot_be_attributed_either() -> None:
    pair = judge(compare_runs([{"CPU": "a"}], [{"CPU": "b"}]))
    plain = only(runs(8))
    metrics = [Measured(name, "s", "lower", name) for name in ("step_time", "run_time")]
    for pairs, verdict in (([plain, plain], "EQUIVALENT"), ([pair, pair], "NOT ATTRIBUTABLE")):
        parts = [Part(metric, each) for metric, each in zip(metrics, pairs, strict=True)]
        (overall,) = judge_together([parts], MetricsRule.ALL, Goal.EQUIVALENCE, BARE, [BOX], [[]])
        assert overall.verdict == verdict
        assert overall.is_shown == (verdict == "EQUIVALENT")
    assert overall.claim.startswith(f"{BOX} is not shown to be equivalent")
    assert "NOT ATTRIBUTABLE" in overall.evidence


def test_independent_runs_are_compared_by_all_values_of_both_sides() -> None:
    facts = {1: {"CPU": "a"}, 2: {"CPU": "b"}}
    group = GroupFacts(facts, {BARE: {10: 1, 11: 2}, BOX: {12: 2, 13: 2}})
    compared = group.compare(BARE, BOX, paired=False, waived=None)
    assert compared.sentences == ["CPU: a, b on the baseline, b here"]
    blocks = GroupFacts(facts, {BARE: {0: 1, 1: 2}, BOX: {1: 2, 2: 1}})
    compared = blocks.compare(BARE, BOX, paired=True, waived=None)
    assert (compared.pairs, compared.differences) == (1, ()), "only one block has both"


@pytest.mark.parametrize(
    ("slow", "grade"),
    [((1, 4), "likely"), ((4, 1), "likely"), ((2, 3), None), ((1, 3), None), ((5, 5), None)],
)
def test_the_same_values_of_independent_runs_may_lie_mostly_on_one_side(
    slow: tuple[int, int], grade: str | None
) -> None:
    first, second = (
        [{"GPU power limit": "200 W"}] * count + [{"GPU power limit": "300 W"}] * (5 - count)
        for count in slow
    )
    facts = compare_runs(first, second)
    assert [row.grade for row in facts.differences] == [grade] * bool(grade)
    assert judge(facts).verdict is Verdict.EQUIVALENT
    assert (Stamp.CONFOUNDED in judge(facts).stamps) == bool(grade)
    if slow == (1, 4):
        assert facts.sentences == [
            "GPU power limit: 200 W (1 of 5 runs), 300 W (4 of 5 runs) on the baseline, "
            "200 W (4 of 5 runs), 300 W (1 of 5 runs) here"
        ]


def test_numbers_within_the_tolerance_count_together() -> None:
    limits = ("400 W", "400.1 W", "399.9 W", "400.2 W")
    first, second = ([{"GPU power limit": limit}] * 3 for limit in limits[:2])
    mixed = [[*first, *second[:1]], [*second, *first[:1]]]
    assert compare_runs(*mixed).differences == ()


def test_a_fact_with_another_value_in_each_of_20_000_runs_is_compared_at_once() -> None:
    ours, theirs = ([{"kernel": f"{side}.{n}"} for n in range(20_000)] for side in (5, 6))
    assert [row.fact for row in compare_runs(ours, theirs).differences] == ["kernel"]
    assert compare_runs(ours, list(reversed(ours))).differences == ()


def test_of_a_thousand_numbers_each_may_have_its_own_within_the_tolerance() -> None:
    row = next(row for row in read_table().compared if row.tolerance and not row.patterns)
    ours, theirs = (
        [{row.title: f"{1000 * (1 + n * row.tolerance / 2) + part:.6f}"} for n in range(1000)]
        for part in (0, row.tolerance)
    )
    assert compare_runs(ours, theirs).differences == ()
    assert len(compare_runs(ours, [*theirs, {row.title: "1"}]).differences) == 1


def test_a_waiver_of_blas_covers_what_answered_and_not_its_threads() -> None:
    waived = Waived({"BLAS": ("libopenblas 0.3.21", "none")})
    name = "BLAS that answered"
    old = {name: "OpenBLAS 0.3.21 (Haswell), threads 1"}
    for there, grade in (
        ("OpenBLAS 0.3.31 (Haswell), threads 1", "likely"),
        ("OpenBLAS 0.3.31 (Haswell), threads 8", "blocking"),
    ):
        (difference,) = compare_runs([old], [{name: there}], waived).differences
        assert difference.grade == grade
    (difference,) = compare_runs([old], [{name: "MKL 1, threads 1"}]).differences
    assert difference.grade == "blocking", "nobody has waived it"


def test_a_fact_of_another_version_of_tare_is_never_silently_left_out() -> None:
    (difference,) = compare_runs([{"warp drive": "on"}], [{"warp drive": "off"}]).differences
    assert difference.grade == "likely"


def test_thousands_of_differences_are_counted() -> None:
    many = {f"package p{number}": "1" for number in range(5000)}
    facts = compare_runs([many | {"GPU memory": "1 MiB"}], [{"GPU memory": "9 MiB"}])
    assert len(facts.differences) == 200
    assert facts.more == 4801
    assert facts.differences[0].fact == "GPU memory", "the gravest are kept"


@given(st.dictionaries(st.sampled_from(PARTS), JSON), st.dictionaries(st.sampled_from(PARTS), JSON))
def test_odd_snapshots_give_texts_that_compare_alike_in_both_directions(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    facts, others = list_facts({"inside": first}), list_facts({"inside": second})
    for text in (*facts, *facts.values()):
        assert isinstance(text, str)
        assert text
    there, back = compare_runs([facts], [others]), compare_runs([others], [facts])
    assert (there.compared, there.of) == (back.compared, back.of)
    assert [(row.fact, row.grade) for row in there.differences] == [
        (row.fact, row.grade) for row in back.differences
    ]
    assert compare_runs([facts], [facts]).differences == ()


@pytest.mark.parametrize(
    "value",
    ["x" * 1_000_000, {"deep": {"deeper": [1, None]}}, "\udce4\udcff", "nan", ["a", {}], 2**70],
)
@pytest.mark.parametrize("key", ["kernel_command_line", "cgroup_limits", "mitigations", "cpu"])
def test_odd_values_equal_themselves_and_nothing_else(key: str, value: Any) -> None:
    whole = {"inside": {key: {"memory": value} if key == "cgroup_limits" else value}}
    facts = list_facts(whole)
    (text,) = facts.values()
    assert len(text) <= LONGEST
    assert compare_runs([facts], [facts]).differences == ()
    other = list_facts(json.loads(json.dumps(whole).replace('"}', 'y"}').replace('x"', 'xy"')))
    if other != facts:
        assert compare_runs([facts], [other]).differences != ()


@pytest.mark.parametrize("content", [{}, {"inside": None}, {"inside": []}, {"outside": {}}])
def test_a_snapshot_without_an_inside_has_no_facts(content: dict[str, Any]) -> None:
    assert list_facts(content) == {}


@given(st.text())
def test_numbers_are_finite_or_none(text: str) -> None:
    number = read_number(text)
    assert number is None or math.isfinite(number)
