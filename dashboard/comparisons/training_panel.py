"""The panel on training: ends within a margin, whole curves, and the last bit, one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dashboard.charts.curve_differences import draw_curve_difference
from dashboard.comparisons.figures import Plot
from dashboard.comparisons.panel_base import ExperimentPanel, Rows
from dashboard.comparisons.printed_figures import describe_training_curves
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import ExperimentComparison, Group
from experiments.comparisons.training_verdicts import ACCURACY, judge_afterwards
from experiments.comparisons.whole_curves import WholeCurves, compare_curves_of_groups
from experiments.statistics import numbers
from experiments.statistics.training.curve_sentences import describe_curve
from experiments.statistics.training.end_pairs import EndPair
from experiments.statistics.training.end_sentences import describe_end, describe_test, write_size
from experiments.statistics.training.end_verdicts import correct_ends_by_holm
from experiments.statistics.training.reproducibility import describe_reproducibility

BAND = (
    "The mean difference of {} from the baseline, {}. {}Drawn to be looked "
    "at; the test is one for the whole curve."
)
DOTTED = "Dotted: what chance alone leaves in at most 5 of 100 such experiments, anywhere. "
ADDRESS_MARGINS = {"margin_of_accuracy": ACCURACY, "margin_of_loss": "loss"}
"""The names of margins in an address that the plan does not fix, and what they are of."""
MOST_MARGIN = 1e6


@dataclass(frozen=True)
class End:
    """A verdict on the ends, as its row shows it."""

    pair: EndPair
    margin: str
    sentence: str
    test: str
    stamps: list[tuple[str, str]]


@dataclass(frozen=True)
class TrainedGroup:
    """What the panel shows of one configuration."""

    group: Group
    ends: list[End]
    diverged: str
    """A sentence on the runs that diverged; "" where none did."""
    curves: list[tuple[str, str]]
    """Each environment with its sentence about the whole curve."""
    plots: list[Plot]
    bitwise: list[tuple[str, list[str]]]
    """Each environment with its sentences: about itself, and about the baseline."""
    why_not_compared: str
    """Why its whole curves are not compared; "" where they are."""


@dataclass(frozen=True)
class TrainingContent:
    """What the panel shows."""

    groups: list[TrainedGroup]
    open_margins: dict[str, str]
    """The margins that the plan has not fixed, by their names in the address, as they were typed
    there."""
    waits: bool
    curves: list[WholeCurves]

    def __len__(self) -> int:
        return len(self.groups)


class TrainingEquivalence(ExperimentPanel):
    """Whether environments train alike: at the end, along the whole curve, and bit by bit."""

    name = "training"
    heading = "Training equivalence"
    at_once = 4

    def compute(
        self, comparison: ExperimentComparison, request: OpenRequest
    ) -> TrainingContent | None:
        shown = self.narrow(comparison, request).trained
        if not shown:
            return None
        margins = read_address_margins(request)
        read = list(compare_curves_of_groups(comparison, shown))
        ends = list_ends(comparison, margins)
        pairs = [pair for group in comparison.trained for pair in _ends(group)]
        open_ends = {pair.what for pair in pairs if pair.verdict is None}
        return TrainingContent(
            [
                prepare_group(comparison, curves, ends[curves.group.name], place)
                for place, curves in enumerate(read)
            ],
            {
                name: f"{margins[what]:g}" if what in margins else ""
                for name, what in ADDRESS_MARGINS.items()
                if what in open_ends
            },
            comparison.stage.waits,
            read,
        )

    def describe(
        self, comparison: ExperimentComparison, content: TrainingContent, hide: Callable[[str], str]
    ) -> AxesFigure | None:
        return describe_training_curves(comparison, content.curves, hide)

    def is_offered(self, comparison: ExperimentComparison) -> bool:
        return bool(comparison.trained)

    def export(self, comparison: ExperimentComparison) -> dict[str, Rows]:
        if not comparison.trained:
            return {}
        read = compare_curves_of_groups(comparison, comparison.trained)
        return {
            "training_ends": [
                {
                    **comparison.about,
                    **group.configuration,
                    **pair.columns,
                    "sentence": describe_end(pair),
                }
                for group in comparison.trained
                for pair in _ends(group)
            ],
            "training_curves": [
                {
                    **comparison.about,
                    **curves.group.configuration,
                    **pair.columns,
                    "sentence": describe_curve(pair),
                }
                for curves in read
                for pair in curves.pairs
            ],
            "training_curves_not_compared": [
                {
                    **comparison.about,
                    **curves.group.configuration,
                    "losses": curves.losses,
                    "sentence": curves.why_not_compared,
                }
                for curves in read
                if curves.why_not_compared
            ],
            "training_bitwise": [
                {**comparison.about, **curves.group.configuration, **finding.columns}
                for curves in read
                for finding in curves.bitwise
            ],
        }


def _ends(group: Group) -> list[EndPair]:
    return group.trained.ends if group.trained else []


def read_address_margins(request: OpenRequest) -> dict[str, float]:
    """Return the margins that an address asks for, by what they are of; what is none is left out.

    They are for pairs whose margin no plan fixes, and their verdicts are stamped.
    """
    margins = {}
    for name, what in ADDRESS_MARGINS.items():
        try:
            margin = float(request.GET.get(name, "").replace(",", "."))
        except ValueError:
            continue
        if math.isfinite(margin) and 0 < margin <= MOST_MARGIN:
            margins[what] = margin
    return margins


def list_ends(
    comparison: ExperimentComparison, margins: Mapping[str, float]
) -> dict[str, list[EndPair]]:
    """Return the pairs of each configuration, by its name.

    Verdicts by margins of the address are corrected by Holm among themselves: the plan's verdicts
    stay what they are.
    """
    planned = {group.name: _ends(group) for group in comparison.trained}
    if not margins:
        return planned
    open_pairs = [pair for pairs in planned.values() for pair in pairs if pair.verdict is None]
    judged = iter(correct_ends_by_holm(list(judge_afterwards(open_pairs, margins))))
    return {
        name: [next(judged) if pair.verdict is None else pair for pair in pairs]
        for name, pairs in planned.items()
    }


def prepare_group(
    comparison: ExperimentComparison, curves: WholeCurves, ends: Sequence[EndPair], place: int
) -> TrainedGroup:
    """Return what the panel shows of one configuration, whose losses have been read."""
    bitwise: dict[str, list[str]] = {}
    for finding in curves.bitwise:
        sentences = bitwise.setdefault(finding.environment, [])
        sentence = describe_reproducibility(finding)
        # The environment's name begins the first sentence.
        sentences.append(f"W{sentence[1:]}" if sentences else sentence)
    return TrainedGroup(
        curves.group,
        [
            End(
                pair,
                numbers.MISSING if pair.margin is None else write_size(pair, pair.margin),
                describe_end(pair),
                describe_test(pair),
                [(stamp.value, why) for stamp, why in zip(pair.stamps, pair.reasons, strict=True)],
            )
            for pair in ends
        ],
        _describe_diverged(curves.group),
        [(pair.environment, describe_curve(pair)) for pair in curves.pairs],
        list(_draw(comparison, curves, place)),
        list(bitwise.items()),
        curves.why_not_compared,
    )


def _describe_diverged(group: Group) -> str:
    diverged = group.trained.diverged if group.trained else {}
    if not diverged:
        return ""
    named = numbers.listed(
        [f"{numbers.count(count, 'run')} of {name}" for name, count in diverged.items()]
    )
    return (
        f"{named} diverged: the loss was no number any more. Those runs failed, and are in no "
        "comparison; what is compared are the ones that did not."
    )


def _draw(comparison: ExperimentComparison, curves: WholeCurves, place: int) -> Iterator[Plot]:
    """Yield a figure of each difference that has one."""
    for number, pair in enumerate(curves.pairs):
        if not pair.x:
            continue
        size = math.ceil(pair.steps / len(pair.x))
        points = "step by step" if size == 1 else f"in means of up to {size:,} steps"
        yield Plot(
            f"curve-difference-{place}-{number}",
            draw_curve_difference(pair, marks=comparison.marks),
            BAND.format(pair.environment, points, DOTTED * bool(pair.band)),
        )
