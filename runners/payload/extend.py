"""Extend a base image by the layer of one folder.

    python3 extend.py ROOT PREFIX --result FILE --folder FOLDER [--base ARCHIVE] [--survey FILE]
        [--lock FILE]

ROOT/PREFIX becomes the last layer of the OCI archive ARCHIVE; without an archive, all of ROOT is
the image. Its file in FOLDER is named by its digest. FILE gets JSON: digest, sha256, bytes, path,
the survey, and the text of --lock.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import sys
from typing import Any, BinaryIO, Dict, List, Mapping, Sequence

if not __package__:
    # Started as a file. As a package, none of our names can shadow a library's.
    sys.path[0], __package__ = os.path.split(os.path.dirname(os.path.abspath(__file__)))

from . import layers, pack
from .image_archive import Archive
from .manifests import BadImage

# Docker's media types -> those of OCI.
OCI = {
    "application/vnd.docker.image.rootfs.diff.tar.gzip": pack.LAYER + "+gzip",
    "application/vnd.docker.image.rootfs.diff.tar": pack.LAYER,
}


def extend(
    file: BinaryIO,
    base: str,
    source: pack.Source,
    variables: Sequence[str],
    labels: Mapping[str, str],
    reference: str,
) -> str:
    """Write the base's layers and one more; return the digest. Raises BadImage."""
    machine = os.uname().machine
    writer = pack.Writer(file)
    with open(base, "rb") as archive:
        architecture = pack.ARCHITECTURES.get(machine, machine)
        base_image = Archive(archive).read_manifest(architecture)
        descriptors: List[Dict[str, Any]] = []
        for descriptor, layer in zip(base_image.content["layers"], base_image.layers):
            stream = layers.Stream(archive, layer.blob)
            writer.add_blob(layer.blob.sha256, layer.blob.size, stream)
            stream.finish()
            media_type = descriptor.get("mediaType", pack.LAYER)
            media_type = OCI.get(media_type, media_type)
            digest = layer.blob.sha256
            descriptors.append(pack.make_descriptor(media_type, digest, layer.blob.size))
    new_layer = writer.add_layer(source)
    image = extend_configuration(base_image.config, variables, labels)
    image["rootfs"]["diff_ids"].append(new_layer["digest"])
    if image.get("history"):
        image["history"].append(
            {"created": image["created"], "created_by": "tare: " + source.prefix}
        )
    config = pack.encode_json(image)
    config_entry = pack.make_descriptor(
        pack.CONFIG, hashlib.sha256(config).hexdigest(), len(config)
    )
    manifest = {
        "schemaVersion": 2,
        "mediaType": pack.MANIFEST,
        "config": config_entry,
        "layers": [*descriptors, new_layer],
    }
    return writer.finish(pack.encode_json(manifest), config, reference)


def extend_configuration(
    config: Mapping[str, Any], variables: Sequence[str], labels: Mapping[str, str]
) -> Dict[str, Any]:
    """Return the base's configuration with more variables and labels.

    A new PATH goes before the base's.
    """
    image = copy.deepcopy(dict(config))
    image["created"] = "2026-01-01T00:00:00Z"
    settings = image.setdefault("config", {})
    environment = dict(setting.partition("=")[::2] for setting in settings.get("Env") or [])
    for variable in variables:
        name, _, value = variable.partition("=")
        if name == "PATH" and name in environment:
            value = value + ":" + environment[name]
        environment[name] = value
    settings["Env"] = ["%s=%s" % pair for pair in environment.items()]
    settings["Labels"] = dict(settings.get("Labels") or {}, **labels)
    return image


def hash_file(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            chunk = file.read(pack.CHUNK)
            if not chunk:
                return total.hexdigest()
            total.update(chunk)


def keep(
    file: str,
    digest: str,
    sha256: str,
    folder: str,
    result: str,
    survey: str,
    lock: str = "",
) -> None:
    """Move a complete image to its place in `folder`, and write the result of its build."""
    content: Dict[str, Any] = {"digest": digest, "sha256": sha256}
    content["bytes"] = os.path.getsize(file)
    if survey:
        with open(survey, encoding="utf-8") as survey_file:
            content["survey"] = json.load(survey_file)
    if lock:
        with open(lock, encoding="utf-8") as lock_file:
            content["lock"] = lock_file.read()
    content["path"] = os.path.join(folder, digest.partition(":")[2] + ".archive")
    os.replace(file, content["path"])
    with open(result + ".part", "w", encoding="utf-8") as result_file:
        json.dump(content, result_file, sort_keys=True)
    os.replace(result + ".part", result)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root")
    parser.add_argument("prefix")
    parser.add_argument("--base", default="", metavar="ARCHIVE")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--result", required=True, metavar="FILE")
    parser.add_argument("--survey", default="", metavar="FILE")
    parser.add_argument("--reference", default="")
    parser.add_argument("--lock", default="", metavar="FILE", help="what was installed")
    parser.add_argument("--label", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    labels = dict(label.partition("=")[::2] for label in options.label)
    variables = ["PATH=/%s/bin" % options.prefix]
    part = os.path.join(options.root + ".tar")
    with open(part, "w+b") as file:
        if options.base:
            source = pack.Source(os.path.join(options.root, options.prefix), options.prefix)
            try:
                digest = extend(file, options.base, source, variables, labels, options.reference)
            except BadImage as problem:
                print("The base cannot be read: %s" % problem)
                return 1
        else:
            path = "PATH=/%s/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            config = {"Env": [path % options.prefix], "Cmd": ["/bin/sh"]}
            sources = [pack.Source(options.root)]
            digest = pack.write(file, sources, config, labels, options.reference)
    sha256, lock = hash_file(part), options.lock
    keep(part, digest, sha256, options.folder, options.result, options.survey, lock)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
