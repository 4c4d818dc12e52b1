"""Checkpoints of a training that takes several jobs: when to write them, and where to go on.

A checkpoint is one file with all variables and all numbers that were recorded until then, so that
steps after the last one, of a job that was killed, are in no number of the run. Beside it lies a
description with its size and check sum, which is written last: without it there is no checkpoint.
Files that do not match theirs are passed over for the one before. The same rule holds in every
environment: it knows times and steps, and nothing of containers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from ..frameworks import Failure, Unfinished, load
from ..place import Segment
from ..recorder import AFTER_RESUME, write_json
from ..resumed import ResumableRecorder
from .backends import Backend
from .loop import Schedule

FOLDER = "checkpoints"
SEGMENT_FILE = "segment.json"
SAVING, RESTORING = "checkpoint", "resume"  # phases
DESCRIPTION = re.compile(r"step-(\d{1,12})\.json")
KEPT = 2  # checkpoints of a job: the last one, and one in case that it cannot be read
BLOCK = 1 << 20
LEAST_RESERVE, MOST_RESERVE, RESERVED_SHARE = 3.0, 60.0, 0.05  # s, s, of the limit
ASSUMED_RATE = 50e6  # bytes a second, until a checkpoint has been written


class Checkpoint(NamedTuple):
    """A checkpoint that was read whole."""

    step: int  # steps done before it was written
    arrays: List[Any]
    exported: Dict[str, Any]  # by the recorder
    save_seconds: float


class Checkpoints:
    """The checkpoints of one job's part of a run."""

    def __init__(
        self,
        backend: Backend,
        model: Any,
        recorder: ResumableRecorder,
        segment: Segment,
        directory: str,
        planned: Schedule,
        every: int,
    ) -> None:
        """`directory` is the run's; `every` is in steps, 0: only before the time is over."""
        self._backend, self._model, self._recorder = backend, model, recorder
        self._segment, self._directory = segment, directory
        self._folder = os.path.join(directory, FOLDER)
        self._steps, self._every = planned.steps, every
        self._first = self._saved_at = 0
        self._trained_before = self._trained = 0.0
        self._saving = self._restoring = self._longest_save = self._longest_gap = 0.0
        self._bytes = 0
        self._passed_over: List[str] = []
        self._last_call = time.perf_counter()

    def go_on(self) -> int:
        """Restore the last checkpoint of the jobs before that can be read; return its steps.

        0 if there is none: the run begins.
        """
        recorder, began = self._recorder, time.perf_counter()
        recorder.phase(RESTORING)
        found = find_checkpoint(self._segment.earlier, self._passed_over)
        if found:
            self._backend.write_state(self._model, found.arrays)
            recorder.restore(found.exported)
            recorder.add_seconds(SAVING, found.save_seconds)
            self._first = self._saved_at = found.step
            self._trained_before = self._trained = recorder.time_in_steps()
        if self._segment.earlier:
            self._restoring = time.perf_counter() - began
        recorder.phase("build")
        self._describe("")
        self._last_call = time.perf_counter()
        return self._first

    def save_if_due(self, done: int) -> None:
        """Write a checkpoint where one is due; end this job where its time is nearly over.

        Raises Unfinished, or Failure if the run may take no further job.
        """
        now = time.perf_counter()
        self._longest_gap = max(self._longest_gap, now - self._last_call)
        if done < self._steps:
            is_over = self._is_time_over()
            if is_over or (self._every and not done % self._every):
                self._save(done)
            if is_over:
                self._stop(done)
        self._last_call = time.perf_counter()

    def finish(self) -> None:
        """Note that the run has come to its end."""
        self._saved_at, self._trained = self._steps, self._recorder.time_in_steps()
        self._describe("finished")

    def _is_time_over(self) -> bool:
        """Return whether another step, or evaluation, might leave no time for a checkpoint."""
        limit = self._segment.limit_seconds
        if not limit:
            return False
        saving = self._longest_save
        if not saving:
            size = sum(array.nbytes for array in self._backend.read_state(self._model))
            saving = self._longest_save = size / ASSUMED_RATE
        reserve = min(MOST_RESERVE, max(LEAST_RESERVE, RESERVED_SHARE * limit))
        return self._recorder.age() + self._longest_gap + 2 * saving + reserve > limit

    def _save(self, done: int) -> None:
        with self._recorder.aside(SAVING):
            began = time.perf_counter()
            os.makedirs(self._folder, exist_ok=True)
            arrays = self._backend.read_state(self._model)
            exported = self._recorder.export()
            self._bytes = write_checkpoint(self._folder, done, arrays, exported, began)
            self._saved_at, self._trained = done, self._recorder.time_in_steps()
            remove_older(self._folder)
            self._describe("")
            seconds = time.perf_counter() - began
        self._saving += seconds
        self._longest_save = max(self._longest_save, seconds)

    def _stop(self, done: int) -> None:
        number, most = self._segment.number, self._segment.most
        if number >= most:
            raise Failure(
                f"time limit reached: {done} of {self._steps} steps were done in {most} jobs, as "
                "many as the run may take; allow it more segments, or a longer time limit"
            )
        self._describe("unfinished")
        raise Unfinished(
            f"{done} of {self._steps} steps are done, and the time of this job is nearly over: "
            f"job {number + 1} of at most {most} goes on from a checkpoint"
        )

    def _describe(self, ended: str) -> None:
        """Write down what this job has done until its last checkpoint, or until the end."""
        warm_up = self._recorder.phases().get(AFTER_RESUME, 0.0)
        before = self._recorder.before_phases().get(AFTER_RESUME, 0.0)
        write_json(
            os.path.join(self._directory, SEGMENT_FILE),
            {
                "schema": 1,
                "number": self._segment.number,
                "first_step": self._first,
                "steps": self._saved_at,
                "of_steps": self._steps,
                "training_seconds": max(0.0, self._trained - self._trained_before),
                "warm_up_seconds": max(0.0, warm_up - before),
                "saving_seconds": self._saving,
                "restoring_seconds": self._restoring,
                "checkpoint_bytes": self._bytes,
                "passed_over": self._passed_over[:20],
                "ended": ended,
            },
        )


