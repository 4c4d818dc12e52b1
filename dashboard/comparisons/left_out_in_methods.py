"""How complete a comparison is, and what was left out, for paragraphs on methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from experiments.comparisons import ExperimentComparison
from experiments.comparisons.exclusions import Moment
from experiments.models import Run
from experiments.statistics import numbers

NAMED = 20
"""More excluded runs than this are counted, not named; the file of runs has them all."""


def describe_completeness(comparison: ExperimentComparison) -> str:
    ends = "".join(
        f", {comparison.stage.states[state]} {state}"
        for state in map(str, Run.FINAL)
        if comparison.stage.states[state]
    )
    planned = count_as_subject(comparison.planned, "run was", "runs were")
    ended = "has" if comparison.ended == 1 else "have"
    runs = f"{planned} planned, {comparison.ended} {ended} ended{ends}."
    if comparison.experiment.imported_at:
        runs = f"{planned} found in the logs{ends}."
    else:
        runs += (
            " A run fails, by the same rules in all environments, whose numbers do not pass the "
            "sanity check of its workload, or whose node failed by the word of its scheduler."
        )
    without = "Runs that failed, were cancelled or were excluded have no say"
    if comparison.experiment.is_paired:
        without += "; blocks in which one side is missing are left out of that pair"
    return f"{runs} {without}."


def describe_repairs(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield how many blocks a second job has completed."""
    blocks, on_any_node = comparison.repaired
    if not blocks:
        return
    count = count_as_subject(blocks, "block was", "blocks were")
    text = (
        f"{count} completed by a second job, because the first one ended before all of its runs "
        "had begun, or because rules of the plan rejected some; their runs are further apart in "
        "time."
    )
    if on_any_node:
        text += f" For {on_any_node:,} of them any node was allowed."
    yield text


def describe_rejections(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield the rules of the plan that reject runs, and how many runs of whom they rejected."""
    rules = comparison.experiment.rejection_texts
    if not rules:
        return
    by_environment: Counter[str] = Counter()
    for row in comparison.rejections:
        by_environment[row.environment] += row.rejected
    named = ", ".join(f"{count:,} of {name}" for name, count in by_environment.items() if count)
    count = count_as_subject(comparison.rejected, "run was", "runs were")
    text = (
        "Rules of the plan, fixed before the launch and blind to what runs measure, reject a run "
        f"where {', or '.join(rules)}: {f'{count} rejected, {named}' if named else 'none was'}."
    )
    if again := comparison.experiment.rejected_again:
        times = "once" if again == 1 else f"up to {again} times"
        text += (
            f" By the same plan what they reject of a block is run again {times}, on the node of "
            "the others; a run counts as rejected each time."
        )
    yield text


def describe_exclusions(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield who excluded which runs, when and why, and the verdicts with them."""
    exclusions = comparison.exclusions
    if not exclusions:
        return
    moments = Counter(exclusion.moment for exclusion in exclusions)
    named = "; ".join(exclusion.description for exclusion in exclusions[:NAMED])
    more = f"; and {len(exclusions) - NAMED} more" if len(exclusions) > NAMED else ""
    count = count_as_subject(len(exclusions), "run was", "runs were")
    sentences = [f"{count} excluded by a person: {named}{more}."]
    when = ", ".join(f"{moments[moment]:,} {moment}" for moment in Moment if moments[moment])
    sentences.append(f"Of these, {when}.")
    if comparison.paired:
        sentences.append("A block that lacks a run of either side is left out of that pair.")
    yield " ".join((*sentences, *_describe_both_verdicts(comparison)))


def _describe_both_verdicts(comparison: ExperimentComparison) -> Iterator[str]:
    """Yield each verdict without and with the runs that persons have excluded.

    Of several decisive metrics that of each, and that of all together.
    """
    for groups in comparison.by_metric:
        for group in groups:
            name = group.title if comparison.further else group.name
            for pair in group.pairs:
                if pair.before:
                    yield (
                        f"{name}, {pair.environment}: {pair.verdict} without them. "
                        f"{pair.before.sentence}"
                    )
    for overall in comparison.decisive.values():
        if overall.before:
            where = f"{overall.configuration}, " * bool(overall.configuration)
            yield (
                f"{where}{overall.environment}, all decisive metrics: {overall.verdict} without "
                f"them. {overall.sentence_before}"
            )


def count_part(count: int, total: int, noun: str) -> str:
    """Return a part of a total: "1 of 5 runs"."""
    return f"{count:,} of {numbers.count(total, noun)}"


def count_as_subject(count: int, singular: str, plural: str) -> str:
    """Return a number as the subject of a sentence: "1 run was", "2 runs were"."""
    return f"{count:,} {singular if count == 1 else plural}"
