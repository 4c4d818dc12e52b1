"""The data sets that a network can be trained on, in the formats that everybody has them in.

    data = open_data(parameters)                  # found, whole, read; before any framework
    data.demand(job_batch)
    for batch in fed(data, backend, seed): step(batch)
    for images, labels, counted in data.test_batches(backend, batch): ...

Pixels are numbers from -1 to 1. The seed fixes the order of the images, the crops and the flips,
so that every environment trains on the same batches. Nothing is ever downloaded.
"""

from __future__ import annotations

import os
import re
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List, Tuple

from ..frameworks import DataUnusable, StartError, load, set_threads
from .small_images import CLASSES, Split, read_cifar10, read_mnist

Batch = Tuple[Any, Any]  # images and labels
GRAPH = re.compile(r"\{\{[^}]*\}\}|\[Op:\w+\]( name:)?")
BROKEN = ("DataLossError", "InvalidArgumentError", "NotFoundError")
MARGIN = 4  # pixels that a shifted image of CIFAR-10 moves at most, as in He et al. 2015


def open_data(parameters: Dict[str, Any]) -> Any:
    """A data set whose files are there and whole: an `Arrays` or an `ImageNet`.

    Of the parameters it reads data, data_directory, image_size (0 leaves images as large as they
    are), framework and threads. Raises DataUnusable or StartError, within seconds.
    """
    name, directory = parameters["data"], parameters["data_directory"]
    image_size, threads = parameters.get("image_size", 0), parameters["threads"]
    framework = parameters.get("framework", "tensorflow")
    if name == "imagenet" and framework != "tensorflow":
        raise StartError(
            f"ImageNet is read through tf.data, and the framework is {framework}: choose "
            "tensorflow, or another data set"
        )
    set_threads(threads)  # NumPy reads them when it is loaded, which may be here
    demand_directory(directory, f"the data set {name}")
    if name == "mnist":
        return Arrays(*read_mnist(directory), image_size=image_size, augment=False)
    if name == "cifar10":
        return Arrays(*read_cifar10(directory), image_size=image_size, augment=True)
    from .imagenet import open_imagenet

    return open_imagenet(directory, image_size, threads)


def fed(data: Any, backend: Any, seed: int) -> Iterator[Any]:
    """Batches as the backend's steps take them, read ahead of the step that takes them.

    Raises DataUnusable where the data set turns out to be broken somewhere in its middle.
    """
    readings = data.readings(backend, seed)
    if isinstance(readings, Iterator):
        readings = ahead(readings, 2 * backend.local_replicas)
    try:
        yield from backend.feed(readings)
    except Exception as error:
        # By name: TensorFlow need not be here.
        if type(error).__name__ not in BROKEN:
            raise
        raise DataUnusable(f"the data set cannot be read to its end: {in_words(error)}") from error


def in_words(error: Exception) -> str:
    """What TensorFlow says of a failure, without where in its graph it was."""
    return GRAPH.sub("", str(error)).strip().split("\n", 1)[0]


def ahead(readings: Iterator[Any], count: int) -> Iterator[Any]:
    """The same readings, up to `count` of them made in a thread of their own before they are
    asked for."""
    with ThreadPoolExecutor(1) as reader:
        asked = deque(reader.submit(next, readings, None) for _ in range(count))
        while True:
            reading = asked.popleft().result()
            if reading is None:
                return
            asked.append(reader.submit(next, readings, None))
            yield reading


def demand_directory(directory: str, what: str) -> None:
    """Raise DataUnusable or StartError unless there is such a folder, and one may look into it."""
    if not directory:
        raise StartError(f"no data_directory was given: {what} lies in one")
    if not os.path.isabs(directory):
        raise StartError(
            f"data_directory {directory!r} is not a whole path: it has to begin with '/'"
        )
    if not os.path.isdir(directory):
        found = "is a file" if os.path.exists(directory) else "is not there"
        raise DataUnusable(
            f"{directory}, the folder of {what}, {found} as seen from inside this environment. "
            "Does the path exist on the node? A container sees only what it is given: add the "
            "folder to the environment's binds."
        )
    if not os.access(directory, os.R_OK | os.X_OK):
        raise DataUnusable(f"{directory}, the folder of {what}, may not be read by this account")


