"""One environment across studies: known numbers, refusals in words, and coverage."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.meta_analysis import combine_effects

from experiments.statistics import Pair, Stamp, Verdict
from experiments.statistics.across_studies import (
    AcrossStudies,
    Study,
    average_configurations,
    name_studies,
    summarise_studies,
)
from experiments.statistics.calibration.several_studies import measure_coverage
from experiments.statistics.extended import Extended
from experiments.statistics.values import InterimAnalysis
from tests.experiments.statistics.test_pooling import log_risk_ratios

EXTENSION = Extended(planned=8, added=8, level=0.0294, error_difference=0.07, error_goal=0.07)
ALIKE = (0.001, 0.004, -0.002, 0.003, 0.006)


def make_pair(log: float, se: float = 0.004, **columns: Any) -> Pair:
    pair = Pair(
        baseline="bare metal",
        environment="Apptainer",
        unit="s",
        better="lower",
        margin=0.02,
        paired=True,
        n_blocks=8,
        ratio=math.exp(log),
        log_se=se,
        df=7.0,
        ci95=(0.9, 1.1),
        ci90=(0.95, 1.05),
        verdict=Verdict.INCONCLUSIVE,
    )
    return replace(pair, **columns)


def make_study(number: int, *pairs: Pair, **columns: Any) -> Study:
    study = Study(
        number=number,
        identities=frozenset({str(number)}),
        metrics=("step time",),
        pairs=pairs,
        nodes=frozenset({f"lab: node{number}"}),
    )
    return replace(study, **columns)


def make_studies(logs: tuple[float, ...] = ALIKE) -> list[Study]:
    return [make_study(number, make_pair(log)) for number, log in enumerate(logs, start=1)]


def summarise(studies: list[Study]) -> AcrossStudies:
    summary = summarise_studies(studies, "Apptainer")
    assert (summary.ratio is None) is bool(summary.why_not)
    assert summary.interval is None or not summary.why_not
    return summary


def test_the_trials_of_the_bcg_vaccine_as_studies() -> None:
    """The numbers of metafor's documents: empirical Bayes is Paule and Mandel's estimate."""
    logs, errors = log_risk_ratios()
    studies = [
        make_study(number, make_pair(log, error))
        for number, (log, error) in enumerate(zip(logs, errors, strict=True))
    ]
    summary = summarise(studies)
    t = stats.t.ppf(0.975, 12)
    assert summary.tau == pytest.approx(math.sqrt(0.3181), abs=2e-4)
    assert summary.interval == pytest.approx(
        [math.exp(-0.7150 + sign * t * 0.1809) for sign in (-1, 1)], rel=1e-3
    )
    reach = stats.t.ppf(0.975, 11) * math.hypot(0.1809, math.sqrt(0.3181))
    assert summary.prediction == pytest.approx(
        [math.exp(-0.7150 + sign * reach) for sign in (-1, 1)], rel=2e-3
    )
    assert summary.p_same_ratio
    assert summary.p_same_ratio < 0.001
    assert "differ by more than their own intervals explain" in summary.remarks[-1]


@given(st.lists(st.tuples(st.floats(-1, 1), st.floats(1e-3, 1)), min_size=3, max_size=15))
def test_it_is_what_statsmodels_computes(drawn: list[tuple[float, float]]) -> None:
    summary = summarise([make_study(i, make_pair(*each)) for i, each in enumerate(drawn)])
    values, errors = map(np.array, zip(*drawn, strict=True))
    known: Any = combine_effects(values, errors**2, method_re="iterated", use_t=True, atol=1e-12)
    assume(known.tau2 > 1e-4)  # it gives up where its first steps go below 0
    # Tare's is never narrower than with known errors (Knapp and Hartung 2003).
    se = max(known.sd_eff_w_re_hksj, known.sd_eff_w_re)
    reach = stats.t.ppf(0.975, len(drawn) - 1) * se
    assert np.log(summary.interval) == pytest.approx(
        [known.mean_effect_re - reach, known.mean_effect_re + reach], rel=1e-3, abs=2e-4
    )


def test_studies_that_agree_keep_the_errors_that_they_know() -> None:
    """Hartung and Knapp's standard error alone would be 0 for studies that agree by chance."""
    summary = summarise(make_studies((0.01,) * 8))
    reach = stats.t.ppf(0.975, 7) * 0.004 / math.sqrt(8)
    assert summary.tau == 0
    assert np.log(summary.interval) == pytest.approx([0.01 - reach, 0.01 + reach])


def test_five_hundred_studies_have_the_spread_that_they_were_drawn_with() -> None:
    draw = np.random.default_rng(14)
    studies = make_studies(tuple(draw.normal(0, 0.01, 500).tolist()))
    summary = summarise(studies)
    assert summary.configurations == 500
    assert summary.tau == pytest.approx(0.0092, abs=0.001)  # the variance of 1 % less that of 0.4 %


def test_configurations_of_one_study_count_once() -> None:
    """With them as studies of their own the interval would be narrower than it may be."""
    alone = summarise(make_studies())
    doubled = [replace(study, pairs=study.pairs * 4) for study in make_studies()]
    once = summarise(doubled)
    assert (once.ratio, once.interval) == (
        pytest.approx(alone.ratio),
        pytest.approx(alone.interval),
    )
    assert once.configurations == 5
    assert once.remarks[0].startswith("Experiments 1 to 5 count once: the mean log-ratio")


