"""`startup`: from the container's start to the framework's: what every job pays before its work."""

from collections.abc import Mapping
from typing import Any

from runners.workloads.base import TIMES, Workload, make_step_parameters
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric


class Startup(Workload):
    kind = "startup"
    label = "Starting Python and a framework"
    batch = "total"
    description = (
        "What a job pays before its work begins. One step starts a fresh interpreter that does "
        "nothing, one that imports a module, and programs that do nothing at all. The first step "
        "stands apart: its files may not be in memory yet. What the container itself takes to "
        "start is container_start, as in every run."
    )
    parameters = (
        Parameter(
            name="module",
            type="text",
            default="numpy",
            longest=100,
            help="What is imported: numpy, tensorflow, keras, torch, jax, or the name of any other "
            "module that the environment has.",
        ),
        Parameter(
            name="forks",
            type="integer",
            default=100,
            minimum=0,
            maximum=10_000,
            unit="programs",
            help="Started one after the other in each step (/bin/true); 0: none.",
            label="Programs",
        ),
        *(
            parameter
            for parameter in make_step_parameters(steps=11, warm_up=1)
            if parameter.name in ("steps", "burn_in")
        ),
    )
    metrics = (
        *(metric for metric in TIMES if metric.name != "import_time"),
        Metric("interpreter_start", "s", "lower", "A fresh Python that does nothing"),
        Metric("import_time", "s", "lower", "Import of the module in a fresh Python"),
        Metric("fork_time", "s", "lower", "A program that does nothing"),
        Metric("first_interpreter_start", "s", "lower", "The first fresh Python"),
        Metric("first_import_time", "s", "lower", "The first import of the module"),
        Metric("modules_loaded", "1", "lower", "Python modules after the import"),
        Metric("files_opened", "1", "lower", "Files that Python opens to import the module"),
    )
    primary = "import_time"

    @classmethod
    def list_refusals(
        cls, parameters: Mapping[str, Any], *, nodes: int, gpus: int, processes: int
    ) -> list[str]:
        module = parameters.get("module", "numpy")
        if all(part.isidentifier() for part in module.split(".")):
            return []
        return [f"{module!r} is not the name of a module, such as numpy or torch.nn."]

    @classmethod
    def list_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        has_no_forks = parameters.get("forks") == 0
        return tuple(
            metric for metric in cls.metrics if not (has_no_forks and metric.name == "fork_time")
        )
