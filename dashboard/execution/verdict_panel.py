"""The verdicts on an experiment's page, which is asked for every few seconds while runs live.

They are rendered once for each comparison and remembered by the process: reading the comparison of
20,000 runs would take longer than all else of the fragment.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.core.cache import cache
from django.template.loader import render_to_string

from experiments.comparisons import ExperimentComparison, Latest, find_latest, read_latest
from experiments.comparisons.extension_offers import explain_why_not
from experiments.models import Experiment

REMEMBERED_SECONDS = 3600


@dataclass(frozen=True)
class VerdictPanel:
    """What the page says of a comparison: the same for all readers."""

    html: str
    """The verdicts; names are hidden in the whole answer, where a link hides them."""
    pairs: int
    decided: int
    may_stop: bool
    may_extend: bool


@dataclass(frozen=True)
class CurrentPanel:
    """The verdicts that a page shows now, and how new they are."""

    panel: VerdictPanel
    latest: Latest


def read_panel(experiment: Experiment) -> CurrentPanel:
    """Return the verdicts for the live part of a page; the comparison is read only if it is new."""
    latest = find_latest(experiment)
    name = _name(experiment, latest)
    remembered: VerdictPanel | None = cache.get(name) if latest.key else None
    if remembered:
        return CurrentPanel(remembered, latest)
    return make_panel(*read_latest(experiment))


def make_panel(comparison: ExperimentComparison, latest: Latest) -> CurrentPanel:
    """Return the verdicts of a comparison, and remember them for the live part."""
    panel = VerdictPanel(
        html=render_to_string(
            "comparisons/verdicts.html", {"comparison": comparison, "short": True}
        ),
        pairs=len(comparison.pairs),
        decided=comparison.decided,
        may_stop=comparison.may_stop,
        may_extend=not explain_why_not(comparison),
    )
    # People are named in exclusions, and may be renamed without a change of the comparison.
    if latest.key and not comparison.exclusions:
        cache.set(_name(comparison.experiment, latest), panel, REMEMBERED_SECONDS)
    return CurrentPanel(panel, latest)


def _name(experiment: Experiment, latest: Latest) -> str:
    # With the time: where a backup was restored, other runs may have the same number of events.
    kept_at = latest.row.kept_at.timestamp() if latest.row else "now"
    return f"verdict-panel-{experiment.pk}-{latest.key}-{kept_at}"
