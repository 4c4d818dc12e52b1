"""Numbers as text: digits follow the uncertainty, one SI prefix a column.

Missing values are an en dash; minus is a minus sign. Used by sentences, pages and plots alike.
"""

import math
from collections.abc import Iterable, Sequence

MISSING = "–"
LEVEL = 0.05
"""At which tests decide."""
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
SMALL_PREFIXES = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
SMALLEST = 1e-4
"""A number below this would be written with more zeros than anybody counts."""
MOST_DIGITS = 7
"""Of a mean, however small its standard deviation is."""
MOST_DECIMALS = 8
"""Of a mean: more of them nobody counts."""
SCALABLE_UP = frozenset({"B", "B/s", "FLOP/s", "Hz", "W", "J"})


def si(values: Iterable[float | None], unit: str) -> tuple[float, str]:
    """Return factor and unit text for one axis or column: 0.0229 and 0.0231 s -> (1000, "ms").

    The largest value decides. Only seconds are made smaller and only bytes, FLOP/s, Hz, W and J
    larger; any other unit stays as it is.
    """
    largest = max((abs(v) for v in values if v is not None and math.isfinite(v)), default=0.0)
    if unit == "1":
        return 1.0, ""  # a plain number, such as a loss
    prefixes = SMALL_PREFIXES if unit == "s" else PREFIXES if unit in SCALABLE_UP else ()
    if not prefixes or largest == 0:
        return 1.0, unit
    # Half a unit in the third digit, so that 999.7 µs is written as 1.00 ms.
    size, prefix = next((p for p in prefixes if largest >= 0.9995 * p[0]), prefixes[-1])
    return 1 / size, prefix + unit


def fixed(value: float, decimals: int) -> str:
    """Return a number with so many decimals and a real minus sign; beyond a million 1.23e+07."""
    # An interval from two runs may end at 1e80; nobody wants its 80 digits.
    text = f"{value:.{decimals}f}" if abs(value) < 1e6 else f"{value:.2e}"
    if float(text) == 0:
        text = text.removeprefix("-")
    return text.replace("-", "−")


