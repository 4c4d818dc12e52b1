"""One environment across several studies: a mean by random effects, where it is honest.

A study is an experiment, an import or a published table, as statistics calls it. Sentences say
experiment of all of them, since a study of Tare is several experiments. It counts once, however
many of its configurations were chosen: they share its nodes, its software and often its days, so
that they are not as many studies. The arithmetic is that of `pooling`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from experiments.statistics import numbers
from experiments.statistics.across_configurations import (
    average_dependent,
    compute_p_same_ratio,
    make_estimate,
    summarise_environments,
)
from experiments.statistics.estimates import Estimate
from experiments.statistics.pooling import (
    FEWEST,
    FEWEST_FOR_PREDICTION,
    Pooled,
    convert_to_ratio,
    convert_to_ratios,
    estimate_random_effects,
    has_interval,
    has_stopped_early,
    has_too_few_runs,
    list_biases,
)
from experiments.statistics.values import ALPHA, Pair, Stamp

LEVEL = 1 - ALPHA
"""Of both intervals. No verdict rests on them, so that they are not those of a test."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """What one study says of the environment that was chosen: a pair for each configuration."""

    number: int
    """By which sentences name it: "experiment 3"."""
    identities: frozenset[str]
    """Texts of which two studies share one if they are of the same data, or of some of it."""
    metrics: tuple[str, ...]
    """The names of what its pairs compare, in words and without units."""
    pairs: tuple[Pair, ...]
    nodes: frozenset[str] = frozenset()
    """Nodes that no other cluster's are mistaken for; empty where they are not known."""


@dataclass(frozen=True, kw_only=True)
class AcrossStudies(Pooled):
    """The mean ratio over studies, each counted once, or why there is none.

    `configurations` is the number of studies.
    """

    noun: ClassVar = "experiment"
    nouns: ClassVar = "experiments"
    p_same_ratio: float | None = None
    """The p of "the ratio is the same in all studies", by Welch's F."""
    remarks: tuple[str, ...] = ()
    """Sentences on what a reader has to know beside the numbers, or has to know without them."""

    @property
    def sentence(self) -> str:
        """Return the mean with both intervals as a sentence, or why there is none."""
        if self.why_not:
            return f"There is no summary: {self.why_not}."
        level = numbers.level(self.level)
        text = (
            f"Over {self.configurations} experiments {self.environment} has a mean ratio of "
            f"{numbers.ratio(self.ratio, self.interval)} ({level} interval by random effects); the "
            f"true ratios of experiments have a standard deviation of {numbers.percent(self.tau)}."
        )
        if self.prediction:
            low, high = (
                numbers.fixed(end, numbers.ratio_decimals(self.prediction))
                for end in self.prediction
            )
            text += f" One more such experiment would lie between {low} and {high} ({level})."
        return text


def summarise_studies(studies: Sequence[Study], environment: str) -> AcrossStudies:
    """Return the mean over studies, or why it would not be honest; never raises.

    The variance between studies is Paule and Mandel's, the interval Hartung and Knapp's with k - 1
    degrees of freedom, the prediction interval of Higgins et al. with k - 2.
    """
    count = len(studies)
    remarks = tuple(_list_remarks(studies))
    if why_not := _explain_refusal(studies):
        return AcrossStudies(
            environment=environment,
            configurations=count,
            level=LEVEL,
            why_not=why_not,
            remarks=remarks,
        )
    means = [average_configurations(study.pairs) for study in studies]
    mean = estimate_random_effects([each.log_ratio for each in means], [each.se for each in means])
    p_same = compute_p_same_ratio(means, [1] * count)
    has_prediction = count >= FEWEST_FOR_PREDICTION
    if not has_prediction:
        remarks += (
            f"A prediction interval takes {FEWEST_FOR_PREDICTION} experiments: fewer hardly tell "
            "how much experiments differ.",
        )
    if p_same < ALPHA:
        instead = "the prediction interval, and " if has_prediction else ""
        remarks += (
            "The experiments differ by more than their own intervals explain (p of one common "
            f"ratio {numbers.p_value(p_same)}): look at {instead}what differs between them, "
            "rather than at the mean.",
        )
    return AcrossStudies(
        environment=environment,
        configurations=count,
        level=LEVEL,
        blocks=sum(pair.count_to_infer for study in studies for pair in study.pairs),
        ratio=convert_to_ratio(mean.mean),
        interval=convert_to_ratios(mean.interval(LEVEL)),
        prediction=convert_to_ratios(mean.predict(LEVEL)) if has_prediction else None,
        tau=math.sqrt(mean.tau2),
        p_same_ratio=p_same,
        remarks=remarks,
    )


def average_configurations(pairs: Sequence[Pair]) -> Estimate:
    """Return the mean log-ratio of a study's configurations, which all have an interval.

    They weigh alike. How much their errors have in common is not known.
    """
    estimates = [estimate for pair in pairs if (estimate := make_estimate(pair))]
    return average_dependent(estimates, [1] * len(estimates))


