"""What a bundle of an experiment has beside its rows: the methods as text, the forest plot."""

from __future__ import annotations

from collections.abc import Iterator

from dashboard.comparisons.forest_figure import describe_comparison
from dashboard.comparisons.methods import describe_methods
from dashboard.comparisons.safe_files import make_file_name
from dashboard.drawings.drawing_process import Busy, NotDrawn, draw
from experiments.bundles import ExtraFile, NoBundle, write_bundle
from experiments.comparisons import ExperimentComparison
from experiments.models import Experiment

WIDTH = 180
FOREST = "figures/forest.svg"


def make_bundle(experiment: Experiment, *, is_visitor: bool = False) -> Iterator[bytes]:
    """Yield the bytes of an experiment's bundle. Raises NoBundle first, with the reason in words.

    Where the figure cannot be drawn the bundle has none; where it can be later, there is none yet.
    """
    name = make_file_name(experiment, "bundle", "")
    return write_bundle(
        experiment, name, make_extra=lambda comparison: _list_extra(comparison, is_visitor)
    )


def make_named_bundle(experiment: Experiment) -> tuple[str, Iterator[bytes]]:
    """Return the name of an experiment's bundle, and its bytes; for the worker that deposits it."""
    return make_file_name(experiment, "bundle", ".zip"), make_bundle(experiment)


def _list_extra(comparison: ExperimentComparison, is_visitor: bool) -> list[ExtraFile]:
    if not (comparison.pairs and comparison.has_numbers):
        return []
    text = "\n\n".join(describe_methods(comparison)) + "\n"
    extra = [ExtraFile("methods.txt", text.encode(), "How it was measured and compared, in words")]
    if figure := _draw_forest(comparison, is_visitor):
        extra.append(ExtraFile(FOREST, figure, "Ratios with their intervals and verdicts"))
    return extra


def _draw_forest(comparison: ExperimentComparison, is_visitor: bool) -> bytes:
    """Return the first page of the forest plot; nothing where it cannot be drawn."""
    forest = describe_comparison(comparison, str)
    if forest is None:
        return b""
    try:
        return draw(forest, width=WIDTH, theme="light", ending="svg", page=1, is_visitor=is_visitor)
    except Busy as error:
        raise NoBundle(str(error)) from error
    except NotDrawn:
        return b""
