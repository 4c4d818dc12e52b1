"""The data sets that a network can be trained on, in their usual file formats.

    data = open_data(parameters)                  # files checked and read; before any framework
    data.require_batch(job_batch)
    for batch in feed_batches(data, backend, seed): step(batch)
    for images, labels, counted in data.feed_test_batches(backend, batch): ...

Pixels are numbers from -1 to 1. The seed fixes the order of the images, the crops and the flips,
so that every environment trains on the same batches. Nothing is ever downloaded.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterator, List, Tuple

from ..frameworks import DataUnusable, StartError, load, set_threads
from .data_checks import explain_tensorflow_error, require_directory, require_images
from .imagenet import open_imagenet
from .made_images import make_patterns
from .small_images import CLASSES, Split, read_cifar10, read_mnist

Batch = Tuple[Any, Any]  # images and labels
BROKEN_DATA_ERRORS = ("DataLossError", "InvalidArgumentError", "NotFoundError")  # TensorFlow's
MARGIN = 4  # pixels that a shifted image of CIFAR-10 moves at most, as in He et al. 2015


def open_data(parameters: Dict[str, Any]) -> Any:
    """Return an `Arrays` or an `ImageNet`, once its files are known to be there and whole.

    Reads of the parameters: data, data_directory, image_size (0 leaves images as large as they
    are), framework and threads; for data=made also seed and channels, and image_size is not 0.
    Raises DataUnusable or StartError, within seconds.
    """
    name, directory = parameters["data"], parameters.get("data_directory", "")
    image_size, threads = parameters.get("image_size", 0), parameters["threads"]
    framework = parameters.get("framework", "tensorflow")
    if name == "imagenet" and framework != "tensorflow":
        raise StartError(
            f"ImageNet is read through tf.data, and the framework is {framework}: choose "
            "tensorflow, or another data set"
        )
    set_threads(threads)  # before NumPy is first loaded, which may be by the next lines
    if name == "made":
        splits = make_patterns(parameters["seed"], image_size, parameters["channels"])
        return Arrays(*splits, image_size=image_size, augment=False)
    require_directory(directory, f"the data set {name}")
    if name == "mnist":
        return Arrays(*read_mnist(directory), image_size=image_size, augment=False)
    if name == "cifar10":
        return Arrays(*read_cifar10(directory), image_size=image_size, augment=True)
    return open_imagenet(directory, image_size, threads)


def feed_batches(data: Any, backend: Any, seed: int, first_step: int = 0) -> Iterator[Any]:
    """Yield batches as the backend's steps take them, read before their step begins.

    From `first_step` on they are the same as without: what was trained on before is passed over.
    Raises DataUnusable if the data set turns out to be broken somewhere in its middle.
    """
    passed = {"first_step": first_step} if first_step else {}
    readings = data.make_readings(backend, seed, **passed)
    if isinstance(readings, Iterator):
        readings = read_ahead(readings, 2 * backend.local_replicas)
    try:
        yield from backend.feed(readings)
    except Exception as error:
        # By name: TensorFlow may not be installed.
        if type(error).__name__ not in BROKEN_DATA_ERRORS:
            raise
        reason = explain_tensorflow_error(error)
        raise DataUnusable(f"the data set cannot be read to its end: {reason}") from error


def read_ahead(readings: Iterator[Any], count: int) -> Iterator[Any]:
    """Yield the same readings, up to `count` of them prepared in advance by another thread."""
    with ThreadPoolExecutor(1) as reader:
        pending = deque(reader.submit(next, readings, None) for _ in range(count))
        while True:
            reading = pending.popleft().result()
            if reading is None:
                return
            pending.append(reader.submit(next, readings, None))
            yield reading


class DataSetFeed:
    """A data set with the methods that `cnn` needs, the same ones that `Synthetic` has."""

    def __init__(self, source: Any, backend: Any, seed: int) -> None:
        self._source, self._backend, self._seed = source, backend, seed
        source.require_batch(backend.job_batch)

    @property
    def images(self) -> int:
        return int(self._source.train_images)

    def feed_batches(self, first_step: int = 0) -> Iterator[Any]:
        return feed_batches(self._source, self._backend, self._seed, first_step)

    def feed_held_out(self) -> Iterator[Batch]:
        """Yield all held-out images; images beyond the last label only fill up their batch."""
        batch = self._backend.replica_batch
        for images, labels, counted in self._source.feed_test_batches(self._backend, batch):
            yield images, labels[:counted]

    def gather_facts(self) -> Dict[str, Any]:
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

    def require_batch(self, batch: int) -> None:
        """Raise DataUnusable if a batch of the whole job needs more images than there are."""
        require_images(batch, self.train_images, "the data set")

    def make_readings(self, backend: Any, seed: int, first_step: int = 0) -> Any:
        """Return endless batches for the backend's replicas: tf.data for TensorFlow, else NumPy."""
        read = self.build_pipeline if backend.name == "tensorflow" else self.draw_batches
        return read(backend, seed, first_step)

    def draw_batches(
        self, backend: Any, seed: int, first_step: int = 0
    ) -> Iterator[Tuple[Any, Any]]:
        """Yield images (float32) and labels (int32) for this process's replicas in turn.

        Each epoch takes every image once, in an order of its own, and leaves out the last images
        if they fill no batch of the job. One order is divided among all replicas, wherever they
        run: the job trains on the same batches on any number of GPUs.
        """
        batch, replicas = backend.replica_batch, backend.replicas
        first = backend.rank * backend.local_replicas
        epoch_steps = self.train_images // (batch * replicas)
        for epoch in range(first_step // epoch_steps, 1 << 31):
            order = make_random_stream(seed, epoch).permutation(self.train_images)
            begin = max(0, first_step - epoch * epoch_steps)
            for number in range(begin, epoch_steps):
                for replica in range(first, first + backend.local_replicas):
                    indices = order[(number * replicas + replica) * batch :][:batch]
                    images = self.train.images[indices]
                    if self.augment:
                        draw = make_random_stream(seed, epoch, number, replica)
                        images = shift_images(images, draw)
                    yield self.scale(images), self.train.labels[indices]

    def build_pipeline(self, backend: Any, seed: int, first_step: int = 0) -> Any:
        """Return the same as `draw_batches`, as a `tf.data.Dataset` that draws its own order."""
        tensorflow, threads = backend.tensorflow, backend.parameters["threads"]
        batch, replicas, local = backend.replica_batch, backend.replicas, backend.local_replicas
        with tensorflow.device("CPU"):
            images = tensorflow.constant(self.train.images)
            labels = tensorflow.constant(self.train.labels)

        def select_own(indices: Any) -> Any:
            return tensorflow.reshape(indices, (replicas, batch))[backend.rank * local :][:local]

        def load_batch(number: Any, indices: Any) -> Tuple[Any, Any]:
            pixels = tensorflow.gather(images, indices)
            if self.augment:
                process_seed = seed + (backend.rank << 33)
                pixels = shift_images_by_tensorflow(tensorflow, pixels, (process_seed, number))
            return tensorflow.cast(pixels, "float32") / 127.5 - 1.0, tensorflow.gather(
                labels, indices
            )

        order = tensorflow.data.Dataset.range(self.train_images)
        order = order.shuffle(self.train_images, seed=seed, reshuffle_each_iteration=True)
        order = order.batch(batch * replicas, drop_remainder=True).repeat()
        order = order.map(select_own).unbatch().enumerate().skip(first_step * local)
        batches = order.map(load_batch, num_parallel_calls=threads, deterministic=True)
        return batches.prefetch(2 * local)

    def feed_test_batches(self, backend: Any, batch: int) -> Iterator[Tuple[Any, Any, int]]:
        """Yield each held-out image once: images, labels, and how many of the batch count.

        All batches have the same size, so that nothing is compiled twice: the last one is filled
        up with images that have been counted before.
        """
        numpy = load("numpy", "NumPy")
        for first in range(0, self.test_images, batch):
            indices = numpy.arange(first, first + batch) % self.test_images
            counted = min(batch, self.test_images - first)
            yield self.scale(self.test.images[indices]), self.test.labels[indices], counted

    def scale(self, images: Any) -> Any:
        """Return bytes as numbers from -1 to 1 (float32), resized to what the network takes."""
        for axis, indices in self.find_nearest_pixels(images):
            images = images.take(indices, axis)
        return images.astype("float32") / load("numpy", "NumPy").float32(127.5) - 1

    def find_nearest_pixels(self, images: Any) -> List[Tuple[int, Any]]:
        """Return each axis of a batch that changes its length, with the pixels to take along it."""
        numpy = load("numpy", "NumPy")
        return [
            (axis, numpy.arange(target) * length // target)
            for axis, target, length in zip((1, 2), self.shape, images.shape[1:])
            if target != length
        ]


def make_random_stream(*seeds: int) -> Any:
    """Return a NumPy RandomState: frozen, it gives the same numbers in every version of NumPy."""
    return load("numpy", "NumPy").random.RandomState(list(seeds))


def shift_images(images: Any, draw: Any) -> Any:
    """Return the images moved by up to `MARGIN` pixels each way, half of them mirrored.

    Pixels that come in from outside are black.
    """
    numpy = load("numpy", "NumPy")
    count, height, width, _ = images.shape
    padded = numpy.pad(images, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
    rows = draw.randint(0, 2 * MARGIN + 1, (count, 1)) + numpy.arange(height)
    columns = draw.randint(0, 2 * MARGIN + 1, (count, 1)) + numpy.arange(width)
    mirrored = draw.randint(0, 2, count).astype(bool)
    columns[mirrored] = columns[mirrored, ::-1]
    image_numbers = numpy.arange(count)[:, None, None]
    return padded[image_numbers, rows[:, :, None], columns[:, None, :]]


def shift_images_by_tensorflow(tensorflow: Any, images: Any, seed: Tuple[Any, Any]) -> Any:
    """Do the same on TensorFlow, by its own random numbers. `seed` is two whole numbers."""
    count, height, width, _ = images.shape
    padded = tensorflow.pad(images, ((0, 0), (MARGIN, MARGIN), (MARGIN, MARGIN), (0, 0)))
    seeds = tensorflow.stack([tensorflow.cast(number, "int64") for number in seed])
    draw = tensorflow.random.stateless_uniform
    moves = draw((2, count, 1), seeds, 0, 2 * MARGIN + 1, dtype=tensorflow.int32)
    rows, columns = moves[0] + tensorflow.range(height), moves[1] + tensorflow.range(width)
    mirrored = draw((count, 1), tensorflow.stack([seeds[0] + (1 << 32), seeds[1]])) < 0.5
    columns = tensorflow.where(mirrored, columns[:, ::-1], columns)
    shifted_rows = tensorflow.gather(padded, rows, axis=1, batch_dims=1)
    return tensorflow.gather(shifted_rows, columns, axis=2, batch_dims=1)
