"""The sections of a comparison's page: which there are, which one is open, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from dashboard.comparisons.figure_panels import ForestPlot
from dashboard.comparisons.panel_base import ALL, MOST_OPEN, Panel
from dashboard.comparisons.panels import compute_panels, list_panels
from dashboard.comparisons.shown_figures import ShownFigure, show_figure
from dashboard.comparisons.table_panels import Verdicts
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import Comparison


@dataclass(frozen=True)
class Entry:
    """A line in the list of sections."""

    name: str
    label: str
    query: str
    """The part of its address after the "?"."""
    count: int | None
    is_current: bool


@dataclass(frozen=True)
class Choice:
    """A configuration that the open section can show; the number "all" stands for all of them."""

    number: str
    label: str
    is_chosen: bool


@dataclass(frozen=True)
class Sections:
    """The list of sections, and the contents of those that are open."""

    entries: list[Entry]
    name: str
    """The name of the open section, or "all"."""
    choices: list[Choice]
    """The configurations to choose from; empty where there is no choice."""
    panels: list[tuple[Panel[Any], Any, ShownFigure | None]]
    """What is open: each panel with its content and its printed figure, where it has one; none
    where the open one has nothing to show."""

    @property
    def is_all(self) -> bool:
        return self.name == ALL

    @property
    def label(self) -> str:
        """Return the heading of the open section."""
        return next((entry.label for entry in self.entries if entry.is_current), "")


def prepare_sections(comparison: Comparison, request: OpenRequest) -> Sections:
    """Compute the section that `?section=` names, or all of them for "all".

    Without a name it is the first one; where there are many configurations, the sentences.
    """
    offered = [
        panel
        for panel in list_panels(comparison)
        if panel.is_section and panel.is_offered(comparison)
    ]
    # Links of before there were sections have only the answer to what one of them asks.
    asked = request.GET.get("section", "scaling" if "scaling" in request.GET else "")
    if asked == ALL:
        # As lists of sections leave out the forest plot: it is seen above all of them.
        panels = [
            (panel, content, show_figure(comparison, panel, content, request))
            for panel, content in compute_panels(comparison, request)
            if panel.is_section
        ]
        return Sections(_list_entries(offered, comparison, "", ""), ALL, [], panels)
    default = offered[0]
    if len(comparison.groups) > MOST_OPEN:  # sentences: the matrix above is long already
        default = next(panel for panel in offered if isinstance(panel, Verdicts))
    panel = next((panel for panel in offered if panel.name == asked), default)
    content = panel.compute(comparison, request)
    configuration = request.GET.get("configuration", "")
    return Sections(
        _list_entries(offered, comparison, panel.name, configuration),
        panel.name,
        _list_choices(panel, comparison, request),
        []
        if content is None
        else [(panel, content, show_figure(comparison, panel, content, request))],
    )


def prepare_forest(comparison: Comparison, request: OpenRequest) -> tuple[Panel[Any], Any]:
    """Return the panel of the forest plot with its content; None where nothing is compared."""
    panel = ForestPlot()
    return panel, panel.compute(comparison, request)


def _list_entries(
    offered: list[Panel[Any]], comparison: Comparison, current: str, configuration: str
) -> list[Entry]:
    """Return the list; a configuration that was chosen stays so in the other sections."""
    kept = {"configuration": configuration} if configuration else {}
    return [
        Entry(
            panel.name,
            panel.label or panel.heading,
            urlencode({"section": panel.name, **kept}),
            panel.count(comparison),
            panel.name == current,
        )
        for panel in offered
    ]


def _list_choices(panel: Panel[Any], comparison: Comparison, request: OpenRequest) -> list[Choice]:
    if panel.at_once is None or len(comparison.groups) == 1:
        return []
    number = panel.read_configuration(comparison, request)
    return [
        *(
            Choice(str(place), group.name or group.title, place == number)
            for place, group in enumerate(comparison.groups, start=1)
        ),
        Choice(ALL, f"all {len(comparison.groups)}", number is None),
    ]
