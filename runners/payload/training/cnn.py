"""`cnn`: a network that classifies images, trained or used for inference, step by step."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional

from ..frameworks import StartError
from ..place import RunProcess
from ..recorder import Recorder
from ..resumed import ResumableRecorder
from .backends import Backend, explain_out_of_memory, open_backend
from .checkpoints import Checkpoints
from .datasets import DataSetFeed, open_data
from .loop import Accuracy, Epochs, Schedule, plan_training, report, train
from .networks import choose_network
from .schedules import RatePlan, learning_rate_at, plan_learning_rates
from .synthetic import Synthetic, make_accuracy_measure


def run(parameters: Dict[str, Any], recorder: Recorder, process: RunProcess) -> None:
    network, shape, classes = choose_network(parameters)
    source = None
    if parameters.get("data", "synthetic") != "synthetic":
        recorder.phase("data")  # before the slow import of the framework: data may be missing
        source = open_data({**parameters, "image_size": shape[0], "channels": shape[2]})
        classes = source.classes
    recorder.phase("import")
    backend = open_backend(parameters, process)
    recorder.phase("build")
    batch = f"a batch of {backend.replica_batch} images of {shape[0]}x{shape[1]} on one device"
    with explain_out_of_memory(batch):
        data: Any = Synthetic(backend, shape, classes, parameters["seed"])
        if source is not None:
            data = DataSetFeed(source, backend, parameters["seed"])
        model = backend.build(lambda: network.make(backend.keras, shape, classes))
        training = parameters.get("mode", "training") == "training"
        evaluated = training and parameters.get("evaluate", True)
        optimizer = make_optimizer(backend.keras, parameters) if training else None
        step = backend.compile(model, make_loss(backend.keras), optimizer)
        images = data.images if parameters.get("epochs") else 0  # counting may take a while
        planned = plan_training(parameters, images, backend.job_batch)
        epochs = Epochs(planned, recorder)
        callbacks = [epochs.record_epoch]
        going_on: List[Any] = [epochs]
        if evaluated:
            to_numpy = backend.keras.ops.convert_to_numpy
            measure = make_accuracy_measure(
                data.feed_held_out, backend.make_predictor(model), to_numpy
            )
            target = parameters["target_accuracy"]
            accuracy = Accuracy(measure, planned, target, recorder)
            callbacks.append(accuracy.evaluate_if_due)
            going_on.append(accuracy)

        def run_callbacks(done: int) -> None:
            for callback in callbacks:
                callback(done)

        first = 0
        checkpoints = open_checkpoints(parameters, planned, backend, model, recorder, process)
        if checkpoints and isinstance(recorder, ResumableRecorder):
            first = checkpoints.go_on()
            for part in going_on if first else ():
                part.go_on(recorder)
            callbacks.append(checkpoints.save_if_due)
        batches = data.feed_batches(first)
        run_batch = lambda: step(next(batches))  # noqa: E731
        if training:
            rates = plan_learning_rates(parameters, planned)
            run_batch = schedule_learning_rate(run_batch, rates, first, backend, recorder)
        lengths = planned.steps, planned.warm_up_steps
        loss = train(run_batch, *lengths, recorder, run_callbacks, first)
    report(recorder, loss, backend.job_batch)
    recorder.facts.update(
        {
            "data": parameters.get("data", "synthetic"),
            **backend.gather_facts(),
            **data.gather_facts(),
            "parameters_of_model": model.count_params(),
        }
    )
    if checkpoints:
        checkpoints.finish()
    backend.close()


def open_checkpoints(
    parameters: Dict[str, Any],
    planned: Schedule,
    backend: Backend,
    model: Any,
    recorder: Recorder,
    process: RunProcess,
) -> Optional[Checkpoints]:
    """Return the checkpoints of this job's part of the run; None for a run of one job."""
    if not process.segment or not isinstance(recorder, ResumableRecorder):
        return None
    if process.size > 1 or process.instances > 1 or parameters.get("mode") == "forward":
        raise StartError("a run over several jobs is a training in one process: choose segments=1")
    every = parameters.get("checkpoint_every", 0) * (planned.epoch or 1)
    directory = process.directory
    return Checkpoints(backend, model, recorder, process.segment, directory, planned, every)


def schedule_learning_rate(
    step: Callable[[], Any],
    plan: RatePlan,
    first: int,
    backend: Backend,
    recorder: Recorder,
) -> Callable[[], Any]:
    """Return the step with its learning rate set before it, which is recorded as a series.

    A rate that stays the same is set once: a constant one costs no step anything. `first` is the
    number of the first step.
    """
    if plan.is_constant:
        return step
    recorder.series("learning_rate", "1")
    present, done = math.nan, first

    def run_step() -> Any:
        nonlocal present, done
        rate = learning_rate_at(done, plan)
        if rate != present:
            backend.set_learning_rate(rate)
            present = rate
        done += 1
        recorder.add(learning_rate=rate)
        return step()

    return run_step


def make_loss(keras: Any) -> Any:
    """Return a function for the cross entropy of each image (or pixel), from logits."""

    def compute_loss(labels: Any, outputs: Any) -> Any:
        return keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True)

    return compute_loss


def make_optimizer(keras: Any, parameters: Dict[str, Any]) -> Any:
    """Return a new optimizer, by the parameters `optimizer` and `learning_rate`."""
    rate, optimizers = float(parameters["learning_rate"]), keras.optimizers
    makers = {
        "sgd": lambda: optimizers.SGD(rate),
        "momentum": lambda: optimizers.SGD(rate, momentum=0.9),
        "rmsprop": lambda: optimizers.RMSprop(rate, rho=0.9, momentum=0.9),
        "adam": lambda: optimizers.Adam(rate),
    }
    return makers[parameters.get("optimizer", "momentum")]()
