"""The losses of one group's runs, read once: whole curves compared, and the first bits that differ.

Nothing of it is kept with the comparison: it takes all losses, so only who opens them reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Case, F, Value, When

from experiments.comparisons.comparison import Group
from experiments.comparisons.exclusions import filter_counted
from experiments.comparisons.experiment_comparison import ExperimentComparison
from experiments.comparisons.rows_by_key import iterate_values
from experiments.comparisons.series import BINARY, CHUNK
from experiments.comparisons.step_summaries import LOSS
from experiments.comparisons.training_verdicts import choose_judged, find_judgement
from experiments.comparisons.trainings import SEED
from experiments.models import Series
from experiments.statistics.steps import read_array
from experiments.statistics.training.end_verdicts import choose_unit
from experiments.statistics.training.loss_curves import (
    CurvePair,
    ThinCurve,
    average_bins,
    compare_curves,
    find_common_steps,
    split_into_bins,
)
from experiments.statistics.training.outcomes import Ending
from experiments.statistics.training.reproducibility import (
    Reproducibility,
    find_first_difference,
    list_pairs,
)

MOST_LOSSES = 20_000_000
"""More losses than this are not read for a page or a file: 160 MB, and some seconds."""
MOST_KEPT = 10_000_000
"""Losses of runs that are kept until those that are held against them are read."""


@dataclass(frozen=True)
class WholeCurves:
    """What all losses of one group say."""

    group: Group
    pairs: list[CurvePair] = field(default_factory=list)
    """Empty until all planned runs have ended."""
    bitwise: list[Reproducibility] = field(default_factory=list)
    """As `Trainings.bitwise`, with the first step that differs."""
    losses: int = 0
    is_too_long: bool = False
    """Whether there are so many losses that they were not read."""

    @property
    def why_not_compared(self) -> str:
        """Return why whole curves are not compared, as a sentence; "" if that is not why."""
        if not self.is_too_long:
            return ""
        return (
            f"{self.losses:,} losses are too many to be read for a page, alone or with those of "
            "other configurations: their whole curves are not compared."
        )


@dataclass(frozen=True)
class _Recorded:
    """A run's losses without their values."""

    key: int
    length: int
    steps: Sequence[int] | None
    ending: Ending


def compare_curves_of_groups(
    comparison: ExperimentComparison, groups: Sequence[Group]
) -> list[WholeCurves]:
    """Read the losses of groups and compare them, as many in all as one request may read.

    A group that would go beyond them is not read; shorter ones after it may be.
    """
    left = MOST_LOSSES
    read = []
    for group in groups:
        curves = compare_whole_curves(comparison, group, most=left)
        left -= 0 if curves.is_too_long else curves.losses
        read.append(curves)
    return read


def compare_whole_curves(
    comparison: ExperimentComparison, group: Group, *, most: int | None = None
) -> WholeCurves:
    """Read the losses of a group and compare them; a query, and one for every 50 runs.

    Of runs that count, the baseline's first, in the order of the plan. None are read where there
    are more than `most`, or than a request may read.
    """
    known = group.trained
    recorded = _list_recorded(comparison, group)
    total = sum(row.length for row in recorded)
    if known is None or not recorded:
        return WholeCurves(group)
    if total > (MOST_LOSSES if most is None else most):
        return WholeCurves(group, bitwise=known.bitwise, losses=total, is_too_long=True)
    judgement = find_judgement(comparison.stage)
    endings = [row.ending for row in recorded]
    seeds_known = all(finding.seeds_known for finding in known.bitwise)
    judged = choose_judged(endings, judgement) if judgement else []
    judged_runs = {ending.run for ending in judged}
    common = find_common_steps(
        (row.length, row.steps) for row in recorded if row.ending.run in judged_runs
    )
    starts = split_into_bins(len(common))
    differing = _list_differing_pairs(known.bitwise, endings)
    references: dict[str, Any] = {}
    first_steps: dict[tuple[str, str], int] = {}
    curves = []
    runs_to_keep = {first for pairs in differing.values() for first in pairs.values()}
    by_run = {row.ending.run: row for row in recorded}
    keys = [row.key for row in recorded]
    kept = 0
    for run, array in iterate_values(Series.objects.all(), keys, ("run__uid", BINARY), CHUNK):
        row, values = by_run[run], read_array(array)
        if run in runs_to_keep and kept < MOST_KEPT:
            references[run] = values
            kept += len(values)
        if run in judged_runs:
            curves.append(_thin(row, values, common, starts))
        for place, pairs in differing.items():
            reference = references.get(pairs.get(run, ""))
            if reference is None:
                continue
            index = find_first_difference(reference, values)
            if index is not None:
                step = _name_step(row, index)
                first_steps[place] = min(step, first_steps.get(place, step))
    return WholeCurves(
        group,
        compare_curves(
            curves,
            common,
            baseline=comparison.baseline,
            by=_choose_units(judged, comparison, seeds_known=seeds_known),
            longest=max((row.length for row in recorded), default=0),
            diverged=known.diverged,
        )
        if judgement
        else [],
        [
            replace(finding, first_step=first_steps.get((finding.environment, finding.other)))
            for finding in known.bitwise
        ],
        total,
    )


