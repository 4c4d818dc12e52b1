"""`segmentation`: a class for every pixel of aerial images, by a fully convolutional ResNet50.

Every epoch is timed. The model is evaluated on held-out tiles, whose time counts for no epoch, and
may be used on a larger image in windows that overlap by half.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Dict

from ..frameworks import StartError, load
from ..place import RunProcess
from ..recorder import Recorder
from ..resumed import ResumableRecorder
from .backends import Backend, explain_out_of_memory, open_backend
from .cnn import make_loss, open_checkpoints
from .datasets import feed_batches
from .fcn import build_resnet50_fcn
from .loop import Accuracy, Epochs, Schedule, report, train
from .stitching import predict_in_windows
from .tiles import CLASSES, Tiles, open_tiles

BATCH = 16  # tiles that are predicted at once, whatever the batch of the training


def run(parameters: Dict[str, Any], recorder: Recorder, process: RunProcess) -> None:
    recorder.phase("data")
    tiles = open_tiles(parameters)
    require_scene(parameters["predict_size"], tiles.side)
    recorder.phase("import")
    backend = open_backend(parameters, process)
    recorder.phase("build")
    tiles.require_batch(backend.job_batch)
    batch = f"a batch of {backend.replica_batch} tiles of {tiles.side}x{tiles.side} on one device"
    with explain_out_of_memory(batch):
        keras = backend.keras
        make = lambda: build_resnet50_fcn(keras, tiles.side, CLASSES, parameters["width"])  # noqa: E731
        model = backend.build(make)
        optimizer = keras.optimizers.Adam(float(parameters["learning_rate"]))
        step = backend.compile(model, make_loss(keras), optimizer)
        predict = backend.make_predictor(model)
        loss = train_epochs(step, predict, model, parameters, recorder, backend, tiles, process)
        report(recorder, loss, backend.job_batch, "tiles")
        if parameters["predict_size"]:
            predict_scene(predict, tiles, parameters["predict_size"], recorder)
    recorder.facts.update(
        {
            **backend.gather_facts(),
            **tiles.gather_facts(),
            "parameters_of_model": model.count_params(),
        }
    )
    backend.close()


def require_scene(side: int, tile: int) -> None:
    if side and side < tile:
        raise StartError(f"predict_size is {side}, and an image is at least one tile of {tile}")


def train_epochs(
    step: Any,
    predict: Callable[[Any], Any],
    model: Any,
    parameters: Dict[str, Any],
    recorder: Recorder,
    backend: Backend,
    tiles: Tiles,
    process: RunProcess,
) -> float:
    """Train all epochs, with the evaluations between them; return the last loss.

    Of a run over several jobs: those that are left, from the last checkpoint on.
    """
    planned = plan_epochs(parameters, tiles.samples // backend.job_batch)
    epochs = Epochs(planned, recorder)
    accuracy = Accuracy(lambda: measure(predict, tiles), planned, 0, recorder)
    callbacks = [epochs.record_epoch, accuracy.evaluate_if_due]
    first = 0
    checkpoints = open_checkpoints(parameters, planned, backend, model, recorder, process)
    if checkpoints and isinstance(recorder, ResumableRecorder):
        first = checkpoints.go_on()
        for part in (epochs, accuracy) if first else ():
            part.go_on(recorder)
        callbacks.append(checkpoints.save_if_due)
    batches = feed_batches(tiles, backend, parameters["seed"], first)

    def run_callbacks(done: int) -> None:
        for callback in callbacks:
            callback(done)

    train_batch = lambda: step(next(batches))  # noqa: E731
    loss = train(train_batch, planned.steps, planned.warm_up_steps, recorder, run_callbacks, first)
    if checkpoints:
        checkpoints.finish()
    return loss


def plan_epochs(parameters: Dict[str, Any], epoch: int) -> Schedule:
    """Return the plan in steps; `epoch` is the steps of one epoch.

    Raises StartError if the warm-up leaves no step.
    """
    epochs, warm_up_steps = parameters["epochs"], parameters["burn_in"]
    if warm_up_steps >= epochs * epoch:
        raise StartError(
            f"a warm-up of {warm_up_steps} steps leaves none of the {epochs * epoch} steps of "
            f"{epochs} epochs: make it shorter"
        )
    return Schedule(epochs * epoch, warm_up_steps, parameters["evaluate_every"] * epoch, epoch)


def measure(predict: Callable[[Any], Any], tiles: Tiles) -> Dict[str, float]:
    """Return the pixel accuracy and the mean IoU on the held-out tiles."""
    table: Any = 0
    for images, labels, counted in tiles.feed_test_batches(min(BATCH, len(tiles.test.images))):
        table = table + count_confusions(labels[:counted], predict(images).argmax(-1)[:counted])
    return {"accuracy": compute_pixel_accuracy(table), "mean_iou": compute_mean_iou(table)}


def count_confusions(labels: Any, predictions: Any) -> Any:
    """Return how many pixels of each class (rows) were predicted as each class (columns)."""
    numpy = load("numpy", "NumPy")
    pairs = labels.astype("int64") * CLASSES + predictions
    return numpy.bincount(pairs.ravel(), minlength=CLASSES**2).reshape(CLASSES, CLASSES)


def compute_pixel_accuracy(table: Any) -> float:
    return float(table.trace() / table.sum())


def compute_mean_iou(table: Any) -> float:
    """Return intersection over union, averaged over the classes that occur.

    Everingham et al. 2015. `table` is what `count_confusions` returns.
    """
    correct = table.diagonal()
    union = table.sum(0) + table.sum(1) - correct
    return float((correct[union > 0] / union[union > 0]).mean())


def predict_scene(
    predict: Callable[[Any], Any], tiles: Tiles, side: int, recorder: Recorder
) -> None:
    """Use the model on a larger image; record the time and the share of correct pixels."""
    image, labels = tiles.make_scene(side)
    batch = min(BATCH, len(tiles.test.images))  # the size compiled for the evaluation
    recorder.phase("prediction")
    began = time.perf_counter()
    predictions = predict_in_windows(predict, image, tiles.side, batch).argmax(-1)
    recorder.metric("prediction_time", time.perf_counter() - began, "s")
    recorder.phase("end")
    recorder.metric("prediction_accuracy", float((predictions == labels).mean()), "1")
