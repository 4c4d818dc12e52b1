"""The jobs that a run took one after the other, for its page."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.models import Run, Segment
from experiments.models.segment import count_most_segments


@dataclass(frozen=True)
class SegmentPanel:
    """The segments of a run until now, and the sums of what they state."""

    segments: list[Segment]
    most: int
    """Jobs that the run may take."""

    @property
    def training_seconds(self) -> float:
        return self._add("training_seconds")

    @property
    def saving_seconds(self) -> float:
        return self._add("saving_seconds")

    @property
    def restoring_seconds(self) -> float:
        return self._add("restoring_seconds")

    @property
    def queue_seconds(self) -> float | None:
        """Return how long all its jobs waited; None if that of one of them is not known."""
        known = [segment.queue_seconds for segment in self.segments]
        return None if None in known else sum(filter(None, known))

    def _add(self, name: str) -> float:
        return sum(segment.get_number(name) or 0 for segment in self.segments)


def describe_segments(run: Run) -> SegmentPanel | None:
    """Return the segments of a run that may take several jobs; None of others, without a query."""
    most = count_most_segments(run.spec.get("workload", {}))
    if most == 1:
        return None
    segments = list(run.segments.select_related("job").defer("job__script").order_by("number"))
    return SegmentPanel(segments, most) if segments else None
