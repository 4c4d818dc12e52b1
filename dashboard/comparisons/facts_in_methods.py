"""What the snapshots of both sides say of each other, for paragraphs on methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.natural_order import sort_naturally
from experiments.statistics import Pair, numbers
from experiments.statistics.compared_facts import ComparedFacts

MOST_NAMED = 12
"""Facts of one grade that are named; further ones are counted."""


def describe_facts(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield one paragraph: how many facts could be compared, and which differed; nothing without
    snapshots.
    """
    known = [pair.facts for pair in pairs if pair.facts and pair.facts.pairs]
    if not known:
        return
    least, most = (choose(facts.compared for facts in known) for choose in (min, max))
    count = f"{least}" if least == most else f"{least} to {most}"
    how = "the runs of each block" if known[0].paired else "all runs of both sides"
    yield (
        f"{count} of {known[0].of} facts of the runs’ snapshots could be compared between {how}, "
        f"by Tare’s table of confounders. {_describe_grades(known)}"
    )


def _describe_grades(known: Sequence[ComparedFacts]) -> str:
    parts = []
    for grade, consequence in (
        ("blocking", "so that the verdict is NOT ATTRIBUTABLE"),
        ("likely", "so that the verdict is stamped CONFOUNDED"),
        ("cosmetic", "without consequence, or known on one side only"),
    ):
        rows = [row.fact for facts in known for row in facts.differences if row.grade == grade]
        if names := sort_naturally(set(rows)):
            more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
            parts.append(f"{numbers.listed([*names[:MOST_NAMED], *more])} ({consequence})")
    if parts:
        return f"In at least one comparison these differed: {'; '.join(parts)}."
    if known[0].paired:
        return "None of them differed."
    return "The same values occurred on both sides, none of them plainly more often on one."
