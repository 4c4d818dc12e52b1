"""PyTorch: eager, on one GPU or the CPU, or a process for each by DistributedDataParallel."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator, List

from ..frameworks import StartError, load
from ..place import RunProcess, find_interface, meet
from .backends import Backend, Batch, Loss, Step, require_devices, require_shapes


def open_backend(parameters: Dict[str, Any], process: RunProcess) -> Backend:
    if parameters.get("parallel") == "ddp":
        return OnDDP(parameters, process)
    if process.gpus > 1 or process.size > 1:
        raise StartError(
            "framework=pytorch trains on one GPU unless parallel=ddp: choose that, or one GPU and "
            "one process"
        )
    return OnPyTorch(parameters, process)


class OnPyTorch(Backend):
    name = "pytorch"
    label = "PyTorch"

    def __init__(self, parameters: Dict[str, Any], process: RunProcess) -> None:
        super().__init__(parameters, process)
        # Read when cuBLAS starts: without it, products of matrices may differ from run to run.
        if self.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        self.torch: Any = load("torch", "PyTorch")
        self.torch.set_num_threads(parameters["threads"])
        self.torch.set_num_interop_threads(1)
        self.choose_device()  # before Keras, which puts tensors on the device of that moment
        self.keras = self.load_keras()
        if self.deterministic:
            self.torch.use_deterministic_algorithms(True)
        self.join()
        self.divide_batch()

    def choose_device(self) -> None:
        """Set the device of this process: a GPU if PyTorch sees one, else the CPU."""
        cuda = self.torch.cuda
        gpu_count = cuda.device_count() if cuda.is_available() else 0
        require_devices(self.label, gpu_count, self.count_requested_gpus())
        self.devices, self.on_gpu = ["CPU"], gpu_count > 0
        if self.on_gpu:
            cuda.set_device(self.process.local_rank % gpu_count)
            self.devices = [cuda.get_device_name()]

    def count_requested_gpus(self) -> int:
        """Return how many GPUs this process should use."""
        return self.process.gpus

    def join(self) -> None:
        """Do nothing: there is one process."""

    def distribute(self, model: Any) -> Any:
        """Return the module whose backward pass leaves the gradients of the whole job."""
        return model

    def average(self, value: Any) -> Any:
        """Return the mean of a value over all processes."""
        return value

    def set_seed(self, keras: Any, seed: int) -> None:
        super().set_seed(keras, seed)
        self.torch.manual_seed(seed)

    def gather_facts(self) -> Dict[str, Any]:
        return {**super().gather_facts(), "torch": self.torch.__version__, "strategy": ""}

    def compile(self, model: Any, loss: Loss, optimizer: Any = None) -> Step:
        torch, mean = self.torch, self.keras.ops.mean

        def forward(batch: Batch) -> Any:
            with torch.no_grad():
                return self.average(mean(loss(batch[1], model(batch[0], training=False))))

        if optimizer is None:
            return forward
        if self.parameters.get("precision") == "mixed_float16":
            optimizer = self.keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
        self.optimizer = optimizer
        variables = list(model.trainable_variables)
        module = self.distribute(model)

        def train(batch: Batch) -> Any:
            model.zero_grad()
            value = mean(loss(batch[1], module(batch[0], training=True)))
            optimizer.scale_loss(value).backward()
            gradients = [variable.value.grad for variable in variables]
            with torch.no_grad():
                optimizer.apply(gradients, variables)
            return self.average(value.detach())

        return train

    def set_learning_rate(self, rate: float) -> None:
        self.optimizer.learning_rate = rate

    def read_state(self, model: Any) -> List[Any]:
        """Also what the generators of PyTorch are at: layers such as dropout draw from them."""
        return [*super().read_state(model), *self._read_generators()]

    def write_state(self, model: Any, arrays: List[Any]) -> None:
        generators = self._read_generators()
        count = len(arrays) - len(generators)
        require_shapes([array.shape for array in generators], arrays[count:])
        super().write_state(model, arrays[:count])
        states = [self.torch.from_numpy(array) for array in arrays[count:]]
        self.torch.set_rng_state(states[0])
        if self.on_gpu:
            self.torch.cuda.set_rng_state(states[1])

    def _read_generators(self) -> List[Any]:
        states = [self.torch.get_rng_state()]
        if self.on_gpu:
            states.append(self.torch.cuda.get_rng_state())
        return [state.numpy().copy() for state in states]

    def repeat(self, draw: Callable[[int, int], Batch]) -> Iterator[Batch]:
        batch = draw(self.rank, self.replica_batch)
        while True:
            yield batch

    def feed(self, readings: Iterable[Batch]) -> Iterator[Batch]:
        to_device = self.keras.ops.convert_to_tensor
        for images, labels in readings:
            yield to_device(images), to_device(labels)

    def make_predictor(self, model: Any) -> Callable[[Any], Any]:
        ops = self.keras.ops

        def predict(images: Any) -> Any:
            with self.torch.no_grad():
                return ops.convert_to_numpy(model(ops.convert_to_tensor(images), training=False))

        return predict


class OnDDP(OnPyTorch):
    """One process for each GPU, gradients averaged while they are computed: by NCCL, or by Gloo
    where there are no GPUs."""

    def count_requested_gpus(self) -> int:
        return min(1, self.process.gpus)

    def join(self) -> None:
        process, self.distributed = self.process, load("torch.distributed", "torch.distributed")
        self.library = "nccl" if self.on_gpu else "gloo"
        if not self.distributed.is_available() or not self.is_built_with(self.library):
            raise StartError(
                f"parallel=ddp needs {self.library.upper()} here, and PyTorch "
                f"{self.torch.__version__} of this environment was built without it"
            )
        addresses = meet(process)
        # Gloo takes the address of the host's name, which Debian gives to the node itself alone.
        interface = find_interface(addresses[process.rank].partition(":")[0])
        if interface:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        # They meet without libuv, which Debian's PyTorch lacks.
        self.distributed.init_process_group(
            self.library,
            init_method=f"tcp://{addresses[0]}?use_libuv=0",
            rank=process.rank,
            world_size=process.size,
        )
        self.rank, self.processes, self.replicas = process.rank, process.size, process.size

    def is_built_with(self, library: str) -> bool:
        return bool(getattr(self.distributed, f"is_{library}_available")())

    def gather_facts(self) -> Dict[str, Any]:
        facts = {**super().gather_facts(), "strategy": "DistributedDataParallel"}
        version = ".".join(map(str, self.torch.cuda.nccl.version())) if self.on_gpu else ""
        return {**facts, "collectives": f"{self.library} {version}".strip()}

    def distribute(self, model: Any) -> Any:
        """Return the model in a wrapper, all processes beginning with rank 0's variables."""
        devices = [self.torch.cuda.current_device()] if self.on_gpu else None
        return self.torch.nn.parallel.DistributedDataParallel(model, device_ids=devices)

    def average(self, value: Any) -> Any:
        share = value / self.processes
        self.distributed.all_reduce(share)
        return share

    def close(self) -> None:
        self.distributed.barrier()
        self.distributed.destroy_process_group()
