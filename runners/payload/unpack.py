"""An OCI archive becomes a folder: `python3 unpack.py ARCHIVE FOLDER`, for who has no other tool.

Every digest is checked. First it is worked out which member of which layer each name comes from,
then those are written: no path ever leads through a link, so none leads out of the folder.
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

Member = Tuple[int, int]  # number of the layer, number of the member in it


def unpack(archive: str, folder: str) -> None:
    """Raises layers.BadImage."""
    with open(archive, "rb") as file:
        manifest = layers.Archive(file).manifest(*platform())
        tree = plan(file, manifest.layers)
        wanted: Dict[Member, List[str]] = {}
        folders: List[Tuple[str, int]] = []
        links: List[Tuple[str, str]] = []
        os.makedirs(folder)
        for path, node in tree.walk():
            place = os.path.join(folder, path)
            if node.children is not None:
                os.mkdir(place)
                folders.append((place, node.value))
            elif node.link is not None:
                links.append((place, node.link))
            elif node.value is not None:
                wanted.setdefault(node.value, []).append(place)
        write(file, manifest.layers, wanted)
    for place, target in links:
        os.symlink(target, place)
    for place, mode in reversed(folders):
        os.chmod(place, mode & 0o755 | 0o700)


def plan(file: BinaryIO, found: List[layers.Layer]) -> layers.Tree:
    """Which member each name comes from; of folders the value is the mode."""
    tree = layers.Tree(0o755)
    counter = [0]
    kept = [0]

    def take(path: str, member: tarfile.TarInfo, content: Optional[IO[bytes]]) -> None:
        counter[0] += 1
        if tree.whiteout(path):
            return
        if member.isdir():
            tree.put(path, layers.Node.folder(tree.layer, member.mode))
        elif member.issym():
            tree.put(path, layers.Node(tree.layer, None, member.linkname))
        elif member.islnk():
            source = tree.find(layers.plain(member.linkname))
            if source is None or source.children is not None:
                raise layers.BadImage("%r is a hard link to no file." % path)
            tree.put(path, layers.Node(tree.layer, source.value, source.link))
        elif content is not None:
            tree.put(path, layers.Node(tree.layer, (tree.layer, counter[0])))
        elif tree.find(path):
            tree.put(path, layers.Node(tree.layer, None))

    for number, layer in enumerate(found, start=1):
        tree.layer, counter[0] = number, 0
        layers.read_layer(file, layer, take, kept=kept)
    return tree


def write(file: BinaryIO, found: List[layers.Layer], wanted: Dict[Member, List[str]]) -> None:
    counter = [0, 0]

    def take(path: str, member: tarfile.TarInfo, content: Optional[IO[bytes]]) -> None:
        counter[1] += 1
        places = wanted.get((counter[0], counter[1]))
        if not places or content is None:
            return
        with open(places[0], "xb") as made:
            shutil.copyfileobj(content, made, layers.CHUNK)
        os.chmod(places[0], member.mode & 0o755 | 0o600)
        for again in places[1:]:
            os.link(places[0], again)

    for number, layer in enumerate(found, start=1):
        counter[:] = [number, 0]
        layers.read_layer(file, layer, take)


def platform() -> Tuple[str, str]:
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine), "linux"


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        unpack(sys.argv[1], sys.argv[2])
    except layers.BadImage as error:
        print("%s: %s" % (sys.argv[1], error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
