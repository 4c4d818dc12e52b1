"""The ends of trainings within a margin in points or of the loss, held to statsmodels."""

import math

import numpy as np
import pytest
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from experiments.statistics import vectorised
from experiments.statistics.training.end_pairs import (
    ComparedBy,
    DifferenceMargin,
    TrainingStamp,
    TrainingVerdict,
)
from experiments.statistics.training.end_sentences import describe_end, describe_test
from experiments.statistics.training.end_verdicts import compare_ends, correct_ends_by_holm
from experiments.statistics.training.outcomes import Ending

TWO = ["bare", "box"]


def endings(bare, box, *, seeds=None, blocks=None):
    """One run a repeat in each; a seed and a block of its own for each repeat unless given."""
    return [
        Ending(
            f"{name}{k}",
            name,
            f"seed {seeds[k] if seeds else k}",
            last,
            block=str(blocks[k] if blocks else k),
        )
        for name, runs in zip(TWO, (bare, box), strict=True)
        for k, last in enumerate(runs)
    ]


def pair_of(bare, box, *, seeds=None, blocks=None, **more):
    rows = endings(bare, box, seeds=seeds, blocks=blocks)
    (pair,) = compare_ends(rows, baseline="bare", environments=TWO, **more)
    return pair


def losses(seed, *, same_n=True):
    draw = np.random.default_rng(seed)
    n = draw.integers(3, 15, 2)
    n_b, n_e = (n[0], n[0]) if same_n else n
    bare = draw.normal(0.5, 0.02, n_b)
    extra = draw.normal(draw.choice([0, 0.01]), 10 ** draw.uniform(-3, -1.5), n_e)
    return bare.tolist(), ((bare if same_n else draw.normal(0.5, 0.02, n_e)) + extra).tolist()


@pytest.mark.parametrize("what", ["loss", "accuracy"])
@pytest.mark.parametrize("by_seed", [True, False], ids=["by seed", "by run"])
def test_both_one_sided_p_are_those_of_statsmodels(by_seed, what):
    scale, margin = (1, 0.012) if what == "loss" else (100, 1.2)
    for seed in range(40):
        bare, box = losses(seed, same_n=by_seed)
        pair = pair_of(bare, box, what=what, seeds_known=by_seed, paired=False).judge(
            margin, afterwards=False
        )
        values = [scale * np.array(arm) for arm in (box, bare)]
        if by_seed:
            p, lower, upper = ttost_paired(*values, -margin, margin)
        else:
            p, lower, upper = ttost_ind(*values, -margin, margin, usevar="unequal")
        assert pair.p_equivalence == pytest.approx(p, rel=1e-8)
        assert pair.p_lower_bound == pytest.approx(lower[1], rel=1e-8)
        assert pair.p_upper_bound == pytest.approx(upper[1], rel=1e-8)
        assert pair.df == pytest.approx(lower[2], rel=1e-8)
        assert pair.se == pytest.approx((pair.difference + margin) / lower[0], rel=1e-8)
        assert (pair.verdict is TrainingVerdict.EQUIVALENT) == (p < 0.05)


@pytest.mark.parametrize("by_seed", [True, False], ids=["by seed", "by run"])
def test_the_calibration_decides_as_a_comparison_does(by_seed):
    estimate = vectorised.estimate_paired if by_seed else vectorised.estimate_unpaired
    margin = 0.01 if by_seed else 0.03
    words = {"SLOWER": "DIFFERENT", "FASTER": "DIFFERENT"}
    seen = set()
    for seed in range(150):
        bare, box = losses(seed, same_n=by_seed)
        pair = pair_of(bare, box, seeds_known=by_seed, paired=False)
        (word,) = estimate(np.array([bare]), np.array([box])).verdicts(
            DifferenceMargin.of_size(margin)
        )
        verdict = pair.judge(margin, afterwards=False).verdict
        assert verdict == words.get(str(word), str(word))
        seen.add(verdict)
    assert seen >= {TrainingVerdict.EQUIVALENT, TrainingVerdict.INCONCLUSIVE}


def test_the_smallest_margin_is_the_one_at_which_the_verdict_turns():
    pair = pair_of(*losses(3))
    for size, is_equivalent in ((1.0001, True), (0.9999, False)):
        verdict = pair.judge(size * pair.smallest_margin, afterwards=False).verdict
        assert (verdict is TrainingVerdict.EQUIVALENT) == is_equivalent


BARE = [0.50, 0.55, 0.47, 0.52, 0.49, 0.51]


def shifted(by, wobble=0.001):
    return [last + by + wobble * (-1) ** k for k, last in enumerate(BARE)]


