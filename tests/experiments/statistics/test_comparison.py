"""What is compared with what, and the reservations that stand beside a verdict."""

import math

import pytest
from statsmodels.stats.multitest import multipletests

from experiments.statistics import Sample, Stamp, Verdict, compare, correct_by_holm

BARE, BOX = "bare metal", "udocker"
WOBBLE = (0.0, 0.004, -0.003, 0.002, -0.004, 0.003, -0.002, 0.001)
"""Log deviations of a quiet machine."""


def block_of_runs(k, *, cost=0.0, node="n1", environments=(BARE, BOX)):
    """Block k: its own speed (blocks differ), a little wobble, and what the container costs."""
    return [
        Sample(
            run=f"run-{k}-{environment}",
            block=str(k),
            environment=environment,
            value=0.02
            * math.exp(0.05 * k + (environment != BARE) * (cost + WOBBLE[k % len(WOBBLE)])),
            node=node,
            started=1000.0 * k + 10 * ((i + k) % 2),
        )
        for i, environment in enumerate(environments)
    ]


def runs(n, **options):
    return [sample for k in range(n) for sample in block_of_runs(k, **options)]


def only(samples, **options):
    options = {
        "baseline": BARE,
        "environments": [BOX],
        "margin": 0.02,
        "better": "lower",
        "paired": True,
        "unit": "s",
    } | options
    (pair,) = compare(samples, **options)
    return pair


def test_blocks_cancel_what_they_share():
    assert only(runs(8)).verdict is Verdict.EQUIVALENT
    assert only(runs(8), paired=False).verdict is Verdict.INCONCLUSIVE


def test_the_pair_carries_what_a_table_needs():
    pair = only(runs(8, cost=0.06))
    assert (pair.n_blocks, pair.n_baseline, pair.n_environment) == (8, 8, 8)
    assert pair.verdict is Verdict.SLOWER
    assert pair.cost == pytest.approx(math.exp(0.06) - 1, abs=0.001)
    assert pair.cost_ci95[0] > 0.02
    assert pair.environment_mean / pair.baseline_mean == pytest.approx(pair.ratio, rel=0.01)
    assert pair.baseline_sd > 0
    assert pair.stamps == ()


def test_several_environments_share_one_baseline_and_the_baseline_is_skipped():
    samples = [s for k in range(6) for s in block_of_runs(k, environments=(BARE, BOX, "SIF"))]
    pairs = compare(
        samples,
        baseline=BARE,
        environments=[BARE, BOX, "SIF"],
        margin=0.02,
        better="lower",
        paired=True,
        unit="s",
    )
    assert [pair.environment for pair in pairs] == [BOX, "SIF"]


def test_incomplete_blocks_are_left_out_and_told():
    samples = [s for s in runs(8) if s.run not in {f"run-2-{BOX}", f"run-5-{BARE}"}]
    pair = only(samples)
    assert pair.dropped_blocks == ("2", "5")
    assert (pair.n_blocks, pair.n_baseline, pair.n_environment) == (6, 6, 6)
    assert pair.ratio == only([s for s in samples if s.block not in "25"]).ratio
    assert pair.sentence.endswith("2 incomplete blocks are left out.")


def test_repeats_inside_a_block_are_one_value():
    """Doubling every run adds no evidence."""
    twice = [*runs(6), *(Sample(s.run + "b", s.block, s.environment, s.value) for s in runs(6))]
    assert only(twice).ci95 == pytest.approx(only(runs(6)).ci95)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, -math.inf, 1.7e308])
def test_a_value_that_cannot_be_computed_with_is_refused_by_the_name_of_its_run(value):
    samples = [*runs(3), Sample("run-77", "9", BOX, value)]
    with pytest.raises(ValueError, match="run-77"):
        only(samples)


@pytest.mark.parametrize("margin", [0, -0.01, math.nan, math.inf])
def test_a_margin_is_positive_and_finite(margin):
    with pytest.raises(ValueError, match="margin"):
        only(runs(3), margin=margin)


@pytest.mark.parametrize(
    ("samples", "detail", "words"),
    [
        ([], f"no run of {BARE}", "there is no run"),
        ([s for s in runs(3) if s.environment == BOX], "both", "no block with runs of both"),
        (runs(1), "n = 1", "4 more blocks are needed"),
        ([Sample(s.run, s.block, s.environment, 2.5) for s in runs(4)], "identical", "rounded"),
    ],
)
def test_no_inference_is_a_verdict_with_a_reason(samples, detail, words):
    pair = only(samples)
    assert pair.verdict is Verdict.NO_INFERENCE
    assert detail in pair.detail
    assert words in pair.sentence
    assert pair.ci95 is pair.ci90 is pair.p_difference is pair.p_equivalence is None


def test_a_missing_baseline_of_independent_runs_is_named():
    pair = only([s for s in runs(3) if s.environment == BOX], paired=False)
    assert pair.detail == f"no run of {BARE}"


def test_a_constant_ratio_is_no_inference_even_where_blocks_differ():
    samples = [
        Sample(f"{k}{e}", str(k), e, (k + 1) * (1.1 if e == BOX else 1.0))
        for k in range(5)
        for e in (BARE, BOX)
    ]
    assert only(samples).verdict is Verdict.NO_INFERENCE


