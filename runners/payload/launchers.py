"""Launchers of an image's programs outside of a container: a file in FOLDER/bin for each.

A launcher is a shell script whose lines 2 and 3 name the program and what lists its libraries, as
seen from FOLDER, so that a run's record has the program itself. A static program is a link.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import Dict, List, Tuple

from . import pack
from .elf import read_elf
from .image_archive import Archive
from .manifests import BadImage
from .programs import split_first_line
from .tree_paths import NoTree, list_library_folders, resolve

USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_PROGRAMS = 20_000
MOST_SCRIPTS = 4  # of which each is the interpreter of the one before: as many as Linux allows
LAUNCHER = """#!/bin/sh
#program {program}
#lister {lister}
exec {command} "$@"
"""
LISTER = """#!/bin/sh
# Lists the libraries of a program of the image, as its own loader finds them: ld --list PROGRAM.
exec {command} "$@"
"""


def read_path(archive: str) -> List[str]:
    """Return the folders in which the image looks for programs, its own PATH before the usual."""
    path = ""
    try:
        with open(archive, "rb") as file:
            machine = os.uname().machine
            config = Archive(file).read_manifest(pack.ARCHITECTURES.get(machine, machine)).config
        variables = (config.get("config") or {}).get("Env") or []
        path = next((row[5:] for row in variables if str(row).startswith("PATH=")), "")
    except (OSError, ValueError, AttributeError, BadImage):
        pass  # a root file system or a SIF file: the usual folders
    folders = [*path.split(":"), *USUAL_PATH.split(":")]
    return list(dict.fromkeys(folder for folder in folders if folder.startswith("/")))


class Tree:
    """The programs of an unpacked image, and how each is started on this node."""

    def __init__(self, folder: str) -> None:
        self.folder, self.root = folder, folder + "/root"
        self._libraries = ":".join(list_library_folders(self.root))
        self._loaders: Dict[str, str] = {}
        self._problem = ""

    def find_command(self, path: str, scripts: int = 0) -> Tuple[List[str], str]:
        """Return what starts a program of the image, and what lists its libraries ("" if nothing).

        `path` is as the image names it: programs with many names go by it. It is the interpreter of
        so many scripts, each of the one before. Raises NoTree.
        """
        real = resolve(self.root, path)
        if scripts > MOST_SCRIPTS:
            raise NoTree("%s in the image is started by one script after another." % path)
        try:
            if not os.path.isfile(self.root + real):
                raise FileNotFoundError(real)  # a pipe would never be read
            with open(self.root + real, "rb") as file:
                start = file.read(256)
                elf = read_elf(file)
        except OSError:
            raise NoTree("There is no %s in the image." % path) from None
        if elf and elf.interpreter:
            loader = resolve(self.root, elf.interpreter)
            command = [self.root + loader, "--library-path", self._libraries]
            return [*command, self.root + path], self._check_loader(loader, command, real)
        if elf and not elf.soname:
            return [self.root + path], ""
        words = split_first_line(start)
        if not words or not words[0].startswith("/") or resolve(self.root, words[0]) == real:
            raise NoTree("%s in the image is no program." % path)
        command, lister = self.find_command(words[0], scripts + 1)
        return [*command, *words[1:], self.root + path], lister

    def _check_loader(self, loader: str, command: List[str], program: str) -> str:
        """Return what lists libraries by a loader. Raises NoTree if it does not start here."""
        if loader not in self._loaders:
            name = "ld-%d" % (len(self._loaders) + 1)
            self._loaders[loader] = ""
            try:
                listing = [*command, "--list", self.root + program]
                subprocess.run(
                    listing, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60
                )
                write_script(
                    self.folder + "/" + name,
                    LISTER.format(command=" ".join(map(shlex.quote, command))),
                )
                self._loaders[loader] = name
            except (OSError, subprocess.SubprocessError) as problem:
                self._problem = "The image's loader does not start on this node: %s" % problem
        if not self._loaders[loader]:
            raise NoTree(self._problem)
        return self._loaders[loader]

    def write_launcher(self, name: str, path: str) -> None:
        """Write the launcher of a program. Raises NoTree if it cannot be started."""
        target = "%s/bin/%s" % (self.folder, name)
        command, lister = self.find_command(path)
        real = "root" + resolve(self.root, path)
        if "\n" in real:  # what follows would be a line of the launcher
            raise NoTree("There is a line's end in the name of %r." % path)
        if command == [self.root + path]:
            os.symlink(os.path.relpath(self.root + path, self.folder + "/bin"), target)
            return
        quoted = " ".join(map(shlex.quote, command))
        write_script(target, LAUNCHER.format(program=real, lister=lister, command=quoted))


def make_launchers(folder: str, path: List[str]) -> int:
    """Write a launcher for each program in the folders of PATH; return how many. Raises NoTree."""
    tree = Tree(folder)
    os.makedirs(folder + "/bin")
    made, why = 0, "There is no program on the image's PATH."
    for place in path:
        try:
            inside = resolve(tree.root, place)
            names = sorted(os.listdir(tree.root + inside))
        except (OSError, NoTree):
            continue
        for name in names[:MOST_PROGRAMS]:
            if os.path.lexists("%s/bin/%s" % (folder, name)) or re.search(r"[\0\n]", name):
                continue
            try:
                real = tree.root + resolve(tree.root, inside + "/" + name)
                if not (os.path.isfile(real) and os.access(real, os.X_OK)):
                    continue
                tree.write_launcher(name, inside + "/" + name)
                made += 1
            except NoTree as problem:
                why = str(problem)
    if not made:
        raise NoTree(why)
    return made


def write_script(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
    os.chmod(path, 0o755)
