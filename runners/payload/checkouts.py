"""Of which git checkouts the files of a program are, and what in them is not as it was committed.

Git itself is not called: its configuration in a folder may name programs that it then starts. The
files below `.git` are read: HEAD and its branch for the commit, the index for the files that have
changed since, and what git keeps of these for the text of the changes. What was staged and not
committed, and files that git does not know, are not seen.
"""

from __future__ import annotations

import os
import re
import stat
import struct
from typing import Any, Dict, Iterable, Iterator, List, Tuple

from .loaded import measure_own_seconds

MOST_CHECKOUTS = 3
MOST_ENTRIES = 50_000
MOST_INDEX_BYTES = 16 << 20
MOST_SECONDS = 0.05  # for each checkout
MOST_NAMED = 50
LARGEST = 1 << 20
"""Bytes of a file that is read to see whether only its time is another one."""
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
IS_LINK = 0o120000
Change = Tuple[str, int, bytes]
ENTRY = struct.Struct(">10I20sH")


def describe_checkouts(
    paths: Iterable[str], *, with_patches: bool = True
) -> Dict[str, Dict[str, Any]]:
    """Return the checkouts that hold these files, by their folders; {} if none does.

    `with_patches` also the text of what has changed in them, as far as is recorded.
    """
    checkouts: Dict[str, Dict[str, Any]] = {}
    spent_bytes, spent_seconds = 0, 0.0
    for path in paths:
        root, git = _find_git(os.path.dirname(os.path.realpath(path)))
        if git and root not in checkouts and len(checkouts) < MOST_CHECKOUTS:
            facts, changes = _find_changes(root, git)
            checkouts[root] = {**_read_commit(git), **facts}
            if changes and with_patches:
                from . import git_changes  # which most runs would compile for nothing

                room = git_changes.MOST_BYTES - spent_bytes
                seconds = git_changes.MOST_SECONDS - spent_seconds
                began = measure_own_seconds()
                text = git_changes.write_patch(root, _find_common(git), changes, room, seconds)
                spent_bytes += len(text.get("patch", "").encode())
                spent_seconds += measure_own_seconds() - began
                checkouts[root].update(text)
    return checkouts


def _find_git(folder: str) -> Tuple[str, str]:
    """Return the checkout that holds a folder, and where its git folder is; "" if none does."""
    while folder:
        git = os.path.join(folder, ".git")
        if os.path.isdir(git):
            return folder, git
        if os.path.isfile(git):  # of a worktree or a submodule
            other = _read(git).partition("gitdir:")[2].strip()
            return folder, os.path.join(folder, other) if other else ""
        folder = folder.rpartition("/")[0]
    return "", ""


def _read_commit(git: str) -> Dict[str, Any]:
    """Return the commit that HEAD names, and its branch if it is on one."""
    head = _read(os.path.join(git, "HEAD")).strip()
    if not head.startswith("ref:"):
        return {"commit": head} if COMMIT.fullmatch(head) else {}
    name = head[4:].strip()
    common = _find_common(git)
    commit = "" if ".." in name else _read(os.path.join(common, name)).strip()
    for line in "" if commit else _read(os.path.join(common, "packed-refs"), LARGEST).splitlines():
        if line.endswith(" " + name):
            commit = line.partition(" ")[0]
    branch = {"branch": name.partition("refs/heads/")[2] or name}
    return {**branch, "commit": commit} if COMMIT.fullmatch(commit) else branch


def _find_common(git: str) -> str:
    """Return the git folder that all worktrees of a repository share."""
    return os.path.join(git, _read(os.path.join(git, "commondir")).strip() or ".")


def _find_changes(root: str, git: str) -> Tuple[Dict[str, Any], List[Change]]:
    """Return how many of the files that git knows are not as they are in its index, and which."""
    began = measure_own_seconds()
    changes: List[Change] = []
    try:
        for count, entry in enumerate(_read_index(os.path.join(git, "index"))):
            if count % 64 == 0 and measure_own_seconds() - began > MOST_SECONDS:
                return {"not_compared": "there was no time to compare its files"}, []
            name, size, moment, mode, digest = entry
            if _has_changed(os.path.join(root, name), size, moment, mode, digest):
                changes.append((name, mode, digest))
    except (OSError, ValueError, struct.error, IndexError) as error:
        return {"not_compared": str(error)[:200]}, []
    names = [name for name, _, _ in changes[:MOST_NAMED]]
    return {"changed": len(changes), "changed_files": names}, changes


def _has_changed(path: str, size: int, moment: Tuple[int, int], mode: int, digest: bytes) -> bool:
    """Return whether a file is another one; `moment` is its time in seconds and nanoseconds."""
    try:
        now = os.lstat(path)
    except (OSError, ValueError):
        return True
    if mode & 0o170000 == IS_LINK or not stat.S_ISREG(now.st_mode):
        return mode & 0o170000 != stat.S_IFMT(now.st_mode) and mode & 0o170000 != 0o160000
    if now.st_size & 0xFFFFFFFF != size:
        return True
    seconds, nanoseconds = divmod(now.st_mtime_ns, 10**9)
    is_of_then = seconds & 0xFFFFFFFF == moment[0]
    # Within the second of a commit a file may be written again. Not all know the nanoseconds.
    if now.st_size > LARGEST or (is_of_then and moment[1] in (0, nanoseconds)):
        return not is_of_then
    import hashlib

    with open(path, "rb") as file:
        content = file.read(LARGEST + 1)
    blob = b"blob %d\0" % len(content) + content
    return hashlib.sha1(blob).digest() != digest


def _read_index(path: str) -> Iterator[Tuple[str, int, Tuple[int, int], int, bytes]]:
    """Yield name, size, time, mode and hash of each file in git's index, of versions 2 and 3."""
    if not os.path.isfile(path):
        raise ValueError("it has no index")
    with open(path, "rb") as file:
        content = file.read(MOST_INDEX_BYTES + 1)
    kind, version, count = struct.unpack_from(">4sII", content)
    if kind != b"DIRC" or version not in (2, 3):
        raise ValueError("its index has another form")
    if len(content) > MOST_INDEX_BYTES or count > MOST_ENTRIES:
        raise ValueError("its index is too large")
    position = 12
    for _ in range(count):
        fields = ENTRY.unpack_from(content, position)
        begin = position + ENTRY.size + (2 if fields[11] & 0x4000 else 0)
        end = content.index(b"\0", begin)
        name = content[begin:end].decode("utf-8", "surrogateescape")
        yield name, fields[9], (fields[2], fields[3]), fields[6], fields[10]
        position += (end - position + 8) // 8 * 8


def _read(path: str, most: int = 4096) -> str:
    try:
        if not os.path.isfile(path):  # opening a FIFO would wait for its other end
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(most)
    except (OSError, ValueError):
        return ""
