"""Control charts: which value is judged by which limits, and how often they are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from experiments.statistics.control_charts import (
    FALSE_ALARMS,
    FEWEST,
    LEVEL,
    MOST,
    ChartPoint,
    ControlChart,
    choose_alpha,
    compute_limits,
    judge_points,
)

ALPHA = 0.0027


def judge(values: list[float | None], **options: int) -> tuple[ChartPoint, ...]:
    points = [ChartPoint(number, value) for number, value in enumerate(values, start=1)]
    return judge_points(points, ALPHA, **options)


def draw(count: int, seed: int = 1, centre: float = 1.0, spread: float = 0.01) -> list[float]:
    logs = np.random.default_rng(seed).normal(math.log(centre), spread, count)
    return [float(value) for value in np.exp(logs)]


class TestLimits:
    """Student's prediction interval for one more value, from those before it."""

    def test_are_those_of_the_textbook(self) -> None:
        logs = np.log(draw(12))
        limits = compute_limits([float(value) for value in logs], ALPHA)
        assert limits
        half = t.ppf(1 - ALPHA / 2, 11) * logs.std(ddof=1) * math.sqrt(1 + 1 / 12)
        assert limits.low == pytest.approx(math.exp(logs.mean() - half), rel=1e-12)
        assert limits.centre == pytest.approx(math.exp(logs.mean()), rel=1e-12)
        assert limits.high == pytest.approx(math.exp(logs.mean() + half), rel=1e-12)

    def test_need_eight_values(self) -> None:
        judged = judge(list(draw(FEWEST + 1)))
        assert [point.limits for point in judged[:FEWEST]] == [None] * FEWEST
        assert judged[FEWEST].limits
        assert judged[FEWEST].limits.values == FEWEST

    def test_are_fixed_after_twenty_so_that_a_slow_drift_leaves_them(self) -> None:
        level = draw(MOST)
        drift = [1.002**step for step in range(1, 60)]
        judged = judge([*level, *drift])
        fixed = {point.limits for point in judged[MOST:]}
        assert len(fixed) == 1
        assert next(iter(fixed)).are_fixed  # type: ignore[union-attr]
        outside = [point.number for point in judged if point.is_outside]
        assert outside
        assert outside == list(range(outside[0], len(judged) + 1))

    def test_a_value_outside_does_not_widen_them(self) -> None:
        judged = judge([*draw(10), 5.0, *draw(3, seed=2)])
        assert judged[10].is_outside
        assert judged[11].limits == judged[10].limits

    def test_begin_anew_where_that_was_asked_for(self) -> None:
        values = [*draw(MOST), *draw(12, seed=3, centre=1.5)]
        assert all(point.is_outside for point in judge(values)[MOST:])
        judged = judge(values, first=MOST + 1)
        assert not any(point.is_outside for point in judged)
        assert all(point.limits is None for point in judged[: MOST + FEWEST])
        assert judged[MOST + FEWEST].limits
        assert judged[MOST + FEWEST].limits.centre == pytest.approx(1.5, rel=0.02)


class TestOddValues:
    """What has no logarithm is named and counts nowhere."""

    @pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf, 0.0, -1.0, None])
    def test_are_no_points(self, odd: float | None) -> None:
        values = draw(FEWEST)
        judged = judge([*values[:4], odd, *values[4:], 1.0])
        assert (judged[4].value, judged[4].is_outside) == (None, False)
        assert judged[4].problem
        assert judged[-1].limits
        assert judged[-1].limits.values == FEWEST

    def test_a_point_with_a_problem_is_shown_and_not_judged(self) -> None:
        points = [ChartPoint(n, value) for n, value in enumerate(draw(10), start=1)]
        judged = judge_points([*points, ChartPoint(11, 9.0, "few runs")], ALPHA)
        assert (judged[10].value, judged[10].limits, judged[10].is_outside) == (9.0, None, False)

    def test_equal_values_are_inside_and_any_other_is_outside(self) -> None:
        judged = judge([*[1234.0] * 12, 1234.0 * (1 + 1e-15), 1235.0])
        assert [point.number for point in judged if point.is_outside] == [14]

    @pytest.mark.parametrize("values", [[1e-300, 1e300] * 6, [5e-324, 1.7e308] * 6])
    def test_limits_stay_finite_however_wide(self, values: list[float]) -> None:
        for point in judge(list(values)):
            if point.limits:
                assert 0 < point.limits.low < point.limits.high < math.inf

    def test_without_values_there_is_nothing(self) -> None:
        assert judge([]) == ()
        chart = ControlChart("blas, 1x1", "a", "b", "step_time", "", judge([None]))
        assert (chart.last, chart.limits, chart.outside) == (None, None, [])


class TestFalseAlarms:
    """The level is kept on average over histories, with 8 values as with 20."""

    HISTORIES = 400
    LEVEL = 0.01

    def alarms(self, draws: np.ndarray) -> np.ndarray:
        return np.array(
            [
                [point.is_outside for point in judge_points(points, self.LEVEL)]
                for points in (
                    [ChartPoint(n, float(value)) for n, value in enumerate(row, start=1)]
                    for row in np.exp(0.01 * draws)
                )
            ]
        )

    def test_of_normal_values_are_about_as_rare_as_the_level_says(self) -> None:
        draws = np.random.default_rng(97).normal(size=(self.HISTORIES, 30))
        alarms = self.alarms(draws)
        assert not alarms[:, :FEWEST].any()
        # `manage.py calibrate` counts it more closely. Three standard deviations raise six times
        # as many at the ninth value.
        assert 0.5 * self.LEVEL < alarms[:, FEWEST:].mean() < 2 * self.LEVEL

    def test_a_shift_of_five_standard_deviations_is_found(self) -> None:
        draws = np.random.default_rng(98).normal(size=(100, MOST + 1))
        draws[:, -1] += 5
        assert self.alarms(draws)[:, -1].mean() > 0.85

    def test_all_charts_of_a_page_share_the_rate(self) -> None:
        assert choose_alpha(1) == choose_alpha(0) == LEVEL < FALSE_ALARMS
        assert choose_alpha(180) * 180 == pytest.approx(LEVEL)
