"""Make programs that run an image's own files outside of a container: `python3 own_tree.py ...`.

    python3 own_tree.py FOLDER PYTHON [--tree HASH]

FOLDER/root holds the image's files, as they were unpacked; their hash must be HASH. FOLDER becomes
a virtual environment: its bin/python starts the image's interpreter PYTHON by the image's own
loader, with the image's folders of libraries. FOLDER/run does so with any program of the image:
`run /usr/bin/hello`. Links that lead from the image's root lead into FOLDER/root afterwards.

Nothing else is as in a container: programs that these start, and paths that they have built in,
are the node's; libraries that the image lacks, such as the GPU's driver, are looked for there.
"""

from __future__ import annotations

import argparse
import glob
import os
import shlex
import subprocess
import sys
from typing import List, Set, Tuple

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import survey
from .elf import read_elf

MOST_LINKS = 40
PATH = ("/opt/tare/bin", "/usr/local/bin", "/usr/bin", "/bin")
"""Where an interpreter is looked for whose path in the image nobody knows."""
USUAL = ("/usr/local/lib", "/lib", "/usr/lib", "/lib64", "/usr/lib64")
LAUNCHER = """#!/bin/sh
# The image's own interpreter, by its own loader and libraries, outside of a container.
exec {loader} --library-path {libraries} --argv0 {name} {program} "$@"
"""
RUN = """#!/bin/sh
# A program of the image, by its own loader and libraries, outside of a container.
program=$1
shift
exec {loader} --library-path {libraries} --argv0 "$program" {root}"$program" "$@"
"""


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


def turn_links(root: str) -> int:
    """Let each link from the root lead to the same place in `root`; return how many there were."""
    count = 0
    for folder, names, files in os.walk(root):
        for name in [*names, *files]:
            path = os.path.join(folder, name)
            if os.path.islink(path) and os.readlink(path).startswith("/"):
                inside = "/" + os.path.relpath(path, root)
                target = root + resolve(root, inside)
                os.unlink(path)
                os.symlink(os.path.relpath(target, folder), path)
                count += 1
    return count


def find_loader(root: str, program: str) -> str:
    """Return the loader that a program of the image names, in `root`. Raises NoTree."""
    try:
        with open(root + program, "rb") as file:
            elf = read_elf(file)
    except OSError:
        raise NoTree("There is no %s in the image." % program) from None
    if elf is None or not elf.interpreter.startswith("/"):
        raise NoTree("%s in the image is no program that a loader starts." % program)
    loader = root + resolve(root, elf.interpreter)
    try:
        done = subprocess.run(
            [loader, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as problem:
        raise NoTree("The image's loader does not start on this node: %s" % problem) from None
    if b"--argv0" not in done.stdout:
        raise NoTree(
            "The image's loader is too old: it cannot say under which name a program runs, which "
            "glibc can since 2.33."
        )
    return loader


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


def find_python(root: str, python: str) -> str:
    """Return the path of the image's interpreter; of a name, in its usual folders."""
    if python.startswith("/"):
        return python
    for folder in PATH:
        try:
            path = resolve(root, "%s/%s" % (folder, python))
        except NoTree:
            continue
        if os.path.isfile(root + path):
            return "%s/%s" % (folder, python)
    raise NoTree("There is no %s in the image." % python)


def find_virtual_environment(root: str, python: str) -> Tuple[str, bool]:
    """Return the virtual environment of an interpreter, "" without one, and what it includes.

    That is, whether the packages of the interpreter that it was made from are found in it.
    """
    folder = os.path.dirname(os.path.dirname(python))
    try:
        with open(root + resolve(root, folder + "/pyvenv.cfg"), encoding="utf-8") as file:
            lines = [line.partition("=") for line in file.read(1 << 16).splitlines()]
    except (OSError, UnicodeDecodeError):
        return "", True
    settings = {name.strip(): value.strip().lower() for name, _, value in lines}
    return folder, settings.get("include-system-site-packages") == "true"


def make_programs(folder: str, python: str) -> None:
    """Write bin/python, run and what makes `folder` a virtual environment. Raises NoTree."""
    root = folder + "/root"
    python = find_python(root, python)
    environment, includes_system = find_virtual_environment(root, python)
    program = resolve(root, python)
    loader = find_loader(root, program)
    libraries = ":".join(list_library_folders(root))
    name = folder + "/bin/python"
    os.makedirs(folder + "/bin")
    values = {"loader": loader, "libraries": libraries, "name": name, "root": root}
    quoted = {key: shlex.quote(value) for key, value in values.items()}
    write(name, LAUNCHER.format(program=shlex.quote(root + program), **quoted))
    write(folder + "/run", RUN.format(**quoted))
    if environment:
        os.symlink(os.path.relpath(root + environment + "/lib", folder), folder + "/lib")
    settings = "home = %s\ninclude-system-site-packages = %s\n"
    home = os.path.dirname(root + program)
    write(folder + "/pyvenv.cfg", settings % (home, str(includes_system).lower()), 0o644)


def write(path: str, text: str, mode: int = 0o755) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


def main(arguments: List[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("python")
    parser.add_argument("--tree", default="", metavar="HASH")
    options = parser.parse_args(arguments)
    root = options.folder + "/root"
    if options.tree and survey.survey_folder(root).get("tree") != options.tree:
        print("The unpacked files are not those of the image: nothing of them was kept.")
        return 1
    try:
        print("%d links lead into the tree now." % turn_links(root))
        make_programs(options.folder, options.python)
    except NoTree as problem:
        print(problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
