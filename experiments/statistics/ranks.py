"""Tests that do not rest on a normal distribution: by ranks, and by rearranging the values.

Two-sided p throughout. Where all arrangements can be counted they are, else a fixed number of
random ones from a fixed seed: the same data always give the same p. numpy alone, because
scipy.stats costs a web process 80 MB; the tests hold all of it to scipy.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

ARRANGEMENTS = 9_999
"""Random arrangements to draw where there are too many to count all."""
COUNTABLE = 20_000
"""Up to so many ways to label the runs, all are counted."""
MOST_SIGNS = 20
"""Up to so many differences, all signs are counted: 2^20 sums take 10 ms."""
EXACT_RANKS = 2_500
"""Up to this product of the two n, without ties, the distribution of the rank sum is counted."""
SEED = 20261120
CHUNK = 1_000
EXACT, RANDOM = "all arrangements", f"{ARRANGEMENTS:,} random arrangements"
P = tuple[float, str]
"""A p value, and how it was computed."""


def compute_mann_whitney(baseline: Sequence[float], environment: Sequence[float]) -> P:
    """Return p of the Mann-Whitney test: is the larger of two runs more often of one environment?

    Equal values share their middle rank, and then the ranks are rearranged, because the exact
    table is only for values without ties.
    """
    ranks = compute_ranks([*baseline, *environment])
    n_b, n_e = len(baseline), len(environment)
    if len(set(ranks)) < len(ranks) or n_b * n_e > EXACT_RANKS:
        return _rearranged(ranks, n_b)
    smaller = round(math.fsum(ranks[n_b:])) - n_e * (n_e + 1) // 2
    return _two_sided(_rank_sums(n_b, n_e), smaller), EXACT


def compute_permutation(baseline: Sequence[float], environment: Sequence[float]) -> P:
    """Return the share of random labels that give means at least as far apart as these."""
    return _rearranged([*baseline, *environment], len(baseline))


def compute_signed_rank(differences: Sequence[float]) -> P:
    """Return p of Wilcoxon's test of "symmetric about 0"; differences of 0 are left out."""
    nonzero = [value for value in differences if value]
    if not nonzero:
        return 1.0, EXACT
    ranks = compute_ranks([abs(value) for value in nonzero])
    if len(set(ranks)) < len(ranks) or len(nonzero) ** 2 > EXACT_RANKS:
        return sign_flips([math.copysign(rank, d) for rank, d in zip(ranks, nonzero, strict=True)])
    positive = round(math.fsum(rank for rank, d in zip(ranks, nonzero, strict=True) if d > 0))
    return _two_sided(_subset_sums(len(nonzero)), positive), EXACT


def sign_flips(differences: Sequence[float]) -> P:
    """Return the share of random signs that give a mean at least as far from 0 as this one."""
    import numpy as np  # lazily, as in estimates

    values = np.sort(np.asarray(differences, dtype=float))  # so that their order does not matter
    seen, n = abs(values.sum()), len(values)
    if n <= MOST_SIGNS:
        sums = values[:1]  # the other sign of the first gives the same sums with the other sign
        for value in values[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return _share(np.abs(sums), seen), EXACT
    rng = np.random.default_rng(SEED)
    drawn = [
        (1 - 2 * rng.integers(0, 2, (size, n), dtype=np.int8)) @ values
        for size in split_into_chunks(ARRANGEMENTS)
    ]
    return _share(np.abs(np.concatenate(drawn)), seen, drawn=True), RANDOM


def _rearranged(values: Sequence[float], n_b: int) -> P:
    """Return the two-sided p of the difference of means; the first `n_b` values are one arm."""
    import numpy as np

    # Sorted, so that the order of the runs of an arm does not matter.
    pooled = np.array([*sorted(values[:n_b]), *sorted(values[n_b:])], dtype=float)
    pooled = pooled - pooled.mean()  # so that a sum of one arm is a difference of means
    n, seen = len(pooled), abs(pooled[:n_b].sum())
    if math.comb(n, n_b) <= COUNTABLE:
        places = np.array(list(combinations(range(n), n_b)))
        return _share(np.abs(pooled[places].sum(axis=1)), seen), EXACT
    rng = np.random.default_rng(SEED)
    sums = [
        rng.permuted(np.tile(pooled, (size, 1)), axis=1)[:, :n_b].sum(axis=1)
        for size in split_into_chunks(ARRANGEMENTS)
    ]
    return _share(np.abs(np.concatenate(sums)), seen, drawn=True), RANDOM


def split_into_chunks(total: int) -> list[int]:
    """Split `total` into sizes of at most CHUNK, so that not all values are in memory at once."""
    whole, rest = divmod(total, CHUNK)
    return [CHUNK] * whole + [rest] * (rest > 0)


def _share(sums: Any, seen: float, *, drawn: bool = False) -> float:
    """Return the share of `sums` at least as large as `seen`, which itself counts if `drawn`."""
    as_large = int((sums >= seen - 1e-12 * max(seen, 1.0)).sum())
    return (as_large + drawn) / (len(sums) + drawn)


def compute_ranks(values: Sequence[float]) -> list[float]:
    """Return the rank of each value, from 1; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    for end in range(1, len(order) + 1):
        if end == len(order) or values[order[end]] != values[order[start]]:
            for place in order[start:end]:
                ranks[place] = (start + 1 + end) / 2
            start = end
    return ranks


def _rank_sums(n_b: int, n_e: int) -> Any:
    """Return the number of arrangements for each value of Mann and Whitney's U, 0 to n_b * n_e."""
    import numpy as np

    # ways[k]: to choose k of the ranks seen so far, by the sum of how far they stand from lowest.
    ways = np.zeros((n_e + 1, n_b * n_e + 1))
    ways[0, 0] = 1
    for rank in range(n_b + n_e):
        for k in range(min(rank + 1, n_e), 0, -1):
            shift = rank - (k - 1)
            if shift <= n_b * n_e:
                ways[k, shift:] += ways[k - 1, : n_b * n_e + 1 - shift]
    return ways[n_e]


def _subset_sums(n: int) -> Any:
    """Return the number of subsets of the ranks 1 to n for each sum, from 0."""
    import numpy as np

    ways = np.zeros(n * (n + 1) // 2 + 1)
    ways[0] = 1
    for rank in range(1, n + 1):
        ways[rank:] += ways[:-rank].copy()
    return ways


def _two_sided(ways: Any, seen: int) -> float:
    below, above = ways[: seen + 1].sum(), ways[seen:].sum()
    return float(min(1.0, 2 * min(below, above) / ways.sum()))