def count(number: int, noun: str) -> str:
    """Return a number of things: "1 repeat", "2,000 repeats"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def all_of(number: int, noun: str) -> str:
    """Return all things as a sentence names them: "the only run", "both runs", "all 3 runs"."""
    if number == 1:
        return f"the only {noun}"
    return f"both {noun}s" if number == 2 else f"all {count(number, noun)}"


def listed(names: Sequence[str]) -> str:
    """Return names in a row: "a", "a and b", "a, b and c"."""
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def scientific(value: float, digits: int) -> str:
    """Return a number with so many digits and a power of ten: "2.3e−15"."""
    return f"{value:.{digits - 1}e}".replace("-", "−")


def _decimals(value: float, significant: int) -> int:
    """Return the number of decimals that shows so many significant digits of a value."""
    if value == 0 or not math.isfinite(value):
        return significant - 1
    exponent = int(f"{abs(value):.{significant - 1}e}".partition("e")[2])
    return min(max(significant - 1 - exponent, 0), 12)


def _written(value: float, significant: int) -> str:
    """Return a number with so many digits; below `SMALLEST` as a power of ten."""
    if 0 < abs(value) < SMALLEST:
        return scientific(value, significant)
    return fixed(value, _decimals(value, significant))


def quantity(value: float | None, unit: str, *, significant: int = 4) -> str:
    """Return a number with its unit and its own SI prefix: 0.02294 s -> "22.94 ms"."""
    if value is None or not math.isfinite(value):
        return MISSING
    factor, text = si([value], unit)
    return f"{_written(value * factor, significant)} {text}".strip()


def beside(value: float | None, column: Iterable[float | None], unit: str) -> str:
    """Return a number of a column, with the SI prefix of the whole column: "0.404 ms"."""
    if value is None:
        return MISSING
    factor, text = si(column, unit)
    return f"{_written(value * factor, 3)} {text}".strip()


def spread(
    mean: float | None, sd: float | None, n: int, unit: str, *, prefix: tuple[float, str] = (0, "")
) -> str:
    """Return mean and standard deviation: "22.94 ± 0.31 ms (SD, n = 5)".

    `prefix` is what `si` gave for the whole column; without it the mean chooses its own.
    """
    if mean is None:
        return MISSING
    factor, text = prefix if prefix[0] else si([mean], unit)
    known = f"n = {n}" if n else "n not given"  # a mean of no runs is a published one
    if sd is None:
        return f"{quantity(mean, unit)} ({known})"
    mean, sd = mean * factor, sd * factor
    if abs(mean) < SMALLEST:  # a mean of zero, too, has no digits for its spread to line up with
        value = f"{_written(mean, 4) if mean else 0} ± {_written(sd, 2) if sd else 0}"
    else:
        decimals = _decimals(sd, 2) if sd else _decimals(mean, 4)
        decimals = min(decimals, max(_decimals(mean, MOST_DIGITS), 0), MOST_DECIMALS)
        # A spread that these digits would hide, such as that of rounding, is not none; and one
        # of none needs no row of zeros to say so.
        hidden = 0 < sd < max(0.5 * 10**-decimals, 1e-6)
        spread_text = (
            scientific(sd, 2) if hidden else fixed(sd, decimals if sd else min(decimals, 5))
        )
        value = f"{fixed(mean, decimals)} ± {spread_text}"
    return f"{value} {text}".rstrip() + f" (SD, {known})"


def ratio_decimals(interval: Sequence[float] | None) -> int:
    """Return at least 3 decimals; more when the interval is narrower than 0.002."""
    if interval is None:
        return 3
    half = abs(interval[1] - interval[0]) / 2
    return min(max(math.ceil(-math.log10(half)), 3), 6) if half > 0 else 6


def ratio(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Return a ratio with its interval: "1.054 [1.049, 1.061]"."""
    if value is None:
        return MISSING
    decimals = ratio_decimals(interval)
    if interval is None:
        return fixed(value, decimals)
    low, high = (fixed(end, decimals) for end in interval)
    return f"{fixed(value, decimals)} [{low}, {high}]"


def factor(value: float | None, interval: Sequence[float] | None = None) -> str:
    """Return how many times as much, with the digits its interval allows: "2.3 [1.9, 2.8]"."""
    if value is None:
        return MISSING
    if interval is None:
        return fixed(value, 2)
    half = abs(interval[1] - interval[0]) / 2
    decimals = min(max(math.ceil(-math.log10(half)), 1), 6) if half > 0 else 6
    low, high = (_not_zero(end, decimals) for end in interval)
    return f"{_not_zero(value, decimals)} [{low}, {high}]"


def _not_zero(value: float, decimals: int) -> str:
    """Return a factor with so many decimals, or with two digits where these would make it 0."""
    text = fixed(value, decimals)
    return f"{value:.2g}" if value and float(text) == 0 else text


def percent(fraction: float | None, *, decimals: int = 1) -> str:
    """Return a fraction without a forced sign: 0.0452 -> "4.5 %"."""
    return MISSING if fraction is None else f"{fixed(100 * fraction, decimals)} %"


def percent_between(fraction: float | None, interval: Sequence[float] | None) -> str:
    """Return a fraction with its interval, whose upper end sets the digits: "12 % [0, 58]"."""
    if fraction is None:
        return MISSING
    if interval is None:
        return percent(fraction, decimals=_decimals(100 * fraction, 2))
    decimals = max(min(_decimals(100 * interval[1], 2), 3), 0)
    low, high = (fixed(100 * end, decimals) for end in interval)
    return f"{percent(fraction, decimals=decimals)} [{low}, {high}]"


def provable(fraction: float | None, *, decimals: int = 1) -> str:
    """Return a provable margin, rounded up so that it is proved: 0.000421 -> "0.043 %"."""
    if fraction is None:
        return MISSING
    per_cent = 100 * fraction
    if not 0 < per_cent < 1e6:
        return percent(fraction)
    decimals = max(_decimals(per_cent, 2), decimals)
    up = math.ceil(round(per_cent * 10**decimals, 6)) / 10**decimals
    return f"{fixed(up, decimals) if up >= SMALLEST else scientific(up, 2)} %"


