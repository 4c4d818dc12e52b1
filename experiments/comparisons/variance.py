"""Where the variance of an experiment's runs sits, by configuration, and what that advises."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from experiments.comparisons.comparison import Group
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.comparisons.judged_samples import list_compared_samples, list_judged_samples
from experiments.comparisons.run_steps import RunSteps, read_run_steps
from experiments.statistics import Estimand, Pair, Sample, numbers
from experiments.statistics.nodes import name_nodes
from experiments.statistics.repetitions import (
    Design,
    Steps,
    advise,
    average_steps,
)
from experiments.statistics.variance_components import Component, split_variance


@dataclass(frozen=True)
class RatioVariance:
    """What nodes and blocks add to the log-ratio of one environment to the baseline."""

    environment: str
    components: list[Component]
    """Empty where nothing is paired: then it is that of the runs."""
    advice: str


@dataclass(frozen=True)
class GroupVariance:
    """The components of one configuration."""

    group: Group
    components: list[Component]
    """Of single runs, over all environments: each has its own mean, and all the same spread."""
    steps: Steps | None
    """The part of the runs' variance that their steps explain."""
    ratios: list[RatioVariance]
    is_paired: bool

    @property
    def seen(self) -> list[Component]:
        return [component for component in self.components if component.sd is not None]

    @property
    def steps_share(self) -> float | None:
        """Return the part of the variance of all levels that the steps explain, at most all."""
        total = sum(component.variance for component in self.components)
        return min(self.steps.variance / total, 1.0) if self.steps and total else None

    @property
    def pairing(self) -> str:
        """Return a sentence on what pairing cancels, or would; "" where it cannot be told."""
        own = next((c for c in self.seen if c.levels == ("run",)), None)
        above = [c for c in self.seen if "run" not in c.levels]
        if own is None or own.share is None or own.share_ci95 is None or not above:
            return ""
        low, high = (numbers.percent(1 - end, decimals=0) for end in reversed(own.share_ci95))
        part = f"{numbers.percent(1 - own.share, decimals=0)} [{low}, {high}]"
        names = numbers.listed([c.name for c in above])
        if self.is_paired:
            return (
                f"Pairing cancels what {names} add to all environments alike: {part} of the "
                "variance of a run. What an environment adds on one node or in one block is part "
                "of the run there, and has rows of its own as part of the ratio."
            )
        return f"Runs paired in one job would not have what {names} add: {part} of their variance."


def has_variance(comparison: ExperimentComparison) -> bool:
    """Return whether any pair has an interval, so that there is a spread to be split."""
    return any(pair.ci95 is not None for pair in comparison.pairs)


def split_groups(comparison: ExperimentComparison) -> list[GroupVariance]:
    """Return the components of each configuration with an interval; at most one query."""
    groups = [
        group for group in comparison.groups if any(pair.ci95 is not None for pair in group.pairs)
    ]
    steps = read_run_steps(comparison, groups)
    return [_split_group(comparison, group, steps) for group in groups]


def _split_group(
    comparison: ExperimentComparison, group: Group, steps: Mapping[str, RunSteps]
) -> GroupVariance:
    # The analysis that judged the most runs: a verdict of an earlier one rests on some of them.
    samples = max((list_judged_samples(comparison, group, pair) for pair in group.pairs), key=len)
    nodes = name_nodes(samples, paired=comparison.paired)
    components = split_variance(
        [math.log(sample.value) for sample in samples],
        {
            "node": [nodes.get(sample.node, "") for sample in samples],
            "block": [sample.block for sample in samples],
        },
        [sample.environment for sample in samples],
    )
    known = [steps[sample.run].variance for sample in samples if sample.run in steps]
    return GroupVariance(
        group,
        components,
        average_steps(known),
        [
            _split_ratio(comparison, group, pair, components, steps)
            for pair in group.pairs
            if pair.ci95 is not None
        ],
        comparison.paired,
    )


