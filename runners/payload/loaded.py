"""Which programs and libraries the processes of a run have loaded: not what they were linked with.

`/proc/PID/maps` names every file that is mapped to be executed. Of each the path, the names that it
has of itself (soname, build id) and a check sum are recorded, after the measurement: the files are
read, and nothing is executed. What this module needs for that is imported then, or it would be
among what the measured process has loaded. A library under a home folder, or on a mount of its own
in a container, is marked: from there a library may come that nobody knows to be in use.
"""

from __future__ import annotations

import os
import re
import stat
import time
from typing import Any, Dict, Iterable, List, Set, Tuple

MOST_FILES = 2000
MOST_PATH_BYTES = 400_000  # of all paths together
MOST_PROCESSES = 64  # whose files are read at one time; a tree may have thousands
LARGEST = 32 << 20  # bytes of a file that is read whole for its check sum
MOST_BYTES = 48 << 20  # of all of these
MOST_SECONDS = 0.2  # for check sums of whole files: a slow file system must not hold up a node
LAST_SECONDS = 0.3  # until then the others are identified by their ends; what is left is not read
END = 1 << 16
"""Of a file that is not read whole, so many bytes at each end, and its size, make a check sum."""
NOTABLE = re.compile(r"blas|lapack|mkl|cuda|cudnn|cublas|nccl|nvidia|nvml|mpi|tensorflow|torch|xla")
"""In the names of libraries whose check sums come first."""
HOMES = re.compile(r"/(home|users|Users|root)/")
DELETED = " (deleted)"
OF_PROOT = re.compile(r"/prooted-\d+-\w+( \(deleted\))?$")
"""The loader of udocker's PRoot, which has another name in each process."""


def read_paths(process: Any = "self") -> Set[str]:
    """Return the files that a process has mapped to be executed; none if it cannot be read."""
    try:
        with open("/proc/%s/maps" % process, "rb") as file:
            content = file.read()
    except OSError:
        return set()
    paths = set()
    for line in content.split(b"\n"):
        fields = line.split(None, 5)
        if len(fields) == 6 and b"x" in fields[1] and fields[5].startswith(b"/"):
            paths.add(fields[5].decode("utf-8", "surrogateescape"))
    return {path for path in paths if not path.startswith("/dev/") and not OF_PROOT.search(path)}


class Readings:
    """What the processes of a tree have loaded, read now and then while they run.

    A reading takes as long as the kernel needs to print a list. It is repeated at the first samples
    of the tree, and then whenever half as much time has passed again: what a program has loaded in
    its first two thirds, and kept, is seen.
    """

    def __init__(self) -> None:
        self.paths: Set[str] = set()
        self.count = 0
        self.most_processes = 0
        self.left_out = 0
        self.last_seconds = 0.0  # since the program began
        self._next_seconds = 0.0

    def read(self, processes: List[int], seconds: float) -> None:
        """Read what these processes have loaded, if it is time to; `seconds` after the start."""
        if seconds < self._next_seconds or not processes:
            return
        paths: Set[str] = set()
        for process in processes[:MOST_PROCESSES]:
            paths |= read_paths(process)
        if not paths:
            return
        self.paths = self.paths | paths  # anew: another thread may be going through it
        self.count += 1
        self.most_processes = max(self.most_processes, len(processes))
        self.left_out = max(self.left_out, len(processes) - MOST_PROCESSES)
        self.last_seconds = seconds
        self._next_seconds = 1.5 * seconds if seconds > 1 else 0.0

    def describe(self) -> Dict[str, Any]:
        """Return how often they were read, as JSON: of this run alone, not of its software."""
        return {
            "readings": self.count,
            "last_reading_seconds": round(self.last_seconds, 3),
            "processes": self.most_processes,
            "processes_left_out": self.left_out,
        }


