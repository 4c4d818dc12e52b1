"""Brings files into the page cache, or out of it, before a run, and measures whether it worked.

Runs on the node as `python3 page_cache.py cold|warm RECORD PLACE...`, without root. It ends with 0
and leaves RECORD, or with a sentence on why the run would be neither cold nor warm.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import stat
import sys
import time
from typing import Dict, Iterator, List, Optional

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import pages

COLD, WARM = "cold", "warm"
MOST_FILES = 1_000_000
MOST_MEASURED = 4000  # files that are probed: all, or as many at equal distances, the largest too
MOST_COLD, LEAST_WARM = 0.1, 0.9  # shares of the bytes that are in memory
BLOCK = 1 << 20
DISK_SECONDS = 0.5  # until a disk has answered what the probes have asked for
ROOM = 0.8  # share of the memory that is free which the files may take


class Unusable(Exception):
    """Why the page cache cannot be what was requested: a sentence."""


def list_files(places: List[str]) -> Dict[str, int]:
    """Return the sizes of the regular files at and below these places; links lead nowhere."""
    files: Dict[str, int] = {}
    for place in dict.fromkeys(map(os.path.realpath, places)):
        for path in walk(place):
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and status.st_size:
                files[path] = status.st_size
            if len(files) > MOST_FILES:
                raise Unusable("there are more than %d files to prepare" % MOST_FILES)
    return files


def walk(place: str) -> Iterator[str]:
    if not os.path.isdir(place):
        yield place
    for folder, _, names in os.walk(place):
        for name in names:
            yield os.path.join(folder, name)


def prepare(policy: str, files: Dict[str, int]) -> int:
    """Drop the files' pages, or read them all; return how many could not be opened."""
    unreadable = 0
    for path in files:
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            unreadable += 1
            continue
        try:
            if policy == COLD:
                pages.drop(file, written=False)  # to sync each of many files takes minutes
            else:
                while os.read(file, BLOCK):
                    pass
        except OSError:
            unreadable += 1
        finally:
            os.close(file)
    return unreadable


def choose_measured(files: Dict[str, int]) -> List[str]:
    """Return the files to probe: all of few, else every so many, and a tenth by their size."""
    if len(files) <= MOST_MEASURED:
        return list(files)
    largest = sorted(files, key=lambda path: -files[path])[: MOST_MEASURED // 10]
    paths = list(files)
    return list(dict.fromkeys(largest + paths[:: len(paths) // MOST_MEASURED + 1]))


def measure(policy: str, files: Dict[str, int]) -> Optional[float]:
    """Return the share of the bytes that are in memory; None where nothing tells.

    mincore leaves the cache as it is, and tells the truth of one's own files alone. Probes of
    others begin to read what was not there: that is dropped once the disk has answered.
    """
    cached, known = 0.0, 0
    probed: Dict[str, int] = {}
    for path in choose_measured(files):
        try:
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            share = ask_mincore(file, files[path])
            if share is None:
                share = pages.measure_cached_share(file, files[path])
                probed[path] = files[path]
            if share is not None:
                cached, known = cached + share * files[path], known + files[path]
        finally:
            os.close(file)
    if policy == COLD and probed:
        time.sleep(DISK_SECONDS)
        prepare(COLD, probed)
    return cached / known if known else None


def ask_mincore(file: int, size: int) -> Optional[float]:
    """Return the cached share as mincore tells it; None of files of others, of which it lies."""
    status = os.fstat(file)
    if status.st_uid != os.geteuid():
        return None
    try:
        library = ctypes.CDLL(None, use_errno=True)
        with mmap.mmap(file, size, access=mmap.ACCESS_COPY) as mapped:
            first = ctypes.c_char.from_buffer(mapped)
            marks = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
            address = ctypes.c_void_p(ctypes.addressof(first))
            failed = library.mincore(address, ctypes.c_size_t(size), marks)
            del first  # the mapping can be closed only when nothing points into it
        return None if failed else sum(mark & 1 for mark in marks) / len(marks)
    except (OSError, ValueError, AttributeError, BufferError):
        return None


def read_free_memory() -> Optional[int]:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    return None


def show_size(size: float) -> str:
    return "%.1f GB" % (size / 1e9) if size >= 1e8 else "%.1f MB" % (size / 1e6)


def check_room(size: int) -> None:
    """Raise Unusable where the files do not fit into memory."""
    free = read_free_memory()
    if free is not None and size > ROOM * free:
        raise Unusable(
            "its files have %s, and the node has %s of memory free"
            % (show_size(size), show_size(free))
        )


def bring_about(policy: str, places: List[str]) -> Dict[str, object]:
    """Make the files cold or warm; return what was found afterwards. Raises Unusable."""
    missing = [place for place in places if not os.path.exists(place)]
    if missing:
        raise Unusable("%s does not exist on the node" % missing[0])
    files = list_files(places)
    size = sum(files.values())
    if not files:
        raise Unusable("no file of the image, the software or the data can be found")
    if policy == WARM:
        check_room(size)
    unreadable = prepare(policy, files)
    share = measure(policy, files)
    if share is None:
        raise Unusable("the file system of %s does not tell what is in memory" % places[0])
    if policy == COLD and share > MOST_COLD:
        raise Unusable(
            "%.0f %% of %s in %d files stayed in memory: other programs use them, or their file "
            "system is memory" % (100 * share, show_size(size), len(files))
        )
    if policy == WARM and share < LEAST_WARM:
        raise Unusable(
            "only %.0f %% of %s in %d files are in memory after they were read"
            % (100 * share, show_size(size), len(files))
        )
    return {
        "policy": policy,
        "files": len(files),
        "bytes": size,
        "unreadable": unreadable,
        "cached": round(share, 4),
    }


def main(policy: str, record: str, *places: str) -> None:
    try:
        found = bring_about(policy, list(places))
    except Unusable as error:
        sys.exit(str(error))
    part = record + ".part"
    with open(part, "w", encoding="ascii") as file:
        json.dump(found, file)
    os.replace(part, record)


if __name__ == "__main__":
    main(*sys.argv[1:])
