"""Whether a ratio can be put down to the container: the verdict where facts say that it cannot."""

from __future__ import annotations

from dataclasses import replace

from experiments.statistics import numbers
from experiments.statistics.compared_facts import ComparedFacts
from experiments.statistics.values import Pair, Verdict

MOST_NAMED = 3
"""Facts that the claim names; further ones are counted."""


def attribute(pair: Pair, facts: ComparedFacts | None) -> Pair:
    """Return the pair with its facts; NOT ATTRIBUTABLE where a blocking one differs.

    Its estimate stays, and so does what the numbers alone would say: in the sentence, and in a
    field, by which Holm's correction stamps it. Without an inference there is nothing to attribute.
    """
    pair = replace(pair, facts=facts)
    if facts is None or not facts.blocking or pair.verdict is Verdict.NO_INFERENCE:
        return pair
    names = [row.fact for row in facts.blocking]
    more = len(names) - MOST_NAMED
    named = numbers.listed([*names[:MOST_NAMED], *([f"{more} more"] if more > 0 else [])])
    first = facts.describe(facts.blocking[0])
    return replace(
        pair,
        verdict=Verdict.NOT_ATTRIBUTABLE,
        verdict_by_numbers=pair.verdict,
        detail=f"{named} differ{'s' * (len(names) == 1)}",
        claim=f"{pair.environment} against {pair.baseline} is not attributable to the container: "
        f"{named} differ{'s' * (len(names) == 1)}",
        evidence=f" ({first}). The numbers alone would say {pair.verdict}: "
        f"{pair.claim}{pair.evidence}",
    )
