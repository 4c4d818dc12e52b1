"""The readers of data sets: what is whole is read, and what is not is named at once."""

from __future__ import annotations

from collections import Counter
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from runners.payload.frameworks import DataUnusable, StartError
from runners.payload.training.datasets import MARGIN, make_random_stream, shift_images
from runners.payload.training.datasets import open_data as open_with
from tests.runners.data_files import CIFAR_FILES, MNIST_FILES, Share, write_cifar10, write_mnist


def open_data(name: str, directory: str, image_size: int = 0, framework: str = "tensorflow") -> Any:
    parameters = {"data": name, "data_directory": directory, "image_size": image_size}
    return open_with({**parameters, "framework": framework, "threads": 1})


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_is_read_packed_or_not(tmp_path: Path, packed: bool) -> None:
    data = open_data("mnist", str(write_mnist(tmp_path, packed=packed)))
    assert (data.shape, data.classes) == ((28, 28, 1), 10)
    assert (data.train_images, data.test_images) == (40, 20)
    images, labels = next(data.make_readings(Share(8), 1))
    assert (images.dtype, images.shape, labels.dtype) == (np.float32, (8, 28, 28, 1), np.int32)
    assert np.allclose(images[:, 3, 4, 0], 10 * labels / 127.5 - 1)


def test_mnist_may_have_dots_in_its_names(tmp_path: Path) -> None:
    for name in MNIST_FILES:
        (write_mnist(tmp_path) / name).rename(tmp_path / name.replace("-idx", ".idx"))
    assert open_data("mnist", str(tmp_path)).train_images == 40


@pytest.mark.parametrize("folder", [".", "cifar-10-batches-bin"])
def test_cifar10_is_read_with_its_colours_and_places(tmp_path: Path, folder: str) -> None:
    write_cifar10(tmp_path / folder)
    data = open_data("cifar10", str(tmp_path))
    assert (data.shape, data.train_images, data.test_images) == ((32, 32, 3), 50, 10)
    for image, label in zip(data.train.images, data.train.labels, strict=True):
        expected = np.zeros(3)
        expected[label % 3] = 100 + label
        assert (image == expected).all()


def test_planes_become_channels_row_by_row(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    planes = np.arange(3072, dtype=np.uint16).astype(np.uint8)
    (tmp_path / "test_batch.bin").write_bytes(b"\x07" + planes.tobytes())
    image = open_data("cifar10", str(tmp_path)).test.images[0]
    assert image[2, 5].tolist() == [(plane * 1024 + 2 * 32 + 5) % 256 for plane in range(3)]


def test_images_are_scaled_by_the_nearest_pixel(tmp_path: Path) -> None:
    write_cifar10(tmp_path)
    small, own, large = (open_data("cifar10", str(tmp_path), side) for side in (16, 0, 64))
    assert (small.shape, own.shape, large.shape) == ((16, 16, 3), (32, 32, 3), (64, 64, 3))
    seen = [next(data.feed_test_batches(Share(10), 10))[0] for data in (small, own, large)]
    assert (seen[0] == seen[1][:, ::2, ::2]).all()
    assert (seen[2][:, ::2, 1::2] == seen[1]).all()
    assert next(small.make_readings(Share(4), 1))[0].shape == (4, 16, 16, 3)


def test_every_epoch_takes_each_image_once_in_another_order(tmp_path: Path) -> None:
    data = open_data("mnist", str(write_mnist(tmp_path, train=10)))
    labels = [taken.tolist() for _, taken in islice(data.make_readings(Share(5), 3), 4)]
    epochs = [labels[0] + labels[1], labels[2] + labels[3]]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]


def test_the_job_trains_on_the_same_batches_on_any_number_of_gpus(tmp_path: Path) -> None:
    data = open_data("mnist", str(write_mnist(tmp_path)))
    alone = [labels.tolist() for _, labels in islice(data.make_readings(Share(8), 5), 7)]
    one_process = islice(data.make_readings(Share(2, local_replicas=4), 5), 28)
    parts = [labels.tolist() for _, labels in one_process]
    assert [list(chain(*parts[at : at + 4])) for at in range(0, 28, 4)] == alone
    two = [islice(data.make_readings(Share(2, rank, 2, 2), 5), 14) for rank in (0, 1)]
    first, second = ([labels.tolist() for _, labels in readings] for readings in two)
    together = [list(chain(*first[at : at + 2], *second[at : at + 2])) for at in range(0, 14, 2)]
    assert together == alone


