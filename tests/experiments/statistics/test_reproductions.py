"""Whether a study that was done again shows the same: known numbers, refusals, error rates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import ttost_ind

from experiments.statistics import Pair, Sample, Stamp, Verdict, compare
from experiments.statistics.calibration import done_again
from experiments.statistics.calibration.bands import QUICK
from experiments.statistics.margins import Goal, Margin
from experiments.statistics.reproductions import (
    Outcome,
    Reproduced,
    find_log_bounds,
    judge_overall,
    judge_pairs,
)
from experiments.statistics.values import Estimand, InterimAnalysis

MARGIN = Margin.of(0.02)


def make_pair(log: float, se: float = 0.002, df: float = 9.0, **columns: Any) -> Pair:
    pair = Pair(
        baseline="bare metal",
        environment="Apptainer",
        unit="s",
        better="lower",
        margin=0.02,
        paired=True,
        n_blocks=10,
        ratio=math.exp(log),
        log_se=se,
        df=df,
        ci95=(0.9, 1.1),
        ci90=(0.95, 1.05),
        verdict=Verdict.SLOWER,
    )
    return replace(pair, **columns)


def measure(logs: list[float]) -> Pair:
    """Return the pair of blocks whose log-ratios are these."""
    samples = [
        Sample(f"{name}{block}", str(block), name, 10 * math.exp(log * (name == "box")))
        for block, log in enumerate(logs)
        for name in ("bare", "box")
    ]
    (pair,) = compare(
        samples,
        baseline="bare",
        environments=["box"],
        margin=0.02,
        better="lower",
        paired=True,
        unit="s",
    )
    return pair


def test_the_numbers_are_those_of_a_computation_by_hand() -> None:
    # SE = sqrt(0.004² + 0.003²) = 0.005; df = 0.005⁴ / (0.004⁴ / 7 + 0.003⁴ / 9) = 13.715
    judged = judge_pairs(make_pair(0.050, 0.004, 7.0), make_pair(0.054, 0.003, 9.0), MARGIN)
    assert judged.ratio == pytest.approx(math.exp(0.004), rel=1e-12)
    assert judged.log_se == pytest.approx(0.005, rel=1e-12)
    assert judged.df == pytest.approx(6.25e-10 / (2.56e-10 / 7 + 8.1e-11 / 9), rel=1e-12)
    assert judged.df == pytest.approx(13.7147, abs=1e-4)
    # t with 13.715 degrees of freedom: 1.7637 at 95 %; 0.004 ± 0.0088 lies within ± 0.0198
    assert judged.ci90 == pytest.approx((math.exp(-0.00481), math.exp(0.01281)), abs=2e-5)
    # the nearer bound is (0.0198026 - 0.004) / 0.005 = 3.16 standard errors away
    expected = stats.t.sf((math.log(1.02) - 0.004) / 0.005, judged.df)
    assert judged.p_same_effect == pytest.approx(expected, rel=1e-9)
    assert judged.outcome is Outcome.REPRODUCED


def test_of_blocks_it_is_welchs_test_and_tost_of_their_log_ratios() -> None:
    draw = np.random.default_rng(1)
    first, again = draw.normal(0.05, 0.004, 7), draw.normal(0.053, 0.006, 11)
    judged = judge_pairs(measure(first.tolist()), measure(again.tolist()), MARGIN)
    welch = stats.ttest_ind(again, first, equal_var=False)
    assert judged.p_difference == pytest.approx(welch.pvalue, rel=1e-8)
    assert judged.df == pytest.approx(welch.df, rel=1e-8)
    low, high = -math.log(1.02), math.log(1.02)
    p_tost, _, _ = ttost_ind(again, first, low, high, usevar="unequal")
    assert judged.p_same_effect == pytest.approx(p_tost, rel=1e-8)


CASES = {
    "the same, plainly": ((0.1, 0.1), (Verdict.SLOWER, Verdict.SLOWER), Outcome.REPRODUCED),
    "both within the margin": (
        (0.001, 0.003),
        (Verdict.EQUIVALENT, Verdict.EQUIVALENT),
        Outcome.REPRODUCED,
    ),
    "far more than before": (
        (0.1, 0.2),
        (Verdict.SLOWER, Verdict.SLOWER),
        Outcome.NOT_REPRODUCED,
    ),
    "the other way round": (
        (0.01, -0.01),
        (Verdict.SLOWER, Verdict.FASTER),
        Outcome.NOT_REPRODUCED,
    ),
    "other verdicts, and other effects": (
        (0.005, 0.015),
        (Verdict.EQUIVALENT, Verdict.SLOWER),
        Outcome.NOT_REPRODUCED,
    ),
    "other verdicts, and like effects": (
        (0.014, 0.016),
        (Verdict.EQUIVALENT, Verdict.SLOWER),
        Outcome.INCONCLUSIVE,
    ),
    "the new one is open": (
        (0.01, 0.01),
        (Verdict.SLOWER, Verdict.INCONCLUSIVE),
        Outcome.INCONCLUSIVE,
    ),
    "the first one was open": (
        (0.0, 0.0),
        (Verdict.INCONCLUSIVE, Verdict.EQUIVALENT),
        Outcome.INCONCLUSIVE,
    ),
    "far off although one is open": (
        (0.1, 0.2),
        (Verdict.SLOWER, Verdict.INCONCLUSIVE),
        Outcome.NOT_REPRODUCED,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_case_has_its_outcome_and_says_why(case: str) -> None:
    logs, verdicts, outcome = CASES[case]
    first, again = (
        make_pair(log, verdict=verdict) for log, verdict in zip(logs, verdicts, strict=True)
    )
    judged = judge_pairs(first, again, MARGIN)
    assert judged.outcome is outcome
    assert judged.reason.endswith(".")
    # Whatever the first one is: exchanging both changes no outcome.
    exchanged = judge_pairs(again, first, MARGIN)
    assert exchanged.outcome is outcome
    assert judged.ratio is not None
    assert exchanged.ratio == pytest.approx(1 / judged.ratio, rel=1e-12)


def test_few_blocks_do_not_tell() -> None:
    judged = judge_pairs(make_pair(0.1, 0.01, 4.0), make_pair(0.1, 0.01, 4.0), MARGIN)
    assert judged.outcome is Outcome.INCONCLUSIVE
    assert "more blocks would tell" in judged.reason


@pytest.mark.parametrize("which", [0, 1], ids=["first", "again"])
@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"verdict": Verdict.NOT_ATTRIBUTABLE}, "NOT ATTRIBUTABLE"),
        ({"verdict": Verdict.NOT_JUDGED}, "NOT JUDGED BY THE PLAN"),
        ({"verdict": Verdict.NO_INFERENCE, "detail": "n = 1"}, "n = 1"),
        ({"stamps": (Stamp.CONFOUNDED,)}, "CONFOUNDED"),
        ({"stamps": (Stamp.TRAINED_DIFFERENTLY,)}, "TRAINED DIFFERENTLY"),
        ({"stamps": (Stamp.REJECTIONS_DIFFER,)}, "REJECTIONS DIFFER"),
        ({"interim_analysis": InterimAnalysis(number=1, of=3, alpha=0.02)}, "early"),
        ({"log_se": None}, "Nothing can be inferred"),
        ({"log_se": 0.0}, "Nothing can be inferred"),
        ({"unit": "B"}, "different things"),
        ({"better": "higher"}, "different things"),
        ({"estimand": Estimand.PARTITION}, "a partition"),
    ],
)
def test_what_cannot_be_held_against_the_other_is_inconclusive_and_says_why(
    which: int, columns: dict[str, Any], reason: str
) -> None:
    pairs = [make_pair(0.1), make_pair(0.1)]
    assert judge_pairs(pairs[0], pairs[1], MARGIN).outcome is Outcome.REPRODUCED
    pairs[which] = replace(pairs[which], **columns)
    judged = judge_pairs(pairs[0], pairs[1], MARGIN)
    assert judged.outcome is Outcome.INCONCLUSIVE
    assert reason in judged.reason


def test_what_one_study_alone_has_is_inconclusive() -> None:
    assert "the first study" in judge_pairs(make_pair(0.1), None, MARGIN).reason
    assert "the new one" in judge_pairs(None, make_pair(0.1), MARGIN).reason


def test_the_margin_is_that_of_the_plan_in_its_direction() -> None:
    uneven = Margin(slower=0.05, faster=0.02)
    slower, faster = math.log(1.05), math.log(1.02)
    assert find_log_bounds(uneven, make_pair(0)) == pytest.approx((-faster, slower))
    rate = make_pair(0, better="higher")
    assert find_log_bounds(uneven, rate) == pytest.approx((-slower, faster))
    one_sided = Margin.make(Goal.NOT_SLOWER, 0.02)
    assert find_log_bounds(one_sided, make_pair(0)) == pytest.approx((-faster, faster))


@given(
    logs=st.tuples(*[st.floats(-0.3, 0.3)] * 2),
    errors=st.tuples(*[st.floats(1e-4, 0.05)] * 2),
    dfs=st.tuples(*[st.floats(2, 60)] * 2),
    margin=st.floats(0.001, 0.3),
)
def test_it_agrees_with_its_own_intervals_and_p_values(
    logs: tuple[float, float],
    errors: tuple[float, float],
    dfs: tuple[float, float],
    margin: float,
) -> None:
    first, again = map(make_pair, logs, errors, dfs)
    judged = judge_pairs(first, again, Margin.of(margin))
    assert judged.df is not None
    assert min(dfs) * (1 - 1e-9) <= judged.df <= sum(dfs) * (1 + 1e-9)
    assert judged.bounds
    assert judged.ci90
    assert judged.ci95
    assert judged.p_same_effect is not None
    assert judged.p_not_reproduced is not None
    if judged.outcome is Outcome.REPRODUCED:
        assert judged.p_same_effect <= 0.05 + 1e-9
        assert judged.bounds[0] <= judged.ci90[0] <= judged.ci90[1] <= judged.bounds[1]
    elif judged.outcome is Outcome.NOT_REPRODUCED:
        assert judged.p_not_reproduced <= 0.05 + 1e-9
        assert judged.ci95[0] >= judged.bounds[1] or judged.ci95[1] <= judged.bounds[0]
    else:
        assert judged.p_same_effect >= 0.05 - 1e-9
        assert judged.p_not_reproduced >= 0.05 - 1e-9


def make_line(outcome: Outcome, p: float | None = 0.5) -> Reproduced:
    return Reproduced(outcome=outcome, reason="", first=None, again=None, p_not_reproduced=p)


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ([], Outcome.INCONCLUSIVE),
        ([make_line(Outcome.REPRODUCED)] * 3, Outcome.REPRODUCED),
        (
            [make_line(Outcome.REPRODUCED), make_line(Outcome.INCONCLUSIVE, None)],
            Outcome.INCONCLUSIVE,
        ),
        (
            [make_line(Outcome.REPRODUCED)] * 9 + [make_line(Outcome.NOT_REPRODUCED, 0.004)],
            Outcome.NOT_REPRODUCED,
        ),
        # 0.02 among ten is no more than chance brings
        (
            [make_line(Outcome.REPRODUCED)] * 9 + [make_line(Outcome.NOT_REPRODUCED, 0.02)],
            Outcome.INCONCLUSIVE,
        ),
        ([make_line(Outcome.NOT_REPRODUCED, 0.02)], Outcome.NOT_REPRODUCED),
    ],
)
def test_all_together_need_all_or_one_after_holm(lines: list[Reproduced], outcome: Outcome) -> None:
    assert judge_overall(lines).outcome is outcome


def test_many_at_once_are_judged_as_each_is() -> None:
    """What the calibration simulates is what pages show."""
    draw = np.random.default_rng(3)
    seen = set()
    for _ in range(200):
        logs = [
            draw.normal(draw.choice([0, 0.01, 0.05, -0.05]), 10 ** draw.uniform(-3, -1.7), n)
            for n in draw.integers(3, 12, 2)
        ]
        pairs = [measure(each.tolist()) for each in logs]
        many = [
            done_again.vectorised.estimate_paired(np.zeros((1, len(each))), each[np.newaxis])
            for each in logs
        ]
        judged = judge_pairs(pairs[0], pairs[1], MARGIN)
        assert str(done_again.judge(many[0], many[1])[0]) == judged.outcome
        seen.add(judged.outcome)
    assert seen == set(Outcome)


def test_error_rates_keep_their_bands() -> None:
    bands = list(done_again.list_bands(np.random.default_rng(11), QUICK))
    assert [band.promise for band in bands if not band.ok] == []
    assert [band.control for band in bands] == [False, False, True]
