"""JAX: one compiled program on all devices, the batch divided among them."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List

from ..frameworks import load
from ..place import RunProcess, meet
from .backends import (
    Backend,
    Batch,
    Loss,
    Step,
    group_readings,
    needs_stand_ins,
    require_devices,
    require_shapes,
)

AXIS = "batch"


def open_backend(parameters: Dict[str, Any], process: RunProcess) -> Backend:
    return OnJax(parameters, process)


class OnJax(Backend):
    name = "jax"
    label = "JAX"

    def __init__(self, parameters: Dict[str, Any], process: RunProcess) -> None:
        super().__init__(parameters, process)
        self.set_flags()
        self.jax: Any = load("jax", "JAX")
        self.keras = self.load_keras()
        self.join()
        self.choose_devices()
        self.divide_batch()
        self._slots: List[Any] = []  # those of the model that is trained
        self._rate_index = 0  # of the learning rate among the optimizer's variables
        self._states: Dict[int, List[Any]] = {}  # the variables' present values, by id(model)

    def set_flags(self) -> None:
        """Set XLA's flags before JAX is imported: XLA reads them once."""
        flags = []
        if needs_stand_ins(self.process) and self.process.size == 1:
            self.stand_in = True
            flags.append(f"--xla_force_host_platform_device_count={self.process.gpus}")
            os.environ["JAX_PLATFORMS"] = "cpu"
        if self.parameters["threads"] == 1:
            flags.append("--xla_cpu_multi_thread_eigen=false")
        os.environ["NPROC"] = str(self.parameters["threads"])  # XLA's pool of CPU threads
        if self.deterministic:
            flags.append("--xla_gpu_deterministic_ops=true")
        os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()

    def join(self) -> None:
        if self.process.size == 1:
            return
        self.rank, self.processes = self.process.rank, self.process.size
        self.jax.distributed.initialize(
            coordinator_address=meet(self.process)[0],
            num_processes=self.processes,
            process_id=self.rank,
        )

    def choose_devices(self) -> None:
        """Choose the devices of all processes, of each process as many as were requested."""
        jax, requested = self.jax, max(1, self.process.gpus)
        visible_gpus = [device for device in jax.local_devices() if device.platform == "gpu"]
        require_devices(self.label, len(visible_gpus), self.process.gpus)
        local = jax.local_devices()[:requested]
        all_devices = [
            device
            for process in range(self.processes)
            for device in [d for d in jax.devices() if d.process_index == process][:requested]
        ]
        self.devices = ["CPU" if d.platform == "cpu" else d.device_kind for d in local]
        self.local_replicas, self.replicas = len(local), len(all_devices)
        self._local = local
        self._divided: Any = None  # sharding of a batch
        self._replicated: Any = None  # sharding of variables
        if self.replicas > 1:
            sharding, numpy = jax.sharding, load("numpy", "NumPy")
            mesh = sharding.Mesh(numpy.array(all_devices), (AXIS,))
            self._divided = sharding.NamedSharding(mesh, sharding.PartitionSpec(AXIS))
            self._replicated = sharding.NamedSharding(mesh, sharding.PartitionSpec())

    def gather_facts(self) -> Dict[str, Any]:
        strategy = "jax.sharding" if self.replicas > 1 else ""
        return {**super().gather_facts(), "jax": self.jax.__version__, "strategy": strategy}

    def compile(self, model: Any, loss: Loss, optimizer: Any = None) -> Step:
        mean = self.keras.ops.mean

        def forward(trained: Any, others: Any, images: Any, labels: Any) -> Any:
            outputs, _ = model.stateless_call(trained, others, images, training=False)
            return mean(loss(labels, outputs))

        if optimizer is None:
            compiled = self.jax.jit(forward)
            state = [self.copy_values(model.trainable_variables)]
            state.append(self.copy_values(model.non_trainable_variables))
            return lambda batch: compiled(*state, *batch)

        optimizer = self.prepare_optimizer(optimizer, model)
        scope = self.keras.StatelessScope

        def compute_scaled_loss(
            trained: Any, others: Any, slots: Any, images: Any, labels: Any
        ) -> Any:
            outputs, others = model.stateless_call(trained, others, images, training=True)
            value = mean(loss(labels, outputs))
            with scope(state_mapping=list(zip(optimizer.variables, slots))):
                scaled = optimizer.scale_loss(value)
            return scaled, (value, others)

        gradient = self.jax.value_and_grad(compute_scaled_loss, has_aux=True)

        def train(trained: Any, others: Any, slots: Any, images: Any, labels: Any) -> Any:
            (_, (value, others)), gradients = gradient(trained, others, slots, images, labels)
            trained, slots = optimizer.stateless_apply(slots, gradients, trained)
            return value, trained, others, slots

        # The new values of the variables take over the memory of the old ones.
        compiled = self.jax.jit(train, donate_argnums=(0, 1, 2), out_shardings=self._replicated)
        state = [self.copy_values(model.trainable_variables)]
        state.append(self.copy_values(model.non_trainable_variables))
        state.append(self.copy_values(optimizer.variables))
        self._states[id(model)] = state
        self._slots = state
        rate = getattr(optimizer, "inner_optimizer", optimizer).learning_rate
        self._rate_index = next(
            number for number, variable in enumerate(optimizer.variables) if variable is rate
        )

        def run_step(batch: Batch) -> Any:
            value, *state[:] = compiled(*state, *batch)
            return value

        return run_step

    def set_learning_rate(self, rate: float) -> None:
        # Committed like the step's results: else the step would be compiled anew.
        value = load("numpy", "NumPy").float32(rate)
        self._slots[2][self._rate_index] = self.replicate(value)

    def read_state(self, model: Any) -> List[Any]:
        numpy = load("numpy", "NumPy")
        return [numpy.array(self.copy_locally(value)) for values in self._slots for value in values]

    def write_state(self, model: Any, arrays: List[Any]) -> None:
        require_shapes([value.shape for values in self._slots for value in values], arrays)
        numbers = iter(arrays)
        for values in self._slots:
            values[:] = [self.replicate(next(numbers)) for _ in values]

    def prepare_optimizer(self, optimizer: Any, model: Any) -> Any:
        if self.parameters.get("precision") == "mixed_float16":
            optimizer = self.keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
        return optimizer

    def copy_values(self, variables: Any) -> List[Any]:
        """Return copies on every device; the values of the model and optimizer stay as they are."""
        jax = self.jax
        values = [jax.numpy.copy(variable.value) for variable in variables]
        return [self.replicate(value) for value in values]

    def replicate(self, value: Any) -> Any:
        if self.processes == 1:
            # Committed to devices, as the step's results are: else it would compile twice.
            return self.jax.device_put(value, self._replicated or self._local[0])
        numpy = load("numpy", "NumPy")
        return self.jax.make_array_from_process_local_data(self._replicated, numpy.asarray(value))

    def repeat(self, draw: Callable[[int, int], Batch]) -> Iterator[Batch]:
        first = self.rank * self.local_replicas
        parts = []
        for number, device in enumerate(self._local):
            with self.jax.default_device(device):
                parts.append(draw(first + number, self.replica_batch))
        batch = self.join_parts(parts)
        while True:
            yield batch

    def join_parts(self, parts: List[Batch]) -> Batch:
        """Return one batch of the whole job, of which this process holds some parts."""
        images, labels = [part[0] for part in parts], [part[1] for part in parts]
        return self._join_arrays(images), self._join_arrays(labels)

    def _join_arrays(self, parts: List[Any]) -> Any:
        if self._divided is None:
            return self.jax.device_put(parts[0], self._local[0])
        shards = [self.jax.device_put(part, device) for part, device in zip(parts, self._local)]
        shape = (self.job_batch, *shards[0].shape[1:])
        return self.jax.make_array_from_single_device_arrays(shape, self._divided, shards)

    def feed(self, readings: Iterable[Batch]) -> Iterator[Batch]:
        for parts in group_readings(readings, self.local_replicas):
            yield self.join_parts(parts)

    def make_predictor(self, model: Any) -> Callable[[Any], Any]:
        jax, numpy = self.jax, load("numpy", "NumPy")

        @jax.jit  # type: ignore[untyped-decorator]
        def forward(trained: Any, others: Any, images: Any) -> Any:
            return model.stateless_call(trained, others, images, training=False)[0]

        def predict(images: Any) -> Any:
            state = self._states.get(id(model))
            if state is None:
                state = [[v.value for v in model.trainable_variables]]
                state.append([v.value for v in model.non_trainable_variables])
            variables = [[self.copy_locally(value) for value in values] for values in state[:2]]
            return numpy.asarray(forward(*variables, jax.device_put(images, self._local[0])))

        return predict

    def copy_locally(self, value: Any) -> Any:
        """Return this process's own copy of a value that is the same on all devices."""
        return value if self._replicated is None else value.addressable_data(0)
