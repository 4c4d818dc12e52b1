"""The interface between a workload that trains and the framework that does the arithmetic.

A workload opens a backend, builds its model, compiles its step and feeds it batches::

    backend = open_backend(parameters, process)       # imports the framework, chooses the devices
    keras = backend.keras
    model = backend.build(lambda: network(keras))     # a keras.Model of keras.layers alone
    step = backend.compile(model, loss, keras.optimizers.Adam(1e-4))  # None: forward only
    batches = backend.repeat(draw)                    # one batch made on the devices, for ever
    batches = backend.feed(readings)                  # or batches from a reader of files
    loss = float(step(next(batches)))                 # waits for the devices
    backend.set_learning_rate(0.05)                   # of the steps from now on
    predict = backend.make_predictor(model)
    outputs = predict(images)                         # numpy in, numpy out, in full precision

`loss(labels, outputs)` returns one value an example (or a pixel), not their mean: the backend takes
the mean over all replicas. The last layer is float32 (`dtype="float32"`) in any precision.

A *replica* is one copy of the model on one device. A step trains `job_batch` images; each replica
has `replica_batch` of them, and so a process `local_replicas * replica_batch`.
"""

from __future__ import annotations

import importlib
import os
import random
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple

from .. import gpus
from ..frameworks import Failure, StartError, load, set_threads
from ..place import RunProcess

Batch = Tuple[Any, Any]  # images [count, height, width, channels] and labels
Step = Callable[[Batch], Any]
Loss = Callable[[Any, Any], Any]

# How the frameworks' messages say that the memory of the device or the machine did not suffice.
OUT_OF_MEMORY = (
    "resource_exhausted",
    "resourceexhausted",
    "out of memory",
    "outofmemory",
    "oom when allocating",
    "can't allocate memory",
    "failed to allocate",
)


