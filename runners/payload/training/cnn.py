"""`cnn`: a network that classifies images, trained or used, step by step."""

from __future__ import annotations

from typing import Any, Dict

from ..place import Place
from ..recorder import Recorder
from .backends import memory_named, open_backend
from .datasets import OfDataSet, open_data
from .loop import Accuracy, Epochs, report, schedule, train
from .networks import chosen
from .synthetic import Synthetic, accuracy_on


def run(parameters: Dict[str, Any], recorder: Recorder, place: Place) -> None:
    network, shape, classes = chosen(parameters)
    source = None
    if parameters.get("data", "synthetic") != "synthetic":
        recorder.phase("data")  # before the framework, which takes its time: it may be missing
        source = open_data({**parameters, "image_size": shape[0]})
        classes = source.classes
    recorder.phase("import")
    backend = open_backend(parameters, place)
    recorder.phase("build")
    batch = f"a batch of {backend.replica_batch} images of {shape[0]}x{shape[1]} on one device"
    with memory_named(batch):
        data: Any = Synthetic(backend, shape, classes, parameters["seed"])
        if source is not None:
            data = OfDataSet(source, backend, parameters["seed"])
        model = backend.build(lambda: network.make(backend.keras, shape, classes))
        training = parameters.get("mode", "training") == "training"
        evaluated = training and parameters.get("evaluate", True)
        optimizer = optimizer_for(backend.keras, parameters) if training else None
        step = backend.compile(model, loss_of(backend.keras), optimizer)
        batches = data.batches()

        images = data.images if parameters.get("epochs") else 0  # counting may take a while
        planned = schedule(parameters, images, backend.job_batch)
        epochs = Epochs(planned, recorder)
        after = [epochs.after]
        if evaluated:
            to_numpy = backend.keras.ops.convert_to_numpy
            measure = accuracy_on(data.held_out, backend.predictor(model), to_numpy)
            target = parameters["target_accuracy"]
            after.append(Accuracy(measure, planned, target, recorder).after)

        def between(done: int) -> None:
            for look in after:
                look(done)

        once = lambda: step(next(batches))  # noqa: E731
        loss = train(once, planned.steps, planned.burn_in, recorder, between)
    report(recorder, loss, backend.job_batch)
    recorder.facts.update(
        {
            "data": parameters.get("data", "synthetic"),
            **backend.facts(),
            **data.facts(),
            "parameters_of_model": model.count_params(),
        }
    )


def loss_of(keras: Any) -> Any:
    """Cross entropy of each image, from logits."""

    def loss(labels: Any, outputs: Any) -> Any:
        return keras.losses.sparse_categorical_crossentropy(labels, outputs, from_logits=True)

    return loss


def optimizer_for(keras: Any, parameters: Dict[str, Any]) -> Any:
    """A new optimizer, by the parameters `optimizer` and `learning_rate`."""
    rate, made = float(parameters["learning_rate"]), keras.optimizers
    makers = {
        "sgd": lambda: made.SGD(rate),
        "momentum": lambda: made.SGD(rate, momentum=0.9),
        "rmsprop": lambda: made.RMSprop(rate, rho=0.9, momentum=0.9),
        "adam": lambda: made.Adam(rate),
    }
    return makers[parameters.get("optimizer", "momentum")]()
