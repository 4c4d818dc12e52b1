"""Losses of the same seed, compared bitwise; and held against what another seed does."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.statistics.training.equivalence import compare_trainings, decide_with_holm
from experiments.statistics.training.outcomes import Ending, Outcome
from experiments.statistics.training.sentences import explain_stamp, write_sentence

TWO = ["bare", "box"]
losses = st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=6)


def of(bare, box, *, seeds=None, first=None, digests=True, **more):
    """One run a repeat in each; a seed of its own for each repeat unless `seeds` says otherwise."""
    rows = [
        Ending(
            f"{name}{k}",
            name,
            f"seed {seeds[k] if seeds else k}",
            last,
            first,
            f"{last!r}" if digests else "",
        )
        for name, runs in zip(TWO, (bare, box), strict=True)
        for k, last in enumerate(runs)
    ]
    return compare_trainings(rows, baseline="bare", environments=TWO, **more)


def said(*args, **more):
    return [write_sentence(one) for one in of(*args, **more)]


@given(losses, st.booleans())
def test_equal_series_are_equal_whatever_the_seeds(runs, one_seed):
    (_, box) = of(runs, runs, seeds=[1] * len(runs) if one_seed and len(set(runs)) == 1 else None)
    assert (box.outcome, box.equal, box.is_amiss) == (Outcome.EQUAL, len(runs), False)


@given(losses, st.data(), st.floats(1e-3, 1e3))
def test_another_unit_of_loss_changes_no_outcome(bare, data, factor):
    box = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=len(bare), max_size=len(bare)))
    (_, one) = of(bare, box)
    (_, other) = of([factor * loss for loss in bare], [factor * loss for loss in box])
    assert other.rms == pytest.approx(one.rms, rel=1e-6, abs=1e-9)
    if one.seed_sd and one.seed_sd > 1e-6 and other.seed_sd:
        assert other.apart == pytest.approx(one.apart, rel=1e-4, abs=1e-6)


@given(losses, st.data())
def test_swapping_the_two_turns_the_shift_round(bare, data):
    box = data.draw(st.lists(st.floats(1e-3, 1e3), min_size=len(bare), max_size=len(bare)))
    (_, one), (_, other) = of(bare, box), of(box, bare)
    assert one.shift == pytest.approx(-other.shift, abs=1e-12)
    assert (one.rms, one.largest) == pytest.approx((other.rms, other.largest))


SEEDS = [0.50, 0.55, 0.47, 0.52, 0.49]


def test_a_difference_that_a_seed_would_make_too_is_within_the_noise():
    box = [0.51, 0.54, 0.47, 0.53, 0.48]
    (bare, found) = of(SEEDS, box)
    assert (found.outcome, found.equal, found.is_amiss) == (Outcome.WITHIN, 1, False)
    assert 0 < found.apart < 1
    assert write_sentence(bare) == (
        "bare: one run of each of 5 seeds; the last loss varies by 6.2 % between them (SD)."
    )
    assert write_sentence(found) == (
        "box: differs from bare in 4 of 5 runs, the last loss by 2.1 % at most; 0.21 times as far "
        "as two seeds of bare (RMS): within the noise between seeds (SD 6.2 %, n = 5)."
    )


def test_a_shift_of_all_runs_is_beyond_the_noise_and_stamps():
    (_, found) = of(SEEDS, [loss * 1.2 for loss in SEEDS])
    assert (found.outcome, found.is_amiss) == (Outcome.BEYOND, True)
    assert write_sentence(found).endswith(
        "beyond the noise between seeds (SD 6.2 %, n = 5); on average it is 20 % higher."
    )
    assert explain_stamp(found).endswith("A run that trains otherwise is not comparable in speed.")
    (_, better) = of(SEEDS, [loss / 1.2 for loss in SEEDS])
    assert better.outcome is Outcome.BEYOND, "a loss that is too good is amiss too"


def test_one_run_far_off_is_beyond_the_noise_though_the_others_are_equal():
    (_, found) = of(SEEDS, [*SEEDS[:4], 2.3])
    assert (found.outcome, found.equal) == (Outcome.BEYOND, 4)


def test_a_shift_that_is_sure_but_smaller_than_the_noise_is_within_it():
    (_, found) = of(SEEDS, [loss * 1.0001 for loss in SEEDS])
    assert found.outcome is Outcome.WITHIN
    assert "the last loss by a relative 0.0001 at most; less than 0.01 times" in write_sentence(
        found
    )


def test_one_seed_knows_no_noise_but_a_loss_that_hardly_falls_is_worse_by_far():
    same = [1, 1, 1]
    (bare, found) = of([0.5] * 3, [0.5, 0.51, 0.5], seeds=same, first=2.3)
    assert (found.outcome, found.is_amiss) == (Outcome.UNKNOWN, False)
    assert write_sentence(bare) == "bare: bitwise reproducible (3 of 3 runs, same seed)."
    assert write_sentence(found) == (
        "box: differs from bare in 1 of 3 runs, the last loss by 2 % at most. The noise between "
        "seeds is unknown: one seed."
    )
    (_, wrong) = of([0.5] * 3, [1.4] * 3, seeds=same, first=2.3)
    assert (wrong.outcome, wrong.is_amiss) == (Outcome.WORSE, True)
    assert "Its loss fell 50 % less far than that of bare: worse by far." in write_sentence(wrong)
    (_, nearly) = of([0.001] * 3, [0.003] * 3, seeds=same, first=2.3)
    assert nearly.outcome is Outcome.UNKNOWN, "thrice as much of nearly nothing"


def test_a_baseline_that_does_not_repeat_itself_is_not_outdone_by_its_own_worst():
    same = [1, 1, 1]
    (bare, found) = of([0.5, 0.5, 1.3], [1.2, 1.2, 1.2], seeds=same, first=2.3)
    assert found.outcome is Outcome.UNKNOWN
    assert write_sentence(bare) == (
        "bare: does not repeat itself; 1 of 3 runs of one seed differ from the first of the same "
        "seed, the last loss by 160 % at most."
    )


def test_a_loss_may_be_zero_or_negative():
    (_, found) = of([-1.0, 0.0, 1.0, 0.5], [-1.0, 0.1, 1.0, 0.5])
    assert (found.outcome, found.is_relative) == (Outcome.WITHIN, False)
    assert "the last loss by 0.1 at most" in write_sentence(found)


def test_the_same_end_with_another_way_there_is_not_equal_to_the_bit():
    rows = [Ending("a", "bare", "seed 1", 0.5, digest="x"), Ending("b", "box", "seed 1", 0.5)]
    (_, unseen) = compare_trainings(rows, baseline="bare", environments=TWO)
    assert unseen.outcome is Outcome.EQUAL
    rows[1] = Ending("b", "box", "seed 1", 0.5, digest="y")
    (_, found) = compare_trainings(rows, baseline="bare", environments=TWO)
    assert (found.outcome, found.equal) == (Outcome.UNKNOWN, 0)


def test_other_seeds_are_not_compared_and_unknown_ones_are_said():
    rows = [Ending("a", "bare", "seed 1", 0.5), Ending("b", "box", "seed 2", 0.5)]
    assert [
        write_sentence(one) for one in compare_trainings(rows, baseline="bare", environments=TWO)
    ] == [
        "bare: one run of one seed, so whether it repeats itself is not known.",
        "box: no run of bare has the same seed.",
    ]
    (bare, box) = said(SEEDS, SEEDS[::-1], seeds_known=False)
    assert bare == (
        "bare: 5 runs whose seeds are not known; the last loss varies by 6.2 % between them (SD)."
    )
    assert box == "box: bitwise equal to bare in all 5 runs.", "in whatever order"
    (_, box) = said(SEEDS, [0.51, 0.54, 0.48, 0.53, 0.485], seeds_known=False)
    assert "5 runs against 5 of bare with unknown seeds, the last loss" in box
    assert "within the noise between runs (SD 6.2 %, n = 5, p after Holm 1.00)." in box
    (bare, box) = said([0.5] * 3, [0.5, 0.4, 0.5], seeds_known=False)
    assert bare == "bare: 3 runs whose seeds are not known, all bitwise equal."
    assert box.endswith("The noise between runs is unknown: all runs of bare end alike.")


def test_an_accuracy_is_compared_in_points_and_equal_where_its_value_is():
    shares = [0.61, 0.63, 0.60, 0.62]
    (_, box) = of(shares, [0.61, 0.64, 0.60, 0.62], what="accuracy", better="higher",
                     digests=False)  # fmt: skip
    assert "in 1 of 4 runs, the last accuracy by 1 points at most" in write_sentence(box)
    assert "(SD 1.3 points, n = 4)" in write_sentence(box)
    (_, same) = of(shares, shares, what="accuracy", better="higher", digests=False)
    assert write_sentence(same) == "box: the same accuracy as bare in all 4 runs."


def test_nothing_trained_is_nothing_said():
    assert of([], [0.5]) == []
    assert [one.environment for one in of([0.5], [])] == ["bare"]


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("spread", [0.05, 0.5], ids=["narrow", "wide"])
def test_an_environment_that_only_draws_other_numbers_is_rarely_called_amiss(n, spread):
    """Each run as if from another seed: the farthest that an honest environment can be."""
    draw = np.random.default_rng(7)
    amiss = sum(of(*draw.lognormal(0, spread, (2, n)).tolist())[1].is_amiss for _ in range(600))
    assert amiss <= 0.03 * 600


def test_a_training_that_went_wrong_is_found():
    draw = np.random.default_rng(8)
    bare, box = draw.lognormal(0, 0.05, (2, 200, 5)) * np.array([[[1.0]], [[1.3]]])
    found = [of(b, e)[1].is_amiss for b, e in zip(bare.tolist(), box.tolist(), strict=True)]
    assert sum(found) >= 190, "five standard deviations higher, with five seeds"


TWO_FAR = [0.51, 0.54, 0.47, 0.9, 1.0]


@given(st.permutations(range(5)), st.permutations(range(5)))
def test_the_numbers_of_repeats_say_nothing_where_seeds_are_unknown(first, second):
    """Which of the runs is called the third one is nobody's finding."""
    orders = [SEEDS[k] for k in first], [TWO_FAR[k] for k in second]
    (_, plain), (_, turned) = (of(*runs, seeds_known=False) for runs in ((SEEDS, TWO_FAR), orders))
    assert plain.outcome is turned.outcome is Outcome.BEYOND
    assert turned.p == pytest.approx(plain.p)
    assert write_sentence(turned) == write_sentence(plain)


