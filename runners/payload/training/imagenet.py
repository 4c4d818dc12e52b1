"""ImageNet for TensorFlow, as TFRecord shards or as a folder of JPEG files for each class.

Shards: `train-00000-of-01024` and `validation-00000-of-00128`, in the folder or in `train/` and
`validation/`, each record a `tf.train.Example` with `image/encoded` (JPEG) and
`image/class/label`, counted from 1 to 1000 as the usual scripts write it. Folders: `train/CLASS/`
and `val/CLASS/` (or `validation/`); the classes are the folders' names in alphabetical order.

Training takes random crops (Szegedy et al. 2015: 8 to 100 % of the area, ratio 3/4 to 4/3) and
mirrors half of them; evaluation takes the middle 87.5 %.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from ..frameworks import DataUnusable
from .data_checks import explain_tensorflow_error, require_images
from .tfrecord import read_record_lengths

SIDE = 224  # pixels of an image, where nothing else is asked for
CLASSES = 1000  # that the labels of shards count
SHARD = re.compile(r"(train|validation)-(\d{5})-of-(\d{5})")
HELD_OUT = {"train": ("train",), "validation": ("validation", "val")}
IMAGES = (".jpeg", ".jpg", ".png")
MAGIC = (b"\xff\xd8\xff", b"\x89PNG")
MAX_CHECKED = 64  # files of a split whose first image is checked before training
SHUFFLE_BUFFER = 4096  # encoded images of shards from which the next one is drawn
CROPPED_SHARE = 0.875  # of each side, for evaluation


class Files(NamedTuple):
    """The files of one split: shards, or images with their labels."""

    paths: List[str]
    labels: List[int]  # none for shards, which hold their own

    @property
    def sharded(self) -> bool:
        return not self.labels


class ImageNet:
    """An ImageNet data set, read from disk during the training. Needs TensorFlow."""

    def __init__(
        self, train: Files, test: Files, classes: int, image_size: int, threads: int
    ) -> None:
        self.train, self.test, self.classes, self.threads = train, test, classes, threads
        self.shape = (image_size or SIDE, image_size or SIDE, 3)
        self._counts: Dict[str, int] = {}

    @property
    def train_images(self) -> int:
        """Return the number of images, counted on first use: in shards that reads every header."""
        return self._count("train", self.train)

    @property
    def test_images(self) -> int:
        return self._count("test", self.test)

    def _count(self, name: str, files: Files) -> int:
        if name not in self._counts:
            self._counts[name] = len(files.labels) or sum(
                1 for path in files.paths for _ in read_record_lengths(path)
            )
        return self._counts[name]

    def require_batch(self, batch: int) -> None:
        """Raise DataUnusable if a batch of the whole job needs more images than there are."""
        counted = 0
        for path in self.train.paths:
            counted += 1 if self.train.labels else sum(1 for _ in read_record_lengths(path))
            if counted >= batch:
                return
        require_images(batch, counted, "the data set")

    def check_images(self, tensorflow: Any) -> None:
        """Decode the first image of up to 64 files a split. Raises DataUnusable for a bad one."""
        for files in (self.train, self.test):
            step = -(-len(files.paths) // MAX_CHECKED)
            for number in range(0, len(files.paths), step):
                self._check_image(tensorflow, files, number)

    def _check_image(self, tensorflow: Any, files: Files, number: int) -> None:
        path = files.paths[number]
        try:
            if files.sharded:
                record = next(iter(tensorflow.data.TFRecordDataset(path)))
                encoded, label = _parse_example(tensorflow, record)
                label = int(label)
            else:
                encoded, label = tensorflow.io.read_file(path), files.labels[number]
            tensorflow.io.decode_image(encoded, channels=3, expand_animations=False)
        except tensorflow.errors.OpError as error:
            raise DataUnusable(
                f"{path}: its first image cannot be used. It has to be a JPEG"
                f"{', under image/encoded with image/class/label' if files.sharded else ''}: "
                f"{explain_tensorflow_error(error)}"
            ) from error
        if not 0 <= label < self.classes:
            raise DataUnusable(
                f"{path}: the label of its first image is {label + 1}, and labels are counted from "
                f"1 to {self.classes}"
            )

    def make_readings(self, backend: Any, seed: int, first_step: int = 0) -> Any:
        """Return an endless `tf.data.Dataset` of batches for this process's replicas in turn.

        The processes divide one order of images, so that none is seen twice in an epoch. Images of
        steps before the first one are read, and not decoded.
        """
        tensorflow = backend.tensorflow
        self.check_images(tensorflow)

        def decode(number: Any, image: Tuple[Any, Any]) -> Tuple[Any, Any]:
            encoded, label = image
            image_seed = (seed + (backend.rank << 33), number)
            cropped = self._crop_at_random(tensorflow, encoded, image_seed)
            return cropped, self._check_label(tensorflow, label)

        images = self._read_encoded_images(tensorflow, self.train, seed).repeat()
        images = images.shard(backend.processes, backend.rank).enumerate()
        images = images.skip(first_step * backend.local_replicas * backend.replica_batch)
        decoded = images.map(decode, num_parallel_calls=self.threads, deterministic=True)
        batches = decoded.batch(backend.replica_batch, drop_remainder=True)
        return batches.prefetch(2 * backend.local_replicas)

    def feed_test_batches(self, backend: Any, batch: int) -> Iterator[Tuple[Any, Any, int]]:
        """Yield each held-out image once, in order: images, labels, how many of the batch count.

        The last batch is filled up with images that have been counted before.
        """
        tensorflow = backend.tensorflow

        def decode(encoded: Any, label: Any) -> Tuple[Any, Any]:
            return self._crop_centre(tensorflow, encoded), self._check_label(tensorflow, label)

        encoded_images = self._read_encoded_images(tensorflow, self.test, None)
        decoded = encoded_images.map(decode, num_parallel_calls=self.threads, deterministic=True)
        for images, labels in decoded.batch(batch).prefetch(2).as_numpy_iterator():
            counted = len(labels)
            repeated = [number % counted for number in range(batch)]
            yield images[repeated], labels[repeated], counted

    def _read_encoded_images(self, tensorflow: Any, files: Files, seed: Any) -> Any:
        """Return a tf.data.Dataset of encoded images and labels, shuffled if there is a seed."""
        dataset = tensorflow.data.Dataset
        if not files.sharded:
            images = dataset.from_tensor_slices((files.paths, files.labels))
            if seed is not None:
                images = images.shuffle(len(files.paths), seed=seed)
            return images.map(
                lambda path, label: (tensorflow.io.read_file(path), label),
                num_parallel_calls=self.threads,
                deterministic=True,
            )
        shards = dataset.from_tensor_slices(files.paths)
        if seed is not None:
            shards = shards.shuffle(len(files.paths), seed=seed)
        open_at_once = min(16, len(files.paths))
        images = shards.interleave(
            tensorflow.data.TFRecordDataset,
            cycle_length=open_at_once,
            num_parallel_calls=min(self.threads, open_at_once),
            deterministic=True,
        )
        if seed is not None:
            images = images.shuffle(SHUFFLE_BUFFER, seed=seed)
        return images.map(lambda record: _parse_example(tensorflow, record))

    def _crop_at_random(self, tensorflow: Any, encoded: Any, seed: Tuple[Any, Any]) -> Any:
        """Return a random part of an image, mirrored by chance."""
        seeds = tensorflow.stack([tensorflow.cast(number, "int64") for number in seed])
        codecs, is_jpeg = tensorflow.io, tensorflow.io.is_jpeg(encoded)

        def decode_whole() -> Any:
            return codecs.decode_png(encoded, channels=3)  # one image of ImageNet is a PNG

        begin, extent, _ = tensorflow.image.stateless_sample_distorted_bounding_box(
            tensorflow.cond(
                is_jpeg,
                lambda: codecs.extract_jpeg_shape(encoded),
                lambda: tensorflow.shape(decode_whole()),
            ),
            tensorflow.zeros((1, 0, 4)),
            seed=seeds,
            area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3),
            min_object_covered=0.0,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        window = tensorflow.concat([begin[:2], extent[:2]], 0)
        cropped = tensorflow.cond(
            is_jpeg,
            lambda: codecs.decode_and_crop_jpeg(encoded, window, channels=3),
            lambda: tensorflow.slice(decode_whole(), begin, extent),
        )
        flip_seeds = tensorflow.stack([seeds[0] + (1 << 32), seeds[1]])
        cropped = tensorflow.image.stateless_random_flip_left_right(cropped, flip_seeds)
        return self._resize(tensorflow, cropped)

    def _crop_centre(self, tensorflow: Any, encoded: Any) -> Any:
        image = tensorflow.io.decode_jpeg(encoded, channels=3)
        return self._resize(tensorflow, tensorflow.image.central_crop(image, CROPPED_SHARE))

    def _resize(self, tensorflow: Any, image: Any) -> Any:
        resized = tensorflow.image.resize(image, self.shape[:2])
        return tensorflow.ensure_shape(resized / 127.5 - 1.0, self.shape)

    def _check_label(self, tensorflow: Any, label: Any) -> Any:
        label = tensorflow.cast(label, tensorflow.int32)
        message = f"a label is not one of the {self.classes} classes (shards count them from 1)"
        tensorflow.debugging.assert_non_negative(label, message=message)
        tensorflow.debugging.assert_less(label, self.classes, message=message)
        return label


def _parse_example(tensorflow: Any, record: Any) -> Tuple[Any, Any]:
    """Return an example's encoded image, and its label counted from 0."""
    feature = tensorflow.io.FixedLenFeature
    example = tensorflow.io.parse_single_example(
        record,
        {
            "image/encoded": feature((), tensorflow.string),
            "image/class/label": feature((), tensorflow.int64),
        },
    )
    return example["image/encoded"], tensorflow.cast(example["image/class/label"], "int32") - 1


