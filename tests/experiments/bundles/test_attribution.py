"""`verify.py` grades the facts of snapshots as Tare does, and nobody hides one from it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.bundles import verify as program
from experiments.bundles.plain_json import make_canonical
from experiments.bundles.study_documents import describe_confounders
from experiments.comparisons import compare_experiment
from experiments.confounder_table import Row
from experiments.design import compute_hash
from experiments.execution import excluded_runs
from experiments.fact_comparison import Waived, compare_blocks, compare_runs
from experiments.models import Experiment, Snapshot
from experiments.snapshot_facts import list_facts
from experiments.statistics.compared_facts import ComparedFacts
from experiments.statistics.values import Stamp
from tests.experiments.bundles.studies import (
    end_runs,
    give_facts,
    launch,
    make_bundle,
    unpack,
    verify,
)
from tests.experiments.bundles.test_forgeries import Files, edit, pack, sum_up
from tests.experiments.comparisons.confounding import FIRST, OTHER, list_rows, make_content
from tests.experiments.comparisons.test_confounders import (
    ENDS,
    GONE,
    JSON,
    OTHER_ENDS,
    PARTS,
    READ,
    READ_ELSE,
    UNREAD,
    load_torch,
)

TABLE = program.Table(describe_confounders())
SLOWED = {"gpus": [{"index": "0", "power.limit": "300.00 W"}]}
FULL = {"gpus": [{"index": "0", "power.limit": "700.00 W"}]}
PART = st.one_of(JSON, st.dictionaries(st.sampled_from(["numpy", "pip", "é", "9.1"]), JSON))
OF_TABLES_ONLY = {
    *(Stamp.ROUNDING_SENSITIVE, Stamp.OFF_BY_ONE, Stamp.ORDER_UNKNOWN, Stamp.ONE_PROCESS),
}


def is_plain(content: Any) -> bool:
    """Return whether a snapshot can be stored: neither NaN nor an infinity nor half a letter."""
    try:
        json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


def compare_sides(
    first: list[dict[str, str]], second: list[dict[str, str]], waived: dict[str, Any] | None = None
) -> Any:
    differences = program.Differences(TABLE)
    differences.add(program.Side(TABLE, first), program.Side(TABLE, second), 1, waived or {})
    return differences


def assert_same(ours: Any, theirs: ComparedFacts) -> None:
    assert ours.columns == theirs.columns
    for row in theirs.differences:
        assert ours.describe(row.fact) == theirs.describe(row)


def test_the_program_knows_the_table_of_this_version() -> None:
    """Whoever changes a grade has verify.py know the new table: this is its check sum."""
    digest = hashlib.sha256(make_canonical(describe_confounders())).hexdigest()
    assert digest == program.TABLE_SHA256


def test_each_stamp_is_computed() -> None:
    assert {*map(str, Stamp)} - {*map(str, OF_TABLES_ONLY)} == program.COMPUTED_STAMPS


@pytest.mark.parametrize("row", list_rows())
def test_each_row_is_read_and_graded_as_tare_does(row: Row) -> None:
    contents = [make_content(row, value) for value in (FIRST, OTHER)]
    facts = [program.read_facts(TABLE, content) for content in contents]
    assert facts == [list_facts(content) for content in contents]
    ours = compare_sides(facts[:1], facts[1:])
    assert_same(ours, compare_blocks(Counter([(1, 2)]), dict(enumerate(facts, 1))))
    assert any(names for names in ours.list_by_grade().values())


FILES_LOADED = [READ, READ_ELSE, ENDS, OTHER_ENDS, UNREAD, GONE]


@given(st.lists(st.tuples(*[st.sampled_from(FILES_LOADED)] * 2), min_size=1, max_size=4))
def test_libraries_that_were_not_read_are_judged_as_tare_does(
    loaded: list[tuple[dict[str, str], dict[str, str]]],
) -> None:
    pairs = [[program.read_facts(TABLE, load_torch(file)) for file in both] for both in loaded]
    assert pairs == [[list_facts(load_torch(file)) for file in both] for both in loaded]
    first, second = ([facts[side] for facts in pairs] for side in (0, 1))
    ours = compare_sides(first, second)
    ours.add_unbalanced(first, second)
    assert_same(ours, compare_runs(first, second))
    for one, other in pairs:
        assert_same(
            compare_sides([one], [other]), compare_blocks(Counter([(1, 2)]), {1: one, 2: other})
        )


@pytest.mark.parametrize("second", [["gcc/9"], ["shared", "gcc"], [], [3], "gcc/9"])
def test_modules_are_compared_as_tare_does(second: Any) -> None:
    contents = [
        {"inside": {"kernel": "6.1"}, "modules": {"names": names}}
        for names in (["mpi/gcc/9", "gcc/13.2", "apptainer/1"], second)
    ]
    facts = [program.read_facts(TABLE, content) for content in contents]
    assert facts == [list_facts(content) for content in contents]
    assert_same(
        compare_sides(facts[:1], facts[1:]),
        compare_blocks(Counter([(1, 2)]), dict(enumerate(facts, 1))),
    )


@given(st.lists(st.dictionaries(st.sampled_from(PARTS), PART, max_size=6), min_size=2, max_size=3))
def test_whatever_a_snapshot_holds_both_read_the_same(insides: list[dict[str, Any]]) -> None:
    facts = [
        list_facts({"inside": json.loads(json.dumps(inside))})
        for inside in insides
        if is_plain(inside)
    ]
    read = [
        program.read_facts(TABLE, {"inside": json.loads(json.dumps(inside))})
        for inside in insides
        if is_plain(inside)
    ]
    assert read == facts
    if len(facts) > 1 and any(facts[:1]) and any(facts[1:]):
        assert_same(compare_sides(facts[:1], facts[1:]), compare_runs(facts[:1], facts[1:]))


@pytest.mark.parametrize(
    ("fact", "first", "second"),
    [
        ("GPU power limit", "300.00 W", "302.00 W"),
        ("GPU power limit", "300.00 W, 300 W", "300.00 W"),
        ("GPU power limit", "300.00 W, 300 W", "300 W, 297.1 W"),
        ("GPU power limit", "N/A", "300 W"),
        ("cuDNN that was loaded", "9", "9.1.0"),
        ("cuDNN that was loaded", "9.1", "9.10"),
        ("package numpy", "2.0", "2.1"),
        ("package numpy", "2.0", "1.26"),
        ("BLAS that answered", "OpenBLAS 1, threads 4", "OpenBLAS 2, threads 4"),
        ("BLAS that answered", "OpenBLAS 1, threads 4", "OpenBLAS 2, threads 8"),
        ("a fact of another version", "1", "2"),
    ],
)
def test_tolerances_versions_and_waivers_are_those_of_tare(
    fact: str, first: str, second: str
) -> None:
    waived = {"numpy": ("2.0", "2.1"), "BLAS": ("OpenBLAS 1", "OpenBLAS 3")}
    sides = [{fact: first, "node": "n"}], [{fact: second, "node": "n"}]
    assert_same(compare_sides(*sides, waived), compare_runs(*sides, Waived(waived)))


STUDIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "paired": ({"containers": 2}, {}),
    "independent": ({"design": "independent", "repeats": 6}, {}),
    "interim": ({"looks": 2, "repeats": 10}, {"spread": 0.02}),
    "decided early": ({"looks": 2, "repeats": 10}, {"cost": 1.1}),
    "not slower": ({"goal": "not slower"}, {"cost": 0.97}),
    "lost by Holm": ({"containers": 3, "repeats": 5}, {"spread": 0.02, "cost": 1.03}),
    "one block": ({"repeats": 1}, {}),
    "several metrics": (
        {"further_metrics": [{"metric": "gflops", "margin": 0.05}], "metrics_rule": "in order"},
        {"metrics": ("step_time", "gflops")},
    ),
}


@pytest.mark.django_db
class TestBundles:
    @pytest.mark.parametrize("name", STUDIES)
    def test_what_is_not_attributable_is_computed_anew(self, name: str, tmp_path: Path) -> None:
        columns, numbers = STUDIES[name]
        experiment = launch(**columns)
        end_runs(experiment, **numbers)
        give_facts(experiment, FULL, SLOWED)
        status, text = verify(make_bundle(experiment), tmp_path, "--all")
        assert status == 0, text
        pairs = compare_experiment(Experiment.objects.get(pk=experiment.pk)).pairs
        if name != "one block":
            assert {pair.verdict for pair in pairs} == {"NOT ATTRIBUTABLE"}
            assert "GPU power limit: 700.00 W on the baseline, 300.00 W here" in text
            assert "The numbers alone would say" in text

    def test_in_some_blocks_is_enough(self, tmp_path: Path) -> None:
        experiment = launch(repeats=6)
        end_runs(experiment)
        give_facts(experiment, FULL, FULL)
        give_facts(experiment, FULL, SLOWED, last=2)
        status, text = verify(make_bundle(experiment), tmp_path)
        assert status == 0, text
        assert "300.00 W here (in 2 of 6 blocks)" in text

    def test_a_verdict_rests_on_the_blocks_alone_that_decided_it(self, tmp_path: Path) -> None:
        experiment = launch(looks=2, repeats=10)
        end_runs(experiment, cost=1.1)
        give_facts(experiment, FULL, FULL)
        give_facts(experiment, FULL, SLOWED, last=2)
        status, text = verify(make_bundle(experiment), tmp_path, "--all")
        assert status == 0, text
        assert "NOT ATTRIBUTABLE" not in text

    def test_independent_runs_are_compared_by_shares_too(self, tmp_path: Path) -> None:
        experiment = launch(design="independent", repeats=6)
        end_runs(experiment)
        give_facts(experiment, FULL, SLOWED)
        give_facts(experiment, SLOWED, FULL, last=2)
        bundle = make_bundle(experiment)
        (row,) = json.loads(unpack(bundle)["data/comparison.json"])["comparison"]
        assert (row["facts_blocking"], row["facts_likely"]) == ("", "GPU power limit")
        status, text = verify(bundle, tmp_path, "--all")
        assert status == 0, text

    def test_excluded_runs_take_their_facts_along(self, tmp_path: Path) -> None:
        experiment = launch(repeats=6)
        end_runs(experiment)
        give_facts(experiment, FULL, FULL)
        give_facts(experiment, FULL, SLOWED, last=1)
        run = experiment.runs.exclude(environment=experiment.baseline_id).latest("job__block")
        assert excluded_runs.exclude(run, experiment.owner, "another machine")
        bundle = make_bundle(experiment)
        (row,) = json.loads(unpack(bundle)["data/comparison.json"])["comparison"]
        assert (row["verdict"], row["before_exclusion_verdict"]) == (
            "EQUIVALENT",
            "NOT ATTRIBUTABLE",
        )
        status, text = verify(bundle, tmp_path, "--all")
        assert status == 0, text

    def test_likely_differences_stamp_and_cosmetic_ones_do_not(self, tmp_path: Path) -> None:
        experiment = launch()
        end_runs(experiment)
        give_facts(experiment, {"kernel": "6.1"}, {"kernel": "6.2", "overcommit": "1"})
        status, text = verify(make_bundle(experiment), tmp_path, "--all")
        assert status == 0, text
        assert "CONFOUNDED" in text
        assert "NOT ATTRIBUTABLE" not in text

    def test_what_was_waived_before_the_launch_is_likely(self, tmp_path: Path) -> None:
        experiment = launch()
        end_runs(experiment)
        give_facts(experiment, {}, {"packages": {"numpy": "2.1"}})
        assert "NOT ATTRIBUTABLE" in verify(make_bundle(experiment), tmp_path)[1]
        waive(experiment)
        status, text = verify(make_bundle(experiment), tmp_path, "--all")
        assert status == 0, text
        assert "DIFFERENCES WAIVED" in text
        assert "CONFOUNDED" in text
        assert "NOT ATTRIBUTABLE" not in text

    def test_facts_of_an_earlier_version_are_taken_and_named(self, tmp_path: Path) -> None:
        """What it recorded never was blocking, and what it did not compare still is not."""
        experiment = launch()
        end_runs(experiment)
        cpus = {"cpus": [0, 1]}
        give_facts(experiment, FULL | cpus, SLOWED | cpus | {"packages": {"numpy": "1.26"}})
        store_without(experiment, "GPU power limit", "CPUs of the affinity mask")
        bundle = make_bundle(experiment)
        (row,) = json.loads(unpack(bundle)["data/comparison.json"])["comparison"]
        assert (row["facts_blocking"], row["facts_likely"]) == ("", "package numpy")
        assert "data/facts_as_stored.json" in unpack(bundle)
        status, text = verify(bundle, tmp_path, "--all")
        assert status == 0, text
        assert "not recomputed: facts of 2 snapshots" in text

    @pytest.mark.parametrize("recorded", [{}, {"cpus": [0, 1], "limits": {"stack": "8 MiB"}}])
    def test_an_earlier_version_hides_nothing_that_only_later_ones_record(
        self, recorded: dict[str, Any], tmp_path: Path
    ) -> None:
        experiment = launch()
        end_runs(experiment)
        give_facts(experiment, FULL | recorded, SLOWED | recorded)
        store_without(experiment, "GPU power limit", "CPUs of the affinity mask")
        status, text = verify(make_bundle(experiment), tmp_path)
        assert status == 1
        assert "not compared, and its snapshots differ: GPU power limit: 700.00 W" in text
        assert "DISAGREES" not in text


def store_without(experiment: Experiment, *facts: str) -> None:
    """Have the snapshots as a version of Tare stored them that did not know these facts."""
    for snapshot in Snapshot.objects.filter(runs__experiment=experiment).distinct():
        for fact in facts:
            snapshot.facts.pop(fact, None)
        snapshot.save()


def waive(experiment: Experiment) -> None:
    """Have a person let another NumPy pass, with a reason, as the plan froze it."""
    row = {"what": "numpy", "here": "2.0", "there": "2.1", "grade": "blocking"}
    report = {
        "unknown": [],
        "looked_at": ["2026-11-20T12:00:00+00:00"] * 2,
        "differences": [row | {"reason": "it is idle", "by": "ann", "at": "2026-11-20"}],
    }
    plan = Experiment.objects.values_list("plan", flat=True).get(pk=experiment.pk)
    others = experiment.environments.exclude(pk=experiment.baseline_id)
    plan["parity"] = {str(other.pk): report for other in others}
    Experiment.objects.filter(pk=experiment.pk).update(plan=plan, plan_hash=compute_hash(plan))


def claim_equivalence(files: Files) -> None:
    """Print what the numbers alone would say, with nothing left of the difference."""

    def change(printed: Any) -> None:
        for row in printed["comparison"]:
            row.update(verdict="EQUIVALENT", detail="", facts_blocking="", stamps="", sentence="")

    edit(files, "data/comparison.json", change)


def grade_as_cosmetic(files: Files) -> None:
    claim_equivalence(files)
    files["data/confounders.json"] = files["data/confounders.json"].replace(
        b'"blocking"', b'"cosmetic"'
    )
    move_to_cosmetic(files)


def move_to_cosmetic(files: Files) -> None:
    def change(printed: Any) -> None:
        for row in printed["comparison"]:
            row["facts_cosmetic"] = "GPU power limit"

    edit(files, "data/comparison.json", change)


def store_other_facts(files: Files) -> None:
    """Claim that an earlier version of Tare stored the snapshots without the difference."""
    claim_equivalence(files)
    names = [name for name in files if name.startswith("data/snapshots/")]
    facts = {name[-69:-5]: {"node": "node0", "package numpy": "2.0"} for name in names}
    files["data/facts_as_stored.json"] = json.dumps(facts).encode()

    def change(printed: Any) -> None:
        for row in printed["comparison"]:
            row["facts_compared"] -= 3

    edit(files, "data/comparison.json", change)


def change_a_snapshot(files: Files) -> None:
    claim_equivalence(files)
    for name in [name for name in files if name.startswith("data/snapshots/")]:
        files[name] = files[name].replace(b"300.00 W", b"700.00 W")


def print_another_value(files: Files) -> None:
    def change(printed: Any) -> None:
        for row in printed["comparison"]:
            row["sentence"] = row["sentence"].replace("300.00 W", "690.00 W")

    edit(files, "data/comparison.json", change)


def print_other_words_of_the_numbers(files: Files) -> None:
    def change(printed: Any) -> None:
        for row in printed["comparison"]:
            row["sentence"] = row["sentence"].replace("say EQUIVALENT", "say FASTER")

    edit(files, "data/comparison.json", change)


@pytest.mark.django_db
def test_nobody_makes_an_equivalence_of_what_is_not_attributable(tmp_path: Path) -> None:
    experiment = launch(containers=2)
    end_runs(experiment)
    give_facts(experiment, FULL, SLOWED)
    files = unpack(make_bundle(experiment))
    assert verify(pack(sum_up(files)), tmp_path)[0] == 0
    passed = []
    for forge in (
        claim_equivalence,
        grade_as_cosmetic,
        store_other_facts,
        change_a_snapshot,
        print_another_value,
        print_other_words_of_the_numbers,
    ):
        forged = dict(files)
        forge(forged)
        assert forged != files
        status, text = verify(pack(sum_up(forged)), tmp_path)
        if status != 1 or "documents are not what they should be" in text:
            passed.append((forge.__name__, text))
    assert passed == []
