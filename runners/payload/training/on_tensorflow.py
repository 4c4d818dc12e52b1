"""TensorFlow: one device, MirroredStrategy, MultiWorkerMirroredStrategy or Horovod."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Dict, Iterable, Iterator, List

from ..frameworks import StartError, load
from ..place import RunProcess, meet
from .backends import (
    Backend,
    Batch,
    Loss,
    Step,
    group_readings,
    needs_stand_ins,
    require_devices,
)


def open_backend(parameters: Dict[str, Any], process: RunProcess) -> Backend:
    if parameters.get("parallel") == "horovod":
        return OnHorovod(parameters, process)
    return OnTensorFlow(parameters, process)


class OnTensorFlow(Backend):
    name = "tensorflow"
    label = "TensorFlow"
    needs_keras = "Keras 3 is needed (TensorFlow 2.16 or later)"

    def __init__(self, parameters: Dict[str, Any], process: RunProcess) -> None:
        super().__init__(parameters, process)
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        if process.size > 1:
            self.set_cluster()
        self.tensorflow: Any = load("tensorflow", "TensorFlow")
        self.keras = self.load_keras()
        self.strategy: Any = None
        self.choose_devices()
        if self.deterministic:
            self.tensorflow.config.experimental.enable_op_determinism()
        self.join()
        self.divide_batch()

    def set_seed(self, keras: Any, seed: int) -> None:
        keras.utils.set_random_seed(seed)

    def set_cluster(self) -> None:
        """Name all processes for MultiWorkerMirroredStrategy, before TensorFlow is imported."""
        task = {"type": "worker", "index": self.process.rank}
        workers = meet(self.process)
        os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": workers}, "task": task})

    def choose_devices(self) -> None:
        """Set the number of CPU threads, and the GPUs or the CPU devices to train on."""
        config, process = self.tensorflow.config, self.process
        config.threading.set_intra_op_parallelism_threads(self.parameters["threads"])
        config.threading.set_inter_op_parallelism_threads(1)
        visible_gpus = config.list_physical_devices("GPU")
        requested = self.count_requested_gpus()
        require_devices(self.label, len(visible_gpus), requested)
        if visible_gpus:
            gpus = self.select_gpus(visible_gpus, requested)
            config.set_visible_devices(gpus, "GPU")
            for gpu in gpus:
                config.experimental.set_memory_growth(gpu, True)
            details = config.experimental.get_device_details
            self.devices = [details(gpu).get("device_name", gpu.name) for gpu in gpus]
        elif needs_stand_ins(process) and process.size == 1:
            self.stand_in = True
            stand_in = config.LogicalDeviceConfiguration()
            config.set_logical_device_configuration(
                config.list_physical_devices("CPU")[0], [stand_in] * process.gpus
            )
            self.devices = ["CPU"] * process.gpus
        else:
            self.devices = ["CPU"]

    def count_requested_gpus(self) -> int:
        """Return how many GPUs this process should use."""
        return self.process.gpus

    def select_gpus(self, visible: List[Any], requested: int) -> List[Any]:
        """Return those of the visible GPUs that this process uses."""
        return visible[: max(1, requested)]

    def join(self) -> None:
        """Connect the replicas of this process with each other and with the other processes'."""
        distribute = self.tensorflow.distribute
        if self.process.size > 1:
            self.strategy = distribute.MultiWorkerMirroredStrategy()
            self.rank, self.processes = self.process.rank, self.process.size
        elif len(self.devices) > 1:
            kind = "CPU" if self.stand_in else "GPU"
            names = [f"{kind}:{number}" for number in range(len(self.devices))]
            reduction = distribute.ReductionToOneDevice() if self.stand_in else None
            self.strategy = distribute.MirroredStrategy(names, cross_device_ops=reduction)
        if self.strategy is not None:
            self.replicas = self.strategy.num_replicas_in_sync
            self.local_replicas = self.replicas // self.processes

    def gather_facts(self) -> Dict[str, Any]:
        strategy = type(self.strategy).__name__ if self.strategy is not None else ""
        return {
            **super().gather_facts(),
            "tensorflow": self.tensorflow.__version__,
            "strategy": strategy,
        }

    def build(self, make: Callable[[], Any]) -> Any:
        if self.strategy is None:
            return make()
        with self.strategy.scope():
            return make()

    def compile(self, model: Any, loss: Loss, optimizer: Any = None) -> Step:
        tensorflow, mean = self.tensorflow, self.keras.ops.mean
        share = 1.0 / self.replicas
        variables = model.trainable_variables

        def forward(images: Any, labels: Any) -> Any:
            return mean(loss(labels, model(images, training=False))) * share

        def train(images: Any, labels: Any) -> Any:
            with tensorflow.GradientTape() as tape:
                value = mean(loss(labels, model(images, training=True))) * share
                scaled = optimizer.scale_loss(value)
            gradients = self.compute_gradients(tape, scaled, variables)
            optimizer.apply(gradients, variables)
            return value

        if optimizer is not None:
            self.optimizer = optimizer = self.prepare_optimizer(optimizer, variables)
        replica_step = forward if optimizer is None else train
        if self.strategy is None:
            jit = self.can_jit(model)
            compiled = tensorflow.function(replica_step, jit_compile=jit, autograph=False)
            return lambda batch: compiled(*batch)

        strategy = self.strategy

        def run_on_all_replicas(images: Any, labels: Any) -> Any:
            losses = strategy.run(replica_step, args=(images, labels))
            return strategy.reduce(tensorflow.distribute.ReduceOp.SUM, losses, axis=None)

        compiled = tensorflow.function(run_on_all_replicas, autograph=False)
        return lambda batch: compiled(*batch)

    def set_learning_rate(self, rate: float) -> None:
        self.optimizer.learning_rate = rate

    def prepare_optimizer(self, optimizer: Any, variables: Any) -> Any:
        """Return the optimizer with its variables, and with loss scaling for half precision."""

        def make() -> Any:
            # An optimizer takes up the strategy when it is constructed.
            rebuilt = type(optimizer).from_config(optimizer.get_config())
            if self.parameters.get("precision") == "mixed_float16":
                rebuilt = self.keras.optimizers.LossScaleOptimizer(rebuilt)
            rebuilt.build(variables)
            return rebuilt

        return self.build(make)

    def compute_gradients(self, tape: Any, value: Any, variables: Any) -> Any:
        return tape.gradient(value, variables)

    def can_jit(self, model: Any) -> bool:
        """Return whether XLA compiles the step: as in Keras' own loop, but not on CPUs alone."""
        if self.deterministic or self.devices == ["CPU"]:
            return False
        return all(getattr(layer, "supports_jit", True) for layer in model._flatten_layers())

    def repeat(self, draw: Callable[[int, int], Batch]) -> Iterator[Batch]:
        tensorflow = self.tensorflow
        kind = "GPU" if tensorflow.config.list_logical_devices("GPU") else "CPU"
        first = self.rank * self.local_replicas
        parts = []
        for number in range(self.local_replicas):
            with tensorflow.device(f"{kind}:{number}"):
                parts.append(draw(first + number, self.replica_batch))
        batch = parts[0] if self.strategy is None else self.join_parts(parts)
        while True:
            yield batch

    def join_parts(self, parts: List[Batch]) -> Batch:
        """Return one batch of all local replicas, each part on the device that uses it."""
        distribute = self.strategy.experimental_distribute_values_from_function
        local = self.local_replicas

        def join(field: int) -> Any:
            return distribute(
                lambda context: parts[context.replica_id_in_sync_group % local][field]
            )

        return join(0), join(1)

    def feed(self, readings: Iterable[Batch]) -> Iterator[Batch]:
        tensorflow = self.tensorflow
        if not isinstance(readings, tensorflow.data.Dataset):
            for parts in group_readings(readings, self.local_replicas):
                tensors = [tuple(map(tensorflow.convert_to_tensor, part)) for part in parts]
                yield tensors[0] if self.strategy is None else self.join_parts(tensors)
            return
        dataset: Any = readings
        if self.strategy is None:
            if self.devices != ["CPU"]:
                dataset = dataset.apply(tensorflow.data.experimental.prefetch_to_device("/GPU:0"))
            yield from dataset
        else:
            yield from self.strategy.distribute_datasets_from_function(lambda context: dataset)

    def make_predictor(self, model: Any) -> Callable[[Any], Any]:
        forward = self.tensorflow.function(
            lambda images: model(images, training=False), autograph=False
        )
        return lambda images: forward(self.tensorflow.convert_to_tensor(images)).numpy()


