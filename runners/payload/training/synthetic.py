"""Images generated on the device: a pattern for each class under noise, so they can be learned."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Tuple

from .backends import Backend, Batch

PATTERN = 4  # coloured fields on each side of a class's pattern
SIGNAL = 0.25  # weight of the pattern in an image; the rest is noise
HELD_OUT = 1000  # images at least, to measure the accuracy on
SEEDS = 2**32


class Synthetic:
    """A generated data set: one batch to train on again and again, others to evaluate on."""

    images = 0  # no number of images limits an epoch

    def __init__(
        self, backend: Backend, shape: Tuple[int, int, int], classes: int, seed: int
    ) -> None:
        """`shape` is an image's: height, width, channels."""
        self._backend, self.shape, self.classes, self._seed = backend, shape, classes, seed

    def gather_facts(self) -> Dict[str, Any]:
        return {"image_shape": list(self.shape), "classes": self.classes}

    def feed_batches(self, first_step: int = 0) -> Iterator[Batch]:
        """Yield the same batch for ever, whatever the first step is."""
        return self._backend.repeat(lambda replica, count: self.draw(replica, count))

    def feed_held_out(self) -> Iterator[Batch]:
        """Yield batches that are never trained on, drawn anew each time."""
        count = self._backend.replica_batch
        first = self._backend.replicas
        for number in range(-(-HELD_OUT // count)):
            yield self.draw(first + number, count)

    def draw(self, number: int, count: int) -> Batch:
        """Return images [count, height, width, channels] in [0, 1), and their classes [count].

        The seed fixes the patterns; the seed and the batch's number fix the images.
        """
        keras = self._backend.keras
        ops, random = keras.ops, keras.random
        height, width, channels = self.shape
        label_seed, noise_seed = self._derive_seed(number, 1), self._derive_seed(number, 2)
        labels = random.randint((count,), 0, self.classes, dtype="int32", seed=label_seed)
        noise = random.uniform((count, *self.shape), dtype="float32", seed=noise_seed)
        fields = (self.classes, PATTERN, PATTERN, channels)
        patterns = random.uniform(fields, dtype="float32", seed=self._derive_seed(0, 0))
        signal = ops.take(patterns, labels, axis=0)
        for axis, size in ((1, height), (2, width)):
            signal = ops.repeat(signal, -(-size // PATTERN), axis=axis)
        return SIGNAL * signal[:, :height, :width] + (1 - SIGNAL) * noise, labels

    def _derive_seed(self, number: int, use: int) -> int:
        """Return a seed for each batch and use, the same one in every framework."""
        return (self._seed * 1_000_003 + number * 3 + use) % SEEDS


def make_accuracy_measure(
    held_out: Callable[[], Iterator[Batch]], predict: Callable[[Any], Any], to_numpy: Any
) -> Callable[[], Dict[str, float]]:
    """Return a function that measures the model's present accuracy on the held-out images."""
    from .loop import count_correct

    def measure() -> Dict[str, float]:
        images_seen, totals = 0, {"accuracy": 0, "top_5_accuracy": 0}
        for images, labels in held_out():
            correct = count_correct(predict(images)[: len(labels)], to_numpy(labels))
            totals = {name: totals[name] + correct[name] for name in totals}
            images_seen += len(labels)
        return {name: count / float(images_seen) for name, count in totals.items()}

    return measure
