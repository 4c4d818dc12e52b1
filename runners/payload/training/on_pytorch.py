"""PyTorch: eager, on one GPU or the CPU."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Iterable, Iterator

from ..frameworks import StartError, load
from ..place import RunProcess
from .backends import Backend, Batch, Loss, Step, require_devices


def open_backend(parameters: Dict[str, Any], process: RunProcess) -> Backend:
    return OnPyTorch(parameters, process)


class OnPyTorch(Backend):
    name = "pytorch"
    label = "PyTorch"

    def __init__(self, parameters: Dict[str, Any], process: RunProcess) -> None:
        super().__init__(parameters, process)
        if process.gpus > 1 or process.size > 1:
            raise StartError(
                "framework=pytorch trains on one GPU here: choose one GPU and one process, or "
                "framework=tensorflow or jax"
            )
        # Read when cuBLAS starts: without it, products of matrices may differ from run to run.
        if self.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        self.torch: Any = load("torch", "PyTorch")
        self.torch.set_num_threads(parameters["threads"])
        self.torch.set_num_interop_threads(1)
        self.keras = self.load_keras()
        gpu_count = self.torch.cuda.device_count() if self.torch.cuda.is_available() else 0
        require_devices(self.label, gpu_count, process.gpus)
        self.devices = [self.torch.cuda.get_device_name(0)] if gpu_count else ["CPU"]
        if self.deterministic:
            self.torch.use_deterministic_algorithms(True)
        self.divide_batch()

    def set_seed(self, keras: Any, seed: int) -> None:
        super().set_seed(keras, seed)
        self.torch.manual_seed(seed)

    def gather_facts(self) -> Dict[str, Any]:
        return {**super().gather_facts(), "torch": self.torch.__version__, "strategy": ""}

    def compile(self, model: Any, loss: Loss, optimizer: Any = None) -> Step:
        torch, mean = self.torch, self.keras.ops.mean

        def forward(batch: Batch) -> Any:
            with torch.no_grad():
                return mean(loss(batch[1], model(batch[0], training=False)))

        if optimizer is None:
            return forward
        if self.parameters.get("precision") == "mixed_float16":
            optimizer = self.keras.optimizers.LossScaleOptimizer(optimizer)
        optimizer.build(model.trainable_variables)
        variables = list(model.trainable_variables)

        def train(batch: Batch) -> Any:
            model.zero_grad()
            value = mean(loss(batch[1], model(batch[0], training=True)))
            optimizer.scale_loss(value).backward()
            gradients = [variable.value.grad for variable in variables]
            with torch.no_grad():
                optimizer.apply(gradients, variables)
            return value.detach()

        return train

    def repeat(self, draw: Callable[[int, int], Batch]) -> Iterator[Batch]:
        batch = draw(0, self.replica_batch)
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