def write_checkpoint(
    folder: str, step: int, arrays: List[Any], exported: Dict[str, Any], began: float
) -> int:
    """Write a checkpoint, then its description, each atomically; return its size in bytes.

    `began` is when reading the variables began, by `time.perf_counter`.
    """
    numpy = load("numpy", "NumPy")
    path = os.path.join(folder, "step-%d.npz" % step)
    text = json.dumps(exported).encode()
    named = {"array-%d" % number: array for number, array in enumerate(arrays)}
    with open(path + ".part", "w+b") as file:
        numpy.savez(file, exported=numpy.frombuffer(text, numpy.uint8), **named)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
        file.seek(0)
        digest = sum_up(file)
    os.replace(path + ".part", path)
    description = {"schema": 1, "step": step, "bytes": size, "sha256": digest}
    description["save_seconds"] = time.perf_counter() - began
    write_json(path[: -len(".npz")] + ".json", description)
    return size


def sum_up(file: Any) -> str:
    """Return the sha256 of the rest of a file, in hex."""
    digest = hashlib.sha256()
    for block in iter(lambda: file.read(BLOCK), b""):
        digest.update(block)
    return digest.hexdigest()


def find_checkpoint(directories: Tuple[str, ...], passed_over: List[str]) -> Optional[Checkpoint]:
    """Return the last checkpoint in these directories of a run that can be read; None without one.

    The directories are those of its jobs, the latest first. What is passed over is added to
    `passed_over`, as sentences without a full stop.
    """
    for directory in directories:
        for step in list_described(os.path.join(directory, FOLDER)):
            path = os.path.join(directory, FOLDER, "step-%d" % step)
            try:
                return read_checkpoint(path)
            except (OSError, ValueError, KeyError, TypeError) as error:
                reason = str(error).strip().split("\n", 1)[0][:200]
                passed_over.append("step-%d.npz: %s" % (step, reason or type(error).__name__))
    return None


def list_described(folder: str) -> Iterator[int]:
    """Yield the steps of the checkpoints in a folder, the latest first."""
    try:
        matches = map(DESCRIPTION.fullmatch, os.listdir(folder))
    except OSError:
        return iter(())
    return iter(sorted((int(match[1]) for match in matches if match), reverse=True))


def read_checkpoint(path: str) -> Checkpoint:
    """Read a checkpoint; `path` is without its suffix. ValueError unless it is as described."""
    numpy = load("numpy", "NumPy")
    with open(path + ".json", encoding="utf-8") as described:
        description = json.load(described)
    with open(path + ".npz", "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != description["bytes"]:
            raise ValueError("it has %d bytes, and not %s" % (size, description["bytes"]))
        if sum_up(file) != description["sha256"]:
            raise ValueError("it does not match its check sum")
        file.seek(0)
        with numpy.load(file, allow_pickle=False) as content:
            exported = json.loads(content["exported"].tobytes())
            arrays = [content["array-%d" % number] for number in range(len(content.files) - 1)]
    return Checkpoint(description["step"], arrays, exported, float(description["save_seconds"]))


def remove_older(folder: str) -> None:
    """Remove all checkpoints of a folder but the last ones, each description first."""
    for step in list(list_described(folder))[KEPT:]:
        for suffix in (".json", ".npz"):
            os.unlink(os.path.join(folder, "step-%d%s" % (step, suffix)))
