"""What every workload is: validated parameters in, an argv out, files in and numbers out."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from runners.workloads.instances import INSTANCE_SPREAD, instances, merged
from runners.workloads.parameters import Parameter, ParameterError, Value, clean
from runners.workloads.reports import series_so_far
from runners.workloads.results import Metric, Result, SanityError, read_result

Batch = Literal["total", "per GPU", ""]
Processes = Literal["one", "node", "gpu"]
"""How many processes a run is made of: one in all, one on each node, or one for each GPU (and one
on a node without GPUs)."""
RESULT = "result.json"
"""What the payload leaves in a run's directory when all went well."""

SAME_SEED, OTHER_SEEDS = "same in all repeats", "another in each repeat"


def stepping(*, steps: int, burn_in: int) -> tuple[Parameter, ...]:
    """The parameters that every workload made of steps has, with its own defaults."""
    return (
        Parameter(
            name="steps",
            type="integer",
            default=steps,
            minimum=1,
            maximum=1_000_000,
            help="Steps in all, the burn-in among them.",
        ),
        Parameter(
            name="burn_in",
            type="integer",
            default=burn_in,
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


TIMES = (
    Metric("container_start", "s", "lower", "From the wall to the first line of Python"),
    Metric("step_time", "s", "lower", "Time per step"),
    Metric("step_time_sd", "s", "lower", "Standard deviation of the steps inside a run"),
    Metric("tail_ratio", "1", "lower", "99th percentile of the steps over their median"),
    Metric("time_to_first_step", "s", "lower", "From start to the end of the first step"),
    Metric("import_time", "s", "lower", "Importing the framework"),
    INSTANCE_SPREAD,
)


def in_repeat(parameters: Mapping[str, Any], repeat: int) -> dict[str, Any]:
    """The parameters of one repeat, counted from 1: the seed may differ from repeat to repeat.

    All environments of a repeat have the same. Parameters without any seed stay as they are.
    """
    seed = parameters.get("seed")
    if parameters.get("seeds") != OTHER_SEEDS or not isinstance(seed, int):
        return dict(parameters)
    return {**parameters, "seed": (seed + repeat - 1) % 2**32}


class Workload:
    """A program of the payload. Pure: nothing here reads a file or starts a process."""

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
    """What stays the same on more GPUs: the work of the whole job (strong scaling) or that of each
    GPU (weak scaling); empty where nobody can say."""

    is_the_users: ClassVar[bool] = False
    """Whether each workload of this kind is a program of its own."""

    # What a workload of this kind reports may depend on what was asked of it: ask these.

    @classmethod
    def metrics_of(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        """What a run with these parameters may report. They need not be complete."""
        return cls.metrics

    @classmethod
    def primary_of(cls, parameters: Mapping[str, Any]) -> str:
        """The metric that is compared unless the experiment names another."""
        return cls.primary

    @classmethod
    def batch_of(cls, parameters: Mapping[str, Any]) -> Batch:
        return cls.batch

    @classmethod
    def processes_of(cls, parameters: Mapping[str, Any]) -> Processes:
        """How many processes a run with these parameters needs. They need not be complete."""
        return "one"

    @classmethod
    def refusals(
        cls, parameters: Mapping[str, Any], *, nodes: int, gpus: int, processes: int
    ) -> list[str]:
        """Why this cannot run on `nodes` nodes with `gpus` GPUs on each of them, as `processes`
        processes in all: in words, with the cure. `parameters` are clean.

        Of packed runs each instance is asked for by itself: one node, its own GPUs, one process.
        """
        return []

    @classmethod
    def clean(cls, parameters: Mapping[str, object]) -> dict[str, Value]:
        """All parameters, checked and with defaults filled in, ready for the spec.

        Raises ParameterError with a message for each name.
        """
        cleaned = clean(cls.parameters, parameters)
        steps, burn_in = (cleaned.get(name) for name in ("steps", "burn_in"))
        if isinstance(steps, int) and isinstance(burn_in, int) and burn_in >= steps:
            message = f"must be less than the {steps} steps in all; it is {burn_in}"
            raise ParameterError({"burn_in": message})
        return cleaned

    @classmethod
    def rests_on(cls, metric: str) -> str:
        """The series of times per step that a metric is the mean or a rate of, if there is one."""
        return cls.rates.get(metric, metric)

    @classmethod
    def argv(cls, python: str, payload_directory: str, run_directory: str) -> list[str]:
        """The command: the same file, and so the same program, in every environment."""
        return [python, f"{payload_directory}/main.py", f"{run_directory}/spec.json"]

    @classmethod
    def read(cls, left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
        """The numbers in what a run left: its files by name, relative to its directory.

        Of a packed run they are merged: see `runners.workloads.instances.merged`. Raises
        SanityError unless every one can be used; it names the instance.
        """
        parts = instances(left)
        if not parts:
            return cls.read_one(left, parameters)
        results = []
        for number, files in enumerate(parts):
            try:
                results.append(cls.read_one(files, parameters))
            except SanityError as error:
                raise SanityError(f"instance {number}: {error}") from error
        return merged(results, cls.primary_of(parameters))

    @classmethod
    def read_one(cls, left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
        """The same of a run that was not packed, or of one instance: what workloads override."""
        known = cls.metrics_of(parameters)
        return read_result(left.get(RESULT), known, cls.primary_of(parameters))

    @classmethod
    def so_far(cls, left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
        """The steps in what a killed or failed run left: its series alone. Never raises.

        Of a packed run they are those of the first instance.
        """
        parts = instances(left)
        return cls.so_far_of_one(parts[0] if parts else left, parameters)

    @classmethod
    def so_far_of_one(cls, left: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
        """The same of a run that was not packed, or of one instance: what workloads override."""
        return Result({}, series_so_far(left, RESULT, {}), {}, {})