class OnHorovod(OnTensorFlow):
    """One process for each GPU, gradients averaged by Horovod; started by mpirun or srun."""

    def __init__(self, parameters: Dict[str, Any], process: RunProcess) -> None:
        self.horovod: Any = None
        super().__init__(parameters, process)

    def set_cluster(self) -> None:
        """Do nothing: Horovod finds the other processes through MPI."""

    def count_requested_gpus(self) -> int:
        return min(1, self.process.gpus)

    def select_gpus(self, visible: List[Any], requested: int) -> List[Any]:
        """Return one GPU: the only visible one, or by the local rank if it sees all of the node."""
        return visible if len(visible) == 1 else [visible[self.process.local_rank % len(visible)]]

    def join(self) -> None:
        try:
            self.horovod = load("horovod.tensorflow", "Horovod")
        except StartError as error:
            raise StartError(
                f"{error}. parallel=horovod needs an image with Horovod for TensorFlow; "
                "parallel=mirrored needs TensorFlow alone"
            ) from error
        self.horovod.init()
        self.rank, self.processes = self.horovod.rank(), self.horovod.size()
        if self.processes != self.process.size:
            raise StartError(
                f"Horovod counts {self.processes} processes, and {self.process.size} were started: "
                "is the MPI in the image one that understands the launcher's?"
            )
        self.replicas = self.processes

    def gather_facts(self) -> Dict[str, Any]:
        version = getattr(load("horovod", "Horovod"), "__version__", "")
        return {**super().gather_facts(), "strategy": "Horovod", "horovod": version}

    def compute_gradients(self, tape: Any, value: Any, variables: Any) -> Any:
        # The losses were divided by the number of replicas, so the gradients are summed.
        summing_tape = self.horovod.DistributedGradientTape(tape, op=self.horovod.Sum)
        # Horovod takes TensorFlow's variables, which those of Keras 3 wrap.
        return summing_tape.gradient(value, [variable.value for variable in variables])

    def compile(self, model: Any, loss: Loss, optimizer: Any = None) -> Step:
        step = super().compile(model, loss, optimizer)
        self.horovod.broadcast_variables([v.value for v in model.variables], root_rank=0)
        allreduce = self.horovod.allreduce
        return lambda batch: allreduce(step(batch), op=self.horovod.Sum)
