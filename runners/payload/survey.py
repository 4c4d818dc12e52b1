"""Survey a root folder: `python3 survey.py ROOT --output FILE [--exclude PATH]...`.

Walks ROOT once and writes JSON: the tree's hash, and facts from its files (see inventory.py).
Nothing in ROOT is imported or executed, and nothing but FILE is written.

The tree's hash is the sha256 of sorted lines, one for each file, each link, and each folder above
one: path, type, mode, size, sha256 of the content (of a link: its target). Every form of the same
image has the same hash, so it covers only what all forms can keep:

- owners and times: not at all; of modes who may execute and whether others may read (`MODE`)
- a hard link counts as a file; pipes, sockets and devices do not count
- empty folders do not count: runtimes make them, to mount things there
- a file that not everybody may read counts by its path alone: some forms let no user read it
- paths that runtimes put over or into an image are left out (`EXCLUDED`), and so are mounts

Fields: schema, tree, files, bytes, parts (the hash of each folder at the top, to say where two
trees differ), exclusions (path and reason of everything left out), unreadable (paths),
and those of inventory.py.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import stat
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import inventory

SCHEMA = 1
CHUNK = 1 << 20  # bytes
THREADS = 4
FILE, LINK, FOLDER = "file", "link", "folder"
CLOSED = "closed"  # stands for the hash of a file that not everybody may read
# Staging may take away set-uid and the right to write, and give the owner the right to read.
MODE = {FILE: 0o155, LINK: 0, FOLDER: 0o055}
# Path -> why it says nothing about the image.
EXCLUDED: Dict[str, str] = {
    "proc": "the kernel's",
    "sys": "the kernel's",
    "dev": "the node's devices",
    "run": "the node's",
    "tmp": "the node's or the run's own",
    "var/tmp": "the node's or the run's own",
    "home": "home directories are put there",
    "root": "home directories are put there",
    "lib/modules": "udocker binds the node's kernel modules",
    "usr/lib/modules": "udocker binds the node's kernel modules",
    "etc/passwd": "runtimes add the user",
    "etc/group": "runtimes add the user's groups",
    "etc/hosts": "runtimes bind the node's",
    "etc/hostname": "runtimes bind the node's",
    "etc/host.conf": "udocker binds the node's",
    "etc/resolv.conf": "runtimes bind the node's",
    "etc/localtime": "Apptainer binds the node's",
    "usr/share/zoneinfo": "Apptainer binds the node's, where /etc/localtime leads there",
    "etc/machine-id": "Charliecloud binds the node's",
    "etc/mtab": "runtimes link it to the kernel's list of mounts",
    "etc/udev/devices": "udocker leaves it out",
    ".singularity.d": "Apptainer's own",
    "singularity": "Apptainer's own",
    "environment": "Apptainer's own",
    ".exec": "Apptainer's own",
    ".run": "Apptainer's own",
    ".shell": "Apptainer's own",
    ".test": "Apptainer's own",
    "ch": "Charliecloud's own",
    ".bind_host_files": "udocker's own",
    ".udocker": "udocker's own",
    ".dockerenv": "Docker's own",
    "lost+found": "the file system's own",
}


class Entry(NamedTuple):
    """One name in the tree. `content` is a file's sha256 (hex, or CLOSED), or a link's target."""

    kind: str
    mode: int
    size: int
    content: str


Progress = Callable[[int, int, int, int], None]  # files, bytes, of files, of bytes


def hash_tree(entries: Mapping[str, Entry]) -> str:
    """Return "sha256:..." of the entries, which go by their paths below the root, 'usr/bin/env'."""
    leading = set()
    for path, entry in entries.items():
        while entry.kind != FOLDER and "/" in path:
            path = path.rpartition("/")[0]
            if path in leading:
                break
            leading.add(path)
    total = hashlib.sha256()
    for name, path in sorted((encode(path), path) for path in entries):
        entry = entries[path]
        if entry.kind != FOLDER or path in leading:
            mode = entry.mode & MODE[entry.kind]
            size = entry.size if entry.kind == FILE and entry.content != CLOSED else 0
            line = "\0%s\0%o\0%d\0%s\n" % (entry.kind, mode, size, entry.content)
            total.update(name + encode(line))
    return "sha256:" + total.hexdigest()


def hash_parts(entries: Mapping[str, Entry]) -> Dict[str, str]:
    """Return the hash of the tree below each name at the top."""
    parts: Dict[str, Dict[str, Entry]] = {}
    for path, entry in entries.items():
        parts.setdefault(path.partition("/")[0], {})[path] = entry
    hashes = {name: hash_tree(part) for name, part in sorted(parts.items())}
    return {name: value for name, value in hashes.items() if value != hash_tree({})}


def is_closed(kind: str, mode: int) -> bool:
    """Return whether not everybody may read it, so that some form hides it from the user."""
    return bool((kind == FILE and not mode & 0o004) or (kind == FOLDER and mode & 0o005 != 0o005))


def report(
    entries: Mapping[str, Entry],
    contents: Mapping[str, bytes],
    exclusions: Iterable[Tuple[str, str]],
    unreadable: Iterable[str],
) -> Dict[str, Any]:
    """Return the survey, from the entries of a folder or of an archive."""
    files = [entry for entry in entries.values() if entry.kind == FILE]
    return {
        "schema": SCHEMA,
        "tree": hash_tree(entries),
        "files": len(files),
        "bytes": sum(entry.size for entry in files),
        "parts": hash_parts(entries),
        "exclusions": [{"path": path, "reason": why} for path, why in sorted(exclusions)],
        "unreadable": sorted(unreadable),
        **inventory.gather_facts(set(entries), contents),
    }


def survey_folder(
    root: str, exclude: Iterable[str] = (), progress: Optional[Progress] = None
) -> Dict[str, Any]:
    """Return the survey of a folder; `exclude` are absolute paths as seen from its inside."""
    walk = Walk(root, exclude)
    walk.list_entries()
    walk.read(progress or (lambda *numbers: None))
    return report(walk.entries, walk.contents, walk.exclusions.items(), walk.unreadable)


class Walk:
    """One pass over a folder: first every name, then every content."""

    def __init__(self, root: str, exclude: Iterable[str]) -> None:
        self.root = os.path.abspath(root)
        self.excluded = dict(EXCLUDED)
        self.excluded.update((path.strip("/"), "a bind of this job") for path in exclude)
        self.entries: Dict[str, Entry] = {}
        self.contents: Dict[str, bytes] = {}
        self.exclusions: Dict[str, str] = {}
        self.unreadable: List[str] = []
        self.files: List[Tuple[str, int]] = []
        self.mounts, self.devices = self.find_mounts()

    def join_path(self, name: str) -> bytes:
        return os.path.join(encode(self.root), encode(name)) if name else encode(self.root)

    def find_mounts(self) -> Tuple[set, set]:  # type: ignore[type-arg]
        """Return the paths below the root that are foreign mounts, and the root's own devices.

        An image may itself be mounted in parts (Singularity's underlay): each part comes from its
        own path below one folder. PRoot shows the node's mounts, which are not there at all: a
        row counts only if the path really is on that device.
        """
        rows = []
        for line in read_lines("/proc/self/mountinfo"):
            fields = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), line).split(" ")
            point = os.path.relpath(fields[4], self.root)
            if point != ".." and not point.startswith("../"):
                point = "" if point == "." else point
                try:
                    device = os.lstat(self.join_path(point)).st_dev
                except OSError:
                    continue
                if fields[2] == "%d:%d" % (os.major(device), os.minor(device)):
                    rows.append((point, device, fields[3].rstrip("/")))
        own, mounts, devices = "", set(), {os.stat(self.root).st_dev}
        for point, _, source in rows:
            if point == "" or (point == "usr" and source.endswith("/usr")):
                own = source[: len(source) - len(point)].rstrip("/")
        for point, device, source in rows:
            if point and source != own + "/" + point:
                mounts.add(point)
            else:
                devices.add(device)
        return mounts, devices

    def list_entries(self) -> None:
        """Note every name below the root that belongs to the tree."""
        folders = [""]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(self.join_path(folder)) as listing:
                    children = [
                        (child.name.decode("utf-8", "surrogateescape"), child) for child in listing
                    ]
            except OSError:
                self.unreadable.append(folder or "/")
                continue
            for name, child in children:
                path = folder + "/" + name if folder else name
                if path in self.excluded or path in self.mounts:
                    self.exclusions[path] = self.excluded.get(path, "something else is mounted")
                elif self.add(path, child.stat(follow_symlinks=False)):
                    folders.append(path)

    def add(self, path: str, status: os.stat_result) -> bool:
        """Note an entry; return whether it is a folder to list."""
        if stat.S_ISLNK(status.st_mode):
            target = os.readlink(self.join_path(path)).decode("utf-8", "surrogateescape")
            self.entries[path] = Entry(LINK, 0, 0, target)
        elif stat.S_ISREG(status.st_mode):
            closed = is_closed(FILE, status.st_mode)
            self.entries[path] = Entry(FILE, status.st_mode, status.st_size, CLOSED)
            if closed:
                self.unreadable.append(path)
            else:
                self.files.append((path, status.st_size))
        elif stat.S_ISDIR(status.st_mode):
            if status.st_dev not in self.devices:
                self.exclusions[path] = "something else is mounted"
            elif is_closed(FOLDER, status.st_mode):
                self.unreadable.append(path)
            else:
                self.entries[path] = Entry(FOLDER, status.st_mode, 0, "")
                return True
        return False

    def read(self, progress: Progress) -> None:
        """Hash the files, in threads: hashing and reading let others run."""
        of_bytes = sum(size for _, size in self.files)
        waiting = sorted(self.files, key=lambda file: file[1])  # the largest are taken first
        done = [[0, 0] for _ in range(THREADS)]

        def hash_files(own_count: List[int]) -> None:
            buffer = memoryview(bytearray(CHUNK))
            while True:
                try:
                    path, size = waiting.pop()
                except IndexError:
                    return
                self.hash_file(path, size, buffer)
                own_count[0] += 1
                own_count[1] += size

        threads = [
            threading.Thread(target=hash_files, args=(own_count,), daemon=True)
            for own_count in done
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(1)
                files, size = map(sum, zip(*done))
                progress(files, size, len(self.files), of_bytes)
        progress(len(self.files), of_bytes, len(self.files), of_bytes)

    def hash_file(self, path: str, size: int, buffer: memoryview) -> None:
        total, length = hashlib.sha256(), 0
        content = bytearray() if inventory.needs_content(path, size) else None
        try:
            handle = os.open(self.join_path(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with open(handle, "rb", buffering=0) as file:
                while True:
                    count = file.readinto(buffer)
                    if not count:
                        break
                    total.update(buffer[:count])
                    length += count
                    if content is not None:
                        content += buffer[:count]
                    if count < len(buffer) and length >= size:
                        break
        except OSError:
            self.unreadable.append(path)
            return
        # The mode stays; the size is the number of bytes read.
        self.entries[path] = self.entries[path]._replace(size=length, content=total.hexdigest())
        if content is not None:
            self.contents[path] = inventory.reduce_content(path, bytes(content))


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def read_lines(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().splitlines()
    except OSError:
        return []


def write_json(path: str, value: Any) -> None:
    """Write JSON atomically."""
    with open(path + ".part", "w", encoding="ascii") as file:
        json.dump(value, file, indent=1, sort_keys=True)
    os.replace(path + ".part", path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root")
    parser.add_argument("--output", required=True, help="where the JSON goes")
    parser.add_argument("--exclude", action="append", default=[], metavar="PATH")
    parser.add_argument("--progress", metavar="FILE", help="rewritten each second")
    options = parser.parse_args()
    if not os.path.isdir(options.root):
        print("There is no folder %s to survey." % options.root, file=sys.stderr)
        return 2

    def write_progress(files: int, size: int, of_files: int, of_bytes: int) -> None:
        if options.progress:
            numbers = {"files": files, "bytes": size, "of_files": of_files, "of_bytes": of_bytes}
            write_json(options.progress, dict(numbers, time=time.time()))

    write_json(options.output, survey_folder(options.root, options.exclude, write_progress))
    return 0


if __name__ == "__main__":
    sys.exit(main())
