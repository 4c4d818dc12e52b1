"""Take what another program has built as an image of Tare.

    python3 adopt.py pack MADE OUTPUT [--base ARCHIVE] [--label NAME=VALUE]...
    python3 adopt.py keep FILE --folder FOLDER --result FILE --survey FILE [--sif]

`pack` writes an OCI archive again: its layers are the base's own blobs where they are the base's,
and its configuration is MADE's. `keep` moves an archive or a SIF file to its place in FOLDER,
which its digest names, and writes JSON: digest, sha256, bytes, path, and the survey.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import os
import sys
from contextlib import ExitStack
from typing import Any, BinaryIO, Dict, List, Mapping, Sequence, Tuple

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import extend, layers, pack
from .image_archive import Archive, Layer
from .manifests import BadImage

Packed = Tuple[BinaryIO, Layer, str]
"""The archive that holds a layer, the layer, and its media type."""


def write_again(output: BinaryIO, made: str, base: str, labels: Mapping[str, str]) -> str:
    """Write the image in the archive `made`; return its digest. Raises BadImage."""
    architecture = pack.ARCHITECTURES.get(os.uname().machine, os.uname().machine)
    writer = pack.Writer(output)
    with ExitStack() as stack:
        file = stack.enter_context(open(made, "rb"))
        image = Archive(file).read_manifest(architecture)
        packed = list_layers(file, image.layers, image.content["layers"])
        if base:
            base_file = stack.enter_context(open(base, "rb"))
            old = Archive(base_file).read_manifest(architecture)
            own = list_layers(base_file, old.layers, old.content["layers"])
            if begins_with(packed, own):
                packed[: len(own)] = own
        descriptors: List[Dict[str, Any]] = []
        written = set()
        for source, layer, media_type in packed:
            stream = layers.Stream(source, layer.blob)
            if layer.blob.sha256 not in written:
                writer.add_blob(layer.blob.sha256, layer.blob.size, stream)
                stream.finish()
            written.add(layer.blob.sha256)
            descriptors.append(pack.make_descriptor(media_type, layer.blob.sha256, layer.blob.size))
    content = copy.deepcopy(image.config)
    content["created"] = "2026-01-01T00:00:00Z"
    settings = content.setdefault("config", {})
    settings["Labels"] = dict(settings.get("Labels") or {}, **labels)
    config = pack.encode_json(content)
    manifest = {
        "schemaVersion": 2,
        "mediaType": pack.MANIFEST,
        "config": pack.make_descriptor(
            pack.CONFIG, hashlib.sha256(config).hexdigest(), len(config)
        ),
        "layers": descriptors,
    }
    return writer.finish(pack.encode_json(manifest), config)


def list_layers(
    file: BinaryIO, found: Sequence[Layer], descriptors: Sequence[Mapping[str, Any]]
) -> List[Packed]:
    packed = []
    for layer, descriptor in zip(found, descriptors):
        media_type = descriptor.get("mediaType", pack.LAYER)
        packed.append((file, layer, extend.OCI.get(media_type, media_type)))
    return packed


def begins_with(packed: Sequence[Packed], own: Sequence[Packed]) -> bool:
    """Return whether the first layers have the base's content."""
    ids = [layer.diff_id for _, layer, _ in own]
    return bool(ids) and all(ids) and [layer.diff_id for _, layer, _ in packed[: len(ids)]] == ids


def keep(file: str, folder: str, result: str, survey: str, *, is_sif: bool) -> None:
    """Move a finished image to its place and write the result of the build. Raises BadImage."""
    sha256 = extend.hash_file(file)
    if is_sif:
        digest = "sha256:" + sha256
    else:
        with open(file, "rb") as archive:
            machine = os.uname().machine
            architecture = pack.ARCHITECTURES.get(machine, machine)
            digest = Archive(archive).read_manifest(architecture).digest
    extend.keep(file, digest, sha256, folder, result, survey)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    tasks = parser.add_subparsers(dest="task", required=True)
    packing = tasks.add_parser("pack")
    packing.add_argument("made")
    packing.add_argument("output")
    packing.add_argument("--base", default="", metavar="ARCHIVE")
    packing.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
    keeping = tasks.add_parser("keep")
    keeping.add_argument("file")
    keeping.add_argument("--folder", required=True)
    keeping.add_argument("--result", required=True, metavar="FILE")
    keeping.add_argument("--survey", required=True, metavar="FILE")
    keeping.add_argument("--sif", action="store_true")
    options = parser.parse_args(arguments)
    try:
        if options.task == "keep":
            keep(
                options.file,
                options.folder,
                options.result,
                options.survey,
                is_sif=options.sif,
            )
        else:
            labels = dict(label.partition("=")[::2] for label in options.label)
            with open(options.output, "w+b") as file:
                write_again(file, options.made, options.base, labels)
    except BadImage as problem:
        print("What was built cannot be read: %s" % problem)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