def _explain_refusal(studies: Sequence[Study]) -> str:
    """Return why a mean of these would not be honest, the weightiest reason first; "" if it is."""
    pairs = [pair for study in studies for pair in study.pairs]
    directions = {pair.better for pair in pairs}
    metrics = list(dict.fromkeys(metric for study in studies for metric in study.metrics))
    baselines = list(dict.fromkeys(pair.baseline for pair in pairs))
    for reason in (
        _explain_same_data(studies),
        "it is not said of all metrics whether lower or higher is better"
        if None in directions
        else "",
        "of some lower is better and of others higher" if len(directions) > 1 else "",
        f"they measure different things: {numbers.listed(metrics)}" if len(metrics) > 1 else "",
        f"ratios are to different baselines: {numbers.listed(baselines)}"
        if len(baselines) > 1
        else "",
        _say_have(
            [study for study in studies if not all(map(has_interval, study.pairs))],
            "no interval, and a mean of the rest would be of a chosen part",
        ),
    ):
        if reason:
            return reason
    if len(studies) < FEWEST:
        few = f"{len(studies)} experiments do" if len(studies) != 1 else "one experiment does"
        return f"{few} not tell how much experiments differ; it takes {FEWEST}"
    for study in studies:
        if biases := list_biases(study.pairs):
            return (
                f"experiment {study.number} is stamped {numbers.listed(biases)}, "
                "which a mean would hide"
            )
    return (
        _say_have(
            [study for study in studies if any(map(has_too_few_runs, study.pairs))],
            "too few runs to know how uncertain the ratio is",
        )
        or _say_have(
            [study for study in studies if any(map(_is_of_one_process, study.pairs))],
            "values of a single start of the program, which vary less than starts do: the interval "
            "is too short, and would weigh too much",
        )
        or _say_have(
            [study for study in studies if any(map(has_stopped_early, study.pairs))],
            "a verdict from an interim analysis, and ratios at which one stops are on average too "
            "far from 1",
        )
        or _say_have(
            [study for study in studies if any(pair.extension for pair in study.pairs)],
            "blocks that were added because the verdict was open, and with those a ratio depends "
            "on what it was before",
        )
        or _explain_unlike_configurations(studies)
    )


def _is_of_one_process(pair: Pair) -> bool:
    return Stamp.ONE_PROCESS in pair.stamps


def _explain_same_data(studies: Sequence[Study]) -> str:
    holders: dict[str, list[int]] = {}
    for study in studies:
        for identity in study.identities:
            holders.setdefault(identity, []).append(study.number)
    twice = max(holders.values(), key=lambda each: (len(each), [-n for n in each]), default=[])
    return f"{name_studies(twice)} are of the same data" if len(twice) > 1 else ""


def _explain_unlike_configurations(studies: Sequence[Study]) -> str:
    """Return which study has configurations whose ratios plainly differ: it has no single ratio."""
    for study in studies:
        for summary in summarise_environments(study.pairs):
            if summary.ratios_differ:
                ends = numbers.ratio(summary.smallest_ratio), numbers.ratio(summary.largest_ratio)
                return (
                    f"the configurations of experiment {study.number} differ, from {ends[0]} to "
                    f"{ends[1]}; choose those that are alike"
                )
    return ""


def name_studies(studies: Sequence[int]) -> str:
    """Return how sentences name studies: "experiment 3", "experiments 1 to 4 and 9"."""
    runs: list[list[int]] = []
    for number in sorted(studies):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    names = [
        name
        for run in runs
        for name in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))
    ]
    return f"{'experiment' if len(studies) == 1 else 'experiments'} {numbers.listed(names)}"


def _say_have(studies: Sequence[Study], what: str) -> str:
    """Return that these studies have something; "" where there are none."""
    if not studies:
        return ""
    names = name_studies([study.number for study in studies])
    return f"{names} {'has' if len(studies) == 1 else 'have'} {what}"


def _list_remarks(studies: Sequence[Study]) -> Iterator[str]:
    """Yield what is to be known of these studies whether or not they have a mean."""
    several = [study.number for study in studies if len(study.pairs) > 1]
    if several:
        yield (
            f"{_begin(several)} {'counts' if len(several) == 1 else 'count'} once: the mean "
            "log-ratio of the chosen configurations, which share nodes and software, with the mean "
            "of their standard errors."
        )
    for holders, nodes in _find_shared_nodes(studies):
        yield (
            f"{_begin(holders)} share {numbers.listed(nodes)}: they are less independent "
            "than the intervals assume."
        )


def _find_shared_nodes(studies: Sequence[Study]) -> list[tuple[list[int], list[str]]]:
    """Return the numbers of studies that share nodes, with these nodes."""
    holders: dict[str, list[int]] = {}
    for study in studies:
        for node in sorted(study.nodes):
            holders.setdefault(node, []).append(study.number)
    groups: dict[tuple[int, ...], list[str]] = {}
    for node, sharing in sorted(holders.items()):
        if len(sharing) > 1:
            groups.setdefault(tuple(sharing), []).append(node)
    return [(list(sharing), nodes) for sharing, nodes in groups.items()]


def _begin(studies: Sequence[int]) -> str:
    """Return the names of studies as a sentence begins."""
    return name_studies(studies).capitalize()