def open_imagenet(directory: str, image_size: int, threads: int = 1) -> ImageNet:
    """Return the data set in a folder, in either of the two forms. Raises DataUnusable."""
    shards = {split: _find_shards(directory, split) for split in HELD_OUT}
    if shards["train"] or shards["validation"]:
        for split, paths in shards.items():
            if not paths:
                raise DataUnusable(f"{directory} has no shards {split}-NNNNN-of-NNNNN")
        train, test = (Files(paths, []) for paths in shards.values())
        return ImageNet(train, test, CLASSES, image_size, threads)
    folders = {split: _find_folder(directory, names) for split, names in HELD_OUT.items()}
    classes = _number_classes(folders["train"])
    train, test = (_list_images(folder, classes) for folder in folders.values())
    return ImageNet(train, test, len(classes), image_size, threads)


def _find_shards(directory: str, split: str) -> List[str]:
    """Return the paths of a split's shards, in order; an empty list if it has none."""
    for folder in (directory, os.path.join(directory, split)):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        shards = [match for match in map(SHARD.fullmatch, names) if match and match[1] == split]
        if not shards:
            continue
        counts = {match[3] for match in shards}
        if len(counts) > 1:
            raise DataUnusable(
                f"{folder} mixes shards of several sets: {split}-*-of-"
                f"{' and -of-'.join(sorted(counts))}"
            )
        present, count = {match[0] for match in shards}, int(shards[0][3])
        expected = [f"{split}-{number:05d}-of-{count:05d}" for number in range(count)]
        missing = [name for name in expected if name not in present]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise DataUnusable(
                f"{folder} lacks {len(missing)} of {count} shards: {', '.join(missing[:3])}{more}"
            )
        paths = [os.path.join(folder, name) for name in expected]
        for path in paths:
            if not os.path.getsize(path):
                raise DataUnusable(f"{path} is empty. Copy or make it again.")
        for path in paths[:: -(-count // MAX_CHECKED)]:
            next(read_record_lengths(path))
        return paths
    return []


def _find_folder(directory: str, names: Tuple[str, ...]) -> str:
    for name in names:
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            return path
    raise DataUnusable(
        f"{directory} holds no ImageNet: neither shards {names[0]}-NNNNN-of-NNNNN nor a folder "
        f"{' or '.join(names)}/ with a folder of JPEG files for each class"
    )


def _number_classes(folder: str) -> Dict[str, int]:
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    if len(names) < 2:
        raise DataUnusable(f"{folder} needs a folder for each class; it has {len(names)}")
    return {name: number for number, name in enumerate(names)}


def _list_images(folder: str, classes: Dict[str, int]) -> Files:
    """Return all images below the folders of classes. Checks the first file of each class."""
    paths: List[str] = []
    labels: List[int] = []
    for entry in sorted((entry for entry in os.scandir(folder) if entry.is_dir()), key=_get_name):
        if entry.name not in classes:
            raise DataUnusable(f"{entry.path}: the images to train on have no class {entry.name!r}")
        names = sorted(name for name in os.listdir(entry.path) if name.lower().endswith(IMAGES))
        if names:
            _require_image(os.path.join(entry.path, names[0]))
        paths += [os.path.join(entry.path, name) for name in names]
        labels += [classes[entry.name]] * len(names)
    if not paths:
        raise DataUnusable(f"{folder} holds no images whose names end in {', '.join(IMAGES)}")
    return Files(paths, labels)


def _get_name(entry: Any) -> str:
    return str(entry.name)


def _require_image(path: str) -> None:
    with open(path, "rb") as file:
        content = file.read(4)
    if not content.startswith(MAGIC):
        raise DataUnusable(
            f"{path} is no JPEG: it has {os.path.getsize(path)} bytes and begins with "
            f"{content.hex() or 'nothing'}"
        )
