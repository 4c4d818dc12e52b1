"""Curves of a pair's p over margins other than its own."""

import math
from collections.abc import Sequence

from experiments.statistics.values import Pair


def compute_equivalence_curve(pair: Pair, margins: Sequence[float]) -> list[float]:
    """Return p of equivalence (TOST) at each margin, a fraction; empty without inference.

    At `pair.margin` it is `pair.p_equivalence`; at `pair.smallest_margin` it is `pair.alpha`.
    """
    if pair.ratio is None or pair.log_se is None or pair.df is None:
        return []
    from experiments.statistics.special_functions import stdtr  # lazily, as in estimates

    distance = abs(math.log(pair.ratio))
    return [
        float(stdtr(pair.df, (distance - math.log1p(margin)) / pair.log_se)) for margin in margins
    ]
