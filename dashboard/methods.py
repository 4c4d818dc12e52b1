"""What was done, in words that a paper can print: the page and the LaTeX export say the same."""

from __future__ import annotations

from datetime import UTC
from functools import singledispatch

from experiments.comparisons import Comparison, ExperimentComparison
from experiments.models import Run
from experiments.statistics import numbers


@singledispatch
def methods(comparison: Comparison) -> list[str]:
    """Return paragraphs of plain text; whoever shows them escapes them."""
    raise NotImplementedError(f"{type(comparison).__name__} does not say what was done.")


@methods.register
def _(comparison: ExperimentComparison) -> list[str]:
    return [
        " ".join((_measured(comparison), _design(comparison))),
        " ".join((_inference(comparison), _family(comparison))),
        _completeness(comparison),
    ]


def _measured(comparison: ExperimentComparison) -> str:
    experiment = comparison.experiment
    where = str(experiment.cluster)
    if experiment.partition:
        where += f", partition {experiment.partition.name}"
    when = (
        f", launched {experiment.launched_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        if experiment.launched_at
        else ""
    )
    metrics = dict.fromkeys(
        f"{group.metric.label.lower()} ({group.metric.name}) of {group.cell['workload']}"
        for group in comparison.groups
    )
    return (
        f"Measured on {where}{when}. The run is the unit of all statistics; its value is the "
        f"{', the '.join(metrics)}."
    )


def _design(comparison: ExperimentComparison) -> str:
    seed = comparison.experiment.order_seed
    if comparison.experiment.is_paired:
        return (
            "Each block was one job that ran every environment once on the same node, in random "
            f"order; blocks were in random order too (seed {seed}). The ratio is the geometric "
            "mean, over blocks, of environment over baseline; its intervals are Student’s t "
            "intervals of the logarithms."
        )
    return (
        f"Every run was a job of its own, in random order (seed {seed}). The ratio is that of "
        "geometric means; its intervals are Welch’s t intervals of the logarithms, with "
        "Satterthwaite’s degrees of freedom."
    )


def _inference(comparison: ExperimentComparison) -> str:
    experiment = comparison.experiment
    return (
        "An environment is called equivalent when the 90 % interval lies between 1/(1 + m) and "
        f"1 + m with m = {numbers.margin(experiment.margin)}, which is two one-sided tests at 5 %; "
        "otherwise slower or faster when the 95 % interval does not contain 1, and inconclusive "
        "when neither holds. The margin was fixed before the data, with the plan "
        f"{experiment.plan_hash[:12]}."
    )


def _family(comparison: Comparison) -> str:
    count = len(comparison.pairs)
    made = "comparison was" if count == 1 else "comparisons were"
    return f"{count} {made} made; p after Holm’s correction stands in brackets."


def _completeness(comparison: ExperimentComparison) -> str:
    ends = "".join(
        f", {comparison.states[state]} {state}"
        for state in map(str, Run.FINAL)
        if comparison.states.get(state)
    )
    return (
        f"{comparison.planned} runs were planned, {comparison.ended} have ended{ends}. Runs that "
        "failed, were cancelled or were excluded have no say; blocks in which one side is missing "
        "are left out of that pair."
    )
