"""The base class of all workloads: parameters and a command before a run, its numbers after it."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from runners.workloads.instances import INSTANCE_SPREAD, merge_results, split_by_instance
from runners.workloads.page_cache import leave_out_usual
from runners.workloads.parameters import Parameter, ParameterError, Value, clean_parameters
from runners.workloads.reports import read_partial_series
from runners.workloads.results import Metric, Result, SanityError, read_result
from runners.workloads.run_metrics import add_run_metrics

INSIDE, OUTSIDE = "inside", "outside"
"""Values of `recorded`: where Python records a run, in its environment or on the node."""

Batch = Literal["total", "per GPU", ""]
Processes = Literal["one", "node", "gpu"]
"""How many processes a run has: one in all, one on each node, or one for each GPU (and one on a
node without GPUs)."""
RESULT = "result.json"
"""The file that the payload writes into a run's directory if all went well."""

SAME_SEED, OTHER_SEEDS = "same in all repeats", "another in each repeat"


def make_step_parameters(*, steps: int, warm_up: int) -> tuple[Parameter, ...]:
    """Return the parameters that all workloads with steps share, with these defaults."""
    return (
        Parameter(
            name="steps",
            type="integer",
            default=steps,
            minimum=1,
            maximum=1_000_000,
            help="Steps in all, the warm-up among them.",
        ),
        Parameter(
            name="burn_in",
            type="integer",
            label="Warm-up",
            default=warm_up,
            minimum=0,
            maximum=999_999,
            unit="steps",
            help="First steps that no mean counts: caches fill, kernels are chosen.",
        ),
        Parameter(
            name="threads",
            type="integer",
            default=1,
            minimum=1,
            maximum=1024,
            help="Threads of the numerical libraries. One is the steadiest on a shared node.",
        ),
        Parameter(
            name="seed",
            type="integer",
            default=1,
            minimum=0,
            maximum=2**32 - 1,
            help="The same seed draws the same numbers in every environment.",
        ),
        Parameter(
            name="seeds",
            type="choice",
            default=SAME_SEED,
            choices=(SAME_SEED, OTHER_SEEDS),
            help="With another in each repeat (the seed, the seed + 1, ...) all environments of a "
            "repeat share one, and what a change of seed alone does can be told from what an "
            "environment does.",
        ),
    )


def make_recorded_parameter(group: str) -> Parameter:
    """Return the parameter by which workloads run in environments without Python."""
    return Parameter(
        name="recorded",
        type="choice",
        default=INSIDE,
        choices=(INSIDE, OUTSIDE),
        group=group,
        help="inside: by Python 3.8 or later in each environment. outside: by Python on the node, "
        "for images without it; inside there has to be no more than a shell, /bin/sh. The same in "
        "all environments, bare metal included.",
    )


TIMES = (
    Metric(
        "container_start", "s", "lower", "Container start, from launch to the first line of Python"
    ),
    Metric("step_time", "s", "lower", "Time per step"),
    Metric("step_time_sd", "s", "lower", "Standard deviation of the steps inside a run"),
    Metric("tail_ratio", "1", "lower", "99th percentile of the steps over their median"),
    Metric("time_to_first_step", "s", "lower", "From start to the end of the first step"),
    Metric("import_time", "s", "lower", "Importing the framework"),
    INSTANCE_SPREAD,
)


def choose_repeat_seed(parameters: Mapping[str, Any], repeat: int) -> dict[str, Any]:
    """Return the parameters for one repeat, counted from 1, each of which may have its own seed.

    All environments of a repeat have the same. Parameters without a seed stay as they are.
    """
    seed = parameters.get("seed")
    if parameters.get("seeds") != OTHER_SEEDS or not isinstance(seed, int):
        return dict(parameters)
    return {**parameters, "seed": (seed + repeat - 1) % 2**32}


