"""A worker that does several tasks at once, so that a cluster that hangs keeps no other waiting.

Each slot is a thread with an RQ worker of its own. Visits wait for answers most of the time; the
threads of a process share its memory and its one connection to each cluster.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from types import FrameType
from typing import Any

from rq import Queue
from rq.exceptions import StopRequested
from rq.job import Job
from rq.timeouts import TimerDeathPenalty

from experiments.execution.task_worker import TaskWorker

logger = logging.getLogger(__name__)

SLOTS = {"default": 16, "bulk": 2}
"""Tasks that one worker does at the same time, by queue."""
MOST_SLOTS = 64  # each may hold a connection to the database
PAUSE_SECONDS = 1.0  # before a slot that has ended begins again


class Turns:
    """What the slots of a process do in turns: one of them, every few seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next_at = float("-inf")

    def take(self, seconds: float) -> bool:
        """Return whether it is the caller's turn; the next is after `seconds`."""
        with self._lock:
            now = time.monotonic()
            if now < self._next_at:
                return False
            self._next_at = now + seconds
            return True


class Slot(TaskWorker):
    """One thread's worker. It ends in order as soon as it is idle and `stopping` is set."""

    # An alarm would reach the main thread alone.
    death_penalty_class = TimerDeathPenalty

    def __init__(self, queues: list[Queue], stopping: threading.Event, turns: Turns) -> None:
        super().__init__(*queues)
        self.stopping = stopping
        self.turns = turns
        self.is_busy = False

    @property
    def should_run_maintenance_tasks(self) -> bool:
        """Return whether it is time to tidy up after dead workers, and no other slot does so."""
        return self.turns.take(self.maintenance_interval)

    def _install_signal_handlers(self) -> None:
        """Do nothing: the main thread has them."""

    def subscribe(self) -> None:
        """Do nothing: nobody sends commands to a slot."""

    def unsubscribe(self) -> None:
        """Do nothing, as `subscribe`."""

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        if self.stopping.is_set() and not self.is_busy:
            raise StopRequested
        super().heartbeat(timeout, pipeline)

    def execute_job(self, job: Job, queue: Queue) -> None:
        self.is_busy = True
        try:
            super().execute_job(job, queue)
        finally:
            self.is_busy = False


class Slots:
    """The slots of this process."""

    def __init__(self, queues: list[Queue], count: int) -> None:
        self.queues = queues
        self.stopping = threading.Event()
        self.turns = Turns()
        self.slots: list[Slot | None] = [None] * count

    def run(self) -> None:
        """Do tasks until SIGTERM or SIGINT; then end those under way, unless it comes again."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for index in range(len(self.slots)):
            name = f"slot {index + 1}"
            threading.Thread(
                target=self._keep_running, args=(index,), name=name, daemon=True
            ).start()
        self.stopping.wait()
        while any(slot and slot.is_busy for slot in self.slots):
            time.sleep(0.05)
        for slot in filter(None, self.slots):
            slot.register_death()  # type: ignore[no-untyped-call]

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self.stopping.is_set():
            raise SystemExit(1)
        self.stopping.set()

    def _keep_running(self, index: int) -> None:
        """Run one slot; begin again where RQ ends it, as it does over errors of its own."""
        while not self.stopping.is_set():
            try:
                slot = self.slots[index] = Slot(self.queues, self.stopping, self.turns)
                slot.work(logging_level="WARNING")
            except Exception:
                logger.exception("A slot has ended, and begins again")
            self.stopping.wait(PAUSE_SECONDS)


def run_slots(queues: list[Queue], count: int) -> None:
    """Do the tasks of these queues, `count` at a time, until the process is told to stop."""
    Slots(queues, count).run()