@pytest.mark.parametrize(
    ("box", "margin", "verdict", "detail"),
    [
        (shifted(0.0), 0.01, "EQUIVALENT", ""),
        (shifted(0.003), 0.01, "EQUIVALENT", "difference detectable"),
        (shifted(0.011), 0.01, "DIFFERENT", "size against the margin unresolved"),
        (shifted(-0.03), 0.01, "DIFFERENT", "beyond margin"),
        (shifted(0.0, wobble=0.05), 0.01, "INCONCLUSIVE", ""),
    ],
)
def test_the_rules_are_those_of_speed(box, margin, verdict, detail):
    pair = pair_of(BARE, box).judge(margin, afterwards=False)
    assert (pair.verdict, pair.detail, pair.stamps) == (verdict, detail, ())
    mirrored = pair_of(box, BARE).judge(margin, afterwards=False)
    assert (mirrored.verdict, mirrored.detail) == (verdict, detail)
    assert mirrored.difference == pytest.approx(-pair.difference)


def test_runs_of_one_seed_are_one_value():
    """Ten blocks of two seeds tell no more about other seeds than two values do."""
    seeds = [1, 1, 1, 1, 1, 2, 2, 2, 2, 2]
    bare = [0.5, 0.5, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6]
    box = [0.51, 0.53, 0.52, 0.52, 0.52, 0.6, 0.6, 0.6, 0.6, 0.61]
    pair = pair_of(bare, box, seeds=seeds)
    assert (pair.by, pair.n, pair.n_baseline, pair.df) == (ComparedBy.SEED, 2, 10, 1)
    assert pair.difference == pytest.approx(0.011)
    assert pair.judge(0.02, afterwards=False).verdict == "INCONCLUSIVE"


def test_one_seed_is_compared_by_block_and_says_that_it_is_one_seed():
    pair = pair_of(BARE, shifted(0), seeds=[1] * 6).judge(0.01, afterwards=False)
    assert (pair.by, pair.n, pair.verdict) == (ComparedBy.BLOCK, 6, "EQUIVALENT")
    assert pair.stamps == (TrainingStamp.ONE_SEED,)
    alone = pair_of(BARE, shifted(0), seeds=[1] * 6, paired=False)
    assert alone.by is ComparedBy.RUN


def test_unknown_seeds_pair_nothing_unless_blocks_do():
    assert pair_of(BARE, shifted(0), seeds_known=False).by is ComparedBy.BLOCK
    pair = pair_of(BARE, shifted(0)[:4], seeds_known=False, paired=False)
    assert (pair.by, pair.n, pair.n_baseline, pair.n_environment) == (ComparedBy.RUN, 4, 6, 4)


def test_seeds_that_only_one_side_has_are_left_out():
    rows = [*endings(BARE, shifted(0)), Ending("more", "box", "seed 99", 7.0)]
    (pair,) = compare_ends(rows, baseline="bare", environments=TWO)
    assert (pair.n, pair.n_environment) == (6, 6)
    assert abs(pair.difference) < 0.001


def test_a_margin_chosen_afterwards_is_stamped():
    pair = pair_of(BARE, shifted(0))
    assert pair.verdict is None, "without a margin there is no verdict"
    assert pair.judge(0.01, afterwards=False).stamps == ()
    stamped = pair.judge(0.01, afterwards=True)
    assert stamped.stamps == (TrainingStamp.AFTERWARDS,)
    assert stamped.columns["margin_chosen_after_the_data"] is True


@pytest.mark.parametrize("margin", [0, -0.5, math.nan, math.inf])
def test_what_is_no_margin_is_refused(margin):
    with pytest.raises(ValueError, match="margin"):
        pair_of(BARE, shifted(0)).judge(margin, afterwards=False)


def test_where_a_run_diverged_nothing_is_called_equivalent():
    survivors = {"box": 2}
    pair = pair_of(BARE, shifted(0), diverged=survivors).judge(0.01, afterwards=False)
    assert (pair.verdict, pair.detail) == ("INCONCLUSIVE", "runs diverged")
    assert pair.stamps == (TrainingStamp.DIVERGED,)
    assert "which is of the runs that did not diverge" in describe_end(pair)
    different = pair_of(BARE, shifted(0.1), diverged=survivors).judge(0.01, afterwards=False)
    assert different.verdict == "DIFFERENT"
    rows = [row for row in endings(BARE, BARE) if row.environment == "bare"]
    (none_left,) = compare_ends(rows, baseline="bare", environments=TWO, diverged={"box": 6})
    none_left = none_left.judge(0.01, afterwards=False)
    assert (none_left.verdict, none_left.diverged) == ("NO INFERENCE", 6)
    assert TrainingStamp.DIVERGED in none_left.stamps


