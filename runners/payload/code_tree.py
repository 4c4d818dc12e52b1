"""The code of a workload on a cluster: unpacked, fetched, proved before each job, and removed.

    python3 code_tree.py unpack FOLDER RESULT ARCHIVE SHA256 DIGEST
    python3 code_tree.py fetch FOLDER RESULT URL COMMIT DIGEST
    python3 code_tree.py check FOLDER RESULT DIGEST      reads all files
    python3 code_tree.py prove FOLDER RESULT DIGEST      the same, with a RESULT only of good code
    python3 code_tree.py remove FOLDER

DIGEST is what it has to have, "" where it is not known yet. RESULT tells what it is, or what is
wrong with it. Nobody may write to the folder afterwards, its owner included, so that no run leaves
anything in it. Runs on the node, outside of containers.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import sys
import time
from typing import Any, Dict, List

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import code_archive, code_fetch
from .code_archive import FILE, FOLDER, LINK, PROGRAM, BadArchive, Member, place_below
from .data_files import show

MOST_PATHS, LONGEST_PATHS = 5_000, 300_000  # entries, and letters of all together
LFS = b"version https://git-lfs.github.com/spec/"
"""How a file of Git LFS begins that was not fetched: a pointer to it."""


class Unusable(Exception):
    """The code cannot be used; `state` is what its copy is then: missing, changed or failed."""

    def __init__(self, message: str, state: str = "failed") -> None:
        super().__init__(message)
        self.state = state


def unpack(path: str, folder: bytes) -> None:
    """Unpack an archive into a new folder. Raises BadArchive."""
    os.mkdir(folder, 0o700)
    with open(path, "rb") as file:
        for entry in code_archive.read_entries(file):
            place = place_below(folder, entry.path)
            if entry.kind == FOLDER:
                os.makedirs(place, 0o700, exist_ok=True)
                continue
            os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
            if entry.kind == LINK:
                os.symlink(entry.target, place)
            elif entry.same_as:
                shutil.copyfile(place_below(folder, entry.same_as), place)
                os.chmod(place, 0o500 if entry.kind == PROGRAM else 0o400)
            else:
                with open(place, "xb") as out:
                    for block in code_archive.iterate_blocks(entry):
                        out.write(block)
                os.chmod(place, 0o500 if entry.kind == PROGRAM else 0o400)


def read_tree(folder: bytes) -> Dict[bytes, Member]:
    """Return the files and links below a folder by their paths. Raises Unusable."""
    members: Dict[bytes, Member] = {}
    folders = [b""]
    while folders:
        below = folders.pop()
        try:
            with os.scandir(place_below(folder, below)) as entries:
                for entry in entries:
                    path = below + b"/" + entry.name if below else entry.name
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    else:
                        members[path] = read_member(entry)
        except FileNotFoundError as error:
            raise Unusable("%s: %s" % (show(folder), error.strerror), "missing") from error
        except OSError as error:
            raise Unusable("%s: %s" % (show(error.filename or folder), error.strerror)) from error
        if len(members) > 2 * code_archive.MOST_ENTRIES:
            raise Unusable("there are files in it that are not of the code", "changed")
    return members


def read_member(entry: os.DirEntry[bytes]) -> Member:
    """Return what counts of a file or link. Raises OSError, or Unusable for what is neither."""
    if entry.is_symlink():
        target = os.readlink(entry.path)
        return Member(LINK, len(target), hashlib.sha256(target).hexdigest())
    if not entry.is_file(follow_symlinks=False):
        raise Unusable("%s is no file" % show(entry.path), "changed")
    digest, size = hashlib.sha256(), 0
    with open(entry.path, "rb", buffering=0) as file:
        mode = os.fstat(file.fileno()).st_mode
        while True:
            block = file.read(code_archive.CHUNK)
            if not block:
                break
            digest.update(block)
            size += len(block)
    return Member(PROGRAM if mode & 0o111 else FILE, size, digest.hexdigest())


def find_pointers(folder: bytes, members: Dict[bytes, Member]) -> List[str]:
    """Return the files that are only pointers of Git LFS."""
    pointers = []
    for path, member in members.items():
        if member.kind == FILE and member.size < 1024:
            with open(place_below(folder, path), "rb") as file:
                if file.read(len(LFS)) == LFS:
                    pointers.append(show(path))
    return sorted(pointers)


def protect(folder: bytes) -> None:
    """Take the right to write from everybody, and give all others the rights of the owner."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                os.chmod(path, 0o555 if status.st_mode & 0o100 else 0o444)
        os.chmod(place, 0o555)


