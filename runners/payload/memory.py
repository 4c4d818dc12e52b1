"""How much memory the processes of a run held at most, as far as the kernel keeps it.

The kernel keeps a mark of the most that each process ever held (VmHWM), and of the largest of all
that it has waited for (RUSAGE_CHILDREN): no peak is missed, however short. What processes held
together at one time is no mark of the kernel's. Where this process does nothing but wait for the
user's program, it adds them up now and then, in a thread: five times in the first second, so that
short programs are seen too, and from then on it takes 0.05 % of a CPU at most.
"""

from __future__ import annotations

import os
import resource
import time
from typing import Any, Callable, Dict, List, Tuple

from .loaded import Readings

FIRST_PAUSES = (0.05, 0.05, 0.1, 0.3, 0.5)  # s: samples after 0.05, 0.1, 0.2, 0.5 and 1 s
LEAST_PAUSE = 1.0  # s between two samples of the tree after those
PAUSES = 2000  # so many times as long as a sample takes is waited then before the next
MOST_PROCESSES = 10_000  # of a tree; more are left out
CHILDREN = "/proc/%d/task/%s/children"


class Tree:
    """Samples of what this process and its descendants hold together, while `wait` waits.

    Some of them are readings of what the descendants have loaded, too.
    """

    def __init__(self, find_root: Callable[[], int] = os.getpid) -> None:
        """`find_root` returns the process that waits for the program; 0 if there is none yet."""
        self._find_root = find_root
        self.can_be_seen = os.path.exists(CHILDREN % (os.getpid(), os.getpid()))
        self.highest = 0
        self.samples = 0
        self.most_processes = 0
        self.seconds = 0.0  # that sampling took
        self.loaded = Readings()

    def begin(self) -> None:
        """Sample from now on, until this process ends."""
        if self.can_be_seen:
            import threading  # which every run would pay for; `subprocess` has imported it

            threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        took, started = 0.0, time.perf_counter()
        while True:
            if self.samples < len(FIRST_PAUSES):
                pause = FIRST_PAUSES[self.samples]
            else:
                pause = max(LEAST_PAUSE, PAUSES * took)
            time.sleep(pause)
            began = time.perf_counter()
            root = self._find_root()
            tree = walk_tree(root) if root else []
            sizes = [size for _, size in tree]
            self.highest = max(self.highest, sum(sizes))
            self.most_processes = max(self.most_processes, len(sizes))
            self.samples += 1
            # This process waits, and is none of the program's.
            self.loaded.read([process for process, _ in tree if process != root], began - started)
            took = time.perf_counter() - began
            self.seconds += took

    def describe(self) -> Dict[str, Any]:
        """Return what was seen, as JSON; {} where the kernel tells no children."""
        if not self.can_be_seen:
            return {}
        return {
            "together_bytes": self.highest,
            "samples": self.samples,
            "processes": self.most_processes,
            "sampling_seconds": round(self.seconds, 6),
        }


def describe_memory(children_before: int) -> Dict[str, int]:
    """Return the marks of this process and of the largest that it has waited for, in bytes.

    `children_before`: that of those before the program, of which a smaller one tells nothing.
    """
    children = measure_largest_child()
    return {
        "own_bytes": measure_own_peak(),
        "child_bytes": children if children > children_before else 0,
    }


def measure_largest_child() -> int:
    """Return the most bytes that any process held which this one has waited for, and its own."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024


def measure_own_peak() -> int:
    """Return the most bytes that this process held at any time; 0 if the kernel does not tell."""
    return measure_peak("self")


def measure_peak(process: Any) -> int:
    """Return the most bytes that a process has held; 0 if the kernel does not tell."""
    try:
        with open("/proc/%s/status" % process, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def measure_tree(root: int) -> List[int]:
    """Return the bytes that a process and its descendants hold now. Pages that several share count
    for each of them. What ends meanwhile is left out.
    """
    return [size for _, size in walk_tree(root)]


def walk_tree(root: int) -> List[Tuple[int, int]]:
    """Return a process and its descendants, each with the bytes that it holds now."""
    page = os.sysconf("SC_PAGE_SIZE")
    sizes, waiting, known = [], [root], {root}
    while waiting and len(known) < MOST_PROCESSES:
        process = waiting.pop()
        try:
            with open("/proc/%d/statm" % process, encoding="ascii") as file:
                sizes.append((process, int(file.read().split()[1]) * page))
            for thread in os.listdir("/proc/%d/task" % process):
                with open(CHILDREN % (process, thread), encoding="ascii") as file:
                    new = {int(number) for number in file.read().split()} - known
                known |= new
                waiting += new
        except (OSError, ValueError, IndexError):
            continue
    return sizes