def _split_ratio(
    comparison: ExperimentComparison,
    group: Group,
    pair: Pair,
    components: Sequence[Component],
    steps: Mapping[str, RunSteps],
) -> RatioVariance:
    samples = list_compared_samples(comparison, group, pair)
    arms = [
        [sample for sample in samples if sample.environment == name]
        for name in (pair.baseline, pair.environment)
    ]
    costs = _describe_steps(arms, steps)
    if not pair.paired:
        total = sum(component.variance for component in components)
        count = min(map(len, arms))
        design = Design(
            blocks=[count], between_nodes=None, between_blocks=2 * total, unit="run", **costs
        )
        return RatioVariance(pair.environment, [], advise(design))
    nodes = name_nodes(samples, paired=True)
    logs: list[dict[str, list[float]]] = [{}, {}]
    node_of_block = {}
    for of_arm, arm in zip(logs, arms, strict=True):
        for sample in arm:
            of_arm.setdefault(sample.block, []).append(math.log(sample.value))
            node_of_block[sample.block] = nodes.get(sample.node, "")
    baseline, environment = ({name: fmean(own) for name, own in arm.items()} for arm in logs)
    blocks = [block for block in baseline if block in environment]
    parts = split_variance(
        [environment[block] - baseline[block] for block in blocks],
        {"node": [node_of_block[block] for block in blocks]},
        [pair.environment] * len(blocks),
        finest="block",
    )
    counts = list(Counter(node_of_block[block] for block in blocks).values())
    seen = {part.levels: part.variance for part in parts if part.sd is not None}
    is_about_others = pair.estimand is not Estimand.NODES
    design = Design(
        blocks=counts,
        between_nodes=seen.get(("node",)) if is_about_others else None,
        between_blocks=seen.get(("block",), seen.get(("node", "block"), 0.0)),
        by_node=pair.by_node,
        has_own_nodes=is_about_others and ("node", "block") in seen,
        **costs,
    )
    advice = advise(design)
    if advice and is_about_others and parts[0].why_unseen:
        advice += " What other nodes would add cannot be seen."
    return RatioVariance(pair.environment, parts, advice)


def _describe_steps(
    arms: Sequence[Sequence[Sample]], steps: Mapping[str, RunSteps]
) -> dict[str, Any]:
    """Return what the steps add to a log-ratio and what runs cost; {} where any run lacks them."""
    known = [[steps.get(sample.run) for sample in arm] for arm in arms]
    runs = [run for arm in known for run in arm if run is not None]
    if not runs or len(runs) < sum(map(len, arms)):
        return {}
    rests = [run.rest for run in runs if run.rest is not None]
    return {
        "steps_add": sum(fmean(run.variance for run in arm if run) for arm in known),
        "steps": fmean(run.count for run in runs),
        "run_seconds": fmean(rests) if len(rests) == len(runs) else 0.0,
        "step_seconds": fmean(run.seconds for run in runs),
    }


def list_variance_rows(comparison: ExperimentComparison) -> list[dict[str, Any]]:
    """Return one flat row for each component, for JSON."""
    return [
        {**comparison.about, **split.group.configuration, "metric": split.group.metric.name, **row}
        for split in split_groups(comparison)
        for row in _list_rows(split)
    ]


def _list_rows(split: GroupVariance) -> list[dict[str, Any]]:
    rows = [{"of": "run", "environment": "", **_columns(part)} for part in split.components]
    if split.steps:
        low, high = split.steps.sd_ci95 or (None, None)
        rows.append(
            {
                "of": "run",
                "environment": "",
                "level": "step",
                "groups": split.steps.runs,
                "sd": split.steps.sd,
                "sd_ci95_low": low,
                "sd_ci95_high": high,
                "share": split.steps_share,
            }
        )
    for ratio in split.ratios:
        if not ratio.components and ratio.advice:  # runs of their own: nothing is split
            rows.append({"of": "ratio", "environment": ratio.environment, "advice": ratio.advice})
        rows += [
            {
                "of": "ratio",
                "environment": ratio.environment,
                **_columns(part),
                "advice": ratio.advice,
            }
            for part in ratio.components
        ]
    return rows


def _columns(part: Component) -> dict[str, Any]:
    (sd_low, sd_high), (low, high) = part.sd_ci95 or (None, None), part.share_ci95 or (None, None)
    return {
        "level": " and ".join(part.levels),
        "groups": part.groups,
        "sd": part.sd,
        "sd_ci95_low": sd_low,
        "sd_ci95_high": sd_high,
        "share": part.share,
        "share_ci95_low": low,
        "share_ci95_high": high,
        "detail": part.why_unseen,
    }
