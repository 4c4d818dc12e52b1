"""What a program reports: metrics, the time of every step, the phases it went through.

One file, standard library only, Python 3.8 and later; any program can import it. Nothing is
written before `write`, so no step pays for I/O::

    recorder = Recorder()
    recorder.series("loss", "1")
    for _ in recorder.steps(100, burn_in=10):
        recorder.step(loss=train())
    recorder.metric("loss", recorder.mean("loss"), "1")
    recorder.write("result.json")
"""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import contextmanager
from typing import Any, Iterator, Optional

STEP_TIME = "step_time"


class ResultError(ValueError):
    """What was computed cannot be reported; the message says why in words."""


class Recorder:
    def __init__(self, elapsed_seconds: float = 0.0, phase: str = "start") -> None:
        """`elapsed_seconds` is what had been spent before; they are the first phase."""
        self.facts: dict[str, Any] = {}
        self._burn_in = 0
        self._metrics: dict[str, dict[str, Any]] = {}
        self._units = {STEP_TIME: "s"}
        self._values: dict[str, list[float]] = {STEP_TIME: []}
        now = time.perf_counter()
        self._started = self._steps_began = self._step_began = now - elapsed_seconds
        self._phases = {phase: elapsed_seconds}
        self._phase, self._phase_began = phase, now

    def metric(self, name: str, value: float, unit: str) -> None:
        """Report one number of the whole run."""
        self._metrics[name] = {"value": float(value), "unit": unit}

    def series(self, name: str, unit: str) -> None:
        """Declare numbers that every `step` will give, or `add` now and then."""
        self._units[name] = unit
        self._values[name] = []

    def steps(self, count: int, burn_in: int) -> Iterator[int]:
        """Count the steps, of which the first `burn_in` are not part of any mean.

        Each pass of the loop has to end with `step`. Marks the phases "first step", "burn-in",
        "steady state" and "end".
        """
        self._burn_in = self.facts["burn_in"] = burn_in
        phases = {0: "first step", min(1, burn_in): "burn-in", burn_in: "steady state"}
        self._steps_began = self._step_began = time.perf_counter()
        for number in range(count):
            if number in phases:
                self.phase(phases[number])
            yield number
        self.phase("end")

    def step(self, **values: float) -> None:
        """End a step: it took the time since the last one ended."""
        now = time.perf_counter()
        self._values[STEP_TIME].append(now - self._step_began)
        for name, value in values.items():
            self._values[name].append(value)
        self._step_began = now

    def add(self, **values: float) -> None:
        """Add to series that have numbers of their own rather than one a step."""
        for name, value in values.items():
            self._values[name].append(value)

    @contextmanager
    def aside(self, name: str) -> Iterator[None]:
        """Between two steps, do what belongs to neither: its time goes to the phase `name`."""
        phase = self._phase
        self.phase(name)
        began = self._phase_began
        yield
        self.phase(phase)
        self._step_began += self._phase_began - began

    def phase(self, name: str) -> None:
        """From now on, time belongs to this phase."""
        now = time.perf_counter()
        self._phases[self._phase] += now - self._phase_began
        self._phases.setdefault(name, 0.0)
        self._phase, self._phase_began = name, now

    def phases(self) -> dict[str, float]:
        """Seconds of each phase up to now; together they are the life of the process."""
        self.phase(self._phase)
        return dict(self._phases)

    @property
    def has_steps(self) -> bool:
        return bool(self._values[STEP_TIME])

    @property
    def has_metrics(self) -> bool:
        return bool(self._metrics)

    def mean(self, name: str) -> float:
        """The arithmetic mean of a series after the burn-in: a slow step is cost, not noise."""
        values = self._values[name][self._burn_in :]
        if not values:
            raise ResultError(f"no {name} was recorded after the burn-in")
        return math.fsum(values) / len(values)

    def sd(self, name: str) -> Optional[float]:
        """The standard deviation (n - 1) of a series after the burn-in; None below two values.

        How unsteady this one run was. How well its mean is known is another matter: the steps of a
        run resemble each other, so that takes several runs.
        """
        values = self._values[name][self._burn_in :]
        if len(values) < 2:
            return None
        mean = math.fsum(values) / len(values)
        return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))

    def tail_ratio(self, name: str) -> Optional[float]:
        """The 99th percentile of a series after the burn-in over its median, both nearest ranks.

        None below 100 values, where the one would be the longest of all, or if the median is 0.
        """
        values = sorted(self._values[name][self._burn_in :])
        if len(values) < 100:
            return None
        median, high = (values[math.ceil(share * len(values)) - 1] for share in (0.5, 0.99))
        return high / median if median else None

    def time_in_steps(self) -> float:
        """Seconds that all steps up to now took together."""
        return math.fsum(self._values[STEP_TIME])

    def time_to_first_step(self) -> float:
        """Seconds from the start of the process to the end of its first step."""
        return self._steps_began - self._started + self._values[STEP_TIME][0]

    def document(self) -> dict[str, Any]:
        """All that was reported, as `write` writes it."""
        for name, metric in self._metrics.items():
            if not math.isfinite(metric["value"]):
                raise ResultError(f"{name} is {metric['value']}, which is not a finite number")
        for name, values in self._values.items():
            for number, value in enumerate(values):
                if not math.isfinite(value):
                    raise ResultError(f"{name} is not finite at step {number}")
        return {
            "schema": 1,
            "metrics": self._metrics,
            "series": {
                name: {"unit": self._units[name], "values": [float(value) for value in values]}
                for name, values in self._values.items()
                if values
            },
            "phases": self.phases(),
            "facts": self.facts,
        }

    def write(self, path: str) -> None:
        """Write everything or nothing. Raises ResultError on a number that is not finite."""
        write_json(path, self.document())


def write_json(path: str, document: dict[str, Any]) -> None:
    """Write strict JSON atomically: who reads it sees all of it or no file."""
    temporary = path + ".part"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(document, file, allow_nan=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
