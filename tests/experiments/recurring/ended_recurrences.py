"""Recurrences whose runs have ended, and the task that follows."""

from __future__ import annotations

import math

from experiments.comparisons import keep_comparison
from experiments.models import Experiment, Recurrence, RecurringExperiment
from experiments.recurring import note_and_tell, note_points
from tests.factories import NOON, LaunchedFactory, block


def keep(experiment: Experiment) -> None:
    """Do what the task does once runs have ended; it closes connections, too."""
    keep_comparison(experiment.pk)
    note_and_tell(experiment.pk)


def add_recurrence(row: RecurringExperiment, number: int, cost: float = 1.1) -> Recurrence:
    """Add a recurrence whose runs have ended: the container takes `cost` times as long."""
    source = row.source
    made: Experiment = LaunchedFactory(
        cluster=source.cluster,
        partition=source.partition,
        baseline=source.baseline,
        environments=list(source.environments.all()),
        workloads=list(source.workloads.all()),
        owner=row.owner,
    )
    (container,) = source.environments.exclude(pk=source.baseline_id)
    for repeat in range(1, 6):
        noise = 1 + 1e-3 * math.sin(7 * repeat + number)
        block(made, repeat, {source.baseline: 0.02, container: 0.02 * cost * noise})
    RecurringExperiment.objects.filter(pk=row.pk).update(last_number=number)
    keep_comparison(made.pk)
    recurrence = Recurrence.objects.create(
        recurring=row, number=number, experiment=made, reason="time", launched_at=NOON
    )
    note_points(made.pk)
    recurrence.refresh_from_db()
    return recurrence
