"""A recorder for programs that go on in another process where an earlier one has stopped."""

from __future__ import annotations

import math
import time
from typing import Any, Dict, List, Set

from .recorder import Recorder

RESUMED_STEP_TIME = "resumed_step_time"
"""The series of steps that no mean counts because the program had just been resumed."""
AFTER_RESUME = "warm-up after resume"


class ResumableRecorder(Recorder):
    """A recorder whose numbers may be those of several processes, one after the other.

    After each resume as many steps as the warm-up has are kept in a series of their own, and not in
    `step_time`: caches are cold again, and kernels are chosen anew.
    """

    _resumed_at = 0  # steps that were done before this process; 0: it began with none
    _before: Dict[str, Any] = {}  # what `restore` was given

    @classmethod
    def adopt(cls, recorder: Recorder) -> ResumableRecorder:
        """Return this kind of recorder for the numbers of `recorder`; both share them."""
        adopted = cls.__new__(cls)
        adopted.__dict__ = recorder.__dict__
        return adopted

    def _list_resumed(self) -> List[Any]:
        return self._values[RESUMED_STEP_TIME] if self._resumed_at else []

    def _is_after_resume(self, number: int) -> bool:
        return 0 < self._resumed_at <= number < self._resumed_at + self._burn_in

    def _count_steps(self) -> int:
        return len(self._times) + len(self._list_resumed())

    def _list_phase_starts(self) -> Set[int]:
        return super()._list_phase_starts() | {self._resumed_at + self._burn_in}

    def _keep_step(self, seconds: float) -> None:
        is_warm_up = self._is_after_resume(self._count_steps())
        (self._list_resumed() if is_warm_up else self._times).append(seconds)

    def _choose_phase(self, number: int) -> str:
        return AFTER_RESUME if self._is_after_resume(number) else super()._choose_phase(number)

    def time_in_steps(self) -> float:
        """Return the seconds that all steps until now took together, of earlier processes too."""
        return math.fsum([*self._times, *self._list_resumed()])

    def time_to_first_step(self) -> float:
        """Return that of the first process."""
        if self._before:
            return float(self._before["time_to_first_step"])
        return super().time_to_first_step()

    def first_phases(self) -> Dict[str, float]:
        """Return the phases of the first process alone, until its first checkpoint at least."""
        return dict(self._before["first_phases"]) if self._before else self.phases()

    def before_phases(self) -> Dict[str, float]:
        """Return the phases of the processes before this one, added; empty for the first."""
        return dict(self._before["phases"]) if self._before else {}

    def age(self) -> float:
        """Return the seconds since this process was launched."""
        return time.perf_counter() - self._started

    def list_values(self, name: str) -> List[float]:
        """Return the values of a series until now."""
        return [float(value) for value in self._values.get(name, ())]

    def has_metric(self, name: str) -> bool:
        return name in self._metrics

    def export(self) -> Dict[str, Any]:
        """Return all that was reported until now, for `restore` in another process."""
        return {
            "metrics": dict(self._metrics),
            "units": dict(self._units),
            "values": {name: self.list_values(name) for name in self._values},
            "phases": self.phases(),
            "first_phases": self.first_phases(),
            "time_to_first_step": self.time_to_first_step(),
        }

    def restore(self, exported: Dict[str, Any]) -> None:
        """Go on where another process was when it exported this; before the first step of this one.

        Phases of both are added: their sum is the age of all processes.
        """
        self._metrics.update(exported["metrics"])
        self._units.update(exported["units"])
        for name, values in exported["values"].items():
            self._values[name][:] = values
        self.series(RESUMED_STEP_TIME, "s")
        self._before = exported
        self._resumed_at = len(self._times) + len(self._values[RESUMED_STEP_TIME])
        for name, seconds in exported["phases"].items():
            self._phases[name] = self._phases.get(name, 0.0) + seconds

    def add_seconds(self, phase: str, seconds: float) -> None:
        """Count seconds of an earlier process that it could not export."""
        self._phases[phase] = self._phases.get(phase, 0.0) + seconds