def _list_recorded(comparison: ExperimentComparison, group: Group) -> list[_Recorded]:
    """Return the runs of a group that recorded losses, the baseline's first."""
    baseline_first = Case(
        When(run__environment=comparison.experiment.baseline_id, then=Value(0)), default=Value(1)
    )
    rows = (
        Series.objects.filter(
            filter_counted(with_excluded=False),
            run__experiment=comparison.experiment,
            run__workload__name=group.configuration["workload"],
            run__scale=group.configuration["scale"],
            metric=LOSS,
        )
        .exclude(digest="")
        .order_by(baseline_first, "run__job__block", "run__position")
        .values_list(
            "pk",
            F("values__len"),
            "steps",
            "digest",
            "last_value",
            "run__uid",
            "run__environment__name",
            "run__repeat",
            "run__job__block",
            SEED,
        )
    )
    return [
        _Recorded(
            key,
            length or 0,
            steps,
            Ending(
                uid,
                environment,
                f"repeat {repeat}" if seed is None else f"seed {seed}",
                last,
                digest=digest,
                block=str(block),
                repeat=repeat,
            ),
        )
        for key, length, steps, digest, last, uid, environment, repeat, block, seed in rows
    ]


def _thin(row: _Recorded, values: Any, common: Any, starts: Any) -> ThinCurve:
    bins, diverged_at = average_bins(values, row.steps, common, starts)
    ending = row.ending
    return ThinCurve(
        run=ending.run,
        environment=ending.environment,
        draw=ending.draw,
        block=ending.block,
        values=bins,
        diverged_at=diverged_at,
    )


def _list_differing_pairs(
    findings: Sequence[Reproducibility], endings: Sequence[Ending]
) -> dict[tuple[str, str], dict[str, str]]:
    """Return by what they are pairs of the runs whose losses are not those of a run of their seed.

    Each with that run, which is read before it.
    """
    return {
        (finding.environment, finding.other): {
            run.run: first.run
            for run, first in list_pairs(
                endings, environment=finding.environment, other=finding.other
            )
            if run.digest != first.digest
        }
        for finding in findings
        if finding.identical < finding.pairs
    }


def _name_step(row: _Recorded, index: int) -> int:
    """Return the number of the step of a loss; of one beyond a run's end, the next one."""
    if row.steps is None:
        return index + 1
    return row.steps[index] if index < len(row.steps) else row.steps[-1] + 1


def _choose_units(
    judged: Sequence[Ending], comparison: ExperimentComparison, *, seeds_known: bool
) -> dict[str, Any]:
    own_runs = [ending for ending in judged if ending.environment == comparison.baseline]
    units = {}
    for name in comparison.environments[1:]:
        runs = [ending for ending in judged if ending.environment == name]
        if runs:
            units[name] = choose_unit(
                own_runs, runs, seeds_known=seeds_known, paired=comparison.paired
            )
    return units