def describe_loaded(
    paths: Iterable[str],
    own_folder: str,
    seconds: float = MOST_SECONDS,
    last_seconds: float = LAST_SECONDS,
) -> Dict[str, Any]:
    """Return the loaded files by path, with their identity, as JSON.

    What lies below `own_folder`, the job's directory, is never marked as of a home folder. Whole
    files are summed up as far as limits and `seconds` allow, what matters most first, then the
    smallest; of the others the ends are, until `last_seconds`. Time in which others had the
    processor does not count: runs of one environment are to have one record, on busy nodes too.
    """
    began = measure_own_seconds()
    mounts = _read_mounts()
    homes = _find_homes()
    files: Dict[str, Dict[str, Any]] = {}
    waiting: List[Tuple[bool, int, str, str]] = []
    listed = sorted(paths)
    room, prefix = MOST_PATH_BYTES, ""
    for count, path in enumerate(listed):
        room -= len(path)
        if count >= MOST_FILES or room < 0:
            break
        is_gone = path.endswith(DELETED) and not os.path.exists(path)
        name = path[: -len(DELETED)] if is_gone else path
        facts: Dict[str, Any] = {}
        # What lies there now in place of a deleted file is not what was loaded.
        here, size = ("", 0) if is_gone else _find_here(name, prefix)
        if here:
            prefix = name[: -len(here)]
            name = here
            facts["bytes"] = size
            if mount := _find_mount(here, mounts):
                facts["mount"] = mount
        else:
            facts["problem"] = "deleted meanwhile" if is_gone else "not found"
        in_own = name.startswith(own_folder + "/")
        if not in_own and (HOMES.match(name) or any(map(name.startswith, homes))):
            facts["home"] = True
        if here:
            matters = "home" in facts or NOTABLE.search(os.path.basename(name))
            waiting.append((not matters, size, name, here))
        files[name] = facts
    left_bytes = MOST_BYTES
    for _, size, name, here in sorted(waiting):
        passed = measure_own_seconds() - began
        if passed > last_seconds:
            files[name]["problem"] = "there was no time to read it"
            continue
        whole = size <= min(LARGEST, left_bytes) and passed < seconds
        left_bytes -= size * whole
        files[name].update(_identify(here, size, whole))
    unlisted = len(listed) - len(files)
    return {"files": files, **({"unlisted": unlisted} if unlisted > 0 else {})}


def measure_own_seconds() -> float:
    """Return a time that stands still while this thread waits for a processor, in seconds."""
    now = time.perf_counter()
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return now - int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return now


def _find_here(path: str, prefix: str) -> Tuple[str, int]:
    """Return where this process finds a mapped file, and its size; "" if it does not.

    Under PRoot `maps` has the host's paths, of which only the end is right in the environment. What
    precedes it is tried first as it was for another file, `prefix`: there each look takes long.
    """
    parts = path.split("/")
    candidates = ["/" + "/".join(parts[first:]) for first in range(1, len(parts))]
    if prefix and path.startswith(prefix + "/"):
        candidates.insert(0, path[len(prefix) :])
    for candidate in candidates:
        try:
            status = os.stat(candidate)
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(status.st_mode):
            return candidate, status.st_size
    return "", 0


def _identify(path: str, size: int, whole: bool) -> Dict[str, Any]:
    """Return the names that a file has of itself, and its check sum or that of its ends."""
    import io

    from .elf import read_elf

    facts: Dict[str, Any] = {}
    try:
        # Without waiting, in case something else than a file has come in its place.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            content = file.read(size + 1) if whole else b""
            elf = read_elf(io.BytesIO(content) if whole else file)
            if elf:
                facts = {"soname": elf.soname, "build_id": elf.build_id}
            if not whole:
                facts["ends_sha256"] = _sum_up_ends(file, size)
            elif len(content) == size:
                facts["sha256"] = _sum_up(content)
            else:
                facts["problem"] = "it was written to meanwhile"
    except (OSError, ValueError) as error:
        facts["problem"] = getattr(error, "strerror", None) or str(error)
    return {name: value for name, value in facts.items() if value}


def _sum_up(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def _sum_up_ends(file: Any, size: int) -> str:
    import hashlib

    total = hashlib.sha256(b"%d\n" % size)
    file.seek(0)
    total.update(file.read(END))
    file.seek(max(END, size - END))
    total.update(file.read(END))
    return total.hexdigest()


def _find_homes() -> List[str]:
    """Return the account's own home folder, which $HOME does not name in a run."""
    import pwd

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir.rstrip("/")
    except (KeyError, OSError):
        return []
    return [home + "/"] if home.startswith("/") and home != "/" else []


def _read_mounts() -> Set[str]:
    """Return the places where something is mounted, other than the root."""
    points = set()
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            for line in file:
                # Octal escapes stand for spaces and the like: man 5 proc.
                point = line.split(" ", 5)[4]
                points.add(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point))
    except (OSError, IndexError):
        pass
    return points - {"/"}


def _find_mount(path: str, mounts: Set[str]) -> str:
    """Return the mount that holds a path without links; "" for the root's."""
    while path and path not in mounts:
        path = path.rpartition("/")[0]
    return path
