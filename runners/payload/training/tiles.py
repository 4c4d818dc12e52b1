"""Aerial images in tiles with a class for every pixel: from HDF5 files, or generated.

The files are those that the users of the Vaihingen data set prepare: `vaihingen_train.hdf5` and
`vaihingen_val.hdf5`, each with images `x` (uint8, [tiles, side, side, 3]) and labels `y`. Labels
are whole numbers [tiles, side, side], or one-hot [tiles, side, side, 6], or the colours of the
ISPRS benchmark [tiles, side, side, 3]. Everything is read into memory before training.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, NamedTuple, Tuple

from ..frameworks import DataUnusable, load, set_threads
from .data_checks import require_directory, require_images
from .datasets import Batch, make_random_stream

CLASSES = 6
STRIDE = 32  # of the network's deepest layer: a side has to be a multiple of it
COLOURS = (  # of the ISPRS benchmark, in the order of its classes
    (255, 255, 255),  # impervious surfaces
    (0, 0, 255),  # buildings
    (0, 255, 255),  # low vegetation
    (0, 255, 0),  # trees
    (255, 255, 0),  # cars
    (255, 0, 0),  # clutter
)
REGIONS = 12  # in a generated tile
PALETTE = ((120, 40, 30), (30, 120, 40), (40, 30, 120))  # two classes share a colour...
CHECKS = (2, 8)  # ...and differ in the pixels of their checks, which no turn changes
CONTRAST, NOISE = 50, 60  # of 255


class Labelled(NamedTuple):
    """Tiles in memory, with a class for each of their pixels."""

    images: Any  # uint8, [tiles, side, side, 3]
    labels: Any  # uint8, [tiles, side, side], from 0


class Tiles:
    """The tiles that a network is trained on, and those that it is evaluated on.

    An epoch is every tile as it is and, a second time, mirrored and turned by chance.
    """

    def __init__(self, train: Labelled, test: Labelled, source: str) -> None:
        self.train, self.test, self.source = train, test, source
        self.side: int = train.images.shape[1]
        self.samples = 2 * len(train.images)  # of one epoch

    def gather_facts(self) -> Dict[str, Any]:
        return {
            "data": self.source,
            "tile_size": self.side,
            "samples_of_epoch": self.samples,
            "held_out_tiles": len(self.test.images),
        }

    def require_batch(self, batch: int) -> None:
        """Raise DataUnusable if a batch of the whole job needs more tiles than there are."""
        require_images(batch, self.samples, "an epoch of the tiles and their turned copies")

    def make_readings(self, backend: Any, seed: int, first_step: int = 0) -> Iterator[Batch]:
        """Yield images and labels for this process's replicas in turn, endlessly.

        One order is divided among all replicas: the job trains on the same batches on any
        number of GPUs. The last samples of an epoch are left out if they fill no batch. The steps
        before `first_step` are passed over.
        """
        numpy, tiles = load("numpy", "NumPy"), len(self.train.images)
        batch, replicas = backend.replica_batch, backend.replicas
        first = backend.rank * backend.local_replicas
        batches = self.samples // (batch * replicas)
        done, passed = divmod(first_step, batches)
        for epoch in range(done, 1 << 31):
            draw = make_random_stream(seed, epoch)
            order = draw.permutation(self.samples)
            # A turn for each sample; the first half of them stays as it is.
            turns = numpy.concatenate([numpy.zeros(tiles, int), draw.randint(0, 8, tiles)])
            for number in range(passed if epoch == done else 0, batches):
                for replica in range(first, first + backend.local_replicas):
                    samples = order[(number * replicas + replica) * batch :][:batch]
                    tile_numbers, tile_turns = samples % tiles, turns[samples]
                    images = numpy.stack([self.train.images[tile] for tile in tile_numbers])
                    labels = numpy.stack([self.train.labels[tile] for tile in tile_numbers])
                    for index, turn in enumerate(tile_turns):
                        images[index] = turn_image(images[index], turn)
                        labels[index] = turn_image(labels[index], turn)
                    yield images, labels.astype("int32")

    def feed_test_batches(self, batch: int) -> Iterator[Tuple[Any, Any, int]]:
        """Yield each held-out tile once: images, labels, and how many of the batch count.

        The last batch is filled up with tiles that have been counted, so that nothing is
        compiled twice.
        """
        numpy, tiles = load("numpy", "NumPy"), len(self.test.images)
        for first in range(0, tiles, batch):
            numbers = numpy.arange(first, first + batch) % tiles
            yield self.test.images[numbers], self.test.labels[numbers], min(batch, tiles - first)

    def make_scene(self, side: int) -> Tuple[Any, Any]:
        """Return a larger image and its labels [side, side], held-out tiles put side by side."""
        numpy, across = load("numpy", "NumPy"), -(-side // self.side)
        numbers = numpy.arange(across * across) % len(self.test.images)

        def join(tiles: Any) -> Any:
            rows = [numpy.concatenate(list(tiles[row]), 1) for row in numbers.reshape(across, -1)]
            return numpy.concatenate(rows, 0)[:side, :side]

        return join(self.test.images), join(self.test.labels)


def turn_image(image: Any, turn: int) -> Any:
    """Return a square image after `turn` % 4 quarter turns, mirrored from `turn` 4 on (0 to 7)."""
    numpy = load("numpy", "NumPy")
    turned = numpy.rot90(image, turn % 4)
    return turned[:, ::-1] if turn >= 4 else turned


def open_tiles(parameters: Dict[str, Any]) -> Tiles:
    """Return the tiles that the parameters name. Raises DataUnusable if they cannot be used."""
    set_threads(parameters["threads"])  # before NumPy is first loaded, by the next lines
    if parameters["data"] == "made":
        count, side, seed = parameters["samples"] // 2, parameters["tile_size"], parameters["seed"]
        require_side(side, "tile_size")
        held_out = make_tiles(max(1, count // 4), side, seed, 1)
        return Tiles(make_tiles(count, side, seed, 0), held_out, "made")
    directory = parameters["data_directory"]
    require_directory(directory, "the tiles in HDF5")
    names = [parameters["train_file"], parameters["validation_file"]]
    missing = [name for name in names if not os.path.isfile(os.path.join(directory, name))]
    if missing:
        raise DataUnusable(f"{directory} has no {' and no '.join(missing)}")
    train, test = (read_hdf5(os.path.join(directory, name), parameters) for name in names)
    if train.images.shape[1:] != test.images.shape[1:]:
        shapes = [_format_shape(split.images.shape[1:]) for split in (train, test)]
        raise DataUnusable(
            f"the tiles of {names[0]} are {shapes[0]} and those of {names[1]} {shapes[1]}"
        )
    return Tiles(train, test, "hdf5")


def require_side(side: int, label: str) -> None:
    if side % STRIDE or not side:
        raise DataUnusable(
            f"{label} is {side}, and the network needs a multiple of its deepest stride, {STRIDE}"
        )


def read_hdf5(path: str, parameters: Dict[str, Any]) -> Labelled:
    """Return the tiles of one file. Raises DataUnusable naming what is wrong with it."""
    h5py = load("h5py", "h5py")
    names = parameters["images_name"], parameters["labels_name"]
    try:
        with h5py.File(path, "r") as file:
            for name in names:
                if not isinstance(file.get(name), h5py.Dataset):
                    raise DataUnusable(
                        f"{path} has no data set {name!r}; it has "
                        f"{', '.join(sorted(file)) or 'none'}"
                    )
            shapes = [file[name].shape for name in names]
            require_shapes(path, names, shapes, file[names[0]].dtype)
            images, labels = (file[name][()] for name in names)
    except OSError as error:
        reason = str(error).split("\n", 1)[0]
        raise DataUnusable(
            f"{path} cannot be read as HDF5; it has {os.path.getsize(path)} bytes: {reason}"
        ) from error
    return Labelled(images, read_classes(labels, path, parameters["first_label"]))


def require_shapes(path: str, names: Any, shapes: Any, dtype: Any) -> None:
    """Raise DataUnusable unless these are square tiles and a label for each of their pixels."""
    images, labels = shapes
    if len(images) != 4 or images[3] != 3 or images[1] != images[2] or str(dtype) != "uint8":
        raise DataUnusable(
            f"{path}: {names[0]!r} is {_format_shape(images)} of {dtype}, and square tiles of "
            "three channels are needed: tiles x side x side x 3 of uint8"
        )
    if not images[0]:
        raise DataUnusable(f"{path}: {names[0]!r} holds no tiles")
    require_side(images[1], f"{path}: the side of a tile")
    if labels not in (images[:3], (*images[:3], CLASSES), images):
        raise DataUnusable(
            f"{path}: {names[1]!r} is {_format_shape(labels)} and {names[0]!r} "
            f"{_format_shape(images)}; labels are {_format_shape(images[:3])}, with x {CLASSES} "
            "if one-hot and x 3 if colours"
        )


def read_classes(labels: Any, path: str, first_label: int) -> Any:
    """Return the class of each pixel, from 0, from labels in any of their three forms."""
    numpy = load("numpy", "NumPy")
    if labels.ndim == 4 and labels.shape[3] == CLASSES:
        wrong = (labels != 0).sum(3) != 1
        classes = labels.argmax(3)
        expected = "one of six to be set"
    elif labels.ndim == 4:
        classes = numpy.full(labels.shape[:3], CLASSES)
        for number, colour in enumerate(COLOURS):
            classes[(labels == numpy.array(colour)).all(3)] = number
        wrong, expected = classes == CLASSES, "one of the six colours of the ISPRS benchmark"
    else:
        classes = labels.astype("int64") - first_label
        wrong = (classes < 0) | (classes >= CLASSES) | (labels != labels.astype("int64"))
        expected = f"{first_label} to {first_label + CLASSES - 1} (see first_label)"
    if wrong.any():
        at = tuple(int(number) for number in numpy.argwhere(wrong)[0])
        raise DataUnusable(
            f"{path}: the label of tile {at[0]} at {at[1:]} is {labels[at]}, and it has to be "
            f"{expected}"
        )
    return classes.astype("uint8")


def make_tiles(count: int, side: int, seed: int, use: int) -> Labelled:
    """Return generated tiles of regions, whose colour and checks tell their class, under noise.

    Whole numbers alone: the same seed gives the same bytes in every environment.
    """
    numpy = load("numpy", "NumPy")
    images = numpy.empty((count, side, side, 3), "uint8")
    labels = numpy.empty((count, side, side), "uint8")
    rows, columns = numpy.mgrid[:side, :side].astype("int32")
    textures = numpy.empty((CLASSES, side, side, 3), "uint8")
    for number in range(CLASSES):
        pixels = CHECKS[number // len(PALETTE)]
        checks = (rows // pixels + columns // pixels) % 2 * CONTRAST
        textures[number] = checks[..., None] + numpy.array(PALETTE[number % len(PALETTE)])
    for tile in range(count):
        draw = make_random_stream(seed, use, tile)
        centres, kinds = draw.randint(0, side, (REGIONS, 2)), draw.randint(0, CLASSES, REGIONS)
        distances = [(rows - row) ** 2 + (columns - column) ** 2 for row, column in centres]
        labels[tile] = kinds[numpy.argmin(distances, 0)]
        noise = draw.randint(0, NOISE, (side, side, 3), dtype="uint8")
        images[tile] = textures[labels[tile], rows, columns] + noise
    return Labelled(images, labels)


def _format_shape(shape: Any) -> str:
    return " x ".join(map(str, shape))
