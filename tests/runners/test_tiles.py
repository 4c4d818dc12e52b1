"""Tiles with a class for every pixel: from HDF5 in three forms of labels, or made; and windows."""

from __future__ import annotations

from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from runners.payload.frameworks import DataUnusable
from runners.payload.training.segmentation import (
    compute_mean_iou,
    compute_pixel_accuracy,
    count_confusions,
)
from runners.payload.training.stitching import list_window_starts, predict_in_windows
from runners.payload.training.tiles import COLOURS, Tiles, make_tiles, open_tiles, turn_image
from tests.runners.data_files import Share, write_tiles

PARAMETERS = {
    "data": "hdf5",
    "train_file": "vaihingen_train.hdf5",
    "validation_file": "vaihingen_val.hdf5",
    "images_name": "x",
    "labels_name": "y",
    "first_label": 1,
    "threads": 1,
    "seed": 1,
}


def opened(folder: Path, **parameters: object) -> Tiles:
    return open_tiles({**PARAMETERS, "data_directory": str(folder), **parameters})


def labels_of(count: int, side: int = 32) -> Any:
    return np.arange(count * side * side).reshape(count, side, side) // 7 % 6


def test_tiles_are_read_as_their_users_prepare_them(tmp_path: Path) -> None:
    write_tiles(tmp_path, train=labels_of(5) + 1, test=labels_of(2) + 1)
    tiles = opened(tmp_path)
    assert (tiles.side, tiles.samples, len(tiles.test.images)) == (32, 10, 2)
    assert (tiles.train.labels == labels_of(5)).all()
    assert (tiles.train.images[..., 0] == labels_of(5) + 1).all()
    assert (opened(tmp_path, first_label=1).train.labels.dtype) == np.uint8


@pytest.mark.parametrize("form", ["from 0", "one-hot", "colours"])
def test_other_forms_of_labels_are_told_by_their_shape(tmp_path: Path, form: str) -> None:
    labels = labels_of(3)
    written = {"from 0": labels, "one-hot": np.eye(6)[labels], "colours": np.array(COLOURS)[labels]}
    write_tiles(tmp_path, train=written[form], test=written[form][:1])
    assert (opened(tmp_path, first_label=0).train.labels == labels).all()


def test_other_names_are_found(tmp_path: Path) -> None:
    write_tiles(tmp_path, train=labels_of(2) + 1, test=labels_of(2) + 1, names=("a", "b"))
    (tmp_path / "vaihingen_val.hdf5").rename(tmp_path / "v.h5")
    assert opened(tmp_path, images_name="a", labels_name="b", validation_file="v.h5").side == 32


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataUnusable, match=r"/none, the folder of the tiles.*binds"):
        opened(tmp_path / "none")
    with pytest.raises(DataUnusable, match=r"no vaihingen_train.hdf5 and no vaihingen_val.hdf5$"):
        opened(tmp_path)
    write_tiles(tmp_path, train=labels_of(2) + 1, test=labels_of(2) + 1)
    with pytest.raises(DataUnusable, match=r"train\.hdf5 has no data set 'z'; it has x, y"):
        opened(tmp_path, images_name="z")
    path = tmp_path / "vaihingen_val.hdf5"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-99])
    with pytest.raises(
        DataUnusable, match=rf"{path} cannot be read as HDF5; it has {size - 99} byt"
    ):
        opened(tmp_path)
    path.write_bytes(b"no HDF5")
    with pytest.raises(DataUnusable, match=f"{path} cannot be read as HDF5; it has 7 bytes"):
        opened(tmp_path)


def test_tiles_that_the_network_cannot_take_are_named(tmp_path: Path) -> None:
    good = labels_of(2) + 1
    for images, message in (
        (np.zeros((2, 32, 32, 3), "float32"), "'x' is 2 x 32 x 32 x 3 of float32, and square"),
        (np.zeros((2, 32, 32), "uint8"), "'x' is 2 x 32 x 32 of uint8, and square tiles"),
        (np.zeros((2, 32, 64, 3), "uint8"), "'x' is 2 x 32 x 64 x 3 of uint8, and square"),
        (np.zeros((2, 40, 40, 3), "uint8"), "the side of a tile is 40, .* multiple of .* 32"),
        (np.zeros((0, 32, 32, 3), "uint8"), "'x' holds no tiles"),
        (np.zeros((3, 32, 32, 3), "uint8"), "'y' is 2 x 32 x 32 and 'x' 3 x 32 x 32 x 3"),
    ):
        write_tiles(tmp_path, train=good, test=good)
        with h5py.File(tmp_path / "vaihingen_train.hdf5", "r+") as file:
            del file["x"]
            file["x"] = images
        with pytest.raises(DataUnusable, match=message):
            opened(tmp_path)
    write_tiles(tmp_path, train=good, test=labels_of(2, 64) + 1)
    with pytest.raises(DataUnusable, match=r"are 32 x 32 x 3 and those of .* 64 x 64 x 3"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (labels_of(2), r"train.hdf5: the label of tile 0 at \(0, 0\) is 0, .* 1 to 6"),
        (labels_of(2) + 2, r"at \(1, 3\) is 7, .* 1 to 6 \(see first_label\)"),
        (np.zeros((2, 32, 32, 6)), r"is \[0 0 0 0 0 0\].*one of six to be set"),
        (np.full((2, 32, 32, 3), 7), r"is \[7 7 7\].*ISPRS"),
    ],
)
def test_labels_that_are_no_class_are_named(tmp_path: Path, wrong: Any, message: str) -> None:
    write_tiles(tmp_path, train=wrong, test=labels_of(2) + 1)
    with pytest.raises(DataUnusable, match=message):
        opened(tmp_path)


