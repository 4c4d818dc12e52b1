"""Other tests that are kept equal those that are computed, and belong to one comparison alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from experiments.comparisons import compare_experiment, keep_comparison, kept, kept_companions
from experiments.comparisons.companions import Companions, compute_companions
from experiments.comparisons.kept_companions import read_companions
from experiments.comparisons.packed_json import pack_summed, unpack_summed
from experiments.models import Experiment, KeptComparison, KeptRobustness
from tests.experiments.comparisons.test_kept import KINDS, ended, fresh
from tests.experiments.planning.test_stages import end_all, launched

pytestmark = pytest.mark.django_db


def with_repeats(count: int, **columns: Any) -> Experiment:
    draw = random.Random(7)
    experiment = launched(repeats=count, looks=1, **columns)
    end_all(experiment, tuple(draw.lognormvariate(0.03, 0.02) for _ in range(count)))
    return experiment


MORE_KINDS: dict[str, Callable[[], Experiment]] = KINDS | {
    "ten blocks": lambda: with_repeats(10),
    "thirty independent": lambda: with_repeats(30, design=Experiment.Design.INDEPENDENT),
}


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs were tested for each page."""
    counts: list[int] = []

    def compute(comparison: Any) -> list[Companions]:
        results = compute_companions(comparison)
        counts.append(len(results))
        return results

    monkeypatch.setattr(kept_companions, "compute_companions", compute)
    return counts


def read(experiment: Experiment) -> list[Companions]:
    """Return the other tests as a page reads them."""
    row = KeptComparison.objects.filter(pk=experiment.pk).first()
    return read_companions(
        experiment.pk, compare_experiment(fresh(experiment)), row.key if row else ""
    )


@pytest.mark.parametrize("make", MORE_KINDS.values(), ids=MORE_KINDS)
def test_kept_tests_equal_the_computed_ones(
    make: Callable[[], Experiment], computed: list[int]
) -> None:
    experiment = make()
    wanted = compute_companions(compare_experiment(fresh(experiment)))
    assert keep_comparison(experiment.pk) == "kept"
    is_kept = KeptRobustness.objects.exists()
    computed.clear()
    found = read(experiment)
    assert repr([each.robustness for each in found]) == repr([each.robustness for each in wanted])
    assert [each.pair for each in found] == [each.pair for each in wanted]
    assert computed == ([] if is_kept else [len(wanted)])


def test_ten_blocks_are_kept_with_their_points(computed: list[int]) -> None:
    experiment = with_repeats(10)
    keep_comparison(experiment.pk)
    computed.clear()
    (found,) = read(experiment)
    assert len(found.robustness.normality[0].points) == 10
    assert computed == []


def test_what_still_runs_is_computed(computed: list[int]) -> None:
    experiment = launched(repeats=10, looks=1)
    end_all(experiment, (1.1, 1.2, 1.3))
    keep_comparison(experiment.pk)
    assert not KeptRobustness.objects.exists()
    read(experiment)
    assert len(computed) == 1


def test_those_of_another_comparison_are_not_shown(computed: list[int]) -> None:
    experiment = with_repeats(10)
    keep_comparison(experiment.pk)
    KeptRobustness.objects.update(key="another")
    computed.clear()
    read(experiment)
    assert len(computed) == 1


def test_a_comparison_is_kept_although_its_other_tests_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise ArithmeticError("no")

    monkeypatch.setattr(kept, "keep_companions", fail)
    experiment = ended()
    assert keep_comparison(experiment.pk) == "kept"
    assert KeptComparison.objects.exists()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(
    data=st.data(),
    odd=st.sampled_from([None, True, -1, 1.5, "", [], {}, [[]], {"columns": {}}]),
)
def test_an_odd_row_is_computed_anew(
    data: st.DataObject, odd: Any, kept_row: tuple[Experiment, KeptRobustness, Any]
) -> None:
    experiment, row, plain = kept_row
    columns = dict(plain["columns"])
    columns[data.draw(st.sampled_from(sorted(columns)))] = odd
    row.content = pack_summed({"columns": columns}, row.key)
    row.save()
    assert len(read(experiment)) == 1


@pytest.fixture
def kept_row() -> tuple[Experiment, KeptRobustness, Any]:
    experiment = with_repeats(10)
    keep_comparison(experiment.pk)
    row = KeptRobustness.objects.get()
    return experiment, row, unpack_summed(bytes(row.content), row.key)


@pytest.mark.parametrize("content", [b"", b"x" * 100])
def test_a_damaged_row_is_computed_anew(content: bytes, computed: list[int]) -> None:
    experiment = with_repeats(10)
    keep_comparison(experiment.pk)
    KeptRobustness.objects.update(content=content)
    computed.clear()
    assert len(read(experiment)) == 1
    assert computed == [1]
