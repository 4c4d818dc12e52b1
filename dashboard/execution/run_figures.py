"""The printed figures of one run: what it recorded step by step, and what its node did."""

from __future__ import annotations

from collections.abc import Callable

from django.urls import reverse

from dashboard.access.hidden_names import find_hiding
from dashboard.comparisons.figure_kinds import RUN_FIGURES
from dashboard.comparisons.metric_words import say_words
from dashboard.comparisons.shown_figures import ShownFigure, leave_ending_open
from dashboard.drawings.axes_figure import AxesFigure
from dashboard.drawings.run_series import RunSeries, Track, describe_node, describe_run_series
from dashboard.execution.node_samples import DRAWN
from dashboard.execution.run_facts import choose_fixed_warm_up, list_series
from dashboard.typed_requests import OpenRequest
from experiments.comparisons.accuracies import get_target
from experiments.comparisons.series import ACCURACY
from experiments.comparisons.step_summaries import read_steady_state
from experiments.design import Scale
from experiments.models import NodeSamples, Run
from runners.node_samples import UNITS

SERIES, NODE = RUN_FIGURES


class RunFileName:
    """The key and the question after which files of a run are named."""

    def __init__(self, run: Run) -> None:
        self.key = f"run-{run.uid}"
        self.question = run.experiment.question


def show_run_figure(run: Run, name: str, mark: int, request: OpenRequest) -> ShownFigure | None:
    """Return a figure of a run that has ended as its page shows it; None where there is none."""
    described = describe_run_figure(run, name, mark, request)
    address = leave_ending_open(reverse(f"run_{name}_svg", args=[run.uid]))
    return ShownFigure(described, address) if described else None


def describe_run_figure(run: Run, name: str, mark: int, request: OpenRequest) -> AxesFigure | None:
    """Return a figure of a run that has ended; None where it has none of this name."""
    if not run.is_final:
        return None
    hide = find_hiding(request.user)
    title = f"{run.workload} in {run.environment}, run {run.uid[:8]}"
    if name == SERIES:
        return describe_run_series(title, _list_series(run), mark=mark, hide=hide)
    return _describe_node(run, title, hide) if name == NODE else None


def _list_series(run: Run) -> list[RunSeries]:
    fixed_warm_up = choose_fixed_warm_up(run)
    series = []
    for row, times in list_series(run):
        title = say_words(row.metric)
        if times is not None:
            target = get_target(run.workload.parameters) if row.metric == ACCURACY else 0
            series.append(
                RunSeries(
                    title, "1", times.values, row.values, is_of_steps=False, target=target or 0
                )
            )
            continue
        steady_state = read_steady_state(row)
        cut = fixed_warm_up if row.burn_in is None else row.burn_in
        if steady_state and steady_state.warm_up is not None:
            cut = steady_state.warm_up
        if row.steps and steady_state is None:
            cut = 0
        ends = list(row.steps or range(1, len(row.values) + 1))
        series.append(RunSeries(title, row.unit, ends, row.values, cut, steady_state))
    return series


def _describe_node(run: Run, title: str, hide: Callable[[str], str]) -> AxesFigure | None:
    row: NodeSamples | None = getattr(run, "node_samples", None)
    if row is None:
        return None
    tracks = [
        Track(
            name[:1].upper() + name[1:],
            UNITS[name],
            [point[1] if isinstance(point, list) else point for point in track["points"]],
            has_limit=UNITS[name] == "%",
        )
        for name in DRAWN
        for track in row.content["tracks"]
        if track["name"] == name
    ]
    nodes = Scale.parse(run.scale).nodes
    return describe_node(title, tracks, row.content["seconds"], is_first_of=nodes, hide=hide)
