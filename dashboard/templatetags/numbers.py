"""Numbers as Tare writes them everywhere."""

from __future__ import annotations

from typing import Any

from django import template

from experiments.models import Job, Run
from experiments.statistics import Pair, numbers

register = template.Library()

for write in (numbers.percent, numbers.cost, numbers.margin, numbers.duration):
    register.filter(write.__name__, write)
register.filter("p", numbers.p_value)


@register.filter
def quantity(value: float | None, unit: str) -> str:
    return numbers.quantity(value, "" if unit == "1" else unit)


@register.filter
def ratio(pair: Pair, level: str = "95") -> str:
    """The ratio with its interval of `level` per cent."""
    return numbers.ratio(pair.ratio, pair.ci90 if level == "90" else pair.ci95)


@register.filter
def interval(pair: Pair, level: str) -> str:
    """The interval of `level` per cent alone."""
    return numbers.ratio(pair.ratio, pair.ci90 if level == "90" else pair.ci95).partition(" ")[2]


@register.filter
def size(value: int | None) -> str:
    return numbers.quantity(None if value is None else float(value), "B", significant=3)


@register.simple_tag
def spread(pair: Pair, side: str, prefix: tuple[float, str] = (0, "")) -> str:
    """Mean and standard deviation of the `baseline` or the `environment`."""
    mean: Any = getattr(pair, f"{side}_mean")
    sd, n = getattr(pair, f"{side}_sd"), getattr(pair, f"n_{side}")
    unit = "" if pair.unit == "1" else pair.unit
    return numbers.spread(mean, sd, n, unit, prefix=prefix)


@register.filter
def took(row: Job | Run) -> str:
    """How long a job or a run took, from its own clock."""
    began = row.began_at if isinstance(row, Run) else row.started_at
    if began is None or row.ended_at is None:
        return numbers.MISSING
    return numbers.duration((row.ended_at - began).total_seconds())
