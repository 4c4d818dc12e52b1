"""The parts of runs that take several jobs, one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import models

from experiments.models.run import Job, Run


def count_most_segments(workload: Mapping[str, Any]) -> int:
    """Return how many jobs a run of a frozen workload may take."""
    most = workload.get("parameters", {}).get("segments", 1)
    return most if isinstance(most, int) and not isinstance(most, bool) else 1


class Segment(models.Model):
    """What one job did of a run that may take several: it began where the last checkpoint was."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="segments")
    number = models.PositiveSmallIntegerField(help_text="Counted from 1.")
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="segments")
    directory = models.CharField(
        max_length=1000, help_text="The run's, in the job's: its checkpoints lie there."
    )
    node = models.CharField(max_length=255, blank=True)
    reason = models.CharField(max_length=40, blank=True)
    """That of its run's end in this job; empty: it was the last one, and succeeded."""
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    facts = models.JSONField(
        default=dict,
        help_text="What its program wrote down of it; empty: nothing that can be read.",
    )
    reported_steps = models.PositiveIntegerField(
        null=True, help_text="Steps of the run that it had reported; null: not known."
    )
    measures = models.JSONField(default=dict, help_text="Its values, and why it lacks others.")

    class Meta:
        ordering = ["run", "number"]
        constraints = [
            models.UniqueConstraint(fields=["run", "number"], name="segments_are_numbered")
        ]

    def __str__(self) -> str:
        return f"segment {self.number} of {self.run}"

    def get_number(self, name: str) -> float | None:
        """Return a number that its program wrote down; None if it did not."""
        value: Any = self.facts.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def first_step(self) -> int:
        """Return how many steps of the run were done before it."""
        return int(self.get_number("first_step") or 0)

    @property
    def steps(self) -> int:
        """Return how many steps of the run its last checkpoint, or its end, counts."""
        return int(self.get_number("steps") or 0)

    @property
    def knows_steps(self) -> bool:
        """Return whether its checkpoints count steps: those of a program of one's own do not."""
        return bool(self.facts.get("of_steps") != 0)

    @property
    def has_checkpoint(self) -> bool:
        """Return whether another job can go on from what it left."""
        return bool(self.steps or (not self.knows_steps and self.get_number("checkpoint_files")))

    @property
    def steps_lost(self) -> int | None:
        """Return how many steps it had reported that no checkpoint holds: they were done again.

        None where its checkpoints count no steps.
        """
        if not self.knows_steps:
            return None
        return max(0, (self.reported_steps or 0) - self.steps) if self.reason else 0

    @property
    def queue_seconds(self) -> float | None:
        """Return how long its job waited; None if that is not known."""
        value = self.measures.get("values", {}).get("queue_time", {}).get("value")
        return None if value is None else float(value)

    @property
    def seconds(self) -> dict[str, float | None]:
        """Return what its program took for what, by name; None is not known."""
        return {name: self.get_number(name) for name in SECONDS}

    def describe(self) -> dict[str, Any]:
        """Return what files say of it, as JSON; what is not known is null."""
        return {
            "number": self.number,
            "job": self.job.uid,
            "node": self.node,
            "ended": self.reason or "at the last step",
            "began_at": self.began_at.isoformat() if self.began_at else None,
            "ended_at": self.ended_at.isoformat() if self.ended_at else None,
            "first_step": self.first_step if self.knows_steps else None,
            "steps": self.steps if self.knows_steps else None,
            "steps_lost": self.steps_lost,
            "queue_seconds": self.queue_seconds,
            **self.seconds,
            "passed_over": self.facts.get("passed_over") or [],
        }


SECONDS = ("training_seconds", "warm_up_seconds", "saving_seconds", "restoring_seconds")


def add_numbers(segments: Iterable[Segment], name: str) -> float:
    """Return the sum of a number that programs wrote down; what one of them did not is left out."""
    return sum(segment.get_number(name) or 0 for segment in segments)


def add_queue_seconds(segments: Iterable[Segment]) -> float | None:
    """Return how long all jobs waited; None if that of one of them is not known."""
    known = [segment.queue_seconds for segment in segments]
    return None if None in known else sum(filter(None, known))


def add_up_segments(segments: Iterable[Segment]) -> dict[str, Any]:
    """Return the columns of files on a run that took several jobs: their number, and sums."""
    rows = list(segments)
    lost = [row.steps_lost for row in rows]
    return {
        "segments": len(rows),
        "segments_queue_seconds": add_queue_seconds(rows),
        "segments_saving_seconds": add_numbers(rows, "saving_seconds"),
        "segments_restoring_seconds": add_numbers(rows, "restoring_seconds"),
        "segments_steps_lost": None if None in lost else sum(filter(None, lost)),
    }
