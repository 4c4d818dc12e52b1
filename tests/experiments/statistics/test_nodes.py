"""How many nodes a verdict rests on, and whether it speaks of them or of their partition."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from experiments.statistics import Estimand, Sample, Stamp, Verdict, compare, vectorised
from experiments.statistics.calibration import several_nodes as calibration
from experiments.statistics.nodes import name_nodes
from experiments.statistics.robust import compute_robustness

BARE, BOX = "bare metal", "udocker"
NODES, PARTITION = Estimand.NODES, Estimand.PARTITION
MIRRORED = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}


def make_blocks(log_ratios, *, bare=20.0):
    """Return the runs of blocks, from (node, log-ratio) of each: both environments on one node."""
    return [
        Sample(
            run=f"{k}-{environment}",
            block=str(k),
            environment=environment,
            value=bare * math.exp(0.01 * (k % 3) + (log_ratio if environment == BOX else 0.0)),
            node=node,
            started=1000.0 * k + 10 * ((k + (environment == BOX)) % 2),
        )
        for k, (node, log_ratio) in enumerate(log_ratios)
        for environment in (BARE, BOX)
    ]


def only(samples, estimand, *, paired=True, baseline=BARE, environment=BOX):
    (pair,) = compare(
        samples,
        baseline=baseline,
        environments=[environment],
        margin=0.02,
        better="lower",
        paired=paired,
        unit="s",
        estimand=estimand,
    )
    return pair


def spread_over(*blocks_of_nodes, apart=0.004, seed=1):
    """Return blocks of nodes n0, n1, ...: so many on each, whose ratios differ by node."""
    rng = random.Random(seed)
    return [
        (f"n{node}", effect + rng.gauss(0, 0.001))
        for node, count in enumerate(blocks_of_nodes)
        for effect in [rng.gauss(0, apart)]
        for _ in range(count)
    ]


def test_a_verdict_on_the_partition_is_students_t_of_the_means_of_nodes():
    blocks = spread_over(4, 2, 1, 3, 1)
    pair = only(make_blocks(blocks), PARTITION)
    means = [
        np.mean([log_ratio for node, log_ratio in blocks if node == f"n{k}"]) for k in range(5)
    ]
    expected = stats.ttest_1samp(means, 0)
    assert pair.p_difference == pytest.approx(expected.pvalue, rel=1e-9)
    assert pair.ci95 == pytest.approx(np.exp(expected.confidence_interval(0.95)), rel=1e-10)
    assert (pair.df, pair.n_nodes, pair.n_blocks) == (pytest.approx(4), 5, 11)


def test_independent_runs_are_averaged_on_each_node_that_ran_both():
    """The node's own speed cancels; a node that ran only one of both says nothing."""
    rng = random.Random(3)
    speeds = {"n0": 0.0, "n1": 0.3, "n2": -0.2}
    logs = {
        (node, environment): [speed + rng.gauss(0, 0.002) for _ in range(count)]
        for node, speed in speeds.items()
        for environment, count in ((BARE, 2), (BOX, 3))
    }
    logs["n3", BARE] = [5.0]
    samples = [
        Sample(f"{node}{environment}{k}", f"{node}{environment}{k}", environment, math.exp(v), node)
        for (node, environment), values in logs.items()
        for k, v in enumerate(values)
    ]
    pair = only(samples, PARTITION, paired=False)
    differences = [np.mean(logs[node, BOX]) - np.mean(logs[node, BARE]) for node in speeds]
    expected = stats.ttest_1samp(differences, 0)
    assert pair.p_difference == pytest.approx(expected.pvalue, rel=1e-9)
    assert (pair.nodes, pair.dropped_nodes, pair.n_baseline) == (("n0", "n1", "n2"), ("n3",), 6)
    assert "1 node without runs of both is left out." in pair.sentence
    apart = [replace(run, node=f"{run.environment}{run.node}") for run in samples]
    assert only(apart, PARTITION, paired=False).sentence == (
        "No inference: there is no node with runs of both udocker and bare metal."
    )