class Backend:
    """One process's part of a training. Each framework implements compile, repeat and feed."""

    name: str  # as the parameter `framework` has it
    label: str
    needs_keras = "Keras 3 is needed"

    keras: Any
    devices: List[str]  # of this process, by the names of their makers
    stand_in = False  # whether CPU devices stand in for the GPUs that were asked for
    rank = 0  # of this process
    processes = 1
    replicas = 1  # of the model, in all processes together
    local_replicas = 1
    replica_batch: int
    job_batch: int
    optimizer: Any = None  # of the model that is trained

    def __init__(self, parameters: Dict[str, Any], process: RunProcess) -> None:
        self.parameters, self.process = parameters, process
        self.deterministic = bool(parameters.get("deterministic", True))
        set_threads(parameters["threads"])
        os.environ["KERAS_BACKEND"] = {"pytorch": "torch"}.get(self.name, self.name)
        os.environ["KERAS_HOME"] = (
            os.devnull
        )  # no keras.json of the user's changes what is measured

    def load_keras(self) -> Any:
        """Return Keras with its seed and its precision set, once the framework is imported."""
        keras = load("keras", "Keras")
        if int(keras.__version__.split(".")[0]) < 3:
            raise StartError(f"{self.needs_keras}, not {keras.__version__}")
        self.set_seed(keras, self.parameters["seed"])
        keras.config.set_dtype_policy(self.parameters.get("precision", "float32"))
        return keras

    def set_seed(self, keras: Any, seed: int) -> None:
        """Seed what layers draw. Keras' own function would import TensorFlow if it is there."""
        random.seed(seed)
        load("numpy", "NumPy").random.seed(seed)

    def divide_batch(self) -> None:
        """Divide the batch among the replicas, now that their number is known."""
        batch, replicas = self.parameters["batch_size"], self.replicas
        if self.parameters.get("batch_per", "job") == "GPU":
            self.replica_batch, self.job_batch = batch, batch * replicas
            return
        if batch % replicas:
            raise StartError(
                f"a batch of {batch} for the whole job cannot be divided among {replicas} "
                f"GPUs; choose a multiple of {replicas}, or a batch per GPU"
            )
        self.replica_batch, self.job_batch = batch // replicas, batch

    def gather_facts(self) -> Dict[str, Any]:
        """Return the facts about the training that the result keeps."""
        return {
            "framework": self.label,
            "keras": self.keras.__version__,
            "devices": self.devices,
            "stand_in_devices": self.stand_in,
            "replicas": self.replicas,
            "processes": self.processes,
            "batch_of_job": self.job_batch,
            "batch_of_replica": self.replica_batch,
            "deterministic": self.deterministic,
        }

    def build(self, make: Callable[[], Any]) -> Any:
        """Return the model that `make` returns, its variables on all replicas."""
        return make()

    def compile(self, model: Any, loss: Loss, optimizer: Any = None) -> Step:
        """Return the compiled step, from a batch to its mean loss, which is still on the device.

        Forward, backward and update; without an optimizer the forward pass alone, as for
        inference (no dropout, statistics of normalisation fixed). `float(step(batch))` waits for
        the whole step.
        """
        raise NotImplementedError

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the steps from now on, rounded to float32; after `compile`."""
        raise NotImplementedError

    def read_state(self, model: Any) -> List[Any]:
        """Return copies of all variables of the model and its optimizer, after `compile`.

        NumPy arrays, always in the same order: weights, statistics, seeds of what layers draw,
        momenta, the learning rate.
        """
        variables = self.list_variables(model)
        return [self.keras.ops.convert_to_numpy(variable.value) for variable in variables]

    def write_state(self, model: Any, arrays: List[Any]) -> None:
        """Set all variables to what `read_state` returned, on all replicas."""
        variables = self.list_variables(model)
        require_shapes([tuple(variable.shape) for variable in variables], arrays)
        for variable, array in zip(variables, arrays):
            variable.assign(array)

    def list_variables(self, model: Any) -> List[Any]:
        return [*model.variables, *self.optimizer.variables]

    def repeat(self, draw: Callable[[int, int], Batch]) -> Iterator[Batch]:
        """Yield the same batch endlessly, drawn on the devices that use it: nothing is copied.

        `draw(replica, count)` makes the images and labels of one replica with `keras.random` and
        `keras.ops`; it is called under that replica's device. Replicas are numbered over all
        processes.
        """
        raise NotImplementedError

    def feed(self, readings: Iterable[Batch]) -> Iterator[Batch]:
        """Yield batches from readings: numpy arrays of `replica_batch` images and labels.

        A step takes `local_replicas` of them. On TensorFlow it may be a `tf.data.Dataset`.
        Each process reads its own part: see `rank` and `processes`.
        """
        raise NotImplementedError

    def make_predictor(self, model: Any) -> Callable[[Any], Any]:
        """Return a function from images to the model's present outputs (numpy, float32).

        It runs on one device and takes any number of images; each new number is compiled anew.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Part from the other processes, after the last use of the model in a training that ended
        well."""


def open_backend(parameters: Dict[str, Any], process: RunProcess) -> Backend:
    """Import the framework, choose its devices, and return its backend.

    Reads of the parameters: framework, batch_size, batch_per, precision, parallel,
    deterministic, threads and seed. Raises StartError, or Failure with a name.
    """
    name = parameters.get("framework", "tensorflow")
    module = importlib.import_module(".on_" + name, __package__)
    backend: Backend = module.open_backend(parameters, process)
    return backend


def require_shapes(shapes: List[Tuple[int, ...]], arrays: List[Any]) -> None:
    """Raise StartError unless there is an array of each shape: they are of another network."""
    if shapes != [tuple(array.shape) for array in arrays]:
        raise StartError("the checkpoint is of another network or another optimizer than this one")


def needs_stand_ins(process: RunProcess) -> bool:
    """Return whether CPU devices must stand in for several GPUs: this node has no NVIDIA driver."""
    return process.gpus > 1 and not has_driver()


def has_driver() -> bool:
    return os.path.isdir(gpus.DRIVER) and bool(os.listdir(gpus.DRIVER))


def require_devices(label: str, seen: int, requested: int) -> None:
    """Raise GPUMissing if CUDA works and the framework sees fewer GPUs than were requested."""
    if requested and has_driver() and seen < requested:
        raise gpus.GPUMissing(
            f"GPU missing: {requested} asked for, and {label} sees {seen}. Is it a build for the "
            "CPU alone, or for another CUDA than the one in here?"
        )


@contextmanager
def explain_out_of_memory(contents: str) -> Iterator[None]:
    """Turn a framework's out-of-memory error into a Failure that says `contents` did not fit."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).strip().split("\n", 1)[0][:200]
        message = f"out of memory: {contents} does not fit; choose a smaller batch ({reason})"
        raise Failure(message) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says, in any framework's way, that memory did not suffice."""
    if isinstance(error, MemoryError):
        return True
    message = f"{type(error).__name__}: {error}".lower()
    return any(phrase in message for phrase in OUT_OF_MEMORY)


def group_readings(readings: Iterable[Batch], size: int) -> Iterator[List[Batch]]:
    """Yield `size` readings at a time; drop those left over at the end."""
    parts: List[Batch] = []
    for reading in readings:
        parts.append(reading)
        if len(parts) == size:
            yield parts
            parts = []
