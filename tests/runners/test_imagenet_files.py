"""ImageNet's two forms on disk, as far as they are looked into without TensorFlow."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from runners.payload.frameworks import DataUnusable, StartError
from runners.payload.training import tfrecord
from runners.payload.training.datasets import open_data
from runners.payload.training.imagenet import open_imagenet
from tests.runners.data_files import example, record, write_folders, write_shards

JPEG = b"\xff\xd8\xff\xe0 as far as anybody looks without a decoder"
PARAMETERS = {"data": "imagenet", "image_size": 0, "threads": 1}


def test_imagenet_without_tensorflow_is_refused(tmp_path: Path) -> None:
    asked = {**PARAMETERS, "data_directory": str(tmp_path), "framework": "jax"}
    with pytest.raises(StartError, match=r"read through tf\.data, and the framework is jax"):
        open_data(asked)


def test_the_checksum_is_the_one_of_its_rfc() -> None:
    """RFC 3720, appendix B.4."""
    assert tfrecord.compute_crc32c(bytes(32)) == 0x8A9136AA
    assert tfrecord.compute_crc32c(b"\xff" * 32) == 0x62A8AB43
    assert tfrecord.compute_crc32c(bytes(range(32))) == 0x46DD794E


IMAGES = [(JPEG, label) for label in (1, 2, 3, 1000, 5)]


def shards(folder: Path) -> None:
    write_shards(folder, IMAGES, "train", 2)
    write_shards(folder, IMAGES[:3], "validation", 1)


def folders(folder: Path) -> None:
    write_folders(folder, IMAGES, "train")
    write_folders(folder, IMAGES[:3], "val")


@pytest.mark.parametrize(("write", "classes"), [(shards, 1000), (folders, 5)])
def test_both_forms_of_imagenet_are_found_and_counted(
    tmp_path: Path, write: Callable[[Path], None], classes: int
) -> None:
    write(tmp_path)
    data = open_data({**PARAMETERS, "data_directory": str(tmp_path)})
    assert (data.train_images, data.test_images, data.classes) == (5, 3, classes)
    assert data.shape == (224, 224, 3)
    data.require_batch(5)
    with pytest.raises(DataUnusable, match="batch of 6 images is larger than the data set"):
        data.require_batch(6)


def test_shards_may_lie_in_a_folder_for_each_split(tmp_path: Path) -> None:
    write_shards(tmp_path / "train", IMAGES, "train", 3)
    write_shards(tmp_path / "validation", IMAGES, "validation", 1)
    assert open_imagenet(str(tmp_path), 64).train_images == 5


def test_missing_shards_are_named(tmp_path: Path) -> None:
    shards(tmp_path)
    (tmp_path / "train-00001-of-00002").unlink()
    with pytest.raises(DataUnusable, match=r"lacks 1 of 2 shards: train-00001-of-00002$"):
        open_imagenet(str(tmp_path), 0)
    (tmp_path / "validation-00000-of-00001").unlink()
    write_shards(tmp_path, IMAGES, "train", 2)
    with pytest.raises(DataUnusable, match="has no shards validation-NNNNN-of-NNNNN"):
        open_imagenet(str(tmp_path), 0)


def test_a_broken_shard_is_named(tmp_path: Path) -> None:
    shards(tmp_path)
    path = tmp_path / "train-00000-of-00002"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DataUnusable, match=f"{path} is cut off: it has {len(whole) - 1} bytes"):
        open_imagenet(str(tmp_path), 0).require_batch(3)
    path.write_bytes(b"no record" * 9)
    with pytest.raises(DataUnusable, match=f"{path} is no TFRecord file"):
        open_imagenet(str(tmp_path), 0)
    path.write_bytes(b"")
    with pytest.raises(DataUnusable, match=f"{path} is empty"):
        open_imagenet(str(tmp_path), 0)


def test_a_damaged_record_is_found_where_it_begins(tmp_path: Path) -> None:
    first = record(example(JPEG, 1))
    path = tmp_path / "shard"
    path.write_bytes(first + struct.pack("<QI", 9, 1) + bytes(99))
    with pytest.raises(DataUnusable, match=f"is damaged at byte {len(first)}:"):
        list(tfrecord.read_record_lengths(str(path)))


def test_folders_without_images_and_classes_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataUnusable, match="holds no ImageNet: neither shards train-NNNNN"):
        open_imagenet(str(tmp_path), 0)
    folders(tmp_path)
    (tmp_path / "val" / "n00000009").mkdir()
    with pytest.raises(DataUnusable, match="no class 'n00000009'"):
        open_imagenet(str(tmp_path), 0)
    (tmp_path / "val" / "n00000009").rmdir()
    path = tmp_path / "train" / "n00000003" / "2.JPEG"
    path.write_bytes(b"GIF89a")
    with pytest.raises(
        DataUnusable, match=f"{path} is no JPEG: it has 6 bytes and begins with 4749"
    ):
        open_imagenet(str(tmp_path), 0)