def demand_images(batch: int, images: int, what: str) -> None:
    """Raise DataUnusable where one batch of the job needs more than there is."""
    if batch > images:
        raise DataUnusable(
            f"the job's batch of {batch} images is larger than {what}, which has {images}: make "
            "batch_size smaller"
        )


class OfDataSet:
    """A data set as `cnn` asks for one: batches(), held_out(), images of an epoch and facts()."""

    def __init__(self, source: Any, backend: Any, seed: int) -> None:
        self._source, self._backend, self._seed = source, backend, seed
        source.demand(backend.job_batch)

    @property
    def images(self) -> int:
        return int(self._source.train_images)

    def batches(self) -> Iterator[Any]:
        return fed(self._source, self._backend, self._seed)

    def held_out(self) -> Iterator[Batch]:
        """All held-out images; where labels are fewer, the last images count no more."""
        batch = self._backend.replica_batch
        for images, labels, counted in self._source.test_batches(self._backend, batch):
            yield images, labels[:counted]

    def facts(self) -> Dict[str, Any]:
        return {"image_shape": list(self._source.shape), "classes": self._source.classes}


class Arrays:
    """A data set in memory: MNIST or CIFAR-10."""

    classes = CLASSES

    def __init__(self, train: Split, test: Split, *, image_size: int, augment: bool) -> None:
        self.train, self.test, self.augment = train, test, augment
        height, width, channels = train.images.shape[1:]
        self.shape = (image_size or height, image_size or width, channels)

    @property
    def train_images(self) -> int:
        return len(self.train.labels)

    @property
    def test_images(self) -> int:
        return len(self.test.labels)

    def demand(self, batch: int) -> None:
        """Raise DataUnusable where a batch of the whole job needs more images than there are."""
        demand_images(batch, self.train_images, "the data set")

    def readings(self, backend: Any, seed: int) -> Any:
        """What a backend feeds to its replicas, without end: tf.data on TensorFlow, else NumPy."""
        how = self.pipeline if backend.name == "tensorflow" else self.batches
        return how(backend, seed)

    def batches(self, backend: Any, seed: int) -> Iterator[Tuple[Any, Any]]:
        """Images (float32) and labels (int32) for one replica of this process after the other.

        Each epoch takes every image once, in an order of its own, and leaves out what fills no
        batch of the job. One order is divided among all replicas, wherever they run: the job
        trains on the same batches on any number of GPUs.
        """
        batch, replicas = backend.replica_batch, backend.replicas
        first = backend.rank * backend.local_replicas
        for epoch in range(1 << 31):
            order = stream(seed, epoch).permutation(self.train_images)
            for number in range(len(order) // (batch * replicas)):
                for replica in range(first, first + backend.local_replicas):
                    taken = order[(number * replicas + replica) * batch :][:batch]
                    images = self.train.images[taken]
                    if self.augment:
                        images = shifted(images, stream(seed, epoch, number, replica))
                    yield self.pixels(images), self.train.labels[taken]

    def pipeline(self, backend: Any, seed: int) -> Any:
        """What `batches` gives, as a `tf.data.Dataset`, in an order of its own."""
        tensorflow, threads = backend.tensorflow, backend.parameters["threads"]
        batch, replicas, local = backend.replica_batch, backend.replicas, backend.local_replicas
        with tensorflow.device("CPU"):
            images = tensorflow.constant(self.train.images)
            labels = tensorflow.constant(self.train.labels)

        def mine(taken: Any) -> Any:
            return tensorflow.reshape(taken, (replicas, batch))[backend.rank * local :][:local]

        def drawn(number: Any, taken: Any) -> Tuple[Any, Any]:
            chosen = tensorflow.gather(images, taken)
            if self.augment:
                own = seed + (backend.rank << 33)
                chosen = shifted_by_tensorflow(tensorflow, chosen, (own, number))
            return tensorflow.cast(chosen, "float32") / 127.5 - 1.0, tensorflow.gather(
                labels, taken
            )

        order = tensorflow.data.Dataset.range(self.train_images)
        order = order.shuffle(self.train_images, seed=seed, reshuffle_each_iteration=True)
        order = order.batch(batch * replicas, drop_remainder=True).repeat()
        order = order.map(mine).unbatch().enumerate()
        ready = order.map(drawn, num_parallel_calls=threads, deterministic=True)
        return ready.prefetch(2 * local)

    def test_batches(self, backend: Any, batch: int) -> Iterator[Tuple[Any, Any, int]]:
        """Held-out images, all of them once: images, labels, and how many of them count.

        All batches are of one size, so that nothing is compiled twice: the last one is filled up
        with images that have been counted before.
        """
        numpy = load("numpy", "NumPy")
        for first in range(0, self.test_images, batch):
            taken = numpy.arange(first, first + batch) % self.test_images
            counted = min(batch, self.test_images - first)
            yield self.pixels(self.test.images[taken]), self.test.labels[taken], counted

    def pixels(self, images: Any) -> Any:
        """Bytes as numbers from -1 to 1 (float32), as many of them as the network takes."""
        for axis, taken in self.nearest(images):
            images = images.take(taken, axis)
        return images.astype("float32") / load("numpy", "NumPy").float32(127.5) - 1

    def nearest(self, images: Any) -> List[Tuple[int, Any]]:
        """Axes of a batch along which the images change size: which pixels to take there."""
        numpy = load("numpy", "NumPy")
        return [
            (axis, numpy.arange(wanted) * there // wanted)
            for axis, wanted, there in zip((1, 2), self.shape, images.shape[1:])
            if wanted != there
        ]


def stream(*seeds: int) -> Any:
    """A stream of random numbers. NumPy has frozen this one: it is the same in every version."""
    return load("numpy", "NumPy").random.RandomState(list(seeds))


def shifted(images: Any, draw: Any) -> Any:
    """Each image moved by up to `MARGIN` pixels each way, black where it left, half of them
    mirrored."""
    numpy = load("numpy", "NumPy")
    count, height, width, _ = images.shape
    padded = numpy.pad(images, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
    rows = draw.randint(0, 2 * MARGIN + 1, (count, 1)) + numpy.arange(height)
    columns = draw.randint(0, 2 * MARGIN + 1, (count, 1)) + numpy.arange(width)
    mirrored = draw.randint(0, 2, count).astype(bool)
    columns[mirrored] = columns[mirrored, ::-1]
    which = numpy.arange(count)[:, None, None]
    return padded[which, rows[:, :, None], columns[:, None, :]]


def shifted_by_tensorflow(tensorflow: Any, images: Any, seed: Tuple[Any, Any]) -> Any:
    """The same on TensorFlow, with numbers of its own. `seed` is two whole numbers."""
    count, height, width, _ = images.shape
    padded = tensorflow.pad(images, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
    seeds = tensorflow.stack([tensorflow.cast(number, "int64") for number in seed])
    draw = tensorflow.random.stateless_uniform
    moves = draw((2, count, 1), seeds, 0, 2 * MARGIN + 1, dtype=tensorflow.int32)
    rows, columns = moves[0] + tensorflow.range(height), moves[1] + tensorflow.range(width)
    mirrored = draw((count, 1), tensorflow.stack([seeds[0] + (1 << 32), seeds[1]])) < 0.5
    columns = tensorflow.where(mirrored, columns[:, ::-1], columns)
    taken = tensorflow.gather(padded, rows, axis=1, batch_dims=1)
    return tensorflow.gather(taken, columns, axis=2, batch_dims=1)
