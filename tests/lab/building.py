"""A base and a cluster for builds in the lab, and the wait for their end."""

from __future__ import annotations

import os
import re
import shlex

import pytest

from experiments.models import Cluster, Image, Operation, StagedImage
from lab import host
from lab.client import Lab
from runners.payload import image_archive, layers, pack
from tests.conftest import tick_until
from tests.factories import ImageFactory

BASE_PATH = "/scratch/base.archive"


@pytest.fixture
def base(lab: Lab, registered: Cluster) -> Image:
    """Debian with Python and nothing else, as an archive on the cluster and in the catalogue."""
    row: Image = ImageFactory(reference="debian, with Python", digest=write_base_archive(lab))
    StagedImage.objects.create(image=row, cluster=registered, format="archive", path=BASE_PATH)
    return row


def write_base_archive(lab: Lab) -> str:
    """Write the first layer of the lab's images to BASE_PATH there; return the image's digest."""
    software = lab.images["numpy"].image.archive.removeprefix("/scratch/software/")
    path = lab.directory / BASE_PATH.removeprefix("/")
    with (
        (host.cache_folder() / "software" / software).open("rb") as source,
        path.open("w+b") as made,
    ):
        found = image_archive.Archive(source).read_manifest(pack.ARCHITECTURES[os.uname().machine])
        layer, descriptor = found.layers[0], found.content["layers"][0]
        writer = pack.Writer(made)
        writer.add_blob(layer.blob.sha256, layer.blob.size, layers.Stream(source, layer.blob))
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{layer.diff_id}"]}
        config = pack.encode_json(found.config | {"rootfs": rootfs})
        about = pack.make_descriptor(
            pack.CONFIG, pack.hashlib.sha256(config).hexdigest(), len(config)
        )
        manifest = {"schemaVersion": 2, "config": about, "layers": [descriptor]}
        return writer.finish(pack.encode_json(manifest | {"mediaType": pack.MANIFEST}), config)


@pytest.fixture
def cluster(registered: Cluster) -> Cluster:
    """The lab in a folder of its own, told how this machine reaches its index."""
    chosen = re.compile(r"(https?|no|all)_proxy|PIP_(EXTRA_)?INDEX_URL|UV_DEFAULT_INDEX", re.I)
    lines = [
        f"export {name.replace('UV_DEFAULT_INDEX', 'PIP_INDEX_URL')}={shlex.quote(value)}"
        for name, value in os.environ.items()
        if chosen.fullmatch(name)
    ]
    registered.setup_lines = "\n".join(lines)
    registered.work_directory += "/parity"  # others look at what is left in theirs
    registered.save()
    return registered


def finish(cluster: Cluster, *kinds: str) -> None:
    """Wait until all operations have ended, the last of them, of these kinds, well."""
    live = Operation.objects.exclude(state__in=Operation.FINAL)
    tick_until(cluster, lambda: not live.exists(), seconds=300)
    ended = Operation.objects.filter(kind__in=kinds).order_by("-pk")[: len(kinds)]
    assert [(operation.kind, operation.state, operation.message) for operation in ended] == [
        (kind, "done", "") for kind in reversed(kinds)
    ], [operation.output_tail[-3000:] for operation in ended]
