"""The files of a data set: what its digest is, and whether a copy still holds them.

`data_files.py hash ROOT MANIFEST` reads all files, `check` looks at their sizes and times, and
`prove` does either before a job. Runs on the node, outside of containers. Names need not be UTF-8.

The digest of a file is its sha256. That of a folder is the sha256 of a line for each file, in the
order of the paths' bytes: path below the folder, NUL, size in decimal digits, NUL, sha256 in hex
digits, line feed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import stat
import sys
import time
from typing import Any, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple

MOST_FILES = 1_000_000
MOST_DEPTH = 64  # folders within each other
CHUNK = 4 * 2**20
PAUSE = 5.0  # s between two notes on how far it is
FIRST_DIFFERENCES = 5
"""As many differing files are named."""
HASH = re.compile(r"[0-9a-f]{64}")
ITSELF = b""
"""The path of the only file of a data set that is one file."""


class Unusable(Exception):
    """The files cannot be a data set, or are not the same any more; the message says why.

    `state` is what the copy is then: "missing", "changed", "failed" where it cannot be used as it
    is, or "" where nothing is known of it and trying again may help.
    """

    def __init__(self, message: str, state: str = "failed") -> None:
        super().__init__(message)
        self.state = state


class Seen(NamedTuple):
    """What a file looks like without reading it."""

    size: int
    modified: int  # ns


class Entry(NamedTuple):
    """A file of a data set, as its manifest has it."""

    size: int
    modified: int
    sha256: str


def list_files(root: bytes) -> Dict[bytes, Seen]:
    """Return the files of a data set by their paths below `root`, sorted. Raises Unusable.

    Links to files inside count as these files. What a container would not show, or not as a file,
    is refused: links that lead out or to folders, pipes, sockets and devices.
    """
    try:
        status = os.stat(root)
    except OSError as error:
        raise Unusable("%s: %s" % (show(root), error.strerror), "missing") from error
    if stat.S_ISREG(status.st_mode):
        return {ITSELF: Seen(status.st_size, status.st_mtime_ns)}
    if not stat.S_ISDIR(status.st_mode):
        raise Unusable("%s is neither a file nor a folder" % show(root))
    files: Dict[bytes, Seen] = {}
    within = os.path.realpath(root) + b"/"
    for path, entry in walk(root):
        name = path[len(root) :].lstrip(b"/")
        files[name] = look_at(path, entry, within)
        if len(files) > MOST_FILES:
            raise Unusable("it has more than %d files" % MOST_FILES)
    if not files:
        raise Unusable("%s holds no file" % show(root))
    return dict(sorted(files.items()))


def walk(root: bytes) -> Iterator[Tuple[bytes, os.DirEntry[bytes]]]:
    """Yield everything below `root` that is no folder. Raises Unusable for what cannot be read."""
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        if depth > MOST_DEPTH:
            raise Unusable("%s lies more than %d folders deep" % (show(folder), MOST_DEPTH))
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append((entry.path, depth + 1))
                    else:
                        yield entry.path, entry
        except OSError as error:
            raise Unusable("%s: %s" % (show(folder), error.strerror)) from error


def look_at(path: bytes, entry: os.DirEntry[bytes], within: bytes) -> Seen:
    """Return size and time of a file inside of the folder `within`. Raises Unusable."""
    try:
        status = entry.stat()
        if entry.is_symlink() and not os.path.realpath(path).startswith(within):
            raise Unusable("%s is a link that leads out of the folder" % show(path))
    except OSError as error:
        raise Unusable("%s: %s" % (show(path), error.strerror)) from error
    if stat.S_ISDIR(status.st_mode):
        raise Unusable("%s is a link to a folder" % show(path))
    if not stat.S_ISREG(status.st_mode):
        raise Unusable("%s is no file, but a pipe, a socket or a device" % show(path))
    return Seen(status.st_size, status.st_mtime_ns)


def hash_files(root: bytes, partial: str, progress: Progress) -> Dict[bytes, Entry]:
    """Return all files with their sha256. Raises Unusable, also if one changes meanwhile.

    What has been read is noted in the file `partial`: after an interruption it goes on from there.
    """
    files = list_files(root)
    known = read_partial(root, partial)
    progress.begin(len(files), sum(seen.size for seen in files.values()))
    entries: Dict[bytes, Entry] = {}
    # Line by line: of the largest files nothing is read twice.
    with open(partial, "w", encoding="ascii", buffering=1) as notes:
        notes.write(json.dumps(os.fsdecode(root)) + "\n")
        for name, seen in files.items():
            entry = known.get(name)
            if entry is None or (entry.size, entry.modified) != seen:
                entry = Entry(*seen, hash_file(place(root, name), seen, progress))
            else:
                progress.add(seen.size)
            notes.write(write_line(name, entry))
            entries[name] = entry
            progress.count_file()
    if list_files(root) != files:
        raise Unusable("files were added, removed or changed while it was read: try again", "")
    return entries


def hash_file(path: bytes, seen: Seen, progress: Progress) -> str:
    """Return the sha256 of a file, as hex digits. Raises Unusable if it is not as it was `seen`."""
    digest, count = hashlib.sha256(), 0
    try:
        with open(path, "rb", buffering=0) as file:
            while True:
                block = file.read(CHUNK)
                if not block:
                    break
                digest.update(block)
                count += len(block)
                progress.add(len(block))
            status = os.fstat(file.fileno())
    except OSError as error:
        raise Unusable("%s: %s" % (show(path), error.strerror)) from error
    if count != seen.size or Seen(status.st_size, status.st_mtime_ns) != seen:
        raise Unusable("%s changed while it was read: try again" % show(path), "")
    return digest.hexdigest()


def compute_digest(entries: Mapping[bytes, Entry]) -> str:
    """Return the digest of a data set, "sha256:..."."""
    if list(entries) == [ITSELF]:
        return "sha256:" + entries[ITSELF].sha256
    digest = hashlib.sha256()
    for name, entry in sorted(entries.items()):
        digest.update(b"%s\0%d\0%s\n" % (name, entry.size, entry.sha256.encode()))
    return "sha256:" + digest.hexdigest()


def compare_looks(entries: Mapping[bytes, Entry], files: Mapping[bytes, Seen]) -> None:
    """Raise Unusable, naming some files, unless sizes and times are those of the manifest."""
    problems = [show(name) + " is gone" for name in entries.keys() - files.keys()]
    problems += [show(name) + " is new" for name in files.keys() - entries.keys()]
    for name in entries.keys() & files.keys():
        entry, seen = entries[name], files[name]
        if entry.size != seen.size:
            problems.append("%s has %d bytes, not %d" % (show(name), seen.size, entry.size))
        elif entry.modified != seen.modified:
            problems.append("%s was written to since" % show(name))
    refuse_differences(problems)


def refuse_differences(problems: List[str]) -> None:
    """Raise Unusable for a list of differences, if there are any."""
    if problems:
        named = "; ".join(sorted(problems)[:FIRST_DIFFERENCES])
        more = len(problems) - FIRST_DIFFERENCES
        raise Unusable(named + ("; and %d more" % more if more > 0 else ""), "changed")


def write_manifest(path: str, root: bytes, entries: Mapping[bytes, Entry]) -> None:
    """Write the manifest of a copy, wholly or not at all."""
    with open(path + ".new", "w", encoding="ascii") as file:
        file.write(json.dumps(os.fsdecode(root)) + "\n")
        for name, entry in entries.items():
            file.write(write_line(name, entry))
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def write_line(name: bytes, entry: Entry) -> str:
    """Return a file's line in a manifest: JSON in ASCII, other bytes as Python escapes them."""
    return json.dumps([os.fsdecode(name), *entry]) + "\n"


