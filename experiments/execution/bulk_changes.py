"""One action on many experiments: rights are checked of each, and none stops the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from experiments.access.permissions import filter_changeable
from experiments.execution import labels, lifecycle
from experiments.models import Experiment, User
from experiments.models.experiment import ExperimentQuerySet
from experiments.notify import enqueue_tick

log = logging.getLogger(__name__)
PORTION = 500
"""Experiments of one transaction."""


@dataclass
class Outcome:
    """To how many experiments something was done, and to how many not, by the reason."""

    done: int = 0
    unchanged: int = 0
    forbidden: int = 0
    missing: int = 0
    failed: int = 0

    def describe(self, verb: str, unchanged: str) -> str:
        """Return what happened: "Archived 3 experiments. 1 already archived."."""
        sentences = [f"{verb} {self.done} experiment{'' if self.done == 1 else 's'}."]
        if self.unchanged:
            sentences.append(f"{self.unchanged} {unchanged}.")
        if self.forbidden:
            sentences.append(f"{self.forbidden} not: not yours to change.")
        if self.missing:
            sentences.append(f"{self.missing} not: not there any more.")
        if self.failed:
            sentences.append(f"{self.failed} not: an error, which is in the server’s log.")
        return " ".join(sentences)


Change = Callable[[ExperimentQuerySet, User], int]


def change_labels(keys: Sequence[int], by: User, change: Change) -> Outcome:
    """Change the labels of the experiments of these keys; `change` returns how many it changed."""
    outcome = Outcome()
    for start in range(0, len(keys), PORTION):
        portion = keys[start : start + PORTION]
        allowed = _sort_out(portion, by, outcome)
        try:
            count = change(Experiment.objects.filter(pk__in=allowed), by)
        except Exception:
            log.exception("The labels of %s experiments could not be changed", len(allowed))
            outcome.failed += len(allowed)
        else:
            outcome.done += count
            outcome.unchanged += len(allowed) - count
    return outcome


def archive(keys: Sequence[int], by: User) -> Outcome:
    return change_labels(keys, by, labels.archive)


def restore(keys: Sequence[int], by: User) -> Outcome:
    return change_labels(keys, by, labels.restore)


def cancel(keys: Sequence[int], by: User) -> Outcome:
    """Cancel what is alive of these experiments, each in a transaction of its own."""
    outcome = Outcome()
    for start in range(0, len(keys), PORTION):
        allowed = _sort_out(keys[start : start + PORTION], by, outcome)
        alive = Experiment.objects.filter(pk__in=allowed, cancelled_at=None).alive().without_plan()
        rows = list(alive.exclude(launched_at=None).order_by("pk"))
        outcome.unchanged += len(allowed) - len(rows)
        clusters = set()
        for row in rows:
            try:
                lifecycle.cancel(row, by)
            except Exception:
                log.exception("Experiment %s could not be cancelled", row.pk)
                outcome.failed += 1
            else:
                outcome.done += 1
                clusters.add(row.cluster_id)
        for cluster in sorted(clusters):
            enqueue_tick(cluster)
    return outcome


def _sort_out(keys: Collection[int], by: User, outcome: Outcome) -> list[int]:
    """Return the keys of experiments that `by` may change; the others are counted."""
    visible = Experiment.objects.visible_to(by).filter(pk__in=keys)
    allowed = list(filter_changeable(by, visible).values_list("pk", flat=True))
    count = visible.count()
    outcome.forbidden += count - len(allowed)
    outcome.missing += len(keys) - count
    return allowed
