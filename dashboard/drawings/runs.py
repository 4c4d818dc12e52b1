"""Every run as a point, in a panel for each configuration: by environment, or in their order."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from dashboard.charts.run_places import find_block, find_heights, find_time_scale, list_environments
from dashboard.charts.style import close_log_range
from dashboard.charts.thinning import MOST_POINTS, thin_samples
from dashboard.drawings.axes_figure import (
    INK,
    AxesFigure,
    Axis,
    Item,
    Key,
    Panel,
    Path,
    Points,
    finish,
    make_linear_axis,
    name_axis,
    take_axis,
    turn_down,
)
from experiments.natural_order import make_natural_key, sort_naturally
from experiments.statistics import Sample, numbers

ROW = 6.2
"""Millimetres of an environment's row."""
ALL_POINTS = 3000
"""Of a figure: more of them would take longer to draw than a reader waits."""
TICK_HEIGHT = 0.36
"""Of a row: half of the tick at the median."""
LANE, MOST_LANES = 4.0, 16
"""Millimetres of a node's lane; of more nodes those with the most runs have one of their own."""
LANES = "Lanes: the nodes of each run."
MEDIANS = "Each symbol is a run; ticks: medians. In brackets: runs."


@dataclass(frozen=True)
class Runs:
    """The runs of one configuration, with what its panel is called."""

    title: str
    metric: str
    unit: str
    samples: Sequence[Sample]