def read_manifest(path: str, root: bytes, digest: str) -> Dict[bytes, Entry]:
    """Return the files of a copy. Raises Unusable unless it is the manifest of that digest."""
    try:
        with open(path, encoding="ascii") as file:
            if json.loads(file.readline()) != os.fsdecode(root):
                raise ValueError("it is of another folder")
            entries = dict(map(read_line, file))
    except OSError as error:
        raise Unusable(
            "the list of its files, %s, cannot be read (%s): check the copy in full"
            % (path, error.strerror)
        ) from error
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Unusable("the list of its files, %s, is damaged: %s" % (path, error)) from error
    if compute_digest(entries) != digest:
        raise Unusable("the list of its files, %s, is of another data set" % path)
    return entries


def read_line(line: str) -> Tuple[bytes, Entry]:
    """Return the file of a manifest's line. Raises ValueError."""
    name, size, modified, sha256 = json.loads(line)
    if not (isinstance(name, str) and isinstance(sha256, str) and HASH.fullmatch(sha256)):
        raise ValueError("a line has another form")
    return os.fsencode(name), Entry(int(size), int(modified), sha256)


def read_partial(root: bytes, path: str) -> Dict[bytes, Entry]:
    """Return what an interrupted reading of the same folder has noted; its last line may be cut."""
    known: Dict[bytes, Entry] = {}
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            if json.loads(file.readline()) == os.fsdecode(root):
                known.update(map(read_line, file))
    except (OSError, ValueError, TypeError, OverflowError, RecursionError):
        pass
    return known


def place(root: bytes, name: bytes) -> bytes:
    """Return the path of a file of the data set at `root`."""
    return os.path.join(root, name) if name else root


