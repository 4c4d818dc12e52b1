"""Small logs of tf_cnn_benchmarks, made by hand, and archives of them."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import Any

NOON = datetime(2019, 3, 25, 12, tzinfo=UTC)
Tree = Mapping[str, str]
"""Path -> content."""


def benchmark(
    *,
    batch: int = 64,
    gpus: int = 1,
    visible: int = 4,
    began: datetime | None = NOON,
    tensorflow: str = "1.10.0",
    model: str = "resnet50",
    **parameters: Any,
) -> str:
    """The content of `benchmark.log`; `batch` is that of each GPU."""
    known = {
        "batch_size": batch * gpus,
        "batch_size_per_device": float(batch),
        "data_format": "NCHW",
        "dataset": "imagenet (synthetic)",
        "devices": str([f"/gpu:{index}" for index in range(gpus)]),
        "mode": "training",
        "model": model,
        "num_batches": 30,
        "optimizer": "sgd",
        "session_config": "intra_op_parallelism_threads: 1\ninter_op_parallelism_threads: 28\n",
        **parameters,
    }
    document = {
        "run_parameters": [
            {"name": name, f"{_kind(value)}_value": value}
            for name, value in known.items()
            if value is not None
        ],
        "tensorflow_version": {"version": tensorflow, "git_hash": "v1"},
        "tensorflow_environment_variables": [{"name": "TF_GPU_THREAD_COUNT", "value": "2"}],
        "machine_config": {
            "cpu_info": {"cpu_info": "Xeon", "num_cores": 32},
            "gpu_info": {"model": "Tesla K80", "count": visible},
            "memory_total": 134906953728,
        },
        "test_id": "190325_1200",
        "run_date": _stamp(began) if began else None,
    }
    return json.dumps(document) + "\n"


def _kind(value: Any) -> str:
    return {int: "long", float: "float", bool: "bool"}.get(type(value), "string")


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}Z"


def cumulated(steps: Sequence[int], times: Sequence[float], batch: float) -> list[float]:
    """Images per second on the mean of all steps so far; `times` are seconds per step since the
    step before."""
    gaps = [step - before for step, before in zip(steps, [0, *steps[:-1]], strict=True)]
    totals = accumulate(gap * time for gap, time in zip(gaps, times, strict=True))
    return [step * batch / total for step, total in zip(steps, totals, strict=True)]


def metric_lines(
    *,
    batch: int = 64,
    time: float = 0.5,
    steps: Sequence[int] = (1, 10, 20, 30),
    began: datetime = NOON,
    average: float | None = None,
    accuracy: float | None = 0.25,
) -> Iterator[dict[str, Any]]:
    """The objects of `metric.log`: every step takes `time` seconds."""

    def line(step: int, name: str, value: float, after: float, **more: Any) -> dict[str, Any]:
        moment = _stamp(began + timedelta(seconds=after))
        known = {"name": name, "value": value, "global_step": step, "timestamp": moment}
        return known | {"unit": None, "extras": []} | more

    rates = cumulated(steps, [time] * len(steps), batch)
    for step, rate in zip(steps, rates, strict=True):
        loss = [{"name": "loss", "value": f"{8 - step / 100:.3f}"}]
        yield line(step, "current_examples_per_sec", rate, 60 + step * time, extras=loss)
    end = 60 + steps[-1] * time
    yield line(steps[-1], "average_examples_per_sec", average or 0.99 * batch / time, end + 1)
    if accuracy is not None:
        yield line(steps[-1], "eval_average_examples_per_sec", 3 * batch, end + 20)
        yield line(steps[-1], "eval_top_1_accuracy", accuracy, end + 20)
        yield line(steps[-1], "eval_top_5_accuracy", 2 * accuracy, end + 20)


def metric(**words: Any) -> str:
    """The content of `metric.log`."""
    return "".join(json.dumps(line) + "\n" for line in metric_lines(**words))


def run(folder: str, *, time: float = 0.5, gpus: int = 1, batch: int = 64, **words: Any) -> Tree:
    """The three files of one run."""
    began = words.get("began", NOON) or NOON
    return {
        f"{folder}/benchmark.log": benchmark(gpus=gpus, batch=batch, **words),
        f"{folder}/metric.log": metric(batch=batch * gpus, time=time, began=began),
        f"{folder}/eval.log": benchmark(gpus=gpus, batch=batch, **words),
    }


def runs(
    *, environments: Sequence[str] = ("udocker", "singularity"), repeats: int = 3
) -> dict[str, str]:
    """Two environments, one configuration: the second one's steps take 10 % longer, a day later."""
    tree: dict[str, str] = {}
    for day, environment in enumerate(environments):
        for repeat in range(1, repeats + 1):
            tree |= run(
                f"results/{environment}/synthetic_resnet50_1_gpu/{repeat}",
                time=0.5 * (1 + day / 10) * (1 + repeat / 1000),
                began=NOON + timedelta(days=day, hours=repeat),
            )
    return tree


