"""Unpack an OCI archive: `python3 unpack.py ARCHIVE FOLDER`, for clusters without other tools.

Every digest is checked. The first pass plans which member of which layer each path comes from, the
second writes them: no path ever leads through a link, so none leads out of the folder.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
from typing import IO, BinaryIO, Dict, List, Optional, Tuple

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import layers
from .image_archive import Archive, Layer, clean_name
from .manifests import BadImage
from .merged_tree import Node, Tree

Member = Tuple[int, int]  # number of the layer, number of the member in it


def unpack(archive: str, folder: str) -> None:
    """Write the merged layers into a new folder. Raises BadImage."""
    with open(archive, "rb") as file:
        manifest = Archive(file).read_manifest(*find_platform())
        tree = plan(file, manifest.layers)
        files: Dict[Member, List[str]] = {}
        folders: List[Tuple[str, int]] = []
        links: List[Tuple[str, str]] = []
        os.makedirs(folder)
        for path, node in tree.walk():
            target = os.path.join(folder, path)
            if node.children is not None:
                os.mkdir(target)
                folders.append((target, node.value))
            elif node.link is not None:
                links.append((target, node.link))
            elif node.value is not None:
                files.setdefault(node.value, []).append(target)
        write(file, manifest.layers, files)
    for link, destination in links:
        os.symlink(destination, link)
    for path, mode in reversed(folders):
        os.chmod(path, mode & 0o755 | 0o700)


def plan(file: BinaryIO, image_layers: List[Layer]) -> Tree:
    """Return the merged tree: the value of a file is its Member, of a folder its mode."""
    tree = Tree(0o755)
    counter = [0]
    image_size = [0]

    def take(path: str, member: tarfile.TarInfo, content: Optional[IO[bytes]]) -> None:
        counter[0] += 1
        if tree.apply_whiteout(path):
            return
        if member.isdir():
            tree.put(path, Node.make_folder(tree.layer, member.mode))
        elif member.issym():
            tree.put(path, Node(tree.layer, None, member.linkname))
        elif member.islnk():
            source = tree.find(clean_name(member.linkname))
            if source is None or source.children is not None:
                raise BadImage("%r is a hard link to no file." % path)
            tree.put(path, Node(tree.layer, source.value, source.link))
        elif content is not None:
            tree.put(path, Node(tree.layer, (tree.layer, counter[0])))
        elif tree.find(path):
            tree.put(path, Node(tree.layer, None))

    for number, layer in enumerate(image_layers, start=1):
        tree.layer, counter[0] = number, 0
        layers.read_layer(file, layer, take, image_size=image_size)
    return tree


def write(file: BinaryIO, image_layers: List[Layer], files: Dict[Member, List[str]]) -> None:
    """Write each member to its first path, and hard links to it at the others."""
    counter = [0, 0]

    def take(path: str, member: tarfile.TarInfo, content: Optional[IO[bytes]]) -> None:
        counter[1] += 1
        paths = files.get((counter[0], counter[1]))
        if not paths or content is None:
            return
        with open(paths[0], "xb") as target:
            shutil.copyfileobj(content, target, layers.CHUNK)
        os.chmod(paths[0], member.mode & 0o755 | 0o600)
        for link in paths[1:]:
            os.link(paths[0], link)

    for number, layer in enumerate(image_layers, start=1):
        counter[:] = [number, 0]
        layers.read_layer(file, layer, take)


def find_platform() -> Tuple[str, str]:
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine), "linux"


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        unpack(sys.argv[1], sys.argv[2])
    except BadImage as error:
        print("%s: %s" % (sys.argv[1], error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
