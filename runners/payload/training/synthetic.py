"""Images made on the device: a pattern for each class, under noise, so that they can be learned."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Tuple

from .backends import Backend, Batch

PATTERN = 4  # a class is a pattern of so many coloured fields on either side...
SIGNAL = 0.25  # ...of so much weight; the rest of an image is noise
HELD_OUT = 1000  # images at least that the accuracy is measured on
SEEDS = 2**32


class Synthetic:
    """One batch that is trained on again and again, and others that it is measured on."""

    images = 0  # an epoch of it is as long as one likes

    def __init__(
        self, backend: Backend, shape: Tuple[int, int, int], classes: int, seed: int
    ) -> None:
        """`shape` is an image's: height, width, channels."""
        self._backend, self.shape, self.classes, self._seed = backend, shape, classes, seed

    def facts(self) -> Dict[str, Any]:
        return {"image_shape": list(self.shape), "classes": self.classes}

    def batches(self) -> Iterator[Batch]:
        return self._backend.repeat(lambda replica, count: self.draw(replica, count))

    def held_out(self) -> Iterator[Batch]:
        """Batches that are never trained on, drawn anew each time."""
        count = self._backend.replica_batch
        first = self._backend.replicas
        for number in range(-(-HELD_OUT // count)):
            yield self.draw(first + number, count)

    def draw(self, number: int, count: int) -> Batch:
        """Images in [0, 1) [count, height, width, channels] and their classes [count].

        The seed fixes the patterns, the seed and the batch's number the images.
        """
        keras = self._backend.keras
        ops, random = keras.ops, keras.random
        height, width, channels = self.shape
        labels = random.randint((count,), 0, self.classes, dtype="int32", seed=self._for(number, 1))
        noise = random.uniform((count, *self.shape), dtype="float32", seed=self._for(number, 2))
        fields = (self.classes, PATTERN, PATTERN, channels)
        patterns = random.uniform(fields, dtype="float32", seed=self._for(0, 0))
        shown = ops.take(patterns, labels, axis=0)
        for axis, size in ((1, height), (2, width)):
            shown = ops.repeat(shown, -(-size // PATTERN), axis=axis)
        return SIGNAL * shown[:, :height, :width] + (1 - SIGNAL) * noise, labels

    def _for(self, number: int, use: int) -> int:
        """A seed of its own for each batch and use, in every framework the same one."""
        return (self._seed * 1_000_003 + number * 3 + use) % SEEDS


def accuracy_on(
    held_out: Callable[[], Iterator[Batch]], predict: Callable[[Any], Any], to_numpy: Any
) -> Callable[[], Dict[str, float]]:
    """What measures the shares of the held-out images that the model as it is gets right."""
    from .loop import shares_right

    def measure() -> Dict[str, float]:
        images_seen, right = 0, {"accuracy": 0, "top_5_accuracy": 0}
        for images, labels in held_out():
            found = shares_right(predict(images)[: len(labels)], to_numpy(labels))
            right = {name: right[name] + found[name] for name in right}
            images_seen += len(labels)
        return {name: count / float(images_seen) for name, count in right.items()}

    return measure
