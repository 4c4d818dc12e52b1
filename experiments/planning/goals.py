"""What an experiment is to show, by its plan, as the statistics take it."""

from __future__ import annotations

from experiments.models import Experiment
from experiments.statistics.margins import Margin


def get_margins(experiment: Experiment) -> Margin:
    """Return the margin in both directions, by the goal."""
    return Margin.make(experiment.goal, experiment.margin, experiment.margin_faster)


def describe_training_margins(experiment: Experiment) -> str:
    """Return the margins of training as text: "0.5 points of accuracy, 0.02 of the loss"."""
    margins = experiment.training_margins
    points = "point" if margins.get("accuracy_margin") == 1 else "points"
    units = {"accuracy_margin": f"{points} of accuracy", "loss_margin": "of the loss"}
    return ", ".join(f"{margins[name]:g} {unit}" for name, unit in units.items() if name in margins)
