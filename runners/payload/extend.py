"""A base and one more folder become an image.

    python3 extend.py ROOT PREFIX --result FILE --folder FOLDER [--base ARCHIVE] [--survey FILE]

ROOT/PREFIX becomes the last layer of the OCI archive ARCHIVE; without one, ROOT as a whole is the
image. The image's digest names the file in FOLDER. FILE gets what is known of it, and its survey.
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

# Docker's names of the same things.
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
    """Write the base's layers and one more; the manifest's digest. Raises layers.BadImage."""
    machine = os.uname().machine
    writer = pack.Writer(file)
    with open(base, "rb") as archive:
        found = layers.Archive(archive).manifest(pack.ARCHITECTURES.get(machine, machine))
        descriptors: List[Dict[str, Any]] = []
        for descriptor, layer in zip(found.content["layers"], found.layers):
            stream = layers.Stream(archive, layer.blob)
            writer.add_blob(layer.blob.sha256, layer.blob.size, stream)
            stream.finish()
            kind = descriptor.get("mediaType", pack.LAYER)
            digest = layer.blob.sha256
            descriptors.append(pack.descriptor(OCI.get(kind, kind), digest, layer.blob.size))
    added = writer.add_layer(source)
    image = configured(found.config, variables, labels)
    image["rootfs"]["diff_ids"].append(added["digest"])
    if image.get("history"):
        image["history"].append(
            {"created": image["created"], "created_by": "tare: " + source.prefix}
        )
    config = pack.as_bytes(image)
    about = pack.descriptor(pack.CONFIG, hashlib.sha256(config).hexdigest(), len(config))
    manifest = {
        "schemaVersion": 2,
        "mediaType": pack.MANIFEST,
        "config": about,
        "layers": [*descriptors, added],
    }
    return writer.finish(pack.as_bytes(manifest), config, reference)


def configured(
    config: Mapping[str, Any], variables: Sequence[str], labels: Mapping[str, str]
) -> Dict[str, Any]:
    """The base's configuration with variables and labels more; its PATH stays behind ours."""
    image = copy.deepcopy(dict(config))
    image["created"] = "2026-01-01T00:00:00Z"
    inner = image.setdefault("config", {})
    known = dict(one.partition("=")[::2] for one in inner.get("Env") or [])
    for variable in variables:
        name, _, value = variable.partition("=")
        known[name] = value + ":" + known[name] if name == "PATH" and name in known else value
    inner["Env"] = ["%s=%s" % pair for pair in known.items()]
    inner["Labels"] = dict(inner.get("Labels") or {}, **labels)
    return image


def sha256_of(path: str) -> str:
    total = hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            chunk = file.read(pack.CHUNK)
            if not chunk:
                return total.hexdigest()
            total.update(chunk)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("root")
    parser.add_argument("prefix")
    parser.add_argument("--base", default="", metavar="ARCHIVE")
    parser.add_argument("--folder", required=True)
    parser.add_argument("--result", required=True, metavar="FILE")
    parser.add_argument("--survey", default="", metavar="FILE")
    parser.add_argument("--reference", default="")
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
            except layers.BadImage as problem:
                print("The base cannot be read: %s" % problem)
                return 1
        else:
            path = "PATH=/%s/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            config = {"Env": [path % options.prefix], "Cmd": ["/bin/sh"]}
            sources = [pack.Source(options.root)]
            digest = pack.write(file, sources, config, labels, options.reference)
    found: Dict[str, Any] = {"digest": digest, "sha256": sha256_of(part)}
    found["bytes"] = os.path.getsize(part)
    if options.survey:
        with open(options.survey, encoding="utf-8") as survey:
            found["survey"] = json.load(survey)
    found["path"] = os.path.join(options.folder, digest.partition(":")[2] + ".archive")
    os.replace(part, found["path"])
    with open(options.result + ".part", "w", encoding="utf-8") as result:
        json.dump(found, result, sort_keys=True)
    os.replace(options.result + ".part", options.result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
