"""Permutation tests of whole curves: one p for all points, exact however they depend on each other.

Signs of whole rows are flipped where blocks are paired, labels of runs are permuted where nothing
pairs them. All ways are counted where there are few, else random ones from a fixed seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any

from experiments.statistics.ranks import ARRANGEMENTS, COUNTABLE, SEED, split_into_chunks
from experiments.statistics.values import ALPHA

MOST_SIGNS = 13
"""Up to so many blocks all flips are counted: half of 2^13, as flipping all changes nothing."""


@dataclass(frozen=True)
class WholeCurveTest:
    """The result of a permutation test of whole curves."""

    p: float
    place: int
    """The bin with the largest statistic."""
    scale: Any
    """What differences are divided by in each bin; 0 where nothing differs."""
    critical: float | None
    """The smallest statistic with a p of 5 % or less; None where no arrangement is so rare."""
    smallest_p: float
    arrangements: int
    is_exact: bool


def flip_signs(differences: Any, floor: float = 0.0) -> WholeCurveTest | None:
    """Test curves of differences, one row a block, by flipping the signs of whole rows.

    None where no difference is larger than `floor`, which counts as none.
    """
    import numpy as np

    rows = _shrink(np.asarray(differences, dtype=np.float64), floor)
    n = len(rows)
    scale = _compute_rms(rows)
    standardised = _divide(rows, scale) / n
    seen = np.abs(standardised.sum(axis=0))
    if not scale.any():
        return None
    is_exact = n <= MOST_SIGNS
    statistics = np.concatenate(
        [np.abs(signs @ standardised).max(axis=1) for signs in _draw_signs(n)]
    )
    return _conclude(seen, scale, statistics, 2.0 ** (1 - n), is_exact=is_exact)


def _draw_signs(n: int) -> Iterator[Any]:
    """Yield signs of n blocks, some rows at a time: all, but for flipping everything, or random."""
    import numpy as np

    if n <= MOST_SIGNS:
        # The other sign of the first block gives the same statistics.
        every = np.array(list(product((1.0, -1.0), repeat=n - 1))).reshape(-1, n - 1)
        yield np.hstack([np.ones((len(every), 1)), every])
        return
    rng = np.random.default_rng(SEED)
    for size in split_into_chunks(ARRANGEMENTS):
        yield 1.0 - 2.0 * rng.integers(0, 2, (size, n))


def permute_labels(baseline: Any, environment: Any, floor: float = 0.0) -> WholeCurveTest | None:
    """Test curves of runs that nothing pairs, one row a run, by permuting the labels.

    None where no run is farther than `floor` from their common mean.
    """
    import numpy as np

    rows = np.vstack([baseline, environment]).astype(np.float64)
    rows = _shrink(rows - rows.mean(axis=0), floor)
    n_b, n = len(baseline), len(rows)
    scale = _compute_rms(rows)
    if not scale.any():
        return None
    standardised = _divide(rows, scale)
    weights = _weigh(np.arange(n_b)[None, :], n)
    seen = np.abs(weights @ standardised)[0]
    is_exact = math.comb(n, n_b) <= COUNTABLE
    statistics = np.concatenate(
        [np.abs(_weigh(chosen, n) @ standardised).max(axis=1) for chosen in _draw_labels(n_b, n)]
    )
    # With as many runs of both, exchanging all labels gives the same statistic.
    smallest_p = (1 + (2 * n_b == n)) / math.comb(n, n_b)
    return _conclude(seen, scale, statistics, smallest_p, is_exact=is_exact)


def _draw_labels(n_b: int, n: int) -> Iterator[Any]:
    """Yield which of n runs are the baseline's, some rows at a time: in all ways, or at random."""
    import numpy as np

    if math.comb(n, n_b) <= COUNTABLE:
        every = np.array(list(combinations(range(n), n_b)))
        for start in range(0, len(every), 1_000):
            yield every[start : start + 1_000]
        return
    rng = np.random.default_rng(SEED)
    for size in split_into_chunks(ARRANGEMENTS):
        yield rng.permuted(np.tile(np.arange(n), (size, 1)), axis=1)[:, :n_b]


def _weigh(chosen: Any, n: int) -> Any:
    """Return the weights of a difference of means, for each choice of the baseline's runs."""
    import numpy as np

    n_b = chosen.shape[1]
    weights = np.full((len(chosen), n), 1 / (n - n_b))
    np.put_along_axis(weights, chosen, -1 / n_b, axis=1)
    return weights


def _shrink(values: Any, floor: float) -> Any:
    """Return the values nearer to 0 by `floor`; an odd function, so symmetric stays symmetric."""
    import numpy as np

    return np.sign(values) * np.maximum(np.abs(values) - floor, 0.0)


def _compute_rms(rows: Any) -> Any:
    """Return the root mean square of each bin, of values whose squares no float may hold."""
    import numpy as np

    largest = float(np.abs(rows).max()) or 1.0
    return largest * np.sqrt(((rows / largest) ** 2).mean(axis=0))


def _divide(rows: Any, scale: Any) -> Any:
    """Return the rows divided by the scale; 0 in bins where nothing differs."""
    import numpy as np

    return np.divide(rows, scale, out=np.zeros_like(rows), where=scale > 0)


def _conclude(
    seen: Any, scale: Any, statistics: Any, smallest_p: float, *, is_exact: bool
) -> WholeCurveTest:
    import numpy as np

    place = int(seen.argmax())
    tolerance = 1e-12 * max(float(seen[place]), 1.0)
    if not is_exact:  # what was seen is one of the arrangements
        statistics = np.append(statistics, seen[place])
    count = len(statistics)
    p = int((statistics >= seen[place] - tolerance).sum()) / count
    # The largest number of arrangements that are together no more than 5 % of all.
    rare = math.floor(ALPHA * count + 1e-9)
    ordered = np.sort(statistics)[::-1]
    critical = None
    if rare:
        # Statistics that tie with the first one that is not rare are not rare either.
        above = ordered[ordered > ordered[rare] + tolerance] if rare < count else ordered
        critical = float(above[-1]) if len(above) else None
    return WholeCurveTest(p, place, scale, critical, max(smallest_p, 1 / count), count, is_exact)
