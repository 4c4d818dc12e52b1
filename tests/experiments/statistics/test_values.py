"""Values of a comparison say in words what stands in their fields."""

from __future__ import annotations

from experiments.statistics.values import Before, Stamp, Verdict


def test_a_verdict_from_before_names_its_stamps_as_pages_print_them() -> None:
    before = Before(
        runs=1,
        verdict=Verdict.SLOWER,
        stamps=(Stamp.NOT_AFTER_HOLM, Stamp.TAIL),
        size="6 blocks",
        ratio=1.05,
        ci_difference=(1.01, 1.09),
        level="95 %",
        p_difference=0.03,
        p_equivalence=None,
        p_difference_holm=0.06,
        p_equivalence_holm=None,
    )
    assert before.description == (
        "SLOWER (ratio 1.050, 95 % CI 1.010 to 1.090, 6 blocks; "
        "NOT SIGNIFICANT AFTER HOLM CORRECTION, TAIL)"
    )
