"""Make programs that run an image's own files outside of a container: `python3 own_tree.py ...`.

    python3 own_tree.py FOLDER PYTHON [--tree HASH] [--archive FILE]

FOLDER/root holds the image's files, as they were unpacked; their hash must be HASH. FOLDER becomes
a virtual environment: its bin/python starts the image's interpreter PYTHON by the image's own
loader, with the image's folders of libraries. FOLDER/run does so with any program of the image:
`run /usr/bin/hello`. Links that lead from the image's root lead into FOLDER/root afterwards.

With PYTHON `none` FOLDER/bin has a launcher for each program on the image's PATH instead, which the
OCI archive FILE may tell: by the program's own loader, directly if it is static, and by its
interpreter if it is a script. The first lines of a launcher name the program (launchers.py).

Nothing else is as in a container: programs that these start, and paths that they have built in,
are the node's; libraries that the image lacks, such as the GPU's driver, are looked for there.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from typing import List, Tuple

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import launchers, survey
from .elf import read_elf
from .tree_paths import NoTree, list_library_folders, resolve

NONE = "none"
"""Stands for the interpreter of an image that has no Python 3.8 or later."""
PATH = ("/opt/tare/bin", "/usr/local/bin", "/usr/bin", "/bin")
"""Where an interpreter is looked for whose path in the image nobody knows."""
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
    parser.add_argument("--archive", default="", metavar="FILE")
    options = parser.parse_args(arguments)
    root = options.folder + "/root"
    if options.tree and survey.survey_folder(root).get("tree") != options.tree:
        print("The unpacked files are not those of the image: nothing of them was kept.")
        return 1
    try:
        print("%d links lead into the tree now." % turn_links(root))
        if options.python == NONE:
            count = launchers.make_launchers(options.folder, launchers.read_path(options.archive))
            print("%d programs of the image can be started." % count)
        else:
            make_programs(options.folder, options.python)
    except NoTree as problem:
        print(problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
