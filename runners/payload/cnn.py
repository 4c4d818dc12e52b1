"""A small convolutional network trained with Keras 3 on TensorFlow, on images made on the device.

One step is forward, backward and update on the same batch; fetching its loss waits for the
device. With a fixed seed the losses of two environments should agree to the bit. The accuracy is
measured on images that were not trained on, between two steps and at no step's expense.
"""

from __future__ import annotations

import math
import os
from typing import Any, Callable

from .frameworks import StartError, load, set_threads
from .place import Place
from .recorder import STEP_TIME, Recorder, ResultError

CLASSES = 10
PATTERN = 4  # a class is a pattern of so many coloured fields on either side...
SIGNAL = 0.25  # ...of so much weight; the rest of an image is noise
HELD_OUT = 1000  # images at least that the accuracy is measured on


def run(parameters: dict[str, Any], recorder: Recorder, place: Place) -> None:
    recorder.phase("import")
    set_threads(parameters["threads"])
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ["KERAS_HOME"] = os.devnull  # no keras.json of the user's changes what is measured
    tensorflow = load("tensorflow", "TensorFlow")
    keras = load("keras", "Keras")
    if int(keras.__version__.split(".")[0]) < 3:
        raise StartError(f"Keras 3 is needed (TensorFlow 2.16 or later), not {keras.__version__}")

    recorder.phase("build")
    gpus = prepare(tensorflow, keras, parameters)
    images, labels = synthetic_batch(tensorflow, parameters, 0)
    model = build_model(keras, parameters)
    step = train_step(tensorflow, keras, model, parameters)
    accuracy = Accuracy(held_out(tensorflow, model, parameters), parameters, recorder)

    steps, burn_in = parameters["steps"], parameters["burn_in"]
    loss = train(lambda: step(images, labels), steps, burn_in, recorder, accuracy.after)
    recorder.metric("loss", loss, "1")
    images_per_second = parameters["batch_size"] / recorder.mean(STEP_TIME)
    recorder.metric("images_per_second", images_per_second, "images/s")
    recorder.facts.update(
        tensorflow=tensorflow.__version__, keras=keras.__version__, gpus=gpus, device=images.device
    )


def train(
    step: Callable[[], Any],
    steps: int,
    burn_in: int,
    recorder: Recorder,
    after: Callable[[int], None] = lambda done: None,
) -> float:
    """Run and record the steps; the loss of the last one. A step ends when its loss is here.

    `after` is called between steps with the number of those that are done.
    """
    loss = math.nan
    recorder.series("loss", "1")
    for number in recorder.steps(steps, burn_in):
        loss = float(step())
        recorder.step(loss=loss)
        if not math.isfinite(loss):
            raise ResultError(f"loss is not finite at step {number}")
        after(number + 1)
    return loss


class Accuracy:
    """Evaluates the model every so many steps, and in any case after the last one."""

    def __init__(
        self, measure: Callable[[], float], parameters: dict[str, Any], recorder: Recorder
    ) -> None:
        """`measure` gives the accuracy of the model as it is, from 0 to 1."""
        self._measure, self._recorder = measure, recorder
        self._steps, self._every = parameters["steps"], parameters["evaluate_every"]
        self._target = parameters["target_accuracy"]
        recorder.series("accuracy", "1")
        recorder.series("accuracy_step", "steps")
        recorder.series("accuracy_time", "s")

    def after(self, done: int) -> None:
        """Evaluate, if it is time to. Only the seconds of the steps count as time of training."""
        if done != self._steps and (not self._every or done % self._every):
            return
        recorder = self._recorder
        with recorder.aside("evaluation"):
            accuracy, trained = self._measure(), recorder.time_in_steps()
        recorder.add(accuracy=accuracy, accuracy_step=done, accuracy_time=trained)
        recorder.metric("accuracy", accuracy, "1")
        if self._target and accuracy >= self._target:
            recorder.metric("time_to_accuracy", trained, "s")
            self._target = 0