def remove(folder: bytes) -> None:
    """Remove a folder that nobody may write to, if it is there."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        if os.path.lexists(folder):
            os.unlink(folder)
        return
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o700)
    shutil.rmtree(folder)


def describe(members: Dict[bytes, Member]) -> Dict[str, Any]:
    """Return what is known of code whose files have all been read."""
    return {
        "digest": code_archive.compute_digest(members),
        "files": len(members),
        "bytes": sum(row.size for row in members.values() if row.kind != LINK),
    }


def list_all_paths(members: Dict[bytes, Member]) -> List[str]:
    """Return the paths of files, and of links with a "/" behind.

    What lies below a link only the file system knows.
    """
    return sorted(
        path.decode("utf-8", "surrogateescape") + ("/" if member.kind == LINK else "")
        for path, member in members.items()
    )


def list_paths(members: Dict[bytes, Member]) -> List[str]:
    """Return all paths where they are few enough to be kept; else nothing."""
    paths = list_all_paths(members)
    is_short = len(paths) <= MOST_PATHS and sum(map(len, paths)) <= LONGEST_PATHS
    return paths if is_short else []


def keep(partial: bytes, folder: bytes, expected: str) -> Dict[str, Any]:
    """Move what was unpacked to its place, if it is as expected. Raises Unusable."""
    members = read_tree(partial)
    described = describe(members)
    require_digest(described, expected)
    described["pointers"] = find_pointers(partial, members)[:20]
    described["paths"] = list_paths(members)
    protect(partial)
    remove(folder)
    os.rename(partial, folder)
    return described


def require_digest(described: Dict[str, Any], expected: str) -> None:
    """Raise Unusable unless the code has the expected digest; "" expects nothing."""
    if expected and described["digest"] != expected:
        raise Unusable(
            "its digest is %s, and that of the code is %s" % (described["digest"], expected),
            "changed",
        )


def do_unpack(folder: bytes, archive: str, sha256: str, expected: str) -> Dict[str, Any]:
    """Unpack an archive that was sent, and remove it. Raises Unusable or BadArchive."""
    digest = hashlib.sha256()
    with open(archive, "rb") as file:
        for block in iter(lambda: file.read(code_archive.CHUNK), b""):
            digest.update(block)
    if digest.hexdigest() != sha256:
        raise Unusable("the archive came with the sha256 %s, not %s" % (digest.hexdigest(), sha256))
    partial = make_partial(folder)
    try:
        unpack(archive, partial)
        return keep(partial, folder, expected)
    finally:
        remove(partial)
        os.unlink(archive)


def do_fetch(folder: bytes, url: str, commit: str, expected: str) -> Dict[str, Any]:
    """Fetch a commit, and unpack what git makes an archive of. Raises Unusable or BadArchive."""
    partial, repository = make_partial(folder), folder + b".git-partial"
    remove(repository)
    try:
        archive, submodules = code_fetch.fetch(os.fsdecode(repository), url, commit)
        unpack(archive, partial)
        return {**keep(partial, folder, expected), "submodules": submodules}
    except code_fetch.NotFetched as error:
        raise Unusable(str(error)) from error
    finally:
        remove(partial)
        remove(repository)


def make_partial(folder: bytes) -> bytes:
    """Return where the code is unpacked first, with nothing there, beside its place."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    partial = folder + b".partial"
    remove(partial)
    return partial


def check(folder: bytes, expected: str) -> Dict[str, Any]:
    """Read all files; return what they are. Raises Unusable."""
    began = time.monotonic()
    described = describe(read_tree(folder))
    require_digest(described, expected)
    return {**described, "seconds": round(time.monotonic() - began, 3)}


ACTIONS = {"unpack": do_unpack, "fetch": do_fetch, "check": check, "prove": check}


def main(arguments: List[str]) -> int:
    """Do what the arguments say; return the exit code. What is wrong is printed, on one line."""
    action, folder = arguments[0], os.fsencode(arguments[1])
    if action == "remove":
        remove(folder)
        return 0
    problem = ""
    result: Dict[str, Any] = {}
    try:
        result = ACTIONS[action](folder, *arguments[3:])  # type: ignore[operator]
    except (Unusable, BadArchive) as error:
        problem, state = str(error), getattr(error, "state", "failed")
    except OSError as error:
        problem, state = "%s: %s" % (show(os.fsencode(error.filename or "")), error.strerror), ""
    if problem:
        print(problem, file=sys.stderr)
        result = {"problem": problem, "state": state}
    if not problem or action != "prove":
        with open(arguments[2] + ".new", "w", encoding="ascii") as file:
            json.dump(result, file)
        os.rename(arguments[2] + ".new", arguments[2])
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