def change(fraction: float | None, interval: Sequence[float] | None) -> str:
    """Return a relative change with sign and the digits of the ratio of this interval."""
    return cost(fraction, decimals=ratio_decimals(interval) - 2)


def cost(fraction: float | None, *, decimals: int = 1) -> str:
    """Return a relative change with its sign: 0.054 -> "+5.4 %", -0.02 -> "−2.0 %"."""
    if fraction is None:
        return MISSING
    text = percent(fraction, decimals=decimals)
    return text if text.startswith("−") or not float(text[:-2]) else f"+{text}"


def signed(value: float) -> str:
    """Return a difference, always with its sign: 0.12 -> "+0.12"."""
    text = fixed(value, 2)
    return text if text.startswith("−") or not float(text) else f"+{text}"


def margin(fraction: float) -> str:
    """Return a margin as it was typed: 0.02 -> "2 %", 0.005 -> "0.5 %"."""
    return f"{100 * fraction:.3g} %"


def level(share: float) -> str:
    """Return the level of an interval: 0.95 -> "95 %", 0.9842 -> "98.42 %"."""
    return f"{100 * share:.6g} %"


def levels(alphas: Iterable[float], sides: int = 1) -> str:
    """Return the level of the intervals of verdicts at these levels: "95 %", "95 % or 97.06 %"."""
    return " or ".join(level(1 - sides * alpha) for alpha in sorted(set(alphas), reverse=True))


def p_value(p: float | None) -> str:
    """Return a p value: "0.023", "0.44", "< 0.001"; never stars.

    Next to 0.05 with as many digits as tell the side: "0.0504".
    """
    if p is None:
        return MISSING
    if p < 0.001:
        return "< 0.001"
    decimals = 3 if p < 0.0995 else 2
    while decimals < 6 and p != LEVEL and round(p, decimals) == LEVEL:
        decimals += 1
    return fixed(p, decimals)


def p_of_bounds(lower: float | None, upper: float | None) -> str:
    """Return the p of the one-sided tests that there are: "lower < 0.001, upper 0.023"."""
    ps = {"lower": lower, "upper": upper}
    texts = [f"{name} {p_value(p)}" for name, p in ps.items() if p is not None]
    return ", ".join(texts) or MISSING


def standard_error(se: float | None, df: float | None) -> str:
    """Return a standard error with its degrees of freedom: "0.00123 (df 4)"."""
    if se is None or df is None:
        return MISSING
    return f"{_written(se, 3)} (df {fixed(df, 0 if abs(df - round(df)) < 1e-9 else 1)})"


def duration(seconds: float | None) -> str:
    """Return a length of time: "2 d 03 h", "1 h 04 min", "2 min 05 s", "3.2 s", "410 µs"."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 0:
        return f"−{duration(-seconds)}"
    if seconds < 59.95:
        factor, unit = si([seconds], "s")
        value = seconds * factor
        return f"{fixed(value, 1 if value < 9.95 and value else 0)} {unit}"
    if round(seconds) < 3600:
        return "{} min {:02d} s".format(*divmod(round(seconds), 60))
    if round(seconds / 60) < 24 * 60:
        return "{} h {:02d} min".format(*divmod(round(seconds / 60), 60))
    return "{} d {:02d} h".format(*divmod(round(seconds / 3600), 24))


def time_limit(minutes: int) -> str:
    """Return a limit to the minute: "30 min", "1 h 30 min", "24 h", "2 d 1 h"; 0 as "0 min"."""
    days, rest = divmod(minutes, 24 * 60) if minutes >= 2 * 24 * 60 else (0, minutes)
    parts = ((days, "d"), (rest // 60, "h"), (rest % 60, "min"))
    return " ".join(f"{number:,} {unit}" for number, unit in parts if number) or "0 min"