def test_a_single_value_and_no_spread_infer_nothing():
    single = pair_of(BARE[:1], [0.4]).judge(0.01, afterwards=False)
    assert (single.verdict, single.detail, single.stamps) == ("NO INFERENCE", "n = 1", ())
    assert "a single block says nothing about how much trainings vary" in describe_end(single)
    same = pair_of(BARE, BARE).judge(0.01, afterwards=False)
    assert (same.verdict, same.detail) == ("NO INFERENCE", "identical values")
    assert "nothing differs, and there is no spread" in describe_end(same)


def test_few_seeds_are_provisional():
    pair = pair_of(BARE[:4], shifted(0)[:4]).judge(0.01, afterwards=False)
    assert pair.stamps == (TrainingStamp.PROVISIONAL,)


def test_holm_corrects_over_all_verdicts_and_leaves_pairs_without_one_alone():
    sure = pair_of(BARE, shifted(0)).judge(0.01, afterwards=False)
    barely = pair_of(BARE, shifted(0, wobble=0.005)).judge(0.0047, afterwards=False)
    assert barely.verdict == "EQUIVALENT"
    assert 0.025 < barely.p_equivalence < 0.05
    unjudged = pair_of(BARE, shifted(0))
    first, other, none = correct_ends_by_holm([barely, barely, unjudged])
    assert first.p_equivalence_holm == pytest.approx(2 * barely.p_equivalence)
    assert first.verdict == "EQUIVALENT"
    assert first.stamps == other.stamps == (TrainingStamp.NOT_AFTER_HOLM,)
    assert none == unjudged
    alone, _ = correct_ends_by_holm([sure, unjudged])
    assert alone.p_equivalence_holm == alone.p_equivalence
    assert alone.stamps == ()


def test_the_level_is_that_of_each_planned_analysis():
    pair = pair_of(BARE, shifted(0, wobble=0.005))
    strict = pair_of(BARE, shifted(0, wobble=0.005), alpha=0.0158)
    size = 1.01 * pair.smallest_margin
    assert pair.judge(size, afterwards=False).verdict == "EQUIVALENT"
    assert strict.judge(size, afterwards=False).verdict == "INCONCLUSIVE"


def test_sentences():
    equivalent = pair_of(BARE, shifted(0.003)).judge(0.01, afterwards=False)
    assert describe_end(equivalent) == (
        "the last loss differs by +0.00300 (90 % CI +0.00210 to +0.00390; 6 seeds): a difference "
        "of 0.01 or more is ruled out, though there is a smaller one."
    )
    assert describe_test(equivalent) == (
        "p lower < 0.001, upper < 0.001; p of a difference 0.001; SE 0.000447 (df 5)"
    )
    assert describe_test(pair_of(BARE, shifted(0))).startswith("p of a difference 1.00; SE")
    points = pair_of(BARE, shifted(-0.03), what="accuracy").judge(0.5, afterwards=False)
    assert describe_end(points) == (
        "the last accuracy differs by −3.000 points (90 % CI −3.090 to −2.910; 6 seeds): there is "
        "a difference, by more than 0.5 points."
    )
    open_pair = pair_of(BARE, shifted(0, wobble=0.05)).judge(0.01, afterwards=False)
    assert "both “the same within 0.01” and “different” fit. About" in describe_end(open_pair)
    assert describe_end(open_pair).endswith(
        " fit. About 230 more seeds (80 % interval 122 to 727) would decide."
    )
    hopeless = open_pair.judge(0.001, afterwards=False)
    assert describe_end(hopeless).endswith("Even 1,000 more seeds would hardly decide.")
    assert describe_end(pair_of(BARE, shifted(0))).endswith(
        "The smallest margin that these runs prove is 0.00091; the plan fixed none, so there is no "
        "verdict."
    )


def test_more_runs_of_each_are_counted_by_welch():
    """Further runs are those of two arms, not of one with as many degrees of freedom."""
    draw = np.random.default_rng(5)
    bare, box = (draw.normal(0.5, 0.02, 6).tolist() for _ in range(2))
    pair = pair_of(bare, box, seeds_known=False, paired=False)
    estimate = pair.estimate()
    assert (estimate.se, estimate.df) == pytest.approx((pair.se, pair.df))
    assert estimate.more(6).se == pytest.approx(pair.se / math.sqrt(2))
    judged = pair.judge(0.02, afterwards=False)
    low, high = judged.more_between
    assert low <= judged.more <= high
    assert f"About {judged.more} more runs of each (80 % interval" in describe_end(judged)