@pytest.mark.parametrize(("n", "m"), [(3, 3), (5, 5), (3, 10), (10, 4)])
def test_runs_of_unknown_seeds_are_rarely_called_amiss_and_found_where_they_are(n, m):
    draw = np.random.default_rng(n)

    def amiss(factor):
        rows = [draw.lognormal(0, 0.05, size) for size in (m, n)]
        return of(rows[0].tolist(), (factor * rows[1]).tolist(), seeds_known=False)[1].is_amiss

    assert sum(amiss(1.0) for _ in range(600)) <= 0.03 * 600
    if min(n, m) >= 4:
        assert sum(amiss(1.6) for _ in range(100)) >= 90


def test_a_study_of_many_configurations_raises_no_more_false_alarms_than_one():
    draw = np.random.default_rng(9)
    alarms = 0
    for _ in range(200):
        found = [of(*draw.lognormal(0, 0.05, (2, 5)).tolist())[1] for _ in range(18)]
        alarms += any(one.is_amiss for one in decide_with_holm(found))
    assert alarms <= 0.05 * 200
    (_, far) = of(SEEDS, [loss * 1.5 for loss in SEEDS])
    within = [of(SEEDS, [loss * 1.01 for loss in SEEDS])[1] for _ in range(17)]
    assert decide_with_holm([*within, far])[-1].outcome is Outcome.BEYOND


