"""Results of other tests that were computed are kept beside the comparison that they are of.

Resampling takes a worker some 40 ms a pair, once. What makes a comparison stale is in its key, and
the results are of that key alone.
"""

from __future__ import annotations

import logging
import zlib

from experiments.comparisons.companions import Companions, compute_companions
from experiments.comparisons.comparison import Comparison
from experiments.comparisons.packed_json import pack_summed, unpack_summed
from experiments.comparisons.plain_values import read_plain, write_plain
from experiments.models import KeptRobustness
from experiments.statistics.robust import Robustness

logger = logging.getLogger(__name__)


def keep_companions(pk: int, comparison: Comparison, key: str) -> None:
    """Compute the other tests of an experiment's comparison with this key, and keep them."""
    results = [companions.robustness for companions in compute_companions(comparison)]
    content = pack_summed(write_plain(results), key)
    KeptRobustness.objects.update_or_create(pk=pk, defaults={"key": key, "content": content})


def read_companions(pk: int, comparison: Comparison, key: str) -> list[Companions]:
    """Return the other tests of a comparison: the kept ones of its key, or computed now.

    `key` is "" for a comparison that is not kept.
    """
    row = KeptRobustness.objects.filter(pk=pk, key=key).first() if key else None
    kept = _read(row, comparison) if row else None
    return compute_companions(comparison) if kept is None else kept


def _read(row: KeptRobustness, comparison: Comparison) -> list[Companions] | None:
    """Return what a row holds; None, and a line in the log, where it is damaged."""
    try:
        plain = unpack_summed(bytes(row.content), row.key)
        return _join(comparison, read_plain(list[Robustness], plain))
    except (ValueError, zlib.error, RecursionError) as error:
        logger.warning("The kept robustness of experiment %s is damaged: %.200s", row.pk, error)
        return None


def _join(comparison: Comparison, results: list[Robustness]) -> list[Companions]:
    """Return the results with their pairs. ValueError if they are of others."""
    pairs = [(group, pair) for group in comparison.groups for pair in group.pairs]
    joined = [
        Companions(group, pair, result)
        for (group, pair), result in zip(pairs, results, strict=True)
    ]
    for each in joined:
        of_result = each.robustness.baseline, each.robustness.environment
        if of_result != (each.pair.baseline, each.pair.environment):
            raise ValueError("It is of other environments.")
    return joined