def show(path: bytes) -> str:
    """Return a path as people can read it on one line, of at most 300 characters."""
    text = os.fsdecode(path).encode("ascii", "backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return text if len(text) <= 300 else text[:297] + "..."


class Progress:
    """Notes in the job's journal, as a step's, how far the reading is."""

    def __init__(self, journal: str = "") -> None:
        self.journal, self.files, self.bytes = journal, 0, 0
        self.all_files = self.all_bytes = 0
        self.noted_at = time.monotonic()

    def begin(self, files: int, size: int) -> None:
        self.all_files, self.all_bytes = files, size

    def count_file(self) -> None:
        self.files += 1

    def add(self, size: int) -> None:
        self.bytes += size
        if self.journal and time.monotonic() - self.noted_at >= PAUSE:
            self.noted_at = time.monotonic()
            self.note()

    def note(self) -> None:
        """Append a line to the journal."""
        doing = "Reading its files: %d of %d, %.1f of %.1f GB" % (
            self.files,
            self.all_files,
            self.bytes / 1e9,
            self.all_bytes / 1e9,
        )
        line = {"time": time.time(), "event": "step", "doing": doing, "number": 1, "of": 1}
        with open(self.journal, "a", encoding="ascii") as file:
            file.write(json.dumps(line) + "\n")


def describe(entries: Mapping[bytes, Entry]) -> Dict[str, Any]:
    """Return what is known of a data set whose files have all been read."""
    return {
        "digest": compute_digest(entries),
        "files": len(entries),
        "bytes": sum(entry.size for entry in entries.values()),
        "is_file": list(entries) == [ITSELF],
    }


def read_all(root: bytes, manifest: str, expected: str, progress: Progress) -> Dict[str, Any]:
    """Read all files and write the manifest; return what they are. Raises Unusable.

    With an `expected` digest, files that have another are refused and leave the manifest alone.
    """
    os.makedirs(os.path.dirname(manifest), exist_ok=True)
    entries = hash_files(root, manifest + ".part", progress)
    described = describe(entries)
    if expected and described["digest"] != expected:
        os.unlink(manifest + ".part")
        raise Unusable(
            "its digest is %s, and that of the data set is %s" % (described["digest"], expected),
            "changed",
        )
    write_manifest(manifest, root, entries)
    os.unlink(manifest + ".part")
    return described


def check_looks(root: bytes, manifest: str, expected: str) -> Dict[str, Any]:
    """Compare sizes and times with the manifest; return what the files are. Raises Unusable."""
    files = list_files(root)
    entries = read_manifest(manifest, root, expected)
    compare_looks(entries, files)
    return describe(entries)


def main(arguments: Optional[List[str]] = None) -> int:
    """Do what is asked for, and write what is known into the file OUTPUT as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("hash", "check", "prove"))
    parser.add_argument("root")
    parser.add_argument("manifest")
    parser.add_argument("output")
    parser.add_argument("--digest", default="")
    parser.add_argument("--full", action="store_true", help="read all files before a job")
    asked = parser.parse_args(arguments)
    root, began = os.fsencode(asked.root.rstrip("/") or "/"), time.monotonic()
    try:
        if asked.what == "hash":
            found = read_all(root, asked.manifest, asked.digest, Progress("journal.ndjson"))
        elif asked.what == "prove" and asked.full:
            entries = prove_in_full(root, asked.manifest, asked.digest)
            found = {**describe(entries), "proof": "hashes"}
        else:
            found = {**check_looks(root, asked.manifest, asked.digest), "proof": "sizes and times"}
    except Unusable as problem:
        if asked.what != "prove":  # whose only answer is that all is well
            leave(asked.output, {"state": problem.state, "problem": str(problem)})
        print(problem)
        return 1
    found["seconds"] = round(time.monotonic() - began, 3)
    leave(asked.output, found)
    return 0


def prove_in_full(root: bytes, manifest: str, expected: str) -> Dict[bytes, Entry]:
    """Return all files after they have been read again; the manifest stays as it is."""
    entries = read_manifest(manifest, root, expected)
    files = list_files(root)
    refuse_differences(
        [show(name) + " is gone" for name in entries.keys() - files.keys()]
        + [show(name) + " is new" for name in files.keys() - entries.keys()]
    )
    progress = Progress()
    refuse_differences(list(find_differing(root, entries, files, progress)))
    return entries


def find_differing(
    root: bytes,
    entries: Mapping[bytes, Entry],
    files: Mapping[bytes, Seen],
    progress: Progress,
) -> Iterable[str]:
    """Yield a sentence on each file whose content is not that of the manifest."""
    for name, entry in entries.items():
        if entry.size != files[name].size:
            yield "%s has %d bytes, not %d" % (show(name), files[name].size, entry.size)
        elif hash_file(place(root, name), files[name], progress) != entry.sha256:
            yield "%s has other content" % show(name)


def leave(path: str, document: Dict[str, Any]) -> None:
    """Write a document as JSON: whoever finds the file finds all of it."""
    with open(path + ".part", "w", encoding="ascii") as file:
        json.dump(document, file)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    sys.exit(main())
