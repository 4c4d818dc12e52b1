"""Numbers as a table prints them: the value, and the range that was rounded to it."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from experiments.statistics.values import Better

SMALLEST, LARGEST = 1e-30, 1e30
"""Squares of ratios of such numbers are still numbers."""

CLOCKS = {"hh:mm": "h", "hh:mm:ss": "h", "mm:ss": "min"}
"""Forms of a length of time as a clock shows it, and the unit in which it is compared."""


class TableError(ValueError):
    """A fault in a table; the message names the row and the column.

    `others` are the messages of faults in further rows.
    """

    def __init__(self, message: str, others: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.others = list(others)


@dataclass(frozen=True)
class Place:
    """A place in the file: the row as a spreadsheet counts (the header is 1), and the column."""

    row: int
    column: str

    def __str__(self) -> str:
        return f"Row {self.row}, column {self.column}"


@dataclass(frozen=True)
class Printed:
    """A number, and the range in which it was before it was rounded."""

    value: float
    low: float
    high: float

    @property
    def levels(self) -> tuple[float, ...]:
        """Return the value and both ends of its range, without doubles."""
        return tuple(sorted({self.low, self.value, self.high}))


def is_number(text: str) -> bool:
    """Return whether the text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_number(text: str, place: Place, *, zero: bool = False) -> float:
    """Read a finite number above 0, or with `zero` at least 0. TableError names the place."""
    if not text:
        raise TableError(f"{place}: it is empty.")
    if not is_number(text):
        hint = " Write a decimal point, and nothing between thousands." if "," in text else ""
        if re.fullmatch(r"\d+(:[0-5]\d){1,2}", text):
            hint = " If it is a time, say so: the unit is hh:mm, mm:ss or hh:mm:ss."
        raise TableError(f"{place}: {text!r} is not a number.{hint}")
    value = float(text)
    if not math.isfinite(value):
        raise TableError(f"{place}: {text} is not a finite number.")
    if value < 0 or (value == 0 and not zero):
        raise TableError(f"{place}: {text} is {'negative' if value < 0 else 'zero'}.")
    if value and not SMALLEST < value < LARGEST:
        raise TableError(f"{place}: {text} is beyond anything that is measured.")
    return value


def count(text: str, place: Place | None) -> int | None:
    """Read a whole number of at least 1; None where the table has none."""
    if not text or place is None:
        return None
    value = read_number(text, place)
    if value != int(value):
        raise TableError(f"{place}: {text} is not a whole number.")
    return int(value)


def read_direction(text: str, place: Place) -> Better:
    """Read which direction is better: "lower" or "higher (is better)"."""
    word = text.casefold()
    if word.startswith("lower"):
        return "lower"
    if word.startswith("higher"):
        return "higher"
    raise TableError(f"{place}: {text!r} is neither lower nor higher (is better).")


def read_duration(text: str, place: Place, clock: str) -> tuple[float, float]:
    """Read a duration as a clock shows it, such as "33:45" in "hh:mm"; return it and its step.

    Both are in hours, for "mm:ss" in minutes. TableError where the text has another form.
    """
    form = r":".join([r"(\d+)", *[r"([0-5]\d)"] * clock.count(":")])
    match = re.fullmatch(form, text)
    if not match:
        raise TableError(f"{place}: {text!r} is not a time as {clock}.")
    value = 0.0
    for part in map(int, reversed(match.groups())):
        value = value / 60 + part
    # From the last part to the first: minutes are sixtieths of the hours before them.
    if not value:
        raise TableError(f"{place}: {text} is zero.")
    return value, 60.0 ** -clock.count(":")


def read_mean(text: str, place: Place, *, step: float, clock: str = "") -> Printed:
    """Read a mean that was rounded to multiples of `step`, or to the last part of a clock."""
    if clock and ":" in text:
        value, step = read_duration(text, place, clock)
    else:
        value = read_number(text, place)
    # However coarse the digits, what was measured was positive.
    return Printed(value, max(value - step / 2, value / 2), value + step / 2)


def read_spread(
    text: str, place: Place | None, *, step: float | None, clock: str = ""
) -> Printed | None:
    """Read an SD or SE that was rounded to multiples of `step`; if None, to its own last digit.

    None where the table has none.
    """
    if not text or place is None:
        return None
    if clock and ":" in text:
        return read_mean(text, place, step=0, clock=clock)
    value = read_number(text, place, zero=True)
    if step is not None:
        return Printed(value, max(value - step / 2, value / 2), value + step / 2)
    step = find_last_digit(text)
    # Below 10 (one digit) numbers are printed in steps of 1, above it in steps of 10.
    finer = value > 0 and math.log10(value / step) % 1 == 0
    low = value - step / (20 if finer else 2)
    return Printed(value, max(low, value / 2), value + step / 2)


def find_finest_step(texts: Iterable[str]) -> float:
    """Return the step in which a column is printed: that of its number with the most digits.

    2000 in a column with 2390 was not rounded to thousands.
    """
    return min((find_last_digit(text) for text in texts if is_number(text)), default=0.0)


def find_last_digit(text: str) -> float:
    """Return the value of the last significant digit: 10 for "3710", 0.01 for "2.50"."""
    try:
        digits = Decimal(text)
    except InvalidOperation:
        return 0.0
    if not digits.is_finite() or not digits:
        return 0.0
    exact = "." in text or "e" in text.casefold()
    exponent = (digits if exact else digits.normalize()).as_tuple().exponent
    return float(f"1e{exponent}")