def test_few_blocks_are_provisional():
    assert Stamp.PROVISIONAL in only(runs(4)).stamps
    assert Stamp.PROVISIONAL not in only(runs(5)).stamps


def test_different_nodes_within_a_block_confound():
    moved = [
        Sample(s.run, s.block, s.environment, s.value, "n2" if s.environment == BOX else "n1")
        for s in runs(6)
    ]
    pair = only(moved)
    assert Stamp.CONFOUNDED in pair.stamps
    assert "nodes" in pair.reasons[pair.stamps.index(Stamp.CONFOUNDED)]
    assert Stamp.CONFOUNDED in only(moved, paired=False).stamps
    assert Stamp.CONFOUNDED not in only(runs(6)).stamps


def test_all_of_one_then_all_of_the_other_confounds():
    apart = [
        Sample(s.run, s.block, s.environment, s.value, s.node, i + 100.0 * (s.environment == BOX))
        for i, s in enumerate(runs(6))
    ]
    assert Stamp.CONFOUNDED in only(apart, paired=False).stamps
    assert Stamp.CONFOUNDED not in only(runs(6), paired=False).stamps


def test_any_other_difference_that_is_known_confounds():
    pair = only(runs(6), differences={BOX: ["Driver 535.1 and 550.2"]})
    assert "550.2" in pair.reasons[pair.stamps.index(Stamp.CONFOUNDED)]


def test_a_verdict_that_hangs_on_one_block_says_on_which():
    samples = [*runs(7), *block_of_runs(7, cost=0.15)]
    pair = only(samples)
    assert pair.verdict is Verdict.INCONCLUSIVE
    assert "block 7" in pair.reasons[pair.stamps.index(Stamp.OUTLIER_SENSITIVE)]
    assert Stamp.OUTLIER_SENSITIVE not in only(runs(8)).stamps


@pytest.mark.parametrize(("better", "factor"), [("lower", 1.2), ("higher", 1 / 1.2)])
def test_a_straggler_is_a_tail_in_the_direction_that_costs(better, factor):
    def samples(slow):
        return [
            Sample(f"{k}{e}", str(k), e, math.exp(WOBBLE[k] / (1 + (e == BOX))) * one)
            for k in range(8)
            for e in (BARE, BOX)
            for one in [slow if (k, e) == (3, BOX) else 1.0]
        ]

    pair = only(samples(factor), better=better, paired=False)
    assert "run 3udocker" in pair.reasons[pair.stamps.index(Stamp.TAIL)]
    assert Stamp.TAIL not in only(samples(1 / factor), better=better, paired=False).stamps


def test_holm_is_that_of_statsmodels_and_skips_pairs_without_inference():
    pairs = [only(runs(3 + k, cost=0.002 * k)) for k in range(6)] + [only(runs(1))]
    adjusted = correct_by_holm(pairs)
    for name in ("p_difference", "p_equivalence"):
        raw = [getattr(pair, name) for pair in pairs[:-1]]
        expected = multipletests(raw, alpha=0.05, method="holm")[1].tolist()
        assert [getattr(pair, f"{name}_holm") for pair in adjusted[:-1]] == pytest.approx(expected)
        assert getattr(adjusted[-1], f"{name}_holm") is None


def test_a_verdict_that_the_family_does_not_support_is_stamped():
    barely = next(
        pair for n in range(3, 8) if 0.02 < (pair := only(runs(n, cost=0.016))).p_equivalence < 0.05
    )
    assert barely.verdict is Verdict.EQUIVALENT
    assert Stamp.NOT_AFTER_HOLM not in correct_by_holm([barely])[0].stamps
    family = correct_by_holm([barely] * 6)
    assert all(Stamp.NOT_AFTER_HOLM in pair.stamps for pair in family)
    assert all(len(pair.stamps) == len(pair.reasons) for pair in family)


def test_the_sentence_of_an_equivalence():
    assert only(runs(8)).sentence == (
        "udocker is equivalent to bare metal within 2 % "
        "(ratio 1.000, 90 % CI 0.998 to 1.002, 8 blocks on node n1)."
    )


def test_the_sentence_of_a_cost():
    assert only(runs(8, cost=0.06)).sentence == (
        "udocker is 6.2 % slower than bare metal "
        "(ratio 1.062, 95 % CI 1.059 to 1.065, 8 blocks on node n1); beyond the margin of 2 % "
        "(ratios 0.980 to 1.020)."
    )
    rate = only(runs(8, cost=0.06), better="higher", unit="images/s")
    assert rate.claim == "udocker is 6.2 % faster than bare metal"
    assert rate.cost == pytest.approx(1 / 1.062 - 1, abs=0.001)


def test_the_sentence_of_an_open_question_says_what_would_close_it():
    assert only(runs(6), paired=False).sentence == (
        "Inconclusive: udocker is between 9.3 % faster and 10.3 % slower than bare metal "
        "(90 % CI, 6 runs each on node n1); about 350 more runs of each "
        "(80 % interval 220 to 720) would decide at 2 %."
    )
