"""Speed-up by more GPUs, of each environment from its own smallest scale (Hoefler & Belli, R1).

*Strong* scaling: the batch is that of the whole job, so more GPUs share the same work. *Weak*: each
GPU has a batch of its own, so the work grows with them. A time has another meaning in each; a rate
of the whole job (images/s) has not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.statistics.estimates import Arm, Estimate
from experiments.statistics.values import Better, Interval

Batch = Literal["total", "per GPU", ""]
"""Whose batch it is: the whole job's (strong scaling), each GPU's (weak), or unknown."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """The measurements of one environment with one number of GPUs."""

    environment: str
    gpus: int
    mean: float
    """Geometric mean of the runs, or a printed mean."""
    n: int = 0
    """Number of runs; 0 where it is unknown."""
    variance: float | None = None
    """Of ln(value) from run to run; None where it is unknown."""
    made_with: str = ""
    """Machine and framework, as text: only levels that share them are compared."""
    scale: str = ""
    """Name of the scale where the number of GPUs is not enough: "2x1"."""

    @property
    def ci95(self) -> Interval | None:
        """Return the 95 % interval of the mean, computed on the log scale."""
        return self.interval(0.95)

    def interval(self, level: float) -> Interval | None:
        """Return the interval of the mean at another level; None without a spread."""
        if self.variance is None:
            return None
        estimate = Estimate(math.log(self.mean), (Arm(self.variance, self.n),))
        return None if estimate.flaw else estimate.interval(level)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """A level compared with the base of its environment. Whatever cannot be computed is None."""

    level: Level
    base: Level
    speed_up: float | None = None
    """How many times as fast as the base the work is done; ideal is the ratio of the GPUs."""
    speed_up_ci95: Interval | None = None
    efficiency: float | None = None
    """The speed-up as a share of the ideal one."""
    efficiency_ci95: Interval | None = None
    flaw: str = ""
    """Why there is no speed-up or no interval."""


def make_level_from_runs(
    environment: str,
    gpus: int,
    values: Sequence[float],
    *,
    made_with: str = "",
    scale: str = "",
) -> Level:
    """Return the level of single runs, all of whose values are positive."""
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    variance = math.fsum((log - mean) ** 2 for log in logs) / max(len(logs) - 1, 1)
    return Level(
        environment=environment,
        gpus=gpus,
        mean=math.exp(mean),
        n=len(logs),
        variance=variance if len(logs) > 1 else None,
        made_with=made_with,
        scale=scale,
    )


def make_level_from_moments(
    environment: str, gpus: int, mean: float, sd: float | None, n: int
) -> Level:
    """Return the level of a printed mean; by the delta method ln has the variance (SD / mean)²."""
    known = sd is not None and n > 1
    return Level(
        environment=environment,
        gpus=gpus,
        mean=mean,
        n=n,
        variance=(sd / mean) ** 2 if sd is not None and known else None,
    )


def compute_gains(levels: Sequence[Level], *, better: Better, batch: Batch) -> list[Gain]:
    """Return the gain of every level over the smallest one of its environment, the base.

    The base itself is left out. The ratio is of geometric means; its interval is Welch's with
    Satterthwaite's degrees of freedom, and includes the uncertainty of the base.
    """
    bases: dict[str, Level] = {}
    for level in sorted(levels, key=lambda level: level.gpus):
        bases.setdefault(level.environment, level)
    return [
        _gain(level, bases[level.environment], better, batch)
        for level in levels
        if level is not bases[level.environment]
    ]


def compute_ideal(base: Level, gpus: float, *, better: Better, batch: Batch) -> float | None:
    """Return the value with so many GPUs at perfect scaling; None if it needs an unknown batch.

    >>> ideal(Level(environment="", gpus=1, mean=8.0), 4, better="lower", batch="total")
    2.0
    """
    more = gpus / base.gpus
    if better == "higher":
        return base.mean * more
    return {"total": base.mean / more, "per GPU": base.mean}.get(batch)


def _gain(level: Level, base: Level, better: Better, batch: Batch) -> Gain:
    if level.made_with != base.made_with:
        return Gain(level=level, base=base, flaw="another machine or framework than the base")
    if better == "lower" and not batch:
        return Gain(level=level, base=base, flaw="whose batch it is, is not known")
    faster = (
        math.log(level.mean / base.mean) if better == "higher" else math.log(base.mean / level.mean)
    )
    more = level.gpus / base.gpus
    if better == "lower" and batch == "per GPU":
        faster += math.log(more)
    arms = tuple(Arm(point.variance or 0.0, point.n) for point in (base, level))
    estimate = Estimate(faster, arms)
    unknown = base.variance is None or level.variance is None
    flaw = _explain_no_interval(base, level) if unknown else estimate.flaw
    interval = None if flaw else estimate.interval(0.95)
    return Gain(
        level=level,
        base=base,
        speed_up=estimate.ratio,
        speed_up_ci95=interval,
        efficiency=estimate.ratio / more,
        efficiency_ci95=interval and (interval[0] / more, interval[1] / more),
        flaw=flaw,
    )


def _explain_no_interval(base: Level, level: Level) -> str:
    return "n = 1" if 1 in (base.n, level.n) else "no spread or number of runs"
