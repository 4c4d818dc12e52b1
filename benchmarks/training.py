"""Our training step beside Keras' own `fit`: python benchmarks/training.py --framework jax ...

The same network from the same function, the same synthetic batch on the device, optimizer and
precision; the two in turns in one process. Both wait for the device in every step: ours by
fetching its loss, `fit` by a callback that reads it. Needs Keras 3, the framework and NumPy, and
nothing else of Tare's. The ratio is that of the medians of all steps after the first ones of each
turn; above 1, ours is the faster.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runners.payload.place import RunProcess
from runners.payload.training import cnn
from runners.payload.training.backends import Backend, open_backend
from runners.payload.training.networks import NETWORKS, choose_network
from runners.payload.training.synthetic import Synthetic

clock = time.perf_counter
Turn = Callable[[int], list[float]]  # number of steps -> seconds of each


def tare_step(backend: Backend, model: Any, data: Synthetic, parameters: dict[str, Any]) -> Turn:
    optimizer = cnn.make_optimizer(backend.keras, parameters)
    step = backend.compile(model, cnn.make_loss(backend.keras), optimizer)
    batches = data.feed_batches()

    def turn(steps: int) -> list[float]:
        seconds = []
        for _ in range(steps):
            began = clock()
            float(step(next(batches)))
            seconds.append(clock() - began)
        return seconds

    return turn


def keras_fit(backend: Backend, model: Any, data: Synthetic, parameters: dict[str, Any]) -> Turn:
    keras = backend.keras
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=cnn.make_optimizer(keras, parameters), loss=loss)
    batches = data.feed_batches()

    class Clock(keras.callbacks.Callback):
        """The times at which the steps ended; reading the loss waits for the device."""

        def on_train_begin(self, logs: Any = None) -> None:
            self.ends = [clock()]

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            float(logs["loss"])
            self.ends.append(clock())

    def turn(steps: int) -> list[float]:
        watch = Clock()
        source = repeat_batch(backend, next(batches))
        model.fit(source, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[watch])
        return [end - began for began, end in zip(watch.ends, watch.ends[1:], strict=False)]

    return turn


def repeat_batch(backend: Backend, batch: Any) -> Any:
    """Return the batch without end, in the form that costs `fit` least."""
    if backend.name == "tensorflow":
        dataset = backend.tensorflow.data.Dataset  # type: ignore[attr-defined]
        return dataset.from_tensors(batch).repeat().prefetch(2)

    def endless() -> Iterator[Any]:
        while True:
            yield batch

    return endless()


def main() -> None:
    parameters = vars(arguments())
    turns, steps, skip = parameters.pop("turns"), parameters.pop("steps"), parameters.pop("skip")
    network, shape, classes = choose_network(parameters)
    backend = open_backend(parameters, RunProcess(".", gpus=0))
    data = Synthetic(backend, shape, classes, parameters["seed"])
    contestants: dict[str, Turn] = {}
    for name, start in (("ours", tare_step), ("fit", keras_fit)):
        model = backend.build(lambda: network.make(backend.keras, shape, classes))
        contestants[name] = start(backend, model, data, parameters)
        began = clock()
        contestants[name](2)
        print(f"{name}: compiled, two steps in {clock() - began:.1f} s", flush=True)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    batch = backend.job_batch
    network_name, precision = parameters["network"], parameters["precision"]
    print(f"{backend.label}, {backend.devices[0]}, {network_name}, batch {batch}, {shape[0]} px")
    print(f"{precision}, deterministic: {parameters['deterministic']}, ms a step (median)")
    print(f"{'turn':>4} {'ours':>9} {'fit':>9} {'fit/ours':>9}")
    for number in range(turns):
        medians = {}
        for name in list(contestants)[:: -1 if number % 2 else 1]:
            counted = contestants[name](steps + skip)[skip:]
            times[name] += counted
            medians[name] = statistics.median(counted)
        row = [1000 * medians["ours"], 1000 * medians["fit"], medians["fit"] / medians["ours"]]
        print(f"{number + 1:>4} {row[0]:>9.2f} {row[1]:>9.2f} {row[2]:>9.4f}", flush=True)
    overall = {name: statistics.median(seconds) for name, seconds in times.items()}
    for name, seconds in overall.items():
        print(f"{name}: {batch / seconds:.1f} images/s")
    print(f"ratio of throughput, ours over fit: {overall['fit'] / overall['ours']:.4f}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--framework", default="jax", choices=["tensorflow", "jax", "pytorch"])
    parser.add_argument("--network", default="resnet50", choices=list(NETWORKS))
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--image-size", type=int, default=0)
    parser.add_argument("--precision", default="mixed_bfloat16")
    parser.add_argument("--optimizer", default="momentum")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60, help="that count, in each turn")
    parser.add_argument("--skip", type=int, default=5, help="first steps of a turn")
    return parser.parse_args()


if __name__ == "__main__":
    main()
