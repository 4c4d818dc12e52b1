"""Sources of values: environments are compared only where all were measured in the same way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from experiments.statistics.values import Sample


def explain_different_sources(baseline: Sequence[Sample], environment: Sequence[Sample]) -> str:
    """Return why values cannot be compared, to follow "there is"; "" if all have one source."""
    sources = {sample.source for sample in (*baseline, *environment)}
    if len(sources) < 2 or not (baseline and environment):
        return ""
    parts = []
    for arm in (baseline, environment):
        counts = Counter(sample.source or "the program's report" for sample in arm)
        names = " and ".join(f"{source} ({count})" for source, count in sorted(counts.items()))
        parts.append(f"{arm[0].environment} by {names}")
    return f"no common source of the values: {', '.join(parts)}"
