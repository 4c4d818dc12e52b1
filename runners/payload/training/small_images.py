"""MNIST and CIFAR-10, read from their published files into memory.

MNIST: the four IDX files (http://yann.lecun.com/exdb/mnist), as they are or with `.gz`.
CIFAR-10: the binary version (https://www.cs.toronto.edu/~kriz/cifar.html). Nothing is downloaded
here: what is missing or broken is named, with the sizes that were expected and found.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from typing import Any, List, NamedTuple, Set, Tuple

from ..frameworks import DataUnusable, load

CLASSES = 10
IDX_BYTES = 8  # the third byte of an IDX file's magic number: unsigned bytes follow
CIFAR_SIDE, CIFAR_CHANNELS = 32, 3
CIFAR_RECORD = 1 + CIFAR_SIDE * CIFAR_SIDE * CIFAR_CHANNELS  # a label, then the planes of colour
CIFAR_FOLDER = "cifar-10-batches-bin"  # what the archive unpacks to


class Split(NamedTuple):
    """Images in memory with their labels."""

    images: Any  # uint8, (images, height, width, channels)
    labels: Any  # int32, (images,)


def read_mnist(directory: str) -> Tuple[Split, Split]:
    """Return the images to train on and the held-out images. Raises DataUnusable."""
    names = [
        f"{split}-{kind}-ubyte"
        for split in ("train", "t10k")
        for kind in ("images-idx3", "labels-idx1")
    ]
    paths = _find_files(directory, names, _list_idx_spellings, "the IDX files of MNIST")
    splits = []
    for images_path, labels_path in (paths[:2], paths[2:]):
        images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
        if len(images) != len(labels):
            raise DataUnusable(
                f"{images_path} holds {len(images)} images and {labels_path} {len(labels)} labels: "
                "they do not belong together"
            )
        splits.append(_make_split(images[..., None], labels, labels_path))
    return splits[0], splits[1]


def read_idx(path: str, dimensions: int) -> Any:
    """Return the array of unsigned bytes in an IDX file, which is gzipped if its name says so."""
    numpy = load("numpy", "NumPy")
    content = _read_file(path)
    header = 4 + 4 * dimensions
    magic, expected = content[:4].hex(), bytes([0, 0, IDX_BYTES, dimensions]).hex()
    if magic != expected:
        raise DataUnusable(
            f"{path} is no IDX file of {dimensions}-dimensional bytes: it begins with "
            f"{magic or 'nothing'} and not with {expected}"
        )
    if len(content) < header:
        raise DataUnusable(f"{path} is cut off in its header, after {len(content)} bytes")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    expected_bytes = header + math.prod(shape)
    if len(content) != expected_bytes:
        raise DataUnusable(
            f"{path} has {len(content)} bytes{' unpacked' if path.endswith('.gz') else ''}; its "
            f"header promises {expected_bytes} ({' x '.join(map(str, shape))} after {header}). "
            "Download it again."
        )
    if not math.prod(shape):
        raise DataUnusable(f"{path} is empty: its header says {' x '.join(map(str, shape))}")
    return numpy.frombuffer(content, numpy.uint8, offset=header).reshape(shape)


def read_cifar10(directory: str) -> Tuple[Split, Split]:
    """Return the images to train on and the held-out images. Raises DataUnusable."""
    inner = os.path.join(directory, CIFAR_FOLDER)
    folder = inner if os.path.isdir(inner) else directory
    names = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]
    contents = "the binary version of CIFAR-10"
    paths = _find_files(folder, names, lambda name: [name], contents)
    return _read_cifar_split(paths[:5]), _read_cifar_split(paths[5:])


def _read_cifar_split(paths: List[str]) -> Split:
    numpy = load("numpy", "NumPy")
    parts = []
    for path in paths:
        content = _read_file(path)
        if not content or len(content) % CIFAR_RECORD:
            whole = len(content) // CIFAR_RECORD
            raise DataUnusable(
                f"{path} has {len(content)} bytes, which is no whole number of images of "
                f"{CIFAR_RECORD} bytes ({whole} would be {whole * CIFAR_RECORD}; the published "
                f"files have {10000 * CIFAR_RECORD}). It is cut off or no CIFAR-10: download it "
                "again."
            )
        records = numpy.frombuffer(content, numpy.uint8).reshape(-1, CIFAR_RECORD)
        planes = records[:, 1:].reshape(-1, CIFAR_CHANNELS, CIFAR_SIDE, CIFAR_SIDE)
        parts.append(_make_split(planes.transpose(0, 2, 3, 1), records[:, 0], path))
    return Split(
        numpy.concatenate([part.images for part in parts]),
        numpy.concatenate([part.labels for part in parts]),
    )


def _make_split(images: Any, labels: Any, path: str) -> Split:
    wrong = (labels >= CLASSES).nonzero()[0]
    if len(wrong):
        raise DataUnusable(
            f"{path}: the label of image {wrong[0]} is {labels[wrong[0]]}, and there are the "
            f"classes 0 to {CLASSES - 1}"
        )
    return Split(images, labels.astype("int32"))


def _list_idx_spellings(name: str) -> List[str]:
    """Return the names under which a file of MNIST is known."""
    dotted = name.replace("-idx", ".idx")
    return [name, f"{name}.gz", dotted, f"{dotted}.gz"]


def _find_files(directory: str, names: List[str], spellings: Any, contents: str) -> List[str]:
    """Return the path of each file, under the first of its spellings that is there."""
    present = set(os.listdir(directory))
    paths, missing = [], []
    for name in names:
        spelling = next((spelling for spelling in spellings(name) if spelling in present), None)
        if spelling is None:
            missing.append(name)
        else:
            paths.append(os.path.join(directory, spelling))
    if missing:
        raise DataUnusable(
            f"{directory} does not hold {contents}: {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} missing. There "
            f"{_describe_files(present) if present else 'is nothing'}."
        )
    return paths


def _describe_files(names: Set[str]) -> str:
    shown = sorted(names)[:5]
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{'is' if len(names) == 1 else 'are'} {', '.join(shown)}{more}"


def _read_file(path: str) -> bytes:
    try:
        with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
            return file.read()
    except EOFError:
        raise DataUnusable(
            f"{path} is cut off: it has {os.path.getsize(path)} bytes and its gzip stream does "
            "not end. Download it again."
        ) from None
    except (OSError, zlib.error) as error:
        raise DataUnusable(f"{path} cannot be read: {error}") from error
