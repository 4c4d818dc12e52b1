"""JAX: one compiled program on all devices, the batch divided among them."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List

from ..frameworks import load
from ..place import Place, meet
from .backends import Backend, Batch, Loss, Step, demand_devices, grouped, stands_in

AXIS = "batch"


def open_backend(parameters: Dict[str, Any], place: Place) -> Backend:
    return OnJax(parameters, place)


class OnJax(Backend):
    name = "jax"
    label = "JAX"

    def __init__(self, parameters: Dict[str, Any], place: Place) -> None:
        super().__init__(parameters, place)
        self.set_flags()
        self.jax: Any = load("jax", "JAX")
        self.keras = self.load_keras()
        self.join()
        self.choose_devices()
        self.share()
        self._states: Dict[int, List[Any]] = {}  # what steps have made of a model's variables

    def set_flags(self) -> None:
        """Before JAX starts; XLA reads its flags once."""
        flags = []
        if stands_in(self.place) and self.place.size == 1:
            self.stand_in = True
            flags.append(f"--xla_force_host_platform_device_count={self.place.gpus}")
            os.environ["JAX_PLATFORMS"] = "cpu"
        if self.parameters["threads"] == 1:
            flags.append("--xla_cpu_multi_thread_eigen=false")
        os.environ["NPROC"] = str(self.parameters["threads"])  # XLA's pool of CPU threads
        if self.deterministic:
            flags.append("--xla_gpu_deterministic_ops=true")
        os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags]).strip()

    def join(self) -> None:
        if self.place.size == 1:
            return
        self.rank, self.processes = self.place.rank, self.place.size
        self.jax.distributed.initialize(
            coordinator_address=meet(self.place)[0],
            num_processes=self.processes,
            process_id=self.rank,
        )

    def choose_devices(self) -> None:
        """Those of all processes, of each as many as were asked for."""
        jax, wanted = self.jax, max(1, self.place.gpus)
        seen = [device for device in jax.local_devices() if device.platform == "gpu"]
        demand_devices(self.label, len(seen), self.place, self.place.gpus)
        local = jax.local_devices()[:wanted]
        everywhere = [
            device
            for process in range(self.processes)
            for device in [d for d in jax.devices() if d.process_index == process][:wanted]
        ]
        self.devices = ["CPU" if d.platform == "cpu" else d.device_kind for d in local]
        self.local_replicas, self.replicas = len(local), len(everywhere)
        self._local = local
        self._divided: Any = None
        self._alike: Any = None
        if self.replicas > 1:
            sharding, numpy = jax.sharding, load("numpy", "NumPy")
            mesh = sharding.Mesh(numpy.array(everywhere), (AXIS,))
            self._divided = sharding.NamedSharding(mesh, sharding.PartitionSpec(AXIS))
            self._alike = sharding.NamedSharding(mesh, sharding.PartitionSpec())

    def facts(self) -> Dict[str, Any]:
        strategy = "jax.sharding" if self.replicas > 1 else ""
        return {**super().facts(), "jax": self.jax.__version__, "strategy": strategy}

    def compile(self, model: Any, loss: Loss, optimizer: Any = None) -> Step:
        mean = self.keras.ops.mean

        def forward(trained: Any, others: Any, images: Any, labels: Any) -> Any:
            outputs, _ = model.stateless_call(trained, others, images, training=False)
            return mean(loss(labels, outputs))

        if optimizer is None:
            compiled = self.jax.jit(forward)
            state = [self.values(model.trainable_variables)]
            state.append(self.values(model.non_trainable_variables))
            return lambda batch: compiled(*state, *batch)

        optimizer = self.prepared(optimizer, model)
        scaling = self.keras.StatelessScope

        def scaled_loss(trained: Any, others: Any, held: Any, images: Any, labels: Any) -> Any:
            outputs, others = model.stateless_call(trained, others, images, training=True)
            value = mean(loss(labels, outputs))
            with scaling(state_mapping=list(zip(optimizer.variables, held))):
                scaled = optimizer.scale_loss(value)
            return scaled, (value, others)

        gradient = self.jax.value_and_grad(scaled_loss, has_aux=True)

        def train(trained: Any, others: Any, held: Any, images: Any, labels: Any) -> Any:
            (_, (value, others)), gradients = gradient(trained, others, held, images, labels)
            trained, held = optimizer.stateless_apply(held, gradients, trained)
            return value, trained, others, held

        # The old values of the variables give their memory to the new ones.
        compiled = self.jax.jit(train, donate_argnums=(0, 1, 2), out_shardings=self._alike)
        state = [self.values(model.trainable_variables)]
        state.append(self.values(model.non_trainable_variables))
        state.append(self.values(optimizer.variables))
        self._states[id(model)] = state

        def step(batch: Batch) -> Any:
            value, *state[:] = compiled(*state, *batch)
            return value

        return step

    def prepared(self, optimizer: Any, model: Any) -> Any:
        if self.parameters.get("precision") == "mixed_float16":
            optimizer = self.keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
        return optimizer

    def values(self, variables: Any) -> List[Any]:
        """Copies, on every device: those of the model and the optimizer stay as they are."""
        jax = self.jax
        values = [jax.numpy.copy(variable.value) for variable in variables]
        return [self.everywhere(value) for value in values]

    def everywhere(self, value: Any) -> Any:
        if self.processes == 1:
            # Committed to a place, as the step's results are: else it would compile twice.
            return self.jax.device_put(value, self._alike or self._local[0])
        numpy = load("numpy", "NumPy")
        return self.jax.make_array_from_process_local_data(self._alike, numpy.asarray(value))

    def repeat(self, draw: Callable[[int, int], Batch]) -> Iterator[Batch]:
        first = self.rank * self.local_replicas
        parts = []
        for number, device in enumerate(self._local):
            with self.jax.default_device(device):
                parts.append(draw(first + number, self.replica_batch))
        batch = self.joined(parts)
        while True:
            yield batch

    def joined(self, parts: List[Batch]) -> Batch:
        """One batch of the whole job, of which this process holds some parts."""
        return self._joined([part[0] for part in parts]), self._joined([part[1] for part in parts])

    def _joined(self, parts: List[Any]) -> Any:
        if self._divided is None:
            return self.jax.device_put(parts[0], self._local[0])
        placed = [self.jax.device_put(part, to) for part, to in zip(parts, self._local)]
        shape = (self.job_batch, *placed[0].shape[1:])
        return self.jax.make_array_from_single_device_arrays(shape, self._divided, placed)

    def feed(self, readings: Iterable[Batch]) -> Iterator[Batch]:
        for parts in grouped(readings, self.local_replicas):
            yield self.joined(parts)

    def predictor(self, model: Any) -> Callable[[Any], Any]:
        jax, numpy = self.jax, load("numpy", "NumPy")

        @jax.jit  # type: ignore[untyped-decorator]
        def forward(trained: Any, others: Any, images: Any) -> Any:
            return model.stateless_call(trained, others, images, training=False)[0]

        def predict(images: Any) -> Any:
            state = self._states.get(id(model))
            if state is None:
                state = [[v.value for v in model.trainable_variables]]
                state.append([v.value for v in model.non_trainable_variables])
            here = [[self.local(value) for value in values] for values in state[:2]]
            return numpy.asarray(forward(*here, jax.device_put(images, self._local[0])))

        return predict

    def local(self, value: Any) -> Any:
        """This process's own copy of what is alike on all devices."""
        return value if self._alike is None else value.addressable_data(0)
