"""`startup`: from the container's start to the framework's: what every job pays before its work."""

from collections.abc import Mapping
from typing import Any

from runners.workloads.base import (
    INSIDE,
    OUTSIDE,
    TIMES,
    Workload,
    make_recorded_parameter,
    make_step_parameters,
)
from runners.workloads.page_cache import PREPARED
from runners.workloads.parameters import Parameter
from runners.workloads.results import Metric

PYTHON_METRICS = (
    *("interpreter_start", "import_time", "first_interpreter_start", "first_import_time"),
    *("modules_loaded", "files_opened"),
)
"""Metrics that only runs with Python inside have."""
PROGRAM_METRICS = ("program_start", "first_program_start")
"""Metrics that take their place where runs are recorded outside."""


class Startup(Workload):
    kind = "startup"
    label = "Starting Python and a framework"
    batch = "total"
    description = (
        "What a job pays before its work begins. One step starts a fresh interpreter that does "
        "nothing, one that imports a module, and programs that do nothing at all. The first step "
        "stands apart: its files may not be in memory yet. What the container itself takes to "
        "start is container_start, as in every run. Recorded outside it needs no Python: then a "
        "program of your choice takes the place of the interpreter, and there is no import."
    )
    parameters = (
        make_recorded_parameter(""),
        Parameter(
            name="module",
            type="text",
            default="numpy",
            longest=100,
            help="What is imported: numpy, tensorflow, keras, torch, jax, or the name of any other "
            "module that the environment has.",
            when=("recorded", (INSIDE,)),
        ),
        Parameter(
            name="program",
            type="words",
            default=["sh", "-c", ":"],
            longest=1000,
            help="What is started, with arguments by which it does nothing: sh -c :, python2.7 -c "
            "pass, node -e 0. What it prints is thrown away.",
            when=("recorded", (OUTSIDE,)),
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
        PREPARED,
    )
    metrics = (
        *(metric for metric in TIMES if metric.name != "import_time"),
        Metric("interpreter_start", "s", "lower", "A fresh Python that does nothing"),
        Metric("import_time", "s", "lower", "Import of the module in a fresh Python"),
        Metric("program_start", "s", "lower", "A fresh program that does nothing"),
        Metric("first_program_start", "s", "lower", "The first fresh program"),
        Metric("fork_time", "s", "lower", "A program that does nothing"),
        Metric("first_interpreter_start", "s", "lower", "The first fresh Python"),
        Metric("first_import_time", "s", "lower", "The first import of the module"),
        Metric("modules_loaded", "1", "lower", "Python modules after the import"),
        Metric("files_opened", "1", "lower", "Files that Python opens to import the module"),
    )
    primary = "import_time"

    @classmethod
    def choose_primary_metric(cls, parameters: Mapping[str, Any]) -> str:
        return PROGRAM_METRICS[0] if cls.is_recorded_outside(parameters) else cls.primary

    @classmethod
    def list_refusals(
        cls, parameters: Mapping[str, Any], *, nodes: int, gpus: int, processes: int
    ) -> list[str]:
        if cls.is_recorded_outside(parameters):
            return [] if parameters.get("program") else ["There is no program to start: name one."]
        module = parameters.get("module", "numpy")
        if all(part.isidentifier() for part in module.split(".")):
            return []
        return [f"{module!r} is not the name of a module, such as numpy or torch.nn."]

    @classmethod
    def list_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        outside = cls.is_recorded_outside(parameters)
        left_out = set(PYTHON_METRICS if outside else PROGRAM_METRICS)
        if parameters.get("forks") == 0:
            left_out.add("fork_time")
        return tuple(metric for metric in cls.metrics if metric.name not in left_out)
