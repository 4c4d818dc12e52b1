"""`cnn`: a network that classifies images, trained or used for inference, step by step."""

from __future__ import annotations

from typing import Any, Dict

from ..place import RunProcess
from ..recorder import Recorder
from .backends import explain_out_of_memory, open_backend
from .datasets import DataSetFeed, open_data
from .loop import Accuracy, Epochs, plan_training, report, train
from .networks import choose_network
from .synthetic import Synthetic, make_accuracy_measure


def run(parameters: Dict[str, Any], recorder: Recorder, process: RunProcess) -> None:
    network, shape, classes = choose_network(parameters)
    source = None
    if parameters.get("data", "synthetic") != "synthetic":
        recorder.phase("data")  # before the slow import of the framework: data may be missing
        source = open_data({**parameters, "image_size": shape[0]})
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
        batches = data.feed_batches()

        images = data.images if parameters.get("epochs") else 0  # counting may take a while
        planned = plan_training(parameters, images, backend.job_batch)
        epochs = Epochs(planned, recorder)
        callbacks = [epochs.record_epoch]
        if evaluated:
            to_numpy = backend.keras.ops.convert_to_numpy
            measure = make_accuracy_measure(
                data.feed_held_out, backend.make_predictor(model), to_numpy
            )
            target = parameters["target_accuracy"]
            callbacks.append(Accuracy(measure, planned, target, recorder).evaluate_if_due)

        def run_callbacks(done: int) -> None:
            for callback in callbacks:
                callback(done)

        run_batch = lambda: step(next(batches))  # noqa: E731
        loss = train(run_batch, planned.steps, planned.warm_up_steps, recorder, run_callbacks)
    report(recorder, loss, backend.job_batch)
    recorder.facts.update(
        {
            "data": parameters.get("data", "synthetic"),
            **backend.gather_facts(),
            **data.gather_facts(),
            "parameters_of_model": model.count_params(),
        }
    )
    backend.close()


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
