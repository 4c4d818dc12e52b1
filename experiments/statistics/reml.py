"""Restricted likelihood (REML) of values in nested groups: fine groups within coarse ones.

A value is a mean of its environment plus what its coarse group, its fine group and it alone add,
each normal: value = X b + coarse + fine + rest. The three standard deviations are a direction (two
angles) and a length. The length has a closed form for each direction, so what is searched is a
plane, on a grid that closes in. All that the likelihood needs of the values are sums over groups
(Sherman and Morrison's formula, twice), so thousands of values cost as much as dozens.

Everything is relative to the values' own spread, so that neither 1e-9 nor 1e9 loses digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

COARSE, FINE, REST = range(3)
POINTS = 33
"""Points of a grid along each angle."""
FEWER_POINTS = 13
"""The same of the grids that close in, once the whole plane is known."""
CLOSE = 1e-8
"""Width of the last grid around the estimate, in radians."""
STEEPEST = np.pi / 2 - 1e-5
"""Values alone add at least a hundred-thousandth of what groups add: none is singular."""
NOTHING = 1e-6
"""Radians: a component of a millionth of the whole SD is 0, as the search ends about there."""
ROUNDING = 1e-25
"""Shares below are what rounding leaves of a right angle: 0."""
MOST_ROUNDS = 12
AT_ONCE = 2**21
"""Numbers in the largest array, which bounds the memory that thousands of groups take."""


@dataclass(frozen=True)
class Region:
    """All variances that the likelihood does not rule out at some level.

    A profile likelihood's interval of any function of the variances is the function's range here.
    """

    low: Any
    """Array (points, 3): the smallest variances in each direction."""
    high: Any
    shares: Any
    """Array (points, 3): the directions, as shares of the sum of the variances."""


class NestedLikelihood:
    """The restricted likelihood of values by their groups and the columns of their fixed effects.

    `coarse` and `fine` number the groups of each value from 0; None where there is no such level.
    A fine group lies within one coarse group. `fixed` numbers the environment of each value.
    """

    def __init__(
        self,
        values: Sequence[float],
        coarse: Any | None,
        fine: Any | None,
        fixed: Any,
    ) -> None:
        centred = np.asarray(values, dtype=float)
        fixed = np.asarray(fixed)
        columns = (fixed[:, None] == np.unique(fixed)).astype(float)
        centred = centred - columns @ ((columns.T @ centred) / columns.sum(axis=0))
        self.df = len(centred) - columns.shape[1]
        self.scale = float(np.sqrt(centred @ centred / self.df))
        table = np.column_stack([columns, centred / (self.scale or 1.0)])
        self.has_levels = (coarse is not None, fine is not None)
        alone = np.arange(len(table))
        fine = alone if fine is None else np.asarray(fine)
        fine_sums = _sum_by(fine, table)
        sizes = np.bincount(fine)
        coarse_of_fine: Any = np.zeros(len(sizes), dtype=int)
        if coarse is not None:
            coarse_of_fine[fine] = coarse
        self.sizes, size_places = np.unique(sizes, return_inverse=True)
        self.products = table.T @ table
        self.size_counts = np.bincount(size_places)
        count, width = len(self.sizes), table.shape[1]
        self.fine_products = np.array(
            [
                fine_sums[size_places == place].T @ fine_sums[size_places == place]
                for place in range(count)
            ]
        )
        # Coarse groups with as many fine groups of each size are weighted alike at any variances:
        # what is needed of a kind are its products of the sums over fine groups of two sizes.
        keys = coarse_of_fine * count + size_places
        pad = (coarse_of_fine.max() + 1) * count
        sums = np.zeros((pad, width))
        np.add.at(sums, keys, fine_sums)
        sums = sums.reshape(-1, count * width)
        numbers = np.bincount(keys, minlength=pad).reshape(-1, count)
        kinds, kind_of_coarse, self.kind_counts = np.unique(
            numbers, axis=0, return_inverse=True, return_counts=True
        )
        self.kind_sizes = kinds * self.sizes
        self.kind_products = np.array(
            [
                (own.T @ own)
                .reshape(count, width, count, width)
                .transpose(0, 2, 1, 3)
                .reshape(count, count, width * width)
                for kind in range(len(kinds))
                for own in [sums[kind_of_coarse == kind]]
            ]
        ).reshape(-1, width * width)
        self.n = len(table)

    def compute(self, shares: Any) -> tuple[Any, Any]:
        """Return the deviance (-2 log likelihood) and the sum of variances that goes with it.

        `shares` is an array (points, 3) of shares of that sum.
        """
        portion = max(1, AT_ONCE // len(self.kind_products))
        parts = [
            self._compute_portion(shares[start : start + portion])
            for start in range(0, len(shares), portion)
        ]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    def _compute_portion(self, shares: Any) -> tuple[Any, Any]:
        coarse, fine, rest = shares.T
        inside = rest[:, None] + fine[:, None] * self.sizes
        products = self.products - np.tensordot(fine[:, None] / inside, self.fine_products, axes=1)
        products = products / rest[:, None, None]
        weights = 1 / inside
        kind_weights = weights @ self.kind_sizes.T
        shrinkage = coarse[:, None] / (1 + coarse[:, None] * kind_weights)
        factors = (
            shrinkage[:, :, None, None] * weights[:, None, :, None] * weights[:, None, None, :]
        )
        lost = factors.reshape(len(shares), -1) @ self.kind_products
        products = products - lost.reshape(products.shape)
        log_all = np.linalg.slogdet(products)[1]
        log_fixed = np.linalg.slogdet(products[:, :-1, :-1])[1]
        total = np.exp(log_all - log_fixed) / self.df
        deviance = (
            self.df * np.log(total)
            + (self.n - self.size_counts.sum()) * np.log(rest)
            + (np.log(inside) * self.size_counts).sum(axis=1)
            + (np.log1p(coarse[:, None] * kind_weights) * self.kind_counts).sum(axis=1)
            + log_fixed
        )
        return deviance, total

    @cached_property
    def estimate(self) -> tuple[float, ...]:
        """Return the three variances of the largest restricted likelihood."""
        shares = _shares_of(np.array([self._best_angles]))
        _, (total,) = self.compute(shares)
        return tuple(float(share * total * self.scale**2) for share in shares[0])

    @cached_property
    def least_deviance(self) -> float:
        (deviance,), _ = self.compute(_shares_of(np.array([self._best_angles])))
        return float(deviance)

    def find_region(self, slack: float) -> Region:
        """Return the variances whose deviance lies above the least one by at most `slack`."""
        from experiments.statistics.special_functions import lambertw  # lazily, as in estimates

        limit = self.least_deviance + slack
        box, grid = self._whole, self._whole_grid
        for _ in range(MOST_ROUNDS):
            closer = grid.surround(grid.deviance <= limit, self._best_angles)
            is_close = all(
                new[1] - new[0] > 0.7 * (old[1] - old[0])
                for new, old in zip(closer, box, strict=True)
                if old[0] < old[1]
            )
            box = closer
            if is_close:
                break
            grid = _Grid(self, box, FEWER_POINTS)
        grid = _Grid(self, box, POINTS)
        angles, deviance = grid.trace(limit)
        angles = np.vstack([angles, [self._best_angles]])
        deviance = np.append(deviance, self.least_deviance)
        shares = _shares_of(angles)
        _, total = self.compute(shares)
        # Along a direction the deviance rises by df (log t + 1/t - 1) from its least, at t = 1.
        room = -np.exp(-1 - np.clip((limit - deviance) / self.df, 1e-12, 600))
        shortest, longest = (-1 / lambertw(room, branch).real for branch in (-1, 0))
        variances = shares * total[:, None] * self.scale**2
        return Region(variances * shortest[:, None], variances * longest[:, None], shares)

    @property
    def _whole(self) -> Box:
        has_coarse, has_fine = self.has_levels
        elevation = (0.0, STEEPEST) if has_coarse or has_fine else (0.0, 0.0)
        if has_coarse and has_fine:
            return elevation, (0.0, np.pi / 2)
        return elevation, ((0.0, 0.0) if has_coarse else (np.pi / 2, np.pi / 2))

    @cached_property
    def _whole_grid(self) -> _Grid:
        return _Grid(self, self._whole, POINTS)

    @cached_property
    def _best_angles(self) -> tuple[float, float]:
        box, grid = self._whole, self._whole_grid
        while True:
            best = np.unravel_index(np.argmin(grid.deviance), grid.deviance.shape)
            if all(high - low < CLOSE for low, high in box):
                return _snap(grid.axes[0][best[0]]), _snap(grid.axes[1][best[1]])
            box = tuple(
                _pad(axis, int(place), int(place))
                for axis, place in zip(grid.axes, best, strict=True)
            )
            grid = _Grid(self, box, FEWER_POINTS)


Box = tuple[tuple[float, float], ...]
"""The lowest and the highest of both angles."""


class _Grid:
    """The deviance on a grid of directions in a box of angles."""

    def __init__(self, likelihood: NestedLikelihood, box: Box, points: int) -> None:
        free = [ends[0] < ends[1] for ends in box]
        along = points if all(free) else points**2  # on a line as many points as in a plane
        self.axes = [
            np.linspace(*ends, along if is_free else 1)
            for ends, is_free in zip(box, free, strict=True)
        ]
        self.angles = np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1)
        deviance, _ = likelihood.compute(_shares_of(self.angles.reshape(-1, 2)))
        self.deviance = deviance.reshape(self.angles.shape[:2])

    def surround(self, is_inside: Any, best: tuple[float, float]) -> Box:
        """Return the box of the points inside and of the best one, a step wider."""
        box = []
        for dimension, axis in enumerate(self.axes):
            places = np.flatnonzero(is_inside.any(axis=1 - dimension))
            near = int(np.argmin(np.abs(axis - best[dimension])))
            places = np.append(places, near)
            box.append(_pad(axis, places.min(), places.max()))
        return tuple(box)

    def trace(self, limit: float) -> tuple[Any, Any]:
        """Return the points below the limit and where lines cross it: angles and deviances."""
        inside = self.deviance <= limit
        angles, deviances = [self.angles[inside]], [self.deviance[inside]]
        for dimension in (0, 1):
            ahead = np.moveaxis(self.deviance, dimension, 0)
            places = np.moveaxis(self.angles, dimension, 0)
            first, second = ahead[:-1], ahead[1:]
            crosses = (first <= limit) != (second <= limit)
            part = ((limit - first[crosses]) / (second[crosses] - first[crosses]))[:, None]
            angles.append((1 - part) * places[:-1][crosses] + part * places[1:][crosses])
            deviances.append(np.full(len(part), limit))
        return np.concatenate(angles), np.concatenate(deviances)


def _snap(angle: float) -> float:
    """Return the right angle or the 0 that an angle cannot be told from: a component of 0."""
    return next((end for end in (0.0, np.pi / 2) if abs(angle - end) < NOTHING), float(angle))


def _pad(axis: Any, first: int, last: int) -> tuple[float, float]:
    return float(axis[max(first - 1, 0)]), float(axis[min(last + 1, len(axis) - 1)])


def _shares_of(angles: Any) -> Any:
    """Return the squares of the point on the unit sphere: elevation above the rest, and azimuth."""
    elevation, azimuth = angles.T
    groups = np.sin(elevation) ** 2
    shares = np.column_stack(
        [groups * np.cos(azimuth) ** 2, groups * np.sin(azimuth) ** 2, np.cos(elevation) ** 2]
    )
    return np.where(shares < ROUNDING, 0.0, shares)


def _sum_by(groups: Any, table: Any) -> Any:
    sums = np.zeros((groups.max() + 1, table.shape[1]))
    np.add.at(sums, groups, table)
    return sums