def describe_runs(
    configurations: Sequence[Runs], *, marks: Mapping[str, int], hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe all runs by environment; None where there are none. Axes are logarithmic."""
    shown = [runs for runs in configurations if keep_positive(runs.samples)]
    if not shown:
        return None
    share = find_share(len(shown))
    panels = tuple(_describe_strip(runs, marks, share) for runs in shown)
    return finish(
        AxesFigure(
            title="All runs by environment",
            description=f"{count_runs(shown)} in {numbers.count(len(shown), 'configuration')}.",
            panels=panels,
            notes=tuple(filter(None, (MEDIANS, *say_left_out(configurations, share)))),
        ),
        hide,
    )


def _describe_strip(runs: Runs, marks: Mapping[str, int], most: int) -> Panel:
    samples = keep_positive(runs.samples)
    factor, unit = numbers.si([sample.value for sample in samples], runs.unit)
    names = list_environments(samples, marks)
    heights = find_heights(samples)
    drawn = thin_samples(samples, most)
    items: list[Item] = []
    for row, name in enumerate(names):
        middle = median(s.value for s in samples if s.environment == name) * factor
        ends = (row - TICK_HEIGHT, row + TICK_HEIGHT)
        mine = [sample for sample in drawn if sample.environment == name]
        items.append(
            Points(
                marks[name],
                tuple(sample.value * factor for sample in mine),
                tuple(row + heights[find_block(sample)] for sample in mine),
                is_small=len(mine) > 40,
            )
        )
        items.append(Path(INK, (middle, middle), ends, width=1.0))
    counts = [sum(sample.environment == name for sample in samples) for name in names]
    labels = [f"{name} ({n})" for name, n in zip(names, counts, strict=True)]
    return Panel(
        runs.title,
        make_value_axis(runs.metric, unit, [sample.value * factor for sample in samples]),
        turn_down(name_axis(labels)),
        tuple(items),
        height=ROW * len(names) + 1.6,
    )


def describe_run_order(
    configurations: Sequence[Runs], *, marks: Mapping[str, int], hide: Callable[[str], str] = str
) -> AxesFigure | None:
    """Describe values against their start; runs without a start are left out."""
    timed = [
        Runs(r.title, r.metric, r.unit, [s for s in r.samples if s.started is not None])
        for r in configurations
    ]
    shown = [runs for runs in timed if keep_positive(runs.samples)]
    if not shown:
        return None
    share = find_share(len(shown))
    names = list_environments([s for runs in shown for s in runs.samples], marks)
    panels = [panel for runs in shown for panel in _describe_order(runs, marks, share)]
    has_lanes = len(panels) > len(shown)
    return finish(
        AxesFigure(
            title="Runs in the order in which they began",
            description=f"{count_runs(shown)} in {numbers.count(len(shown), 'configuration')}.",
            panels=tuple(panels),
            keys=tuple(Key("symbol", marks[name], name) for name in names),
            notes=(*[LANES] * has_lanes, *say_left_out(timed, share)),
            columns=1 if has_lanes else 2,  # so that lanes stand below their runs
        ),
        hide,
    )


def _describe_order(runs: Runs, marks: Mapping[str, int], most: int) -> list[Panel]:
    """Return the values by start and, where there are several nodes, a panel of their lanes."""
    samples = keep_positive(runs.samples)
    factor, unit = numbers.si([sample.value for sample in samples], runs.unit)
    starts = [sample.started for sample in samples if sample.started is not None]
    first, size, word, since = find_time_scale(starts)
    drawn = thin_samples(samples, most)
    items: list[Item] = []
    for name in list_environments(samples, marks):
        mine = [s for s in drawn if s.environment == name and s.started is not None]
        items.append(
            Points(
                marks[name],
                tuple(((s.started or first) - first) / size for s in mine),
                tuple(s.value * factor for s in mine),
                is_small=len(drawn) > 150,
            )
        )
    x = make_linear_axis(f"{word} since {since}", [(start - first) / size for start in starts])
    y = make_value_axis(runs.metric, unit, [sample.value * factor for sample in samples])
    values = Panel(runs.title, x, y, tuple(items))
    lanes = _name_lanes(samples)
    if len(set(lanes.values())) < 2:
        return [values]
    names = list(dict.fromkeys(lanes.values()))
    rows = {node: float(names.index(lane)) for node, lane in lanes.items()}
    points: list[Item] = []
    for name in list_environments(samples, marks):
        places = {
            ((s.started - first) / size, rows[node]): None
            for s in drawn
            if s.environment == name and s.started is not None
            for node in _list_nodes(s)
        }
        across, down = zip(*places, strict=True) if places else ((), ())
        points.append(Points(marks[name], across, down, is_small=True))
    by_node = replace(turn_down(name_axis(names)), title="Node")
    below = Panel("", x, by_node, tuple(points), LANE * len(names) + 1.6)
    return [replace(values, x=replace(x, title="")), below]


def _list_nodes(sample: Sample) -> tuple[str, ...]:
    return sample.nodes or (sample.node,)


def _name_lanes(samples: Sequence[Sample]) -> dict[str, str]:
    """Return each node with its lane: its name, or "other nodes" where there are very many."""
    counts = Counter(node for sample in samples for node in _list_nodes(sample))
    kept = counts
    if len(counts) > MOST_LANES:
        by_runs = sorted(counts, key=lambda node: (-counts[node], make_natural_key(node)))
        kept = Counter({node: counts[node] for node in by_runs[: MOST_LANES - 1]})
    rest = numbers.count(len(counts) - len(kept), "other node")
    lanes = {node: node or "unknown node" for node in sort_naturally(kept)}
    return {**lanes, **{node: rest for node in counts if node not in kept}}


def make_value_axis(metric: str, unit: str, values: Sequence[float]) -> Axis:
    """Return a log axis of measured values, with the metric, its unit and "log" as its title."""
    shown = f" ({unit}, log)" if unit and unit != "1" else " (log)"
    return take_axis(metric + shown, close_log_range(min(values), max(values)))


def keep_positive(samples: Sequence[Sample]) -> list[Sample]:
    """Return the runs that a log axis can hold."""
    return [sample for sample in samples if 0 < sample.value < math.inf]


def find_share(configurations: int) -> int:
    """Return how many points a configuration may have."""
    return max(min(MOST_POINTS, ALL_POINTS // max(configurations, 1)), 24)


def count_runs(configurations: Sequence[Runs]) -> str:
    """Return how many runs there are, in words."""
    return numbers.count(sum(len(runs.samples) for runs in configurations), "run")


def say_left_out(configurations: Sequence[Runs], most: int) -> list[str]:
    """Return sentences on the runs that are not drawn: too many, or without a positive value."""
    odd = sum(len(runs.samples) - len(keep_positive(runs.samples)) for runs in configurations)
    sentences = []
    if any(len(runs.samples) > most for runs in configurations):
        sentences.append(
            f"Of more than {most} runs of a configuration about {most} are drawn, the extremes "
            "among them; the file of runs has all."
        )
    if odd:
        sentences.append(f"{numbers.count(odd, 'run')} without a positive value not drawn.")
    return sentences
