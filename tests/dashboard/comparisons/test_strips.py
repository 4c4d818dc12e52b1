"""All ratios of a comparison at a glance, on one scale."""

from __future__ import annotations

import pytest

from dashboard.comparisons.strips import MOST_INTERVALS, make_strips
from experiments.comparisons import read_comparison
from tests.dashboard.conftest import People, Site, measured

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("count", [1, 3, MOST_INTERVALS + 1])
def test_each_ratio_has_a_place_on_one_scale(count: int, site: Site, people: People) -> None:
    scales = [f"1x{gpus}" for gpus in range(1, count + 1)]
    strips = make_strips(read_comparison(measured(site, people.owner, scales=scales, blocks=3)))
    assert strips
    (strip,) = strips.rows
    assert (strip.environment, strip.mark) == ("Apptainer", 1)
    assert len(strip.bars) == count
    assert strip.has_intervals == (count <= MOST_INTERVALS)
    assert all(strips.scale.one < bar.ratio <= 100 for bar in strip.bars)  # it costs 10 %


def test_without_a_ratio_there_is_no_strip(site: Site, people: People) -> None:
    assert make_strips(read_comparison(measured(site, people.owner, blocks=0))) is None