def test_the_seed_fixes_the_batches(tmp_path: Path) -> None:
    data = open_data("cifar10", str(write_cifar10(tmp_path)))
    first, again, other = (next(data.make_readings(Share(16), seed))[0] for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


def test_all_held_out_images_count_once(tmp_path: Path) -> None:
    data = open_data("mnist", str(write_mnist(tmp_path, test=25)))
    batches = list(data.feed_test_batches(Share(8), 8))
    assert {len(labels) for _, labels, _ in batches} == {8}
    counted = Counter(int(label) for _, labels, count in batches for label in labels[:count])
    assert sum(counted.values()) == 25
    assert counted == Counter(number % 10 for number in range(25))


@given(some.integers(0, 2**32 - 1))
def test_a_shifted_image_is_a_window_of_the_padded_one(seed: int) -> None:
    images = np.arange(1, 2 * 6 * 5 + 1, dtype=np.uint8).reshape(2, 6, 5, 1)
    for image, moved in zip(images, shift_images(images, make_random_stream(seed)), strict=True):
        padded = np.pad(image[..., 0], MARGIN)
        windows = np.lib.stride_tricks.sliding_window_view(padded, (6, 5)).reshape(-1, 6, 5)
        either = np.concatenate([windows, windows[:, :, ::-1]])
        assert (either == moved[..., 0]).all((1, 2)).any()


@pytest.mark.parametrize("name", ["mnist", "cifar10", "imagenet"])
def test_a_missing_folder_is_named_with_its_cure(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataUnusable, match=r"/none, the folder of the data set .*binds"):
        open_data(name, f"{tmp_path}/none")
    with pytest.raises(StartError, match="no data_directory was given"):
        open_data(name, "")
    with pytest.raises(StartError, match="not a whole path"):
        open_data(name, "data")
    (tmp_path / "file").touch()
    with pytest.raises(DataUnusable, match="is a file"):
        open_data(name, f"{tmp_path}/file")


def test_missing_files_are_named(tmp_path: Path) -> None:
    (write_mnist(tmp_path / "m") / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(
        DataUnusable, match=r"MNIST: t10k-labels-idx1-ubyte is missing. There are t1"
    ):
        open_data("mnist", f"{tmp_path}/m")
    (tmp_path / "c").mkdir()
    with pytest.raises(DataUnusable, match=r"data_batch_1\.bin.*test_batch\.bin are missing"):
        open_data("cifar10", f"{tmp_path}/c")


def broken(content: bytes, how: str) -> bytes:
    return {"cut": content[:-1], "empty": b"", "other": b"PNG?" + content[4:]}[how]


@pytest.mark.parametrize("name", list(MNIST_FILES))
@pytest.mark.parametrize("how", ["cut", "empty", "other"])
def test_a_broken_file_of_mnist_is_named(tmp_path: Path, name: str, how: str) -> None:
    path = write_mnist(tmp_path) / name
    size = path.stat().st_size
    path.write_bytes(broken(path.read_bytes(), how))
    message = {
        "cut": f"has {size - 1} bytes; its header promises {size} ",
        "empty": "begins with nothing and not with 0000080[13]",
        "other": "begins with 504e473f and not with 0000080[13]",
    }[how]
    with pytest.raises(DataUnusable, match=f"{path}.*{message}"):
        open_data("mnist", str(tmp_path))


def test_a_packed_file_that_is_cut_off_is_named(tmp_path: Path) -> None:
    path = write_mnist(tmp_path, packed=True) / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(DataUnusable, match=f"{path} is cut off: it has"):
        open_data("mnist", str(tmp_path))
    path.write_bytes(b"not packed")
    with pytest.raises(DataUnusable, match=f"{path} cannot be read: Not a gzipped file"):
        open_data("mnist", str(tmp_path))


@pytest.mark.parametrize("name", CIFAR_FILES)
def test_a_file_of_cifar10_that_is_cut_off_is_named(tmp_path: Path, name: str) -> None:
    path = write_cifar10(tmp_path) / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataUnusable, match=f"{path} has 30729 bytes.*9 would be 27657"):
        open_data("cifar10", str(tmp_path))


def test_labels_out_of_range_and_too_few_are_named(tmp_path: Path) -> None:
    path = write_cifar10(tmp_path / "c") / "data_batch_2.bin"
    content = bytearray(path.read_bytes())
    content[3073 * 4] = 10
    path.write_bytes(content)
    with pytest.raises(DataUnusable, match=f"{path}: the label of image 4 is 10"):
        open_data("cifar10", f"{tmp_path}/c")
    labels = write_mnist(tmp_path / "m") / "train-labels-idx1-ubyte"
    labels.write_bytes((write_mnist(tmp_path / "other", train=39) / labels.name).read_bytes())
    with pytest.raises(DataUnusable, match=r"holds 40 images and .* 39 labels"):
        open_data("mnist", f"{tmp_path}/m")


def test_a_batch_larger_than_the_data_set_is_named(tmp_path: Path) -> None:
    data = open_data("mnist", str(write_mnist(tmp_path)))
    data.require_batch(40)
    with pytest.raises(
        DataUnusable, match=r"batch of 41 images is larger than the data set.* has 40"
    ):
        data.require_batch(41)
