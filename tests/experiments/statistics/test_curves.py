"""The equivalence curve is TOST at many margins."""

import pytest

from experiments.statistics import Sample, compare, compute_equivalence_curve


def pair(n=6, *, paired=True):
    samples = [
        Sample(f"{block}{name}", str(block), name, 1.0 + cost + 0.003 * ((3 * block + index) % 5))
        for block in range(n)
        for index, (name, cost) in enumerate({"bare": 0.0, "box": 0.008}.items())
    ]
    (found,) = compare(
        samples,
        baseline="bare",
        environments=["box"],
        margin=0.02,
        better="lower",
        paired=paired,
        unit="s",
    )
    return found


@pytest.mark.parametrize("paired", [True, False])
def test_the_curve_goes_through_what_the_pair_says(paired):
    found = pair(paired=paired)
    at_margin, at_smallest = compute_equivalence_curve(found, [found.margin, found.smallest_margin])
    assert at_margin == pytest.approx(found.p_equivalence, rel=1e-10)
    assert at_smallest == pytest.approx(0.05, rel=1e-9)


def test_without_inference_there_is_no_curve():
    assert compute_equivalence_curve(pair(1), [0.01, 0.02]) == []
