"""How numbers are written."""

import pytest

from experiments.statistics import numbers


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([0.0229, 0.0231, None], "s", (1e3, "ms")),
        ([3710.0, 12.0], "s", (1, "s")),
        ([4.1e-4], "s", (1e6, "µs")),
        ([9.996e-4], "s", (1e3, "ms")),
        ([1.2e-11], "s", (1e9, "ns")),
        ([], "s", (1, "s")),
        ([0.0, float("nan")], "s", (1, "s")),
        ([3.2e9], "B", (1e-9, "GB")),
        ([1.5e13], "FLOP/s", (1e-12, "TFLOP/s")),
        ([118000.0], "images/s", (1, "images/s")),
        ([0.693], "1", (1, "")),
    ],
)
def test_one_prefix_is_chosen_for_a_column(values, unit, expected):
    factor, text = numbers.si(values, unit)
    assert (pytest.approx(factor), text) == expected


def test_digits_follow_the_uncertainty():
    assert numbers.spread(0.0229412, 0.00031, 5, "s") == "22.94 ± 0.31 ms (SD, n = 5)"
    assert numbers.spread(3710.4, 17.3, 3, "s") == "3710 ± 17 s (SD, n = 3)"
    assert numbers.spread(0.5, 0.0996, 3, "s", prefix=(1, "s")) == "0.50 ± 0.10 s (SD, n = 3)"
    assert numbers.spread(0.5, 0.0, 3, "s") == "500.0 ± 0.0 ms (SD, n = 3)"
    assert numbers.spread(118.25, None, 1, "images/s") == "118.2 images/s (n = 1)"
    assert numbers.spread(None, None, 0, "s") == "–"


def test_a_single_quantity():
    assert numbers.quantity(0.02294, "s") == "22.94 ms"
    assert numbers.quantity(0.0, "s") == "0.000 s"
    assert numbers.quantity(7, "") == "7.000"
    assert numbers.quantity(float("inf"), "s") == "–"


@pytest.mark.parametrize(
    ("value", "interval", "text"),
    [
        (1.0541, (1.0489, 1.0612), "1.054 [1.049, 1.061]"),
        (1.00412, (1.00381, 1.00442), "1.0041 [1.0038, 1.0044]"),
        (1.0, (1e-9, 1e9), "1.000 [0.000, 1.00e+09]"),
        (0.9874, None, "0.987"),
        (None, None, "–"),
    ],
)
def test_a_ratio_with_its_interval(value, interval, text):
    assert numbers.ratio(value, interval) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [(0.054, "+5.4 %"), (-0.02, "−2.0 %"), (0.0001, "0.0 %"), (-0.0001, "0.0 %"), (None, "–")],
)
def test_a_cost_has_a_sign(fraction, text):
    assert numbers.cost(fraction) == text


def test_a_margin_is_written_as_it_was_typed():
    assert [numbers.margin(m) for m in (0.02, 0.005, 0.1, 0.01357)] == [
        "2 %",
        "0.5 %",
        "10 %",
        "1.36 %",
    ]


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.0231, "0.023"), (0.00099, "< 0.001"), (0.0996, "0.10"), (0.4397, "0.44"), (1, "1.00")],
)
def test_a_p_value_is_a_number(p, text):
    assert numbers.p_value(p) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (3840, "1 h 04 min"),
        (3.2, "3.2 s"),
        (12.4, "12 s"),
        (0.00041, "410 µs"),
        (0.0041, "4.1 ms"),
        (59.96, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (86399, "1 d 00 h"),
        (183600, "2 d 03 h"),
        (-3.2, "−3.2 s"),
        (0, "0 s"),
        (None, "–"),
    ],
)
def test_a_duration(seconds, text):
    assert numbers.duration(seconds) == text


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0504, "0.0504"),
        (0.0496, "0.0496"),
        (0.05, "0.050"),
        (0.05004, "0.05004"),
        (0.0506, "0.051"),
    ],
)
def test_a_p_next_to_the_level_shows_its_side(p: float, text: str) -> None:
    assert numbers.p_value(p) == text


def test_a_column_has_one_prefix():
    column = [404e-6, 1.155e-3, None]
    found = [numbers.beside(value, column, "s") for value in column]
    assert found == ["0.404 ms", "1.16 ms", "–"]


@pytest.mark.parametrize(
    ("minutes", "text"),
    [
        (0, "0 min"),
        (30, "30 min"),
        (60, "1 h"),
        (90, "1 h 30 min"),
        (1440, "24 h"),
        (1450, "24 h 10 min"),
        (2880, "2 d"),
        (2941, "2 d 1 h 1 min"),
        (1_441_440, "1,001 d"),
    ],
)
def test_limits_are_written_to_the_minute(minutes: int, text: str) -> None:
    assert numbers.time_limit(minutes) == text