def prepare(tensorflow: Any, keras: Any, parameters: dict[str, Any]) -> list[str]:
    """Fix all that may vary from run to run; the names of the GPUs that TensorFlow uses."""
    threading = tensorflow.config.threading
    threading.set_intra_op_parallelism_threads(parameters["threads"])
    threading.set_inter_op_parallelism_threads(1)
    gpus = tensorflow.config.list_physical_devices("GPU")
    for gpu in gpus:
        tensorflow.config.experimental.set_memory_growth(gpu, True)
    keras.utils.set_random_seed(parameters["seed"])
    tensorflow.config.experimental.enable_op_determinism()
    keras.config.set_dtype_policy(parameters["precision"])
    details = tensorflow.config.experimental.get_device_details
    return [details(gpu).get("device_name", gpu.name) for gpu in gpus]


def synthetic_batch(tensorflow: Any, parameters: dict[str, Any], number: Any) -> tuple[Any, Any]:
    """Images in [0, 1) and their classes, drawn where they are used: nothing is fed or copied.

    A class is a pattern under noise, so that it can be learned. The seed fixes the patterns, the
    seed and the batch's number the images.
    """
    batch, size = parameters["batch_size"], parameters["image_size"]
    seed, draw = parameters["seed"], tensorflow.random.stateless_uniform
    labels = draw((batch,), (seed, 2 * number), maxval=CLASSES, dtype=tensorflow.int32)
    noise = draw((batch, size, size, 3), (seed, 2 * number + 1))
    patterns = draw((CLASSES, PATTERN, PATTERN, 3), (seed, -1))
    for axis in (1, 2):
        patterns = tensorflow.repeat(patterns, -(-size // PATTERN), axis=axis)
    shown = tensorflow.gather(patterns[:, :size, :size], labels)
    return SIGNAL * shown + (1 - SIGNAL) * noise, labels


def held_out(tensorflow: Any, model: Any, parameters: dict[str, Any]) -> Callable[[], float]:
    """What measures the accuracy on batches that are never trained on, drawn anew each time."""
    batches = range(1, 1 - (-HELD_OUT // parameters["batch_size"]))

    @tensorflow.function  # type: ignore[untyped-decorator]
    def right(number: Any) -> Any:
        images, labels = synthetic_batch(tensorflow, parameters, number)
        found = tensorflow.argmax(model(images, training=False), axis=1, output_type=labels.dtype)
        return tensorflow.math.count_nonzero(found == labels)

    def measure() -> float:
        numbers = (tensorflow.constant(number, tensorflow.int64) for number in batches)
        counted = sum(int(right(number)) for number in numbers)
        return counted / float(len(batches) * parameters["batch_size"])

    return measure


def build_model(keras: Any, parameters: dict[str, Any]) -> Any:
    """Three blocks of convolution, normalisation and pooling, then one dense layer."""
    layers = keras.layers
    size = parameters["image_size"]
    model = keras.Sequential([keras.Input((size, size, 3))])
    for filters in (32, 64, 128):
        model.add(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        # Runs are short: the default of 0.99 would evaluate with statistics of the first steps.
        model.add(layers.BatchNormalization(momentum=0.9))
        model.add(layers.ReLU())
        model.add(layers.MaxPooling2D())
    model.add(layers.GlobalAveragePooling2D())
    # The loss is taken in full precision whatever the layers before it use.
    model.add(layers.Dense(CLASSES, dtype="float32"))
    return model


def train_step(tensorflow: Any, keras: Any, model: Any, parameters: dict[str, Any]) -> Any:
    """The compiled training step: (images, labels) -> loss."""
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(float(parameters["learning_rate"]), momentum=0.9)
    if parameters["precision"] == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)

    @tensorflow.function  # type: ignore[untyped-decorator]
    def step(images: Any, labels: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        optimizer.apply(gradients)
        return loss

    return step
