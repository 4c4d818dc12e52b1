"""A recorder for what a program reports: metrics, the time of every step, its phases.

One file, standard library only, Python 3.8 and later; any program can import it (inside Tare it is
called `tare`). Five lines in a training loop::

    from tare import Recorder
    recorder = Recorder()
    for batch in recorder.steps(batches, burn_in=10):
        recorder.step(loss=train(batch))
    recorder.metric("accuracy", evaluate(), "1")
    recorder.write()

Nothing is written inside a step. Between steps, at most every two seconds, new numbers are appended
to `tare-result.jsonl`, a JSON object a line, so that a program that is killed leaves the numbers
until then; `write` writes all of them to `tare-result.json`, atomically, and removes that file.
$TARE_RESULT names another file.

A program that goes on in another process from a checkpoint of its own keeps `recorder.export()` in
it, and gives that to `restore` there: all numbers until then are the run's.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import stat
import time
from collections import defaultdict
from contextlib import contextmanager, suppress
from typing import Any, Iterable, Iterator, Optional, Union

STEP_TIME = "step_time"
RESUMED_STEP_TIME = "resumed_step_time"
"""The series of steps that no mean counts because the program had just been resumed."""
AFTER_RESUME = "warm-up after resume"
SAVE_SECONDS = 2.0
"""The least time between two appends of new numbers."""


class ResultError(ValueError):
    """An error for a number that cannot be reported; the message says why."""


class Recorder:
    """The numbers that one program reports, and the file that they are written to.

    After a resume as many steps as the warm-up has are kept in a series of their own, and not in
    `step_time`: caches are cold again, and kernels are chosen anew.
    """

    _resumed_at = 0  # steps that were done before this process; 0: it began with none
    _before: dict[str, Any] = {}  # what `restore` was given

    def __init__(
        self,
        elapsed_seconds: Optional[float] = None,
        phase: str = "start",
        path: Optional[str] = None,
    ) -> None:
        """`elapsed_seconds` is the time spent before, which is the first phase.

        Its default is the age of this process. `path` is the file that `write` writes, by default
        $TARE_RESULT or else `tare-result.json`.
        """
        requested_path = os.environ.get("TARE_RESULT", "")
        elapsed = measure_process_age() if elapsed_seconds is None else elapsed_seconds
        self.facts: dict[str, Any] = {}
        self._path = os.path.abspath(path or requested_path or "tare-result.json")
        self._burn_in = 0
        self._metrics: dict[str, dict[str, Any]] = {}
        self._units = {STEP_TIME: "s"}
        self._values: defaultdict[str, list[Any]] = defaultdict(list)
        self._times = self._values[STEP_TIME]
        now = time.perf_counter()
        self._started = self._steps_began = self._step_began = now - elapsed
        self._phases = {phase: elapsed}
        self._phase, self._phase_began = phase, now
        self._saved: dict[str, int] = {}  # series -> how many of its values are in the file
        self._saved_lines: dict[str, Any] = {}  # metrics, phases and facts that are in the file
        self._save_at = now + SAVE_SECONDS
        self._process = os.getpid()
        self._has_saved = False
        self._is_awaited = bool(
            requested_path
        )  # the server reads it, even of a program without steps
        if requested_path:
            atexit.register(self._save_at_exit)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        """Write the result; if the program failed, save the numbers until then."""
        if kind is None:
            self.write()
        else:
            self.save()

    def metric(self, name: str, value: float, unit: str = "1") -> None:
        """Report one number of the whole run. The unit "1" means a plain number."""
        self._metrics[name] = {"value": _convert_to_float(name, value), "unit": unit}

    def series(self, name: str, unit: str) -> None:
        """Set the unit of a series that `step` or `add` will fill; the default is "1"."""
        self._units[name] = unit
        self._values.setdefault(name, [])

    def steps(
        self, count: Union[int, Iterable[Any]], burn_in: Optional[int] = None
    ) -> Iterator[Any]:
        """Yield once for each step; the first `burn_in` steps are not part of any mean.

        `count` is the number of steps, or an iterable such as a loader of batches; then its items
        are yielded, and waiting for one is part of its step. A pass that does not call `step`
        ends where the next one begins. Marks the phases "first step", "burn-in", "steady state"
        and "end". A second loop (another epoch) continues after the last one: the warm-up is that
        of the whole program. Its default is $TARE_BURN_IN, or else 0.
        """
        if burn_in is None:
            burn_in = self.facts.get("burn_in") or int(os.environ.get("TARE_BURN_IN") or 0)
        self._burn_in = self.facts["burn_in"] = burn_in
        number = self._count_steps()
        phase_starts = self._list_phase_starts()
        self.phase(self._choose_phase(number))
        self._step_began = time.perf_counter()
        if not number:
            self._steps_began = self._step_began
        try:
            for item in range(count) if isinstance(count, int) else count:
                if number in phase_starts:
                    self.phase(self._choose_phase(number))
                yield item
                if self._count_steps() == number:
                    self.step()
                number = self._count_steps()
        except GeneratorExit:  # the loop was left by `break`
            self.phase("end")
            raise
        self.phase("end")
        if self._is_awaited or self._has_saved:
            self.save()

    def _list_resumed(self) -> list[Any]:
        return self._values[RESUMED_STEP_TIME] if self._resumed_at else []

    def _is_after_resume(self, number: int) -> bool:
        return 0 < self._resumed_at <= number < self._resumed_at + self._burn_in

    def _count_steps(self) -> int:
        return len(self._times) + len(self._list_resumed())

    def _list_phase_starts(self) -> set[int]:
        return {0, 1, self._burn_in, self._resumed_at + self._burn_in}

    def _keep_step(self, seconds: float) -> None:
        is_warm_up = self._is_after_resume(self._count_steps())
        (self._list_resumed() if is_warm_up else self._times).append(seconds)

    def _choose_phase(self, number: int) -> str:
        if self._is_after_resume(number):
            return AFTER_RESUME
        if number >= self._burn_in:
            return "steady state"
        return "burn-in" if number else "first step"

    def step(self, **values: float) -> None:
        """End a step, which began when the last one ended; add `values` to their series."""
        now = time.perf_counter()
        self._keep_step(now - self._step_began)
        for name, value in values.items():
            self._values[name].append(value)
        self._step_began = now
        if now >= self._save_at:
            with self.aside("report"):
                self.save()

    def add(self, **values: float) -> None:
        """Add values to series that do not have one value for each step."""
        for name, value in values.items():
            self._values[name].append(value)

    @contextmanager
    def aside(self, name: str) -> Iterator[None]:
        """Time work between two steps that belongs to neither: it goes to the phase `name`."""
        phase = self._phase
        self.phase(name)
        began = self._phase_began
        yield
        self.phase(phase)
        self._step_began += self._phase_began - began

    def phase(self, name: str) -> None:
        """Begin a phase: time from now on belongs to it."""
        now = time.perf_counter()
        self._phases[self._phase] += now - self._phase_began
        self._phases.setdefault(name, 0.0)
        self._phase, self._phase_began = name, now

    def phases(self) -> dict[str, float]:
        """Return the seconds of each phase until now; their sum is the age of the process."""
        self.phase(self._phase)
        return dict(self._phases)

    @property
    def has_steps(self) -> bool:
        return bool(self._values[STEP_TIME])

    @property
    def has_metrics(self) -> bool:
        return bool(self._metrics)

    def mean(self, name: str) -> float:
        """Return the arithmetic mean of a series after the warm-up, in which slow steps count."""
        values = self._list_counted(name)
        if not values:
            raise ResultError(f"no {name} was recorded after the warm-up")
        return math.fsum(values) / len(values)

    def sd(self, name: str) -> Optional[float]:
        """Return the standard deviation (n - 1) of a series after the warm-up; None if n < 2.

        It tells how unsteady this run was, not how precise its mean is: the steps of a run
        resemble each other, so the precision of the mean takes several runs.
        """
        values = self._list_counted(name)
        if len(values) < 2:
            return None
        mean = math.fsum(values) / len(values)
        return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))

    def tail_ratio(self, name: str) -> Optional[float]:
        """Return the 99th percentile of a series after the warm-up, divided by its median.

        Both are nearest ranks. None below 100 values, where the 99th percentile would be the
        longest of all, or if the median is 0.
        """
        values = sorted(self._list_counted(name))
        if len(values) < 100:
            return None
        median, high = (values[math.ceil(share * len(values)) - 1] for share in (0.5, 0.99))
        return high / median if median else None

    def _list_counted(self, name: str) -> list[float]:
        return [_convert_to_float(name, value) for value in self._values[name][self._burn_in :]]

    def age(self) -> float:
        """Return the seconds since this process was launched."""
        return time.perf_counter() - self._started

    def time_in_steps(self) -> float:
        """Return the seconds that all steps until now took together, of earlier processes too."""
        return math.fsum([*self._times, *self._list_resumed()])

    def time_to_first_step(self) -> float:
        """Return the seconds from the start of the process to the end of its first step.

        Of a program that was resumed, those of its first process.
        """
        if self._before.get("time_to_first_step") is not None:
            return float(self._before["time_to_first_step"])
        return self._steps_began - self._started + float(self._times[0])

    def export(self) -> dict[str, Any]:
        """Return all that was reported until now, for `restore` in another process: plain JSON."""
        return {
            "metrics": dict(self._metrics),
            "units": dict(self._units),
            "values": {
                name: [float(value) for value in self._values[name]] for name in self._values
            },
            "phases": self.phases(),
            "first_phases": self.first_phases(),
            "time_to_first_step": self.time_to_first_step() if self._times else None,
        }

    def restore(self, exported: dict[str, Any]) -> None:
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

    def first_phases(self) -> dict[str, float]:
        """Return the phases of the first process alone, until its first checkpoint at least."""
        return dict(self._before["first_phases"]) if self._before else self.phases()

    def document(self) -> dict[str, Any]:
        """Return everything that was reported, as `write` writes it."""
        for name, metric in self._metrics.items():
            if not math.isfinite(metric["value"]):
                raise ResultError(f"{name} is {metric['value']}, which is not a finite number")
        series = {}
        for name, values in self._values.items():
            numbers = [_convert_to_float(name, value) for value in values]
            for number, value in enumerate(numbers):
                if not math.isfinite(value):
                    raise ResultError(f"{name} is not finite at step {number}")
            if numbers:
                series[name] = {"unit": self._units.get(name, "1"), "values": numbers}
        return {
            "schema": 1,
            "metrics": self._metrics,
            "series": series,
            "phases": self.phases(),
            "facts": {**self.facts, **self._describe_first_step()},
        }

    def write(self, path: Optional[str] = None) -> None:
        """Write everything atomically. Raises ResultError for a number that is not finite."""
        write_json(path or self._path, self.document())
        if self._has_saved and path in (None, self._path):
            os.remove(self._path + "l")
            self._has_saved = False
        self._is_awaited = False

    def save(self) -> None:
        """Append new numbers to the file of lines. Ignores a file that cannot be written."""
        lines: list[dict[str, Any]] = []
        for name, values in self._values.items():
            known = self._saved.get(name, 0)
            if len(values) > known:
                values[known:] = [_convert_to_float(name, value) for value in values[known:]]
                new = [value if math.isfinite(value) else None for value in values[known:]]
                unit = self._units.get(name, "1")
                lines.append({"series": name, "unit": unit, "from": known, "values": new})
                self._saved[name] = len(values)
        lines += self._find_changed_lines()
        try:
            with open(self._path + "l", "a" if self._has_saved else "w", encoding="utf-8") as file:
                file.write("".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
        except OSError:
            self._save_at = math.inf
            return
        if not (self._has_saved or self._is_awaited):
            atexit.register(self._save_at_exit)
        self._has_saved = True
        self._save_at = time.perf_counter() + SAVE_SECONDS

    def _find_changed_lines(self) -> Iterator[dict[str, Any]]:
        """Yield the metrics, phases and facts that have changed since they were saved."""
        now: dict[str, Any] = {
            f"metric {name}": {"metric": name, **metric}
            for name, metric in self._metrics.items()
            if math.isfinite(metric["value"])
        }
        now["phases"] = {"phases": self.phases()}
        now["facts"] = {"facts": {"burn_in": self._burn_in, **self._describe_first_step()}}
        for name, line in now.items():
            if self._saved_lines.get(name) != line:
                self._saved_lines[name] = line
                yield line

    def _describe_first_step(self) -> dict[str, float]:
        return {"time_to_first_step": self.time_to_first_step()} if self._times else {}

    def _save_at_exit(self) -> None:
        """Save the numbers of a program that failed, or forgot `write`."""
        if os.getpid() == self._process and (self._is_awaited or self._has_saved):
            self.save()


def _convert_to_float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise ResultError(f"{name} is {value!r}, which is not a number") from error


def measure_process_age() -> float:
    """Return the seconds since the kernel started this process, to a clock tick (mostly 10 ms)."""
    try:
        with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
            # The name in parentheses may hold spaces; `starttime` is field 22, man 5 proc.
            fields = file.read().rpartition(")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started)
    except (OSError, ValueError, IndexError, AttributeError):  # not Linux, or /proc is hidden
        return 0.0


def write_json(path: str, document: dict[str, Any], *, sync: bool = True) -> None:
    """Write strict JSON atomically: a reader sees all of it or no file.

    With `sync`, wait until the disk has it, for tens of milliseconds where others write, too.
    What a program has made there, a folder or a pipe, is renamed.
    """
    temporary = path + ".part"
    for place in (path, temporary):
        with suppress(FileNotFoundError):
            mode = os.lstat(place).st_mode
            if stat.S_ISDIR(mode) or (place == temporary and not stat.S_ISREG(mode)):
                os.rename(place, "%s.moved-%d" % (place, time.time_ns()))
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(json.dumps(document, allow_nan=False))
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(temporary, path)
