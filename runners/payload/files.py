"""`files`: file systems as an environment shows them: small files, a large file, its own software.

One step is a round of all chosen operations: a tree of small files is created, listed, queried
(stat), read and removed; a large file is written, read and read at random; the first files of
Python's library and packages are listed, queried and read. Every part is timed separately.

Files are written only into one new folder with the run's name, which is removed at the end, also
when the run is terminated. The large file has no name, so that nothing of it can remain.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterator, List, Tuple

from . import pages
from .frameworks import StartError
from .place import RunProcess
from .recorder import Recorder, ResultError

SCRATCH = ".scratch"  # in the run's directory; the job script removes what is left of it
PER_FOLDER = 100  # small files
BLOCK = 1 << 20  # bytes that the large file is written and read by
PAGE = 4096  # bytes of a random read
SPARE = 2  # times the needed space that has to be free
# Bytecode is only there if somebody could write to the image, and few images have the tests.
SKIPPED_FOLDERS = ("__pycache__", "test", "site-packages", "dist-packages")
PARTS = {
    "small_files": ("create", "list", "stat", "read", "delete"),
    "large_file": ("large_write", "large_read"),
    "random_reads": ("random_read",),
    "software_files": ("software_list", "software_stat", "software_read"),
}


def run(parameters: dict[str, Any], recorder: Recorder, process: RunProcess) -> None:
    recorder.phase("build")
    chosen = [
        part for name, parts in PARTS.items() if is_chosen(parameters, name) for part in parts
    ]
    if not chosen:
        raise StartError("nothing to do: every number of files, megabytes and reads is 0")
    for part in chosen:
        recorder.series(f"{part}_time", "s")
    with make_temporary_folder(parameters, process) as folder:
        rounds = Rounds(parameters, folder, recorder)
        for _ in recorder.steps(parameters["steps"], parameters["burn_in"]):
            recorder.step(
                **{f"{part}_time": seconds for part, seconds in rounds.run_round().items()}
            )
        rounds.close()

    for part in chosen:
        recorder.metric(f"{part}_time", recorder.mean(f"{part}_time"), "s")
    for rate, (part, amount, unit) in rounds.find_amounts().items():
        recorder.metric(rate, amount / recorder.mean(f"{part}_time"), unit)
    for part in ("software_read", "large_read"):
        if part in chosen:
            recorder.metric(f"first_{part}_time", rounds.first[part], "s")
    if rounds.cached_shares:
        share = sum(rounds.cached_shares) / len(rounds.cached_shares)
        recorder.metric("still_cached", share, "1")


def is_chosen(parameters: Dict[str, Any], name: str) -> bool:
    if name in ("large_file", "random_reads") and not parameters["large_file_mb"]:
        return False
    return name == "large_file" or bool(parameters[name])


@contextmanager
def make_temporary_folder(parameters: Dict[str, Any], process: RunProcess) -> Iterator[str]:
    """Make a new folder below the chosen path, and remove it afterwards."""
    parent = parameters["path"] or os.path.join(process.directory, SCRATCH)
    if not os.path.isabs(parent):
        raise StartError(f"the folder to measure in has to begin with /: {parent!r}")
    try:
        if not parameters["path"]:
            os.makedirs(parent, exist_ok=True)
        require_space(parent, parameters)
        # A new folder, so that nobody else's files are touched.
        folder = tempfile.mkdtemp(prefix=f"tare-{os.path.basename(process.directory)}-", dir=parent)
    except OSError as error:
        raise StartError(
            f"cannot measure in {parent}: {error.strerror}. A folder outside of the image has to "
            "be bound into the environment, and the account has to be allowed to write there"
        ) from error
    # So that `finally` is reached.
    previous_handler = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if not parameters["path"]:
            with suppress(OSError):  # another process of the run is still at work there
                os.rmdir(parent)
        signal.signal(signal.SIGTERM, previous_handler)


def require_space(folder: str, parameters: Dict[str, Any]) -> None:
    """Raise StartError unless twice the space and the files that are needed are free."""
    file_system = os.statvfs(folder)
    small = parameters["small_files"] * max(parameters["small_file_bytes"], PAGE)
    need = SPARE * (small + parameters["large_file_mb"] * 1_000_000)
    free = file_system.f_bavail * file_system.f_frsize
    if need > free:
        raise StartError(
            f"{folder} has {free / 1e6:,.0f} MB free; twice what is written ({need / 1e6:,.0f} MB) "
            "has to be, so that nobody else's work is stopped: choose fewer or smaller files"
        )
    if file_system.f_files and SPARE * parameters["small_files"] > file_system.f_favail:
        raise StartError(f"{folder} takes {file_system.f_favail} more files only: choose fewer")


class Rounds:
    """The rounds of a run: what each step does, and what it has seen."""

    def __init__(self, parameters: Dict[str, Any], folder: str, recorder: Recorder) -> None:
        self._parameters, self._folder, self._recorder = parameters, folder, recorder
        self._drop = parameters["cache"] == "dropped"
        self._large = -1
        self._random = random.Random(parameters["seed"])
        self._block = self._random.getrandbits(8 * BLOCK).to_bytes(BLOCK, "little")
        self._software: List[str] = []
        self._software_bytes = 0
        self.first: Dict[str, float] = {}  # seconds of each part in the first round
        self.cached_shares: List[float] = []  # of files whose pages should have been dropped

    def run_round(self) -> Dict[str, float]:
        """Do one round and return the seconds of each part."""
        times: Dict[str, float] = {}
        if self._parameters["small_files"]:
            self._measure_small_files(times)
        if self._parameters["large_file_mb"]:
            self._measure_large_file(times)
        if self._parameters["software_files"]:
            self._measure_software_files(times)
        self.first = self.first or times
        return times

    def close(self) -> None:
        if self._large >= 0:
            os.close(self._large)

    def find_amounts(self) -> Dict[str, Tuple[str, float, str]]:
        """Return for each rate the part whose time divides it, the amount of work, and the unit."""
        rates: Dict[str, Tuple[str, float, str]] = {}
        files, megabytes = self._parameters["small_files"], self._parameters["large_file_mb"]
        if files:
            for part in PARTS["small_files"]:
                rates[f"{part}_rate"] = (part, files, "files/s")
        if megabytes:
            rates["large_write_rate"] = ("large_write", megabytes, "MB/s")
            rates["large_read_rate"] = ("large_read", megabytes, "MB/s")
            if self._parameters["random_reads"]:
                reads = self._parameters["random_reads"]
                rates["random_read_rate"] = ("random_read", reads, "reads/s")
        if self._software:
            files = len(self._software)
            for part in PARTS["software_files"]:
                rates[f"{part}_rate"] = (part, files, "files/s")
            rates["software_bandwidth"] = ("software_read", self._software_bytes / 1e6, "MB/s")
        return rates

    def _measure_small_files(self, times: Dict[str, float]) -> None:
        count, clock = self._parameters["small_files"], time.perf_counter
        content = self._block[: self._parameters["small_file_bytes"]]
        top = os.path.join(self._folder, "small")
        folders = [os.path.join(top, str(n)) for n in range(-(-count // PER_FOLDER))]
        paths = [os.path.join(folders[n // PER_FOLDER], f"{n}.dat") for n in range(count)]
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY

        began = clock()
        for folder in folders:
            os.makedirs(folder)
        for path in paths:
            file = os.open(path, flags, 0o600)
            os.write(file, content)
            os.close(file)
        times["create"] = clock() - began

        began = clock()
        listed = sum(len(names) for _, _, names in os.walk(top))
        times["list"] = clock() - began
        if listed != count:
            raise ResultError(f"of {count} files that were created {listed} were listed")

        times["stat"], size = stat_all(paths)
        self._drop_files(paths, written=True)
        times["read"], read = read_all(paths)
        if not size == read == count * len(content):
            raise ResultError(f"{count * len(content)} bytes were written and {read} read")

        began = clock()
        for path in paths:
            os.unlink(path)
        for folder in (*folders, top):
            os.rmdir(folder)
        times["delete"] = clock() - began

    def _measure_large_file(self, times: Dict[str, float]) -> None:
        """Write to the disk, as far as the file system tells; read; read pages at random."""
        clock, size = time.perf_counter, self._parameters["large_file_mb"] * 1_000_000
        if self._large < 0:
            path = os.path.join(self._folder, "large")
            self._large = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
            os.unlink(path)
        file = self._large
        began = clock()
        os.ftruncate(file, 0)
        for offset in range(0, size, BLOCK):
            write_all(file, self._block[: min(BLOCK, size - offset)], offset)
        os.fsync(file)
        times["large_write"] = clock() - began

        self._drop_file(file, size)
        began = clock()
        bytes_read = sum(len(os.pread(file, BLOCK, offset)) for offset in range(0, size, BLOCK))
        times["large_read"] = clock() - began
        if bytes_read != size:
            raise ResultError(f"of {size} bytes that were written {bytes_read} were read")

        if self._parameters["random_reads"]:
            draw, last = self._random.randrange, size // PAGE
            offsets = [PAGE * draw(last) for _ in range(self._parameters["random_reads"])]
            self._drop_file(file, size)
            began = clock()
            for offset in offsets:
                os.pread(file, PAGE, offset)
            times["random_read"] = clock() - began

    def _measure_software_files(self, times: Dict[str, float]) -> None:
        began = time.perf_counter()
        self._software = list_software_files(self._parameters["software_files"])
        times["software_list"] = time.perf_counter() - began
        if not self._software:
            raise StartError("Python's library is no folder of files here: leave it out")
        times["software_stat"], self._software_bytes = stat_all(self._software)
        self._drop_files(self._software, written=False)
        times["software_read"], _ = read_all(self._software)

    def _drop_files(self, paths: List[str], *, written: bool) -> None:
        """Ask the kernel to drop these files from the page cache, if the parameters say so.

        The time for it belongs to no step.
        """
        if not self._drop:
            return
        with self._recorder.aside("dropping pages"):
            for path in paths:
                file = os.open(path, os.O_RDONLY)
                self._drop_pages(file, 1, written)
                os.close(file)

    def _drop_file(self, file: int, size: int) -> None:
        if self._drop:
            with self._recorder.aside("dropping pages"):
                self._drop_pages(file, size, True)

    def _drop_pages(self, file: int, size: int, written: bool) -> None:
        pages.drop(file, written=written)
        share = pages.measure_cached_share(file, size)
        if share is not None:
            self.cached_shares.append(share)
        pages.drop(file, written=False)  # what the probes have read


def list_software_files(most: int) -> List[str]:
    """Return the first files of Python's library and packages, by name; no compiled bytecode."""
    paths = sysconfig.get_paths()
    roots = dict.fromkeys(os.path.realpath(paths[n]) for n in ("stdlib", "platlib", "purelib"))
    files: List[str] = []
    folders = list(reversed(list(roots)))
    while folders and len(files) < most:
        inner = []
        for entry in sorted(os.scandir(folders.pop()), key=lambda entry: entry.name):
            if entry.is_file(follow_symlinks=False):
                files.append(entry.path)
            elif entry.is_dir(follow_symlinks=False) and entry.name not in SKIPPED_FOLDERS:
                inner.append(entry.path)
        folders += reversed(inner)
    return files[:most]


def stat_all(paths: List[str]) -> Tuple[float, int]:
    """Return the seconds that `stat` of all files took, and their bytes together."""
    began = time.perf_counter()
    size = sum(os.stat(path).st_size for path in paths)
    return time.perf_counter() - began, size


def read_all(paths: List[str]) -> Tuple[float, int]:
    """Return the seconds that it took to open and read all files, and their bytes together."""
    size, began = 0, time.perf_counter()
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        while True:
            count = len(os.read(file, BLOCK))
            size += count
            if count < BLOCK:
                break
        os.close(file)
    return time.perf_counter() - began, size


def write_all(file: int, content: bytes, offset: int) -> None:
    """Write all of the content: a disk that is nearly full may take only a part at first."""
    while content:
        written = os.pwrite(file, content, offset)
        content, offset = content[written:], offset + written
