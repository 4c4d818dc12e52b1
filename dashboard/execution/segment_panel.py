"""The jobs that a run took one after the other, for its page."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.models import Run, Segment
from experiments.models.segment import add_numbers, add_queue_seconds, count_most_segments


@dataclass(frozen=True)
class SegmentPanel:
    """The segments of a run until now, and the sums of what they state."""

    segments: list[Segment]
    most: int
    """Jobs that the run may take."""

    @property
    def training_seconds(self) -> float:
        return add_numbers(self.segments, "training_seconds")

    @property
    def saving_seconds(self) -> float:
        return add_numbers(self.segments, "saving_seconds")

    @property
    def restoring_seconds(self) -> float:
        return add_numbers(self.segments, "restoring_seconds")

    @property
    def queue_seconds(self) -> float | None:
        return add_queue_seconds(self.segments)


def describe_segments(run: Run) -> SegmentPanel | None:
    """Return the segments of a run that may take several jobs; None of others, without a query."""
    most = count_most_segments(run.spec.get("workload", {}))
    if most == 1:
        return None
    segments = list(run.segments.select_related("job").defer("job__script").order_by("number"))
    return SegmentPanel(segments, most) if segments else None
