"""Small data sets in the true formats, written by hand: none is ever downloaded."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from runners.payload.training.tfrecord import compute_masked_crc

MNIST_FILES = {
    "train-images-idx3-ubyte": 3,
    "train-labels-idx1-ubyte": 1,
    "t10k-images-idx3-ubyte": 3,
    "t10k-labels-idx1-ubyte": 1,
}
CIFAR_FILES = [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]


def idx(array: np.ndarray) -> bytes:
    """An array of bytes as an IDX file."""
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_mnist(
    folder: Path, train: int = 40, test: int = 20, side: int = 28, packed: bool = False
) -> Path:
    """Images whose every pixel is ten times their label; labels go round."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, dimensions in MNIST_FILES.items():
        count = train if name.startswith("train") else test
        labels = np.arange(count) % 10
        images = np.broadcast_to(10 * labels[:, None, None], (count, side, side))
        content = idx(images if dimensions == 3 else labels)
        path = folder / (f"{name}.gz" if packed else name)
        path.write_bytes(gzip.compress(content) if packed else content)
    return folder


def write_cifar10(folder: Path, per_file: int = 10) -> Path:
    """Images that are red, green or blue by their label's rest by three; labels go round."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in CIFAR_FILES:
        content = b""
        for label in (number % 10 for number in range(per_file)):
            planes = np.zeros((3, 32, 32), np.uint8)
            planes[label % 3] = 100 + label
            content += bytes([label]) + planes.tobytes()
        (folder / name).write_bytes(content)
    return folder


def record(content: bytes) -> bytes:
    """One record in TFRecord's frame."""
    length = struct.pack("<Q", len(content))
    crcs = [struct.pack("<I", compute_masked_crc(part)) for part in (length, content)]
    return length + crcs[0] + content + crcs[1]


def field(number: int, content: bytes) -> bytes:
    """A length-delimited field of a protocol buffer."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    parts = []
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def example(encoded: bytes, label: int) -> bytes:
    """A `tf.train.Example` as the usual scripts write it, with the two features that count."""

    def feature(name: str, kind: int, value: bytes) -> bytes:
        return field(1, field(1, name.encode()) + field(2, field(kind, value)))

    image = feature("image/encoded", 1, field(1, encoded))
    return field(1, image + feature("image/class/label", 3, field(1, varint(label))))


def write_shards(folder: Path, images: list[tuple[bytes, int]], split: str, shards: int) -> None:
    """Images and labels (from 1) as TFRecord shards, dealt out in turns."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(shards):
        content = b"".join(record(example(*image)) for image in images[number::shards])
        (folder / f"{split}-{number:05d}-of-{shards:05d}").write_bytes(content)


def write_folders(folder: Path, images: list[tuple[bytes, int]], split: str) -> None:
    """Images and labels as one folder a class."""
    for number, (encoded, label) in enumerate(images):
        path = folder / split / f"n{label:08d}" / f"{number}.JPEG"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encoded)


def write_tiles(
    folder: Path, train: np.ndarray, test: np.ndarray, names: tuple[str, str] = ("x", "y")
) -> None:
    """The two HDF5 files of Vaihingen; every channel of an image is its (first) label."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, labels in (("train", train), ("val", test)):
        shown = labels if labels.ndim == 3 else labels[..., 0]
        with h5py.File(folder / f"vaihingen_{name}.hdf5", "w") as file:
            file[names[0]] = np.stack([shown] * 3, -1).astype(np.uint8)
            file[names[1]] = labels.astype(np.uint8)


@dataclass
class Share:
    """What a reader asks a backend for: which replicas are this process's."""

    replica_batch: int
    rank: int = 0
    processes: int = 1
    local_replicas: int = 1
    name: str = "jax"

    @property
    def replicas(self) -> int:
        return self.processes * self.local_replicas


def jpeg(width: int, height: int, colour: tuple[int, int, int]) -> bytes:
    """A baseline JPEG of one colour (Y, Cb, Cr), by hand: ITU-T T.81, annexes B and F."""

    def segment(marker: int, content: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, marker, 2 + len(content)) + content

    quantised = segment(0xDB, b"\0" + bytes([8] * 64))  # an average goes in as it is
    shape = struct.pack(">BHHB", 8, height, width, 3)
    frame = segment(0xC0, shape + b"".join(bytes([number, 0x11, 0]) for number in (1, 2, 3)))
    # Averages: the codes 0000 to 1000 say how many bits follow. The rest: 0 says that none does.
    codes = b"\0" + bytes([0, 0, 0, 9, *[0] * 12]) + bytes(range(9))
    codes += b"\x10" + bytes([1, *[0] * 15]) + b"\0"
    scan = segment(0xDA, b"\3" + b"".join(bytes([number, 0]) for number in (1, 2, 3)) + b"\0\x3f\0")

    bits = ""
    for block in range(-(-width // 8) * -(-height // 8)):
        for average in colour:
            difference = 0 if block else average - 128
            size = abs(difference).bit_length()
            value = difference if difference > 0 else difference + (1 << size) - 1
            bits += f"{size:04b}" + (f"{value:0{size}b}" if size else "") + "0"
    bits += "1" * (-len(bits) % 8)
    data = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    return b"\xff\xd8" + quantised + frame + segment(0xC4, codes) + scan + data + b"\xff\xd9"