def test_made_tiles_are_the_same_bytes_for_a_seed_and_no_two_alike() -> None:
    first, again, other = make_tiles(3, 64, 7, 0), make_tiles(3, 64, 7, 0), make_tiles(3, 64, 8, 0)
    held_out = make_tiles(3, 64, 7, 1)
    assert (first.images == again.images).all()
    assert (first.labels == again.labels).all()
    assert all((first.labels != seen.labels).any() for seen in (other, held_out))
    assert set(np.unique(make_tiles(20, 64, 1, 0).labels)) == set(range(6))


def test_an_epoch_is_every_tile_as_it_is_and_once_more_turned() -> None:
    tiles = open_tiles({"data": "made", "samples": 12, "tile_size": 32, "seed": 3, "threads": 1})
    epochs = list(islice(tiles.make_readings(Share(4), 5), 6))
    for epoch in (epochs[:3], epochs[3:]):
        images = [image for batch, _ in epoch for image in batch]
        for tile in tiles.train.images:
            ways = [turn_image(tile, turn) for turn in range(8)]
            of_tile = [image for image in images if any((image == way).all() for way in ways)]
            assert len(of_tile) == 2
            assert any((image == tile).all() for image in of_tile)
    assert any((a[0] != b[0]).any() for a, b in zip(epochs[:3], epochs[3:], strict=True))


def test_a_label_turns_with_its_pixel() -> None:
    tiles = Tiles(marked(6), marked(1), "test")
    for images, labels in islice(tiles.make_readings(Share(4), 5), 6):
        assert (images[..., 0] == labels).all()


def marked(count: int) -> Any:
    """Tiles whose first channel is the label."""
    labels = labels_of(count).astype("uint8")
    return make_tiles(count, 32, 1, 0)._replace(images=np.stack([labels] * 3, -1), labels=labels)


def test_the_eight_ways_to_lay_a_square_are_eight() -> None:
    square = np.arange(9).reshape(3, 3)
    assert len({turn_image(square, turn).tobytes() for turn in range(8)}) == 8
    assert (turn_image(square, 0) == square).all()


def test_the_job_trains_on_the_same_tiles_on_any_number_of_gpus() -> None:
    tiles = Tiles(marked(10), marked(1), "test")
    alone = [images for images, _ in islice(tiles.make_readings(Share(8), 5), 4)]
    processes = [tiles.make_readings(Share(2, rank, 2, 2), 5) for rank in (0, 1)]
    for batch in alone:
        parts = list(chain.from_iterable(islice(process, 2) for process in processes))
        assert (np.concatenate([images for images, _ in parts]) == batch).all()


def test_a_batch_larger_than_an_epoch_is_named() -> None:
    tiles = Tiles(marked(4), marked(1), "test")
    tiles.require_batch(8)
    with pytest.raises(DataUnusable, match=r"batch of 9 images is larger than .* which has 8"):
        tiles.require_batch(9)
    with pytest.raises(
        DataUnusable, match=r"tile_size is 48, .* multiple of its deepest stride, 32"
    ):
        open_tiles({"data": "made", "samples": 2, "tile_size": 48, "seed": 1, "threads": 1})


@given(some.integers(1, 400), some.integers(1, 100))
def test_windows_cover_every_pixel_and_overlap_by_half_at_least(extra: int, window: int) -> None:
    length = window + extra
    starts = list_window_starts(length, window)
    assert (starts[0], starts[-1]) == (0, length - window)
    assert all(0 < b - a <= max(1, window // 2) for a, b in pairwise(starts))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (33, 70), (96, 64)])
def test_stitching_gives_back_what_every_window_agrees_on(height: int, width: int) -> None:
    image = np.random.RandomState(1).randint(0, 256, (height, width, 3), dtype=np.uint8)
    batches: set[int] = set()

    def as_they_are(tiles: Any) -> Any:
        batches.add(len(tiles))
        return tiles.astype("float32")

    assert (predict_in_windows(as_they_are, image, 32, 4) == image).all()
    assert batches == {4}
    constant = predict_in_windows(lambda tiles: np.full((*tiles.shape[:3], 6), 0.25), image, 32, 4)
    assert constant.shape == (height, width, 6)
    assert (constant == 0.25).all()


def test_stitching_takes_the_mean_where_windows_differ() -> None:
    predictions = iter([1.0, 3.0])
    image = np.zeros((4, 6, 3), "uint8")
    stitched = predict_in_windows(
        lambda tiles: np.full((1, 4, 4, 1), next(predictions)), image, 4, 1
    )
    assert stitched[..., 0].tolist() == [[1, 1, 2, 2, 3, 3]] * 4


def test_a_scene_is_made_of_held_out_tiles() -> None:
    tiles = Tiles(marked(1), marked(3), "test")
    image, labels = tiles.make_scene(80)
    assert image.shape == (80, 80, 3)
    assert (image[..., 0] == labels).all()
    assert (labels[:32, 32:64] == tiles.test.labels[1]).all()
    assert (labels[32:64, :32] == tiles.test.labels[0]).all()


def test_accuracy_and_iou_are_those_of_a_table_worked_out_by_hand() -> None:
    labels, predictions = (
        np.array([[0, 0, 0, 1], [1, 1, 2, 2]]),
        np.array([[0, 0, 1, 1], [1, 0, 2, 2]]),
    )
    table = count_confusions(labels, predictions)
    assert table[:3, :3].tolist() == [[2, 1, 0], [1, 2, 0], [0, 0, 2]]
    assert compute_pixel_accuracy(table) == 6 / 8
    assert compute_mean_iou(table) == pytest.approx((2 / 4 + 2 / 4 + 1) / 3)
