"""What an experiment is to show, by its plan, as the statistics take it."""

from __future__ import annotations

from experiments.models import Experiment
from experiments.statistics.margins import Margin


def get_margins(experiment: Experiment) -> Margin:
    """Return the margin in both directions, by the goal."""
    return Margin.make(experiment.goal, experiment.margin, experiment.margin_faster)
