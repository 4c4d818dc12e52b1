"""Slope plots: each block a line from the baseline to the environment, a panel for each pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dashboard.charts.block_slopes import list_slopes
from dashboard.drawings.axes_figure import (
    MUTED,
    AxesFigure,
    Panel,
    Path,
    Points,
    finish,
    name_axis,
)
from dashboard.drawings.runs import (
    Runs,
    count_runs,
    find_share,
    keep_positive,
    make_value_axis,
)
from experiments.statistics import numbers

NOTE = "Lines: blocks. On the log axis parallel lines are one ratio."


def describe_slopes(
    configurations: Sequence[Runs], *, marks: Mapping[str, int], hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe a panel for each environment in each configuration, all of one on one scale.

    None where no block has both; incomplete blocks are left out.
    """
    most = find_share(len(configurations))
    by_configuration = [_describe_pairs(runs, marks, most) for runs in configurations]
    panels = [panel for panels in by_configuration for panel in panels]
    if not panels:
        return None
    return finish(
        AxesFigure(
            title="Blocks, from the baseline to each environment",
            description=f"{count_runs(configurations)} in "
            f"{numbers.count(len(configurations), 'configuration')}.",
            panels=tuple(panels),
            notes=(NOTE,),
            # A row for each configuration where its panels fill one.
            columns=most_panels
            if (most_panels := max(map(len, by_configuration))) in (3, 4)
            else 4,
        ),
        hide,
    )


def _describe_pairs(runs: Runs, marks: Mapping[str, int], most: int) -> list[Panel]:
    samples = keep_positive([sample for sample in runs.samples if sample.block])
    slopes = [slope for slope in list_slopes(samples, marks, most) if slope.blocks]
    factor, unit = numbers.si([sample.value for sample in samples], runs.unit)
    values = [v * factor for slope in slopes for v in (*slope.before, *slope.after)]
    return [
        Panel(
            runs.title,
            name_axis([slope.baseline, slope.environment], room=0.45),
            make_value_axis(runs.metric, unit, values),
            (
                Path(
                    MUTED,
                    tuple(x for _ in slope.blocks for x in (0.0, 1.0, None)),
                    tuple(
                        y
                        for before, after in zip(slope.before, slope.after, strict=True)
                        for y in (before * factor, after * factor, None)
                    ),
                    width=0.6,
                ),
                *(
                    Points(
                        marks[name],
                        (x,) * len(slope.blocks),
                        tuple(value * factor for value in ends),
                        is_small=len(slope.blocks) > 40,
                    )
                    for x, name, ends in (
                        (0.0, slope.baseline, slope.before),
                        (1.0, slope.environment, slope.after),
                    )
                ),
            ),
        )
        for slope in slopes
    ]
