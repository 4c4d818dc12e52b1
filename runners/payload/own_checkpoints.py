"""Checkpoints that a program of the user's writes by itself, for a run over several jobs.

The program finds them in one folder, which all jobs of the run share. Shortly before the time limit
it gets a signal; what it leaves then, and how it ends, says whether a further job goes on. Of a job
that is killed the time counts until the last change of that folder: what came after it is done
again. Changes are timed by the folder's own file system, from a mark that each job sets there.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import Any, Dict, NamedTuple, Optional

from .frameworks import Failure, Unfinished
from .place import RunProcess, Segment
from .recorder import Recorder, write_json

FOLDER = "checkpoints"
SEGMENT_FILE = "segment.json"
STOPPED = 75
"""The exit code of a program that is to go on in a further job: EX_TEMPFAIL of sysexits.h."""
LEAST_PAUSE, PAUSES = 2.0, 50  # s from one reading of the folder to the next; times what it takes
MOST_ENTRIES = 10_000  # of the folder that are read
AT_ONCE = 0.05  # s, before which a program is not told to stop: it has no handler yet


class Content(NamedTuple):
    """What lies in the folder of checkpoints."""

    files: int = 0
    bytes: int = 0
    changed_at: float = 0.0  # the latest change, by the clock of its file system


class OwnCheckpoints:
    """The checkpoints of one job's part of a run, and what is written down of it."""

    def __init__(
        self, parameters: Dict[str, Any], process: RunProcess, segment: Segment, recorder: Recorder
    ) -> None:
        """Raises Failure if those of the jobs before are not there any more."""
        self._segment, self._recorder = segment, recorder
        self._directory = process.directory
        self._notice = getattr(signal, "SIG" + parameters["notice_signal"])
        self._notice_seconds = float(parameters["notice_seconds"])
        self._has_noticed = False
        self._is_over = threading.Event()
        self._watcher: Optional[threading.Thread] = None
        first = segment.earlier[-1] if segment.earlier else process.directory
        self.folder = os.path.join(first, FOLDER)
        if segment.earlier:
            if not os.path.isdir(self.folder):
                raise Failure(
                    "no checkpoint: %s, the folder of the jobs before, is not there any more"
                    % self.folder
                )
        else:
            os.makedirs(self.folder, exist_ok=True)
        left = read_folder(self.folder)
        os.utime(self.folder)
        self._known = read_folder(self.folder)
        self._marked_at = self._known.changed_at
        self._began = time.perf_counter()
        self._counted = 0.0  # seconds of the program until the folder last changed
        self._before = [read_segment(path) for path in reversed(segment.earlier)]
        for number, facts in enumerate(self._before, start=1):
            if "training_seconds" not in facts:
                raise Failure(
                    "no checkpoint: what job %d has written down of its part cannot be read, so "
                    "that its time is not known" % number
                )
        self._unseen = self._measure_unseen(left)
        self._take_up_start()
        self._describe("")

    @property
    def seconds_before(self) -> float:
        """Return the seconds of the program in the jobs before that count."""
        return self._unseen + sum(float(facts["training_seconds"]) for facts in self._before)

    def _measure_unseen(self, left: Content) -> float:
        """Return the seconds of the job before that it was killed too early to count itself."""
        last = self._before[-1] if self._before else {}
        if last.get("ended") != "" or "changed_at" not in last:
            return 0.0
        seconds = left.changed_at - float(last["changed_at"])
        return min(max(0.0, seconds), self._segment.limit_seconds or seconds)

    def _take_up_start(self) -> None:
        """Keep how the first job began: how long its container took is the run's."""
        if self._before:
            first = self._before[0].get("start_phases") or {}
            self._start_phases: Dict[str, float] = {
                name: float(seconds) for name, seconds in first.items()
            }
            self._recorder.restore(
                {
                    "metrics": {},
                    "units": {},
                    "values": {},
                    "phases": {},
                    "first_phases": self._start_phases,
                    "time_to_first_step": None,
                }
            )
        else:
            self._start_phases = self._recorder.phases()
        self._recorder.facts["start_phases"] = self._start_phases

    def watch(self, program: subprocess.Popen[bytes]) -> None:
        """From now on read the folder, and tell the program when its time is nearly over."""
        self._began = time.perf_counter()
        limit = self._segment.limit_seconds
        left = limit - self._notice_seconds - self._recorder.age()
        notice_at = self._began + max(AT_ONCE, left) if limit else None
        self._watcher = threading.Thread(target=self._watch, args=(program, notice_at), daemon=True)
        self._watcher.start()

    def _watch(self, program: subprocess.Popen[bytes], notice_at: Optional[float]) -> None:
        took = 0.0
        while True:
            wait = max(LEAST_PAUSE, PAUSES * took)
            if notice_at is not None:
                wait = min(wait, max(0.0, notice_at - time.perf_counter()))
            if self._is_over.wait(wait):
                return
            if notice_at is not None and time.perf_counter() >= notice_at:
                notice_at, self._has_noticed = None, True
                program.send_signal(self._notice)
            began = time.perf_counter()
            with suppress(OSError):  # of a full disk: the signal has to come all the same
                self._count_changes()
            took = time.perf_counter() - began

    def _count_changes(self) -> None:
        """Count the time until now if the folder has changed."""
        content = read_folder(self.folder)
        if content != self._known:
            self._known = content
            passed = time.perf_counter() - self._began
            self._counted = min(passed, max(self._counted, content.changed_at - self._marked_at))
            self._describe("")

    def finish(self, code: int) -> float:
        """Write down how the program ended; return its seconds in all jobs.

        Raises Unfinished if a further job is to go on, Failure if none can.
        """
        seconds = time.perf_counter() - self._began
        self._is_over.set()
        if self._watcher:
            self._watcher.join()
        self._count_changes()
        if not self._has_stopped(code):
            if code == 0:
                self._counted = seconds
                self._describe("finished")
            return self.seconds_before + seconds
        number, most = self._segment.number, self._segment.most
        if not self._known.files:
            raise Failure(
                "no checkpoint: the program stopped before its end (%s) and has left nothing in "
                "$TARE_CHECKPOINTS, so that a further job would begin anew" % self._name_end(code)
            )
        if number >= most:
            raise Failure(
                "time limit reached: the program stopped before its end in %d job%s, as many as "
                "the run may take; allow it more jobs, or a longer time limit"
                % (most, "s" * (most > 1))
            )
        self._counted = seconds
        self._describe("unfinished")
        raise Unfinished(
            "the program stopped before its end (%s): job %d of at most %d goes on from what it "
            "has left in $TARE_CHECKPOINTS" % (self._name_end(code), number + 1, most)
        )

    def _has_stopped(self, code: int) -> bool:
        """Return whether the program has ended to go on in a further job.

        It says so by its exit code, or dies of the signal that it got; a shell around it reports
        that as 128 + n.
        """
        return code == STOPPED or (
            self._has_noticed and code in (-self._notice, 128 + self._notice)
        )

    def _name_end(self, code: int) -> str:
        return "exit code %d" % code if code > 0 else signal.Signals(-code).name

    def _describe(self, ended: str) -> None:
        write_json(
            os.path.join(self._directory, SEGMENT_FILE),
            {
                "schema": 1,
                "number": self._segment.number,
                "first_step": 0,
                "steps": 0,
                "of_steps": 0,  # the program alone knows its steps
                "training_seconds": self._counted,
                "checkpoint_bytes": self._known.bytes,
                "checkpoint_files": self._known.files,
                "changed_at": self._known.changed_at,
                "start_phases": self._start_phases,
                "ended": ended,
            },
        )


def read_folder(folder: str) -> Content:
    """Return how much lies in a folder and below it, as far as `MOST_ENTRIES` allow."""
    files = size = entries = 0
    changed = 0.0
    for place, _, names in os.walk(folder):
        for name in ["", *names]:
            try:
                status = os.lstat(os.path.join(place, name))
            except OSError:
                continue  # it was removed or renamed meanwhile
            changed = max(changed, status.st_mtime)
            if name:
                files, size = files + 1, size + status.st_size
        entries += 1 + len(names)
        if entries > MOST_ENTRIES:
            break
    return Content(files, size, changed)


def read_segment(directory: str) -> Dict[str, Any]:
    """Return what an earlier job has written down; {} if it left nothing that can be read."""
    try:
        with open(os.path.join(directory, SEGMENT_FILE), encoding="utf-8") as file:
            facts = json.load(file)
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}