def test_nothing_was_learnt_so_nothing_can_be_missed():
    """ln(1000) is where a thousand classes begin: 6.91 to 6.90 is no training."""
    (_, one) = of([6.90] * 3, [6.909] * 3, seeds=[1] * 3, first=6.91)
    assert (one.outcome, one.lacks) == (Outcome.UNKNOWN, None)
    (_, one) = of([0.5, 0.6, 2.4], [2.5] * 3, seeds=[1] * 3, first=2.6)
    assert one.outcome is Outcome.UNKNOWN, "its own runs differ by more than the loss fell"
    (_, one) = of([1.0, 2.0, 3.0], [6.0] * 3, seeds=[1] * 3, first=4.0)
    assert (one.outcome, one.lacks) == (Outcome.UNKNOWN, None), "they differ by as much as it fell"


def test_what_the_digits_of_a_log_hide_is_no_difference():
    """7.3 and 7.4 may be the same loss, printed on either side of a half."""
    (_, one) = of([7.3, 7.3, 7.4, 7.3, 7.3], [7.4, 7.4, 7.4, 7.5, 7.4], digests=False)
    assert (one.outcome, one.p) == (Outcome.WITHIN, 1.0)
    bare = [7.301, 7.302, 7.303, 7.304, 7.302]
    (_, one) = of(bare, [loss + 0.1 for loss in bare], digests=False, seeds_known=False)
    assert one.outcome is Outcome.BEYOND


def test_a_hundredth_of_a_point_is_no_other_training():
    points = {"what": "accuracy", "better": "higher", "digests": False}
    bare = [0.362656, 0.3626562, 0.3626559]
    (_, one) = of(bare, [share + 0.00016 for share in bare], **points)
    assert one.outcome is Outcome.WITHIN
    (_, one) = of(bare, [share + 0.01 for share in bare], **points)
    assert one.outcome is Outcome.BEYOND
