"""Reader of tf_cnn_benchmarks' output: a header, a line every ten steps, a total."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from experiments.imports.benchmark_logger import TAIL, Metrics, clean
from experiments.imports.problems import make_line_problem
from experiments.imports.reading import Line
from runners.workloads.results import LARGEST

NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
STEP = re.compile(rf"(\d{{1,9}})\s+images/sec:\s+({NUMBER})(?:\s+\+/-.*?\))?(?:\t\s*({NUMBER}))?")
TOTAL = re.compile(rf"total images/sec:\s+({NUMBER})")
ACCURACY = re.compile(rf"Accuracy @ 1 = ({NUMBER}) Accuracy @ 5 = ({NUMBER})")
HEADER = re.compile(r"([A-Z][A-Za-z ]{2,20}):\s+(\S.*)")
PARAMETERS = {
    "TensorFlow": "tensorflow",
    "Model": "model",
    "Dataset": "dataset",
    "Mode": "mode",
    "Batch size": "batch_size",
    "Num batches": "num_batches",
    "Num epochs": "num_epochs",
    "Devices": "devices",
    "Data format": "data_format",
    "Optimizer": "optimizer",
    "Variables": "variable_update",
}
WHOLE = {"batch_size", "num_batches"}
PRINTED_STEP = 0.1
"""Speeds are printed to one decimal."""


@dataclass
class Output:
    """The content of a standard output; `metrics` has no times, because none are printed."""

    parameters: dict[str, Any] = field(default_factory=dict)
    metrics: Metrics = field(default_factory=Metrics)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL))

    @property
    def is_benchmark(self) -> bool:
        """Return whether tf_cnn_benchmarks has printed it."""
        return bool(self.metrics.steps) or self.metrics.average is not None


def read_output(path: str, lines: Iterable[Line]) -> Output:
    """Read an output; lines that are not understood are ignored. Raises ImportProblem."""
    output = Output()
    for line in lines:
        text = line.content.decode("utf-8", "replace").rstrip("\r")
        output.tail.append(clean(text))
        metrics = output.metrics
        if step := STEP.match(text):
            number, rate = int(step[1]), _speed(path, line.number, step[2])
            if metrics.average is not None or (metrics.steps and number <= metrics.steps[-1]):
                raise make_line_problem(
                    path, line.number, "a second run begins here; a file holds one run."
                )
            loss = float(step[3]) if step[3] else float("nan")
            if step[3] and not abs(loss) <= LARGEST:
                metrics.diverged_at = metrics.diverged_at or line.number
            metrics.steps.append(number)
            metrics.rates.append(rate)
            metrics.losses.append(loss)
        elif total := TOTAL.match(text):
            if metrics.average is None:  # a later one is that of the evaluation
                metrics.average = _speed(path, line.number, total[1])
        elif accuracy := ACCURACY.search(text):
            metrics.evaluation["top_1_accuracy"] = float(accuracy[1])
            metrics.evaluation["top_5_accuracy"] = float(accuracy[2])
        elif not metrics.steps:
            _read_header(text, output.parameters)
    return output


def _read_header(text: str, parameters: dict[str, Any]) -> None:
    if device := re.match(r"\s+([\d.]+) per device", text):
        parameters.setdefault("batch_size_per_device", float(device[1]))
    header = HEADER.match(text)
    name = PARAMETERS.get(header[1]) if header else None
    if header is None or name is None or name in parameters:
        return
    value: Any = clean(header[2].strip())
    if name in WHOLE:
        whole = re.match(r"\d{1,9}\b", value)
        value = int(whole[0]) if whole else None
    parameters[name] = value


def _speed(path: str, line: int, text: str) -> float:
    value = float(text)
    if not 0 < value <= LARGEST:
        raise make_line_problem(path, line, f"images/sec is {text}; a speed is above zero.")
    return value