@given(
    log_ratios=st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=12),
    names=st.permutations([f"n{k}" for k in range(12)]),
)
def test_with_one_block_a_node_the_partition_is_judged_as_blocks_are(log_ratios, names):
    samples = make_blocks(list(zip(names, log_ratios, strict=False)))
    as_before, partition = only(samples, None), only(samples, PARTITION)
    for name in ("ratio", "verdict", "ci95", "ci90", "p_difference", "p_equivalence", "df"):
        assert getattr(partition, name) == getattr(as_before, name)


def make_set_blocks(log_ratios):
    """Return blocks of jobs on several nodes, from (nodes, log-ratio) of each."""
    blocks = make_blocks([(nodes[0], log_ratio) for nodes, log_ratio in log_ratios])
    return [replace(run, nodes=tuple(log_ratios[int(run.block)][0])) for run in blocks]


def test_jobs_with_any_node_in_common_count_as_one_set():
    """{a, b} and {c, a} share a; {d, e} and {e, f} share e; {g, h} is alone: three units."""
    ratios = [("ab", 0.004), ("ca", 0.006), ("de", 0.001), ("ef", 0.003), ("gh", -0.002)]
    pair = only(make_set_blocks(ratios), PARTITION)
    assert pair.nodes == ("a and b and c", "d and e and f", "g and h")
    expected = stats.ttest_1samp([0.005, 0.002, -0.002], 0)
    assert pair.p_difference == pytest.approx(expected.pvalue, rel=1e-9)
    assert (pair.n_nodes, pair.df) == (3, pytest.approx(2))
    assert "5 blocks on 3 sets of nodes" in pair.sentence
    first_nodes = only([replace(run, nodes=()) for run in make_set_blocks(ratios)], PARTITION)
    assert first_nodes.n_nodes == 5, "by their first nodes they would count as five"


def test_jobs_that_are_all_connected_say_nothing_of_the_partition():
    ratios = [("ab", 0.004), ("bc", 0.006), ("cd", 0.001), ("da", 0.003)]
    pair = only(make_set_blocks(ratios), PARTITION)
    assert pair.verdict is Verdict.NO_INFERENCE
    assert "4 blocks on nodes a and b and c and d" in pair.sentence
    assert "more sets of nodes are needed" in pair.sentence
    as_nodes = only(make_set_blocks(ratios), NODES)
    assert as_nodes.scope == "on these nodes"
    assert as_nodes.ci95


def test_independent_jobs_on_sets_are_averaged_over_what_ran_both():
    runs = [
        ("ab", BARE, 1.0), ("bc", BOX, 1.1), ("de", BARE, 2.0), ("ed", BOX, 2.4), ("fg", BARE, 9.0),
    ]  # fmt: skip
    samples = [
        Sample(f"r{k}", f"r{k}", environment, value, nodes[0], nodes=tuple(nodes))
        for k, (nodes, environment, value) in enumerate(runs)
    ]
    pair = only(samples, PARTITION, paired=False)
    assert pair.nodes == ("a and b and c", "d and e")
    assert pair.dropped_nodes == ("f and g",)
    assert pair.ratio == pytest.approx(math.sqrt(1.1 * 1.2))
    assert Stamp.CONFOUNDED not in pair.stamps
    apart = [
        replace(run, node=f"{run.environment}{run.node}", nodes=(f"{run.environment}{run.node}", c))
        for run, c in zip(samples, "cxcyz", strict=True)
    ]
    assert Stamp.CONFOUNDED in only(apart, NODES, paired=False).stamps
    joined = [replace(run, nodes=(run.node, "c")) for run in apart]
    assert Stamp.CONFOUNDED not in only(joined, NODES, paired=False).stamps


def test_a_block_whose_jobs_had_other_nodes_behind_the_same_first_is_confounded():
    samples = make_set_blocks([("ab", 0.0), ("cd", 0.001), ("ef", 0.002)])
    assert Stamp.CONFOUNDED not in only(samples, NODES).stamps
    samples[1] = replace(samples[1], nodes=("a", "z"))
    assert Stamp.CONFOUNDED in only(samples, NODES).stamps


