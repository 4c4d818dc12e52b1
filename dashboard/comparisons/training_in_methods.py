"""Sentences on the verdicts about training, for the paragraphs on methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from experiments.comparisons import ExperimentComparison
from experiments.planning.goals import describe_training_margins
from experiments.statistics import numbers
from experiments.statistics.training.end_pairs import ComparedBy

BY = {
    ComparedBy.SEED: "by Student’s t of the differences within seeds",
    ComparedBy.BLOCK: "by Student’s t of the differences within blocks",
    ComparedBy.RUN: "by Welch’s t of the runs",
}


def describe_training_verdicts(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield what was done for the three questions on training; nothing without losses.

    What was done at the ends only where the plan fixes a margin.
    """
    groups = [group.trained for group in comparison.trained if group.trained]
    if not groups:
        return
    judged = [pair for group in groups for pair in group.ends if pair.verdict is not None]
    if judged:
        margins = describe_training_margins(comparison.experiment)
        fixed = (
            "chosen when the data had been taken"
            if any(pair.chosen_afterwards for pair in judged)
            else "fixed by the plan before the data"
        )
        how = numbers.listed([text for by, text in BY.items() if by in {row.by for row in judged}])
        counts = Counter(str(pair.verdict) for pair in judged)
        tallied = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        yield (
            f"The ends of trainings were compared by two one-sided tests at "
            f"{numbers.level(judged[0].alpha)} of their difference within {margins}, {fixed}, "
            f"{how}; p were corrected by Holm over all verdicts on training: {tallied}."
        )
    yield (
        "Losses were compared over all steps that all runs have, in means of at most 200 bins, by "
        "one permutation test for the whole curve: the largest standardised mean difference, "
        "against its distribution when the signs of whole seeds or blocks are flipped (where "
        "nothing pairs runs, when their labels are permuted). It is exact however much steps "
        "resemble each other, and is not corrected for the number of comparisons. Whether losses "
        "are bitwise the same was looked at separately."
    )
    diverged: Counter[str] = Counter()
    for group in groups:
        diverged.update(group.diverged)
    if diverged:
        named = ", ".join(f"{count:,} of {name}" for name, count in diverged.items())
        yield f"Runs diverged ({named}): their loss was no number any more, and they failed."
