"""Jobs on several nodes: by all of them where they are known, else by the first, and it is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from experiments.comparisons import compare_experiment
from experiments.comparisons.nodes_of_jobs import stamp_first_nodes
from experiments.models import Experiment, Job
from experiments.statistics import Pair, Sample, Stamp
from tests.experiments.statistics.test_across_configurations import on_nodes
from tests.factories import LaunchedFactory, block


@pytest.fixture
def pair() -> Pair:
    return on_nodes(1)  # type: ignore[no-any-return, no-untyped-call]


def make_samples(pair: Pair, *nodes: str) -> list[Sample]:
    return [
        Sample(f"{name}{k}", str(k), name, 1.0, "n1", nodes=nodes)
        for k in range(3)
        for name in (pair.baseline, pair.environment)
    ]


def test_verdicts_of_jobs_on_several_nodes_say_that_others_may_be_shared(pair: Pair) -> None:
    samples = make_samples(pair)
    assert stamp_first_nodes(pair, "1x4", samples) == pair
    stamped = stamp_first_nodes(pair, "2x4", samples)
    assert stamped.stamps == (*pair.stamps, Stamp.FEW_NODES)
    assert stamped.reasons[-1].startswith("Each job ran on 2 nodes, and some count by their first")
    assert stamped.verdict == pair.verdict


def test_where_all_nodes_of_all_jobs_are_known_nothing_is_left_open(pair: Pair) -> None:
    samples = make_samples(pair, "n1", "n2")
    assert stamp_first_nodes(pair, "2x4", samples) == pair
    one_unknown = [replace(samples[0], nodes=()), *samples[1:]]
    assert Stamp.FEW_NODES in stamp_first_nodes(pair, "2x4", one_unknown).stamps
    too_few = [replace(samples[0], nodes=("n1",)), *samples[1:]]
    assert Stamp.FEW_NODES in stamp_first_nodes(pair, "2x4", too_few).stamps
    of_another = [*samples, replace(samples[0], environment="another", nodes=())]
    assert stamp_first_nodes(pair, "2x4", of_another) == pair


def test_where_nodes_are_few_anyway_there_is_one_stamp_with_both_reasons() -> None:
    few = on_nodes(1, nodes=3)  # type: ignore[no-untyped-call]
    stamped = stamp_first_nodes(few, "4x1", make_samples(few))
    assert stamped.stamps == few.stamps
    (reason,) = (
        why
        for stamp, why in zip(stamped.stamps, stamped.reasons, strict=True)
        if stamp is Stamp.FEW_NODES
    )
    assert "rests on 3 nodes" in reason
    assert "Each job ran on 4 nodes" in reason


def test_one_first_node_or_none_that_is_known_has_no_such_stamp(pair: Pair) -> None:
    samples = make_samples(pair)
    assert stamp_first_nodes(replace(pair, n_nodes=1), "2x4", samples).stamps == pair.stamps
    assert stamp_first_nodes(replace(pair, n_nodes=0), "2x4", samples).stamps == pair.stamps
    assert stamp_first_nodes(replace(pair, ratio=None), "2x4", samples).stamps == pair.stamps


@pytest.mark.django_db
def test_an_experiment_on_several_nodes_rests_on_the_sets_that_its_jobs_had() -> None:
    experiment: Experiment = LaunchedFactory(scales=["2x1 srun"], estimand="partition")
    (container,) = experiment.environments.exclude(pk=experiment.baseline_id)
    sets = ["n1 n2", "n3 n1", "n4 n5", "n6 n5", "n7 n8", "n9 n8"]
    for repeat, names in enumerate(sets, start=1):
        nodes = names.split()
        values: dict[Any, float] = {experiment.baseline: 0.02, container: 0.0201 + repeat * 1e-6}
        job = block(experiment, repeat, values, scale="2x1 srun", nodes=nodes)
        job.runs.update(node=nodes[0])
    (pair,) = compare_experiment(experiment).pairs
    assert pair.nodes == ("n1 and n2 and n3", "n4 and n5 and n6", "n7 and n8 and n9")
    assert (pair.n_nodes, pair.n_blocks) == (3, 6)
    assert "6 blocks on 3 sets of nodes" in pair.sentence
    assert not any("by their first" in reason for reason in pair.reasons)
    Job.objects.filter(experiment=experiment, repeat=6).update(nodes=[])
    (pair,) = compare_experiment(experiment).pairs
    assert pair.n_nodes == 4, "of that job the first node alone is known"
    assert any("by their first" in reason for reason in pair.reasons)