def output(
    *,
    rates: Sequence[float] = (128.0, 128.1, 128.0, 128.0),
    steps: Sequence[int] = (1, 10, 20, 30),
    total: float | None = 127.5,
    batch: int = 64,
    loss: str = "7.9",
) -> str:
    """What the program prints."""
    lines = [
        "TensorFlow:  1.12",
        "Model:       resnet50",
        "Dataset:     imagenet (synthetic)",
        "Mode:        training",
        "SingleSess:  False",
        f"Batch size:  {batch} global",
        f"             {batch:.1f} per device",
        "Num batches: 30",
        "Devices:     ['/gpu:0']",
        "Data format: NCHW",
        "Optimizer:   sgd",
        "==========",
        "Generating training model",
        "Running warm up",
        "Done warm up",
        "Step\tImg/sec\ttotal_loss",
    ]
    for step, rate in zip(steps, rates, strict=True):
        lines.append(f"{step}\timages/sec: {rate:.1f} +/- 0.3 (jitter = 0.5)\t{loss}")
    if total is not None:
        lines += ["-" * 64, f"total images/sec: {total:.2f}", "-" * 64]
    return "\n".join(lines) + "\n"


def as_folder(tree: Tree, root: Path) -> Path:
    for path, content in tree.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    return root


def as_zip(tree: Tree) -> io.BytesIO:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in tree.items():
            archive.writestr(path, content)
    held.seek(0)
    return held


def as_tar(tree: Tree, *, mode: str = "w:gz", more: Sequence[tarfile.TarInfo] = ()) -> io.BytesIO:
    """`more` are members without content: links, devices."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode=mode) as archive:  # type: ignore[call-overload]
        for path, content in tree.items():
            member = tarfile.TarInfo(path)
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
        for member in more:
            archive.addfile(member)
    held.seek(0)
    return held


def lasting(
    epochs: float, *, images: int = 50_000, batch: int = 64, gpus: int = 1
) -> dict[str, Any]:
    """Return the length as the program logs it: whole batches, and the epochs that these make."""
    batches = int(epochs * images / (batch * gpus))
    return {"num_batches": batches, "num_epochs": batches * batch * gpus / images}


def five_epochs() -> dict[str, str]:
    """Three environments on 1, 2 and 4 GPUs, one run each; the last has one other batch size."""
    tree: dict[str, str] = {}
    for day, environment in enumerate(("lsdf_udocker", "lsdf_singularity", "fh2_udocker")):
        for net, dataset, images, epochs in (
            ("alexnet", "cifar10", 50_000, 10),
            ("resnet56", "cifar10", 50_000, 10),
            ("alexnet", "imagenet", 1_281_167, 5),
            ("resnet50", "imagenet", 1_281_167, 5),
        ):
            is_other = (environment, dataset, net) == ("fh2_udocker", "cifar10", "alexnet")
            batch = 512 if is_other else 64
            for gpus in (1, 2, 4):
                tree |= run(
                    f"results/{environment}_5epoch/{dataset}_{net}_{gpus}_gpu/1",
                    time=0.5 * (1 + day / 10),
                    gpus=gpus,
                    batch=batch,
                    began=NOON + timedelta(days=day, hours=gpus),
                    model=net,
                    dataset=dataset,
                    **lasting(epochs, images=images, batch=batch, gpus=gpus),
                )
    return tree