@given(
    st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3), min_size=1, max_size=12)
)
def test_no_two_units_share_a_node_and_every_node_has_one(sets):
    samples = make_set_blocks([(nodes, 0.001 * k) for k, nodes in enumerate(sets)])
    names = name_nodes(samples, paired=True)
    assert set(names) == {node for nodes in sets for node in nodes}
    assert all(node in names[node].split(" and ") for node in names)
    members = [node for name in set(names.values()) for node in name.split(" and ")]
    assert len(members) == len(set(members))
    assert all(len({names[node] for node in nodes}) == 1 for nodes in sets)
    shuffled = random.Random(1).sample(samples, len(samples))
    assert name_nodes(shuffled, paired=True) == names


laid_out = st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(-0.1, 0.1)), min_size=1)


@given(blocks=laid_out, seed=st.integers(0, 100))
def test_neither_the_order_nor_the_names_of_nodes_matter(blocks, seed):
    samples = make_blocks(blocks)
    names = random.Random(seed).sample("abcdef", 6)
    renamed = [replace(run, node=names["abcdef".index(run.node)]) for run in samples]
    random.Random(seed).shuffle(renamed)
    first, second = only(samples, PARTITION), only(renamed, PARTITION)
    assert (first.ratio, first.ci95, first.verdict) == (second.ratio, second.ci95, second.verdict)


@given(blocks=laid_out)
def test_swapping_the_two_mirrors_a_verdict_on_the_partition(blocks):
    samples = make_blocks(blocks)
    forth = only(samples, PARTITION)
    back = only(samples, PARTITION, baseline=BOX, environment=BARE)
    assert back.ratio == pytest.approx(1 / forth.ratio)
    assert back.verdict is MIRRORED.get(forth.verdict, forth.verdict)
    if forth.ci95:
        assert back.ci95 == pytest.approx((1 / forth.ci95[1], 1 / forth.ci95[0]))


@given(blocks=laid_out, estimand=st.sampled_from([None, NODES]))
def test_nodes_change_no_number_where_the_verdict_speaks_of_them(blocks, estimand):
    samples = make_blocks(blocks)
    nowhere = [replace(run, node="") for run in samples]
    known, unknown = only(samples, estimand), only(nowhere, None)
    for name in ("ratio", "verdict", "detail", "ci95", "ci90", "p_difference", "p_equivalence"):
        assert getattr(known, name) == getattr(unknown, name)


def test_nodes_that_share_a_block_count_as_one():
    samples = make_blocks(spread_over(2, 2, 2, 2))
    moved = [
        replace(run, node="n1") if (run.block, run.environment) == ("0", BOX) else run
        for run in samples
    ]
    assert only(moved, PARTITION).nodes == ("n0 and n1", "n2", "n3")


def test_an_old_plan_says_on_how_many_nodes_its_blocks_ran():
    assert "8 blocks on node n0)." in only(make_blocks(spread_over(8)), None).sentence
    eight = only(make_blocks(spread_over(*[1] * 8)), None)
    assert "8 blocks on 8 nodes)." in eight.sentence
    assert Stamp.FEW_NODES not in eight.stamps
    shared = only(make_blocks(spread_over(4, 4)), None)
    assert "8 blocks on 2 nodes, counted as independent)." in shared.sentence
    assert "does not hold for others" in shared.reasons[shared.stamps.index(Stamp.FEW_NODES)]
    nowhere = [replace(run, node="") for run in make_blocks(spread_over(8))]
    assert "8 blocks)." in only(nowhere, None).sentence
    assert only(nowhere, None).n_nodes == 0


@pytest.mark.parametrize(
    ("estimand", "layout", "claim"),
    [
        (NODES, (8,), "udocker is equivalent to bare metal within 2 % on this node"),
        (NODES, (4, 4), "udocker is equivalent to bare metal within 2 % on these nodes"),
        (PARTITION, (2,) * 5, "udocker is equivalent to bare metal within 2 % on this partition"),
    ],
)
def test_a_claim_says_what_it_speaks_of(estimand, layout, claim):
    pair = only(make_blocks(spread_over(*layout)), estimand)
    assert (pair.claim, pair.estimand) == (claim, estimand)


