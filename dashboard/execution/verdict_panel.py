"""What an experiment's page shows of its comparison, also while it is asked for every few seconds.

It is made once for each comparison and remembered by the process: reading the comparison of 20,000
runs would take longer than all else of the page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from django.core.cache import cache
from django.template.loader import render_to_string

from dashboard.access.hidden_names import find_anonymity
from dashboard.comparisons.figure_files import list_printed_figures
from dashboard.comparisons.forest_figure import count_pages
from dashboard.typed_requests import OpenRequest
from experiments.comparisons import ExperimentComparison, find_latest, read_latest
from experiments.comparisons.comparison_keys import Inputs, identify_inputs
from experiments.comparisons.extension_offers import explain_why_not_now, list_open_groups
from experiments.models import Experiment

REMEMBERED_SECONDS = 3600
Remembered = TypeVar("Remembered", "VerdictPanel", "OfferedFigures")


@dataclass(frozen=True)
class VerdictPanel:
    """What the page says of a comparison: the same for all readers."""

    html: str
    """The verdicts; names are hidden in the whole answer, where a link hides them."""
    pairs: int
    decided: int
    may_stop: bool
    is_alive: bool
    is_open: bool
    """Whether a comparison is inconclusive."""


@dataclass(frozen=True)
class OfferedFigures:
    """What the menu of exports offers of a comparison's figures."""

    pages: int
    """Of the forest plot."""
    names: tuple[str, ...]
    """Of the other figures."""
    configurations: int


class ShownComparison:
    """The comparison that the page of an experiment shows; read only if something of it is new."""

    def __init__(self, experiment: Experiment, inputs: Inputs | None = None) -> None:
        """`inputs`: what it rests on, where that was read before."""
        self.experiment = experiment
        self._inputs = inputs or identify_inputs([experiment])[experiment.pk]
        self.latest = find_latest(experiment, self._inputs)
        self.panel = self._remember("verdict-panel", self._make_panel)

    @cached_property
    def _comparison(self) -> ExperimentComparison:
        comparison, self.latest = read_latest(self.experiment, self._inputs)
        return comparison

    @property
    def may_extend(self) -> bool:
        return not explain_why_not_now(
            self.experiment, is_alive=self.panel.is_alive, is_open=self.panel.is_open
        )

    def list_figures(self, request: OpenRequest) -> OfferedFigures:
        """Return the figures that are offered; with hidden names a plot may have other pages."""

        def make() -> OfferedFigures:
            return OfferedFigures(
                pages=count_pages(self._comparison, request),
                names=tuple(kind.name for kind in list_printed_figures(self._comparison)),
                configurations=len(self._comparison.groups),
            )

        return make() if find_anonymity(request.user) else self._remember("figures", make)

    def _make_panel(self) -> VerdictPanel:
        comparison = self._comparison
        return VerdictPanel(
            html=render_to_string(
                "comparisons/verdicts.html", {"comparison": comparison, "short": True}
            ),
            pairs=len(comparison.pairs),
            decided=comparison.decided,
            may_stop=comparison.may_stop,
            is_alive=comparison.stage.alive,
            is_open=bool(list_open_groups(comparison)),
        )

    def _remember(self, what: str, make: Callable[[], Remembered]) -> Remembered:
        """Return what was made of the same comparison before, or make it and remember it."""
        remembered: Remembered | None = cache.get(self._name(what)) if self.latest.key else None
        if remembered is None:
            remembered = make()
            # People are named in exclusions, and may be renamed without a change of the comparison.
            if self.latest.key and not self._comparison.exclusions:
                cache.set(self._name(what), remembered, REMEMBERED_SECONDS)
        return remembered

    def _name(self, what: str) -> str:
        # With the time: where a backup was restored, other runs may have the same number of events.
        latest = self.latest
        kept_at = latest.row.kept_at.timestamp() if latest.row else "now"
        return f"{what}-{self.experiment.pk}-{latest.key}-{kept_at}"
