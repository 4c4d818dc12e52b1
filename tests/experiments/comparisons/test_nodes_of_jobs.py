"""Jobs on several nodes are known by the first of them, and their verdicts say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.comparisons.nodes_of_jobs import stamp_first_nodes
from experiments.statistics import Pair, Stamp
from tests.experiments.statistics.test_across_configurations import on_nodes


@pytest.fixture
def pair() -> Pair:
    return on_nodes(1)  # type: ignore[no-any-return, no-untyped-call]


def test_verdicts_of_jobs_on_several_nodes_say_that_others_may_be_shared(pair: Pair) -> None:
    assert stamp_first_nodes(pair, "1x4") == pair
    stamped = stamp_first_nodes(pair, "2x4")
    assert stamped.stamps == (*pair.stamps, Stamp.FEW_NODES)
    assert stamped.reasons[-1].startswith("Each job ran on 2 nodes and counts by its first")
    assert stamped.verdict == pair.verdict


def test_where_nodes_are_few_anyway_there_is_one_stamp_with_both_reasons() -> None:
    few = on_nodes(1, nodes=3)  # type: ignore[no-untyped-call]
    stamped = stamp_first_nodes(few, "4x1")
    assert stamped.stamps == few.stamps
    (reason,) = (
        why
        for stamp, why in zip(stamped.stamps, stamped.reasons, strict=True)
        if stamp is Stamp.FEW_NODES
    )
    assert "rests on 3 nodes" in reason
    assert "Each job ran on 4 nodes" in reason


def test_one_first_node_or_none_that_is_known_has_no_such_stamp(pair: Pair) -> None:
    assert stamp_first_nodes(replace(pair, n_nodes=1), "2x4").stamps == pair.stamps
    assert stamp_first_nodes(replace(pair, n_nodes=0), "2x4").stamps == pair.stamps
    assert stamp_first_nodes(replace(pair, ratio=None), "2x4").stamps == pair.stamps
