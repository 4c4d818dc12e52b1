"""A small convolutional network trained with Keras 3 on TensorFlow, on images made on the device.

One step is forward, backward and update on the same batch; fetching its loss waits for the
device. With a fixed seed the losses of two environments should agree to the bit.
"""

from __future__ import annotations

import math
import os
from typing import Any, Callable

from .frameworks import StartError, load, set_threads
from .recorder import STEP_TIME, Recorder, ResultError

CLASSES = 10


def run(parameters: dict[str, Any], recorder: Recorder) -> None:
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
    images, labels = synthetic_batch(tensorflow, parameters)
    step = train_step(tensorflow, keras, build_model(keras, parameters), parameters)

    loss = train(lambda: step(images, labels), parameters["steps"], parameters["burn_in"], recorder)
    recorder.metric("loss", loss, "1")
    images_per_second = parameters["batch_size"] / recorder.mean(STEP_TIME)
    recorder.metric("images_per_second", images_per_second, "images/s")
    recorder.facts.update(
        tensorflow=tensorflow.__version__, keras=keras.__version__, gpus=gpus, device=images.device
    )


def train(step: Callable[[], Any], steps: int, burn_in: int, recorder: Recorder) -> float:
    """Run and record the steps; the loss of the last one. A step ends when its loss is here."""
    loss = math.nan
    recorder.series("loss", "1")
    for number in recorder.steps(steps, burn_in):
        loss = float(step())
        recorder.step(loss=loss)
        if not math.isfinite(loss):
            raise ResultError(f"loss is not finite at step {number}")
    return loss


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


def synthetic_batch(tensorflow: Any, parameters: dict[str, Any]) -> tuple[Any, Any]:
    """Images in [0, 1) and their labels, drawn where they are used: nothing is fed or copied."""
    batch, size = parameters["batch_size"], parameters["image_size"]
    seed, draw = parameters["seed"], tensorflow.random.stateless_uniform
    images = draw((batch, size, size, 3), (seed, 0))
    return images, draw((batch,), (seed, 1), maxval=CLASSES, dtype=tensorflow.int32)


def build_model(keras: Any, parameters: dict[str, Any]) -> Any:
    """Three blocks of convolution, normalisation and pooling, then one dense layer."""
    layers = keras.layers
    size = parameters["image_size"]
    model = keras.Sequential([keras.Input((size, size, 3))])
    for filters in (32, 64, 128):
        model.add(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        model.add(layers.BatchNormalization())
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
