"""Components of variance: how much nodes, blocks and runs each add to the spread of values.

REML on the log scale, environments as fixed effects, with intervals by profile likelihood. What a
design cannot see has no number and a reason: a zero would say that it adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.statistics import numbers
from experiments.statistics.estimates import IDENTICAL
from experiments.statistics.values import Interval

SLACK = 3.841458820694124
"""The 95 % quantile of chi-square with one degree of freedom."""


@dataclass(frozen=True)
class Component:
    """What one level adds to the spread of the logs: an SD of logs, about a share of the value."""

    levels: tuple[str, ...]
    """Its name; several where the design cannot tell them apart, the coarsest first."""
    groups: int
    sd: float | None = None
    sd_ci95: Interval | None = None
    share: float | None = None
    """Of the variance of all levels that are seen; None where that is one alone."""
    share_ci95: Interval | None = None
    why_unseen: str = ""

    @property
    def name(self) -> str:
        """Return its levels as a heading: "nodes", "blocks and runs"."""
        return numbers.listed([f"{level}s" for level in self.levels])

    @property
    def variance(self) -> float:
        """Return its variance; 0 where it is not seen, for sums of those that are."""
        return (self.sd or 0.0) ** 2


def split_variance(
    logs: Sequence[float],
    groupings: Mapping[str, Sequence[str]],
    fixed: Sequence[str],
    *,
    finest: str = "run",
) -> list[Component]:
    """Return the component of each level, the coarsest first, `finest` (each value alone) last.

    `groupings` has the labels of at most two levels, the finer one within the coarser; a level of
    which any label is empty is not known. `fixed` names the environment of each value.
    ValueError where a value is not finite.
    """
    import numpy as np  # lazily: few pages ask for this

    values = np.asarray(logs, dtype=float)
    if not np.isfinite(values).all():
        raise ValueError("A value has no finite logarithm.")
    if not len(values):
        return []
    environments = np.unique(np.asarray(fixed), return_inverse=True)[1]
    seen, unseen = _find_levels(groupings, environments, finest)
    if seen:
        seen = _estimate(values, seen, environments)
    order = [*groupings, finest]
    components = [*(level.component for level in seen), *unseen]
    return sorted(components, key=lambda component: order.index(component.levels[0]))


@dataclass
class _Level:
    codes: Any
    component: Component


def _find_levels(
    groupings: Mapping[str, Sequence[str]], environments: Any, finest: str
) -> tuple[list[_Level], list[Component]]:
    """Return the levels that the design can see, and the components of those that it cannot.

    A level adds degrees of freedom to the coarser ones, or it is the same as they are.
    """
    import numpy as np

    columns = (environments[:, None] == np.arange(environments.max() + 1)).astype(float)
    codes: Any = np.zeros(len(environments), dtype=int)
    rank = columns.shape[1]
    seen: list[_Level] = []
    unseen: list[Component] = []
    for name, labels in [*groupings.items(), (finest, None)]:
        if labels is not None and not all(labels):
            unseen.append(Component((name,), 0, why_unseen=f"the {name} of some runs is not known"))
            continue
        finer = (
            np.arange(len(codes)) if labels is None else np.unique(labels, return_inverse=True)[1]
        )
        codes = np.unique(codes * (finer.max() + 1) + finer, return_inverse=True)[1]
        groups = int(codes.max()) + 1
        above, rank = rank, groups + _count_within(codes, columns)
        if rank > above:
            seen.append(_Level(codes, Component((name,), groups)))
        elif seen and seen[-1].component.groups == groups:
            joined = seen[-1].component
            seen[-1].component = Component((*joined.levels, name), groups)
        else:
            why = (
                f"all runs are of one {name}"
                if groups == 1
                else f"its {name}s differ from each other only as environments do"
            )
            unseen.append(Component((name,), groups, why_unseen=why))
    return seen, unseen


def _count_within(codes: Any, columns: Any) -> int:
    """Return how many of the fixed columns differ within groups: the rank that they add."""
    import numpy as np

    sums = np.zeros((codes.max() + 1, columns.shape[1]))
    np.add.at(sums, codes, columns)
    within = columns - (sums / np.bincount(codes)[:, None])[codes]
    return int(np.linalg.matrix_rank(within.T @ within, tol=1e-9 * len(codes), hermitian=True))


def _estimate(values: Any, levels: list[_Level], environments: Any) -> list[_Level]:
    from experiments.statistics.reml import COARSE, FINE, REST, NestedLikelihood

    *above, _ = levels
    coarse = above[0].codes if len(above) > 1 else None
    fine = above[-1].codes if above else None
    places = [COARSE, FINE, REST][-len(levels) :]
    likelihood = NestedLikelihood(values, coarse, fine, environments)
    if likelihood.scale <= IDENTICAL:
        why = "all values are identical"
        return [
            _Level(
                level.codes,
                Component(level.component.levels, level.component.groups, why_unseen=why),
            )
            for level in levels
        ]
    variances = likelihood.estimate
    region = likelihood.find_region(SLACK)
    return [
        _Level(
            level.codes,
            Component(
                level.component.levels,
                level.component.groups,
                sd=math.sqrt(variances[place]),
                sd_ci95=(
                    math.sqrt(region.low[:, place].min()),
                    math.sqrt(region.high[:, place].max()),
                ),
                share=variances[place] / sum(variances) if above else None,
                share_ci95=_range(region.shares[:, place]) if above else None,
            ),
        )
        for level, place in zip(levels, places, strict=True)
    ]


def _range(values: Any) -> Interval:
    return float(values.min()), float(values.max())
