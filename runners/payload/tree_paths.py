"""Paths of an image's unpacked files, as they lead in the image: links from the root stay in it."""

from __future__ import annotations

import glob
import os
from typing import List, Set

MOST_LINKS = 40
USUAL = ("/usr/local/lib", "/lib", "/usr/lib", "/lib64", "/usr/lib64")


class NoTree(Exception):
    """The files cannot be run so; people read the message."""


def resolve(root: str, path: str) -> str:
    """Return the path inside of `root`, "/usr/bin/x", that a path leads to. Raises NoTree.

    Links that lead from the root stay in `root`, wherever they lead.
    """
    left = [part for part in path.split("/") if part not in ("", ".")]
    reached: List[str] = []
    links = 0
    while left:
        part = left.pop(0)
        if part == "..":
            reached = reached[:-1]
            continue
        here = os.path.join(root, *reached, part)
        if os.path.islink(here):
            links += 1
            if links > MOST_LINKS:
                raise NoTree("In the image %s leads from link to link, without an end." % path)
            target = os.readlink(here)
            if target.startswith("/"):
                reached = []
            left = [piece for piece in target.split("/") if piece not in ("", ".")] + left
        else:
            reached.append(part)
    return "/" + "/".join(reached)


def list_library_folders(root: str) -> List[str]:
    """Return the folders in `root` in which the image's loader would look, in its order."""
    folders: List[str] = []
    read_configuration(root, "/etc/ld.so.conf", folders, set())
    for usual in USUAL:
        matches = sorted(glob.glob(root + resolve(root, usual) + "/*-linux-*"))
        folders += [match[len(root) :] for match in matches if os.path.isdir(match)]
        folders.append(usual)
    found: List[str] = []
    for folder in folders:
        path = root + resolve(root, folder)
        if os.path.isdir(path) and path not in found and ":" not in path:
            found.append(path)
    return found


def read_configuration(root: str, path: str, folders: List[str], seen: Set[str]) -> None:
    """Add the folders that a file of the loader names, and the files that it includes."""
    try:
        real = root + resolve(root, path)
        if real in seen or len(seen) > 1000:
            return
        seen.add(real)
        with open(real, encoding="utf-8", errors="replace") as file:
            lines = file.read(1 << 20).splitlines()
    except (OSError, NoTree):
        return
    for line in lines:
        words = line.partition("#")[0].split()
        if words[:1] == ["include"]:
            for pattern in words[1:]:
                pattern = os.path.join(os.path.dirname(path), pattern)
                for match in sorted(glob.glob(root + pattern)):
                    read_configuration(root, match[len(root) :], folders, seen)
        elif words and words[0].startswith("/"):
            folders.append(words[0])
