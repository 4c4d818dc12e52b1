"""Whether rules took more of one side than of the other: Fisher's exact test, and its sentence."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from experiments.statistics.unequal_rejections import (
    Judged,
    compute_fisher_p,
    explain_unequal,
    is_unequal,
)

NAMES = ("bare metal", "podman")
NONE_OF_10, SIX_OF_10 = Judged(0, 10), Judged(6, 10)


@st.composite
def judged(draw: st.DrawFn) -> Judged:
    total = draw(st.integers(0, 60))
    return Judged(draw(st.integers(0, total)), total)


@given(judged(), judged())
def test_p_is_that_of_scipy(first: Judged, second: Judged) -> None:
    table = [[first.rejected, first.kept], [second.rejected, second.kept]]
    assert compute_fisher_p(first, second) == pytest.approx(fisher_exact(table).pvalue, rel=1e-9)


def test_p_of_fishers_own_example() -> None:
    """Convictions of like-sex twins, as in the help of R's `fisher.test`: 0.0005367."""
    assert compute_fisher_p(Judged(2, 17), Judged(10, 13)) == pytest.approx(0.0005367, abs=5e-8)


@given(judged(), judged())
def test_neither_the_order_of_sides_nor_that_of_states_matters(
    first: Judged, second: Judged
) -> None:
    p = compute_fisher_p(first, second)
    turned = Judged(first.kept, first.total), Judged(second.kept, second.total)
    assert 0 < p <= 1
    assert compute_fisher_p(second, first) == pytest.approx(p)
    assert compute_fisher_p(*turned) == pytest.approx(p)


def test_thousands_of_runs_are_no_trouble() -> None:
    p = compute_fisher_p(Judged(5_000, 10_000), Judged(5_200, 10_000))
    assert p == pytest.approx(float(fisher_exact([[5000, 5000], [5200, 4800]]).pvalue), rel=1e-6)
    assert compute_fisher_p(Judged(0, 20_000), Judged(20_000, 20_000)) == 0
    assert math.isfinite(compute_fisher_p(Judged(1, 20_000), Judged(0, 20_000)))


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        (NONE_OF_10, SIX_OF_10, True),
        (NONE_OF_10, Judged(5, 10), True),
        (NONE_OF_10, Judged(4, 10), False),
        (Judged(0, 3), Judged(3, 3), True),  # p is 0.1, but nothing of one side is left
        (Judged(1, 3), Judged(3, 3), True),
        (Judged(3, 3), Judged(3, 3), False),  # nothing of either
        (Judged(0, 0), Judged(3, 3), False),  # no run of the other was judged
        (Judged(0, 0), Judged(0, 0), False),
        (NONE_OF_10, NONE_OF_10, False),
    ],
)
def test_when_rejections_differ(first: Judged, second: Judged, wanted: bool) -> None:
    assert is_unequal(first, second) is is_unequal(second, first) is wanted


def explain(here: tuple[Judged, Judged], everywhere: tuple[Judged, Judged] | None = None) -> str:
    of_all = everywhere or here
    return explain_unequal(
        *here, baseline_everywhere=of_all[0], environment_everywhere=of_all[1], names=NAMES
    )


def test_the_reason_has_the_numbers_and_whom_they_flatter() -> None:
    assert explain((NONE_OF_10, SIX_OF_10)) == (
        "Rules of the plan rejected 6 of 10 runs of podman and none of 10 runs of bare metal "
        "(Fisher’s exact test: p 0.011). What is left of podman ran under better conditions than "
        "its other runs, so the ratio may flatter it."
    )
    assert "What is left of bare metal" in explain((SIX_OF_10, NONE_OF_10))


def test_few_rejections_in_each_of_many_configurations_add_up() -> None:
    few = Judged(0, 5), Judged(1, 5)
    assert explain(few) == ""
    why = explain(few, (Judged(0, 90), Judged(18, 90)))
    assert "In all configurations together: 18 of 90 runs and none of 90 runs (p < 0.001)." in why
    assert explain((Judged(0, 5), Judged(0, 5)), (Judged(0, 90), Judged(18, 90))) == ""


@given(judged(), judged())
def test_without_rejections_nothing_is_said(first: Judged, second: Judged) -> None:
    none = Judged(0, first.total), Judged(0, second.total)
    assert explain(none) == ""
    assert bool(explain((first, second))) is is_unequal(first, second)


def test_a_configuration_that_differs_the_other_way_is_not_stamped_for_all_of_them() -> None:
    """Otherwise the sentence would say that the one is flattered, beside numbers of the other."""
    everywhere = (Judged(10, 400), Judged(40, 400))
    assert explain((Judged(2, 10), Judged(1, 10)), everywhere) == ""
    assert "What is left of " + NAMES[1] in explain((Judged(1, 10), Judged(2, 10)), everywhere)