class Workload:
    """A program of the payload. No I/O: nothing here reads a file or starts a process."""

    kind: ClassVar[str]
    label: ClassVar[str]
    description: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    metrics: ClassVar[tuple[Metric, ...]]
    primary: ClassVar[str] = "step_time"
    rates: ClassVar[Mapping[str, str]] = {}  # metric -> the time per step that it is a rate of
    most_gpus: ClassVar[int] = 1  # that one run can use, on one node
    most_nodes: ClassVar[int] = 1  # that one run can use
    batch: ClassVar[Batch] = ""
    """The work that stays the same on more GPUs: that of the whole job (strong scaling) or that of
    each GPU (weak scaling); empty if unknown."""

    is_the_users: ClassVar[bool] = False
    """Whether each workload of this kind is a program of its own."""

    # The attributes above are those of the kind; these depend on a workload's parameters.

    @classmethod
    def list_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        """Return the metrics of a run with these parameters, which need not be complete."""
        return cls.metrics

    @classmethod
    def list_all_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        """Return also those that Tare measures of every run, whatever its program reports."""
        return add_run_metrics(cls.list_metrics(parameters))

    @classmethod
    def choose_primary_metric(cls, parameters: Mapping[str, Any]) -> str:
        """Return the metric that is compared unless the experiment names another."""
        return cls.primary

    @classmethod
    def choose_batch(cls, parameters: Mapping[str, Any]) -> Batch:
        """Return which work stays the same on more GPUs."""
        return cls.batch

    @classmethod
    def choose_processes(cls, parameters: Mapping[str, Any]) -> Processes:
        """Return how many processes a run with these parameters needs; they may be incomplete."""
        return "one"

    @classmethod
    def is_recorded_outside(cls, parameters: Mapping[str, Any]) -> bool:
        """Return whether the node's Python records a run, and none is needed inside."""
        return bool(parameters.get("recorded", INSIDE) == OUTSIDE)

    @classmethod
    def needs_python(cls, parameters: Mapping[str, Any]) -> bool:
        """Return whether a run cannot be had in an environment without Python."""
        return not cls.is_recorded_outside(parameters)

    @classmethod
    def list_refusals(
        cls, parameters: Mapping[str, Any], *, nodes: int, gpus: int, processes: int
    ) -> list[str]:
        """Return why this cannot run at this scale: sentences, each with a cure.

        `nodes` nodes with `gpus` GPUs on each, and `processes` processes in all; `parameters` are
        clean. For packed runs these are the numbers of one instance: one node, its own GPUs, one
        process.
        """
        return []

    @classmethod
    def clean(cls, parameters: Mapping[str, object]) -> dict[str, Value]:
        """Return all parameters, checked and with defaults filled in, ready for the spec.

        Raises ParameterError with a message for each name.
        """
        cleaned = leave_out_usual(clean_parameters(cls.parameters, parameters))
        steps, warm_up = (cleaned.get(name) for name in ("steps", "burn_in"))
        if isinstance(steps, int) and isinstance(warm_up, int) and warm_up >= steps:
            message = f"must be less than the {steps} steps in all; it is {warm_up}"
            raise ParameterError({"burn_in": message})
        return cleaned

    @classmethod
    def find_base_series(cls, metric: str) -> str:
        """Return the series of times per step from which a metric is computed, or its own name."""
        return cls.rates.get(metric, metric)

    @classmethod
    def build_argv(cls, python: str, payload_directory: str, run_directory: str) -> list[str]:
        """Return the command: the same file, and so the same program, in every environment."""
        return [python, f"{payload_directory}/main.py", f"{run_directory}/spec.json"]

    @classmethod
    def read(cls, run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
        """Return the numbers of a run from its files by name, relative to its directory.

        Those of a packed run are merged: see `runners.workloads.instances.merge_results`. Raises
        SanityError unless all can be used; it names the instance.
        """
        parts = split_by_instance(run_files)
        if not parts:
            return cls.read_single(run_files, parameters)
        results = []
        for number, files in enumerate(parts):
            try:
                results.append(cls.read_single(files, parameters))
            except SanityError as error:
                raise SanityError(f"instance {number}: {error}") from error
        return merge_results(results, cls.choose_primary_metric(parameters))

    @classmethod
    def read_single(cls, run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
        """Return the numbers of a run that is not packed, or of one instance. To be overridden."""
        known = cls.list_metrics(parameters)
        return read_result(run_files.get(RESULT), known, cls.choose_primary_metric(parameters))

    @classmethod
    def read_partial(cls, run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
        """Return only the series of a run that was killed or has failed. Never raises.

        Those of a packed run are the first instance's.
        """
        parts = split_by_instance(run_files)
        return cls.read_partial_single(parts[0] if parts else run_files, parameters)

    @classmethod
    def read_partial_single(
        cls, run_files: Mapping[str, bytes], parameters: Mapping[str, Any]
    ) -> Result:
        """Return the series of a run that is not packed, or of one instance. To be overridden."""
        return Result({}, read_partial_series(run_files, RESULT, {}), {}, {})