def test_a_claim_about_the_partition_from_fewer_than_five_nodes_is_stamped():
    few = only(make_blocks(spread_over(3, 3, 3, 3)), PARTITION)
    assert few.stamps == (Stamp.FEW_NODES,)
    assert "rests on 4 nodes" in few.reasons[0]
    assert Stamp.FEW_NODES not in only(make_blocks(spread_over(2, 2, 2, 2, 2)), PARTITION).stamps


def test_one_node_says_nothing_about_the_partition():
    pair = only(make_blocks(spread_over(10)), PARTITION)
    assert (pair.verdict, pair.ci95, pair.detail) == (Verdict.NO_INFERENCE, None, "one node")
    assert pair.ratio == pytest.approx(1, abs=0.02)
    assert pair.sentence == (
        "No inference: 10 blocks on node n0 cannot show how much the nodes of the partition "
        "differ; 4 more nodes are needed."
    )
    assert only(make_blocks(spread_over(10)), NODES).verdict is Verdict.EQUIVALENT


@pytest.mark.parametrize("paired", [True, False])
def test_without_the_names_of_all_nodes_nothing_is_said_about_the_partition(paired):
    samples = make_blocks(spread_over(2, 2, 2, 2))
    samples[3] = replace(samples[3], node="")
    pair = only(samples, PARTITION, paired=paired)
    assert (pair.verdict, pair.detail) == (Verdict.NO_INFERENCE, "nodes not known")
    assert "the node of some runs is not known" in pair.sentence
    assert pair.ratio == pytest.approx(only(samples, None, paired=paired).ratio)


def test_more_nodes_are_what_an_open_question_about_the_partition_needs():
    pair = only(make_blocks(spread_over(3, 3, 3, apart=0.02, seed=2)), PARTITION)
    assert pair.verdict is Verdict.INCONCLUSIVE
    assert "more nodes (80 % interval 11 to 300) would decide" in pair.sentence
    assert "than bare metal on this partition (90 % CI, 9 blocks on 3 nodes)" in pair.sentence


def test_a_verdict_that_hangs_on_one_node_is_stamped():
    blocks = [*spread_over(2, 2, 2, 2, 2, apart=0.001), ("odd", 0.06), ("odd", 0.061)]
    pair = only(make_blocks(blocks), PARTITION)
    assert "Without node odd" in pair.reasons[pair.stamps.index(Stamp.OUTLIER_SENSITIVE)]


def test_other_tests_look_at_the_means_of_nodes_as_well():
    blocks = make_blocks(spread_over(*[2] * 8))
    robustness = compute_robustness(only(blocks, PARTITION), blocks)
    assert [checked.n for checked in robustness.normality] == [8]
    few = make_blocks(spread_over(*[3] * 7))
    assert "from 8 nodes on" in compute_robustness(only(few, PARTITION), few).too_few


@pytest.mark.parametrize("layout", calibration.LAYOUTS)
def test_many_at_once_are_judged_as_compare_judges_each(layout):
    blocks_by_node = calibration.LAYOUTS[layout]
    nodes = [f"n{k:02}" for k, count in enumerate(blocks_by_node) for _ in range(count)]
    rng = np.random.default_rng(len(nodes))
    for _ in range(20):
        ratios = calibration.draw_ratios(rng, 1, blocks_by_node, 0.01)
        logs = rng.normal(0, 0.005, (2, 1, len(nodes)))
        logs[1] += ratios + rng.choice([0, 0.01, 0.04])
        samples = [
            Sample(f"{name}{k}", f"{k:02}", name, float(np.exp(arm[0, k])), node)
            for name, arm in zip((BARE, BOX), logs, strict=True)
            for k, node in enumerate(nodes)
        ]
        pair = only(samples, PARTITION)
        many = vectorised.estimate_by_node(*logs, blocks_by_node)
        assert many.verdicts(0.02)[0] == pair.verdict
        assert np.exp(many.log_ratio[0]) == pytest.approx(pair.ratio)
        if pair.ci95:
            assert many.p_difference[0] == pytest.approx(pair.p_difference, rel=1e-7)
