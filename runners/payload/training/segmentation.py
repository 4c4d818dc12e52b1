"""`segmentation`: a class for every pixel of aerial images, by a fully convolutional ResNet50.

Every epoch is timed; the model is measured on tiles that it was not trained on, at no epoch's
expense, and may be used on a larger image in windows that overlap by half.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict

from ..frameworks import StartError, load
from ..place import Place
from ..recorder import Recorder
from .backends import Backend, memory_named, open_backend
from .cnn import loss_of
from .datasets import fed
from .fcn import resnet50_fcn
from .loop import Accuracy, Epochs, Schedule, report, train
from .stitching import stitched
from .tiles import CLASSES, Tiles, open_tiles

BATCH = 16  # tiles that are predicted at once, whatever the batch of the training


def run(parameters: Dict[str, Any], recorder: Recorder, place: Place) -> None:
    recorder.phase("data")
    tiles = open_tiles(parameters)
    demand_scene(parameters["predict_size"], tiles.side)
    recorder.phase("import")
    backend = open_backend(parameters, place)
    recorder.phase("build")
    tiles.demand(backend.job_batch)
    what = f"a batch of {backend.replica_batch} tiles of {tiles.side}x{tiles.side} on one device"
    with memory_named(what):
        keras = backend.keras
        make = lambda: resnet50_fcn(keras, tiles.side, CLASSES, parameters["width"])  # noqa: E731
        model = backend.build(make)
        optimizer = keras.optimizers.Adam(float(parameters["learning_rate"]))
        step = backend.compile(model, loss_of(keras), optimizer)
        predict = backend.predictor(model)
        loss = train_epochs(step, predict, parameters, recorder, backend, tiles)
        report(recorder, loss, backend.job_batch, "tiles")
        if parameters["predict_size"]:
            predict_scene(predict, tiles, parameters["predict_size"], recorder)
    recorder.facts.update(
        {**backend.facts(), **tiles.facts(), "parameters_of_model": model.count_params()}
    )


def demand_scene(side: int, tile: int) -> None:
    if side and side < tile:
        raise StartError(f"predict_size is {side}, and an image is at least one tile of {tile}")


def train_epochs(
    step: Any,
    predict: Callable[[Any], Any],
    parameters: Dict[str, Any],
    recorder: Recorder,
    backend: Backend,
    tiles: Tiles,
) -> float:
    """All epochs, with their evaluations in between; the last loss."""
    planned = schedule(parameters, tiles.samples // backend.job_batch)
    epochs = Epochs(planned, recorder)
    accuracy = Accuracy(lambda: measure(predict, tiles), planned, 0, recorder)
    batches = fed(tiles, backend, parameters["seed"])

    def after(done: int) -> None:
        epochs.after(done)
        accuracy.after(done)

    once = lambda: step(next(batches))  # noqa: E731
    return train(once, planned.steps, planned.burn_in, recorder, after)


def schedule(parameters: Dict[str, Any], epoch: int) -> Schedule:
    """All in steps, of which an epoch has so many. Raises StartError if the burn-in is all."""
    epochs, burn_in = parameters["epochs"], parameters["burn_in"]
    if burn_in >= epochs * epoch:
        raise StartError(
            f"a burn-in of {burn_in} steps leaves none of the {epochs * epoch} steps of {epochs} "
            "epochs: make it shorter"
        )
    return Schedule(epochs * epoch, burn_in, parameters["evaluate_every"] * epoch, epoch)


def measure(predict: Callable[[Any], Any], tiles: Tiles) -> Dict[str, float]:
    """Pixel accuracy and mean IoU on the held-out tiles."""
    table: Any = 0
    for images, labels, counted in tiles.test_batches(min(BATCH, len(tiles.test.images))):
        table = table + confusion(labels[:counted], predict(images).argmax(-1)[:counted])
    return {"accuracy": pixel_accuracy(table), "mean_iou": mean_iou(table)}


def confusion(labels: Any, found: Any) -> Any:
    """How many pixels of each class (rows) were taken for which (columns)."""
    numpy = load("numpy", "NumPy")
    both = labels.astype("int64") * CLASSES + found
    return numpy.bincount(both.ravel(), minlength=CLASSES**2).reshape(CLASSES, CLASSES)


def pixel_accuracy(table: Any) -> float:
    return float(table.trace() / table.sum())


def mean_iou(table: Any) -> float:
    """Intersection over union, the mean over the classes that occur (Everingham et al. 2015)."""
    right = table.diagonal()
    union = table.sum(0) + table.sum(1) - right
    return float((right[union > 0] / union[union > 0]).mean())


def predict_scene(
    predict: Callable[[Any], Any], tiles: Tiles, side: int, recorder: Recorder
) -> None:
    """Use the model on a larger image; how long that took, and how much of it was right."""
    image, labels = tiles.scene(side)
    batch = min(BATCH, len(tiles.test.images))  # what was compiled for the evaluation
    recorder.phase("prediction")
    began = time.perf_counter()
    found = stitched(predict, image, tiles.side, batch).argmax(-1)
    recorder.metric("prediction_time", time.perf_counter() - began, "s")
    recorder.phase("end")
    recorder.metric("prediction_accuracy", float((found == labels).mean()), "1")
