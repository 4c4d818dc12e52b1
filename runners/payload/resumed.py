"""A recorder for what the payload itself measures over several jobs, one after the other."""

from __future__ import annotations

from typing import Dict, List

from .recorder import Recorder


class ResumableRecorder(Recorder):
    """A recorder that also tells what checkpoints have to know of it."""

    @classmethod
    def adopt(cls, recorder: Recorder) -> ResumableRecorder:
        """Return this kind of recorder for the numbers of `recorder`; both share them."""
        adopted = cls.__new__(cls)
        adopted.__dict__ = recorder.__dict__
        return adopted

    def before_phases(self) -> Dict[str, float]:
        """Return the phases of the processes before this one, added; empty for the first."""
        return dict(self._before["phases"]) if self._before else {}

    def list_values(self, name: str) -> List[float]:
        """Return the values of a series until now."""
        return [float(value) for value in self._values.get(name, ())]

    def has_metric(self, name: str) -> bool:
        return name in self._metrics

    def add_seconds(self, phase: str, seconds: float) -> None:
        """Count seconds of an earlier process that it could not export."""
        self._phases[phase] = self._phases.get(phase, 0.0) + seconds
