"""Quantities as files of experiments write them: a number and its unit, "2 %", "30 s", "1 MiB"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from experiments.definitions.definition_problems import shorten

WRITTEN = re.compile(
    r"([+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?)\s*(\D.*)?", re.ASCII
)


@dataclass(frozen=True)
class Unit:
    """What a quantity may be written in; the first spelling is that of files that Tare writes."""

    name: str
    factors: Mapping[str, Decimal]
    """Spelling -> how many of the stored unit it is."""
    example: str
    is_whole: bool = True

    def parse(self, value: object) -> float | int:
        """Return the quantity in the stored unit. Raises ValueError with what to write instead."""
        example = f"write it such as {self.example}"
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"This is to be a number with its unit: {example}.")
        match = WRITTEN.fullmatch(str(value).strip())
        if not match:
            raise ValueError(f"“{shorten(value)}” is no number with a unit: {example}.")
        number, unit = match[1], (match[2] or "").strip()
        if not unit:
            raise ValueError(f"“{shorten(value)}” has no unit: {example}.")
        if unit not in self.factors:
            known = ", ".join(self.factors)
            raise ValueError(f"The unit {shorten(unit, 20)} does not fit: it takes {known}.")
        return self._convert(number, unit)

    def _convert(self, number: str, unit: str) -> float | int:
        try:
            stored = Decimal(number) * self.factors[unit]
        except InvalidOperation:
            raise ValueError(f"{shorten(number)} is no number that can be used.") from None
        if not self.is_whole:
            as_float = float(number) * float(self.factors[unit])
            if unit == "%":
                as_float = float(number) / 100  # as the page's form reads it, to the last bit
            if not math.isfinite(as_float):
                raise ValueError(f"{shorten(number)} is too large a number.")
            return as_float
        if abs(stored) > 10**15:
            raise ValueError(f"{shorten(number)} {unit} is too much.")
        if stored != stored.to_integral_value():
            first = next(iter(self.factors))
            raise ValueError(f"{number} {unit} is no whole number of {first}.")
        return int(stored)

    def write(self, value: float) -> str:
        """Return the shortest text that `parse` reads as this very value."""
        first = next(iter(self.factors))
        if self.is_whole:
            return f"{int(value)} {first}"
        written = write_percent(value) if first == "%" else f"{value!r}"
        return f"{written} {first}"


def write_percent(fraction: float) -> str:
    """Return the shortest number of per cent that, divided by 100, is this fraction to the bit.

    A fraction that is no such quotient gets the nearest.
    """
    for candidate in _list_candidates(fraction * 100):
        if float(candidate) / 100 == fraction:
            return candidate
    return repr(fraction * 100)


def _list_candidates(percent: float) -> Iterator[str]:
    for digits in range(1, 18):
        text = f"{percent:.{digits}g}"
        yield text if "e" not in text else repr(float(text))
    for neighbour in (math.nextafter(percent, 0), math.nextafter(percent, math.inf)):
        yield repr(neighbour)


SECONDS = Unit("seconds", {"s": Decimal(1), "min": Decimal(60), "h": Decimal(3600)}, "30 s")
PERCENT = Unit("per cent", {"%": Decimal(1) / 100}, "2 %", is_whole=False)
MEBIBYTES = Unit("MiB", {"MiB": Decimal(1), "GiB": Decimal(1024)}, "1 MiB")
MEGAHERTZ = Unit("MHz", {"MHz": Decimal(1), "GHz": Decimal(1000)}, "1200 MHz")
CPUS = Unit("CPUs", {"CPUs": Decimal(1), "CPU": Decimal(1)}, "4 CPUs")
POINTS = Unit("points", {"points": Decimal(1), "point": Decimal(1)}, "0.5 points", is_whole=False)