def test_the_mean_of_configurations_has_the_largest_possible_standard_error() -> None:
    mean = average_configurations([make_pair(0.01, 0.002), make_pair(0.03, 0.006, df=4.0)])
    assert mean.log_ratio == pytest.approx(0.02)
    assert mean.se == pytest.approx(0.004)
    assert mean.df == pytest.approx(4)


def test_the_sentence_has_the_mean_and_both_intervals() -> None:
    sentence = summarise(make_studies()).sentence
    assert sentence.startswith("Over 5 experiments Apptainer has a mean ratio of 1.002 [")
    assert "(95 % interval by random effects)" in sentence
    assert "One more such experiment would lie between 0.99" in sentence


def test_a_prediction_takes_five_studies() -> None:
    summary = summarise(make_studies()[:4])
    assert summary.prediction is None
    assert any("A prediction interval takes 5 experiments" in remark for remark in summary.remarks)
    assert "One more such experiment" not in summary.sentence


def refusal(studies: list[Study]) -> str:
    return summarise(studies).sentence


def test_fewer_than_three_studies_have_no_summary() -> None:
    studies = make_studies()
    assert refusal(studies[:2]) == (
        "There is no summary: 2 experiments do not tell how much experiments differ; it takes 3."
    )
    assert "one experiment does not tell" in refusal(studies[:1])
    assert "0 experiments do not tell" in refusal([])
    several = [replace(studies[0], pairs=studies[0].pairs * 5)]
    assert "one experiment does not tell" in refusal(several), "configurations are no studies"


@pytest.mark.parametrize(
    ("pair", "columns", "reason"),
    [
        ({"better": "higher"}, {}, "of some lower is better and of others higher"),
        ({"better": None}, {}, "not said of all metrics whether lower or higher is better"),
        ({}, {"metrics": ("run time",)}, "different things: run time and step time"),
        ({"baseline": "Docker"}, {}, "different baselines: Docker and bare metal"),
        ({}, {"identities": frozenset({"2", "3"})}, "experiments 1 and 2 are of the same data"),
        ({"ci95": None}, {}, "experiment 1 has no interval"),
        ({"log_se": math.nan}, {}, "experiment 1 has no interval"),
        ({"ratio": math.inf}, {}, "experiment 1 has no interval"),
        ({"stamps": (Stamp.CONFOUNDED,)}, {}, "experiment 1 is stamped CONFOUNDED"),
        ({"stamps": (Stamp.PROVISIONAL,)}, {}, "experiment 1 has too few runs"),
        (
            {"interim_analysis": InterimAnalysis(number=1, of=2, alpha=0.0294)},
            {},
            "experiment 1 has a verdict from an interim analysis",
        ),
        ({"extension": EXTENSION}, {}, "experiment 1 has blocks that were added because"),
        ({"stamps": (Stamp.ONE_PROCESS,)}, {}, "experiment 1 has values of a single start"),
        ({"log_se": 0.0}, {}, "experiment 1 has no interval"),
    ],
)
def test_where_a_mean_is_not_honest_it_says_why(
    pair: dict[str, Any], columns: dict[str, Any], reason: str
) -> None:
    first, *others = make_studies()
    odd = replace(first, pairs=(replace(first.pairs[0], **pair),), **columns)
    assert reason in refusal([odd, *others])
    assert refusal([first, *others]).startswith("Over 5 experiments")


def test_a_study_whose_configurations_differ_has_no_single_ratio() -> None:
    studies = make_studies()
    studies[1] = replace(studies[1], pairs=(make_pair(0.0), make_pair(0.3)))
    assert "configurations of experiment 2 differ, from 1.000 to 1.350" in refusal(studies)


def test_studies_that_share_nodes_are_named() -> None:
    studies = make_studies()
    studies[3] = replace(studies[3], nodes=studies[0].nodes | studies[3].nodes)
    summary = summarise(studies)
    assert summary.remarks == (
        "Experiments 1 and 4 share lab: node1: they are less independent than the intervals "
        "assume.",
    )
    assert summary.ratio


def test_numbers_of_studies_in_a_row_are_written_as_one() -> None:
    assert name_studies([3]) == "experiment 3"
    assert name_studies([2, 1]) == "experiments 1 and 2"
    assert name_studies([9, 1, 2, 3, 5]) == "experiments 1 to 3, 5 and 9"


@pytest.mark.parametrize("studies", [3, 5, 10])
@pytest.mark.parametrize("apart", [0.0, 0.01, 0.03])
def test_the_intervals_hold_what_they_promise(studies: int, apart: float) -> None:
    """Bands from `several_studies`, of 8,000 sets: see docs/statistics.md."""
    coverage = measure_coverage(studies, 8, apart, sets=1500, seed=studies)
    assert coverage.mean >= 0.92
    # Where studies differ as much as their errors, too often none of it is seen: 0.88 at worst.
    assert coverage.prediction >= (0.86 if apart == 0.01 else 0.92)
    # The simulation notices an interval that is too sure of itself.
    assert apart == 0 or coverage.known_errors < 0.82
