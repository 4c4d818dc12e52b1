"""`command`: any program of the user's, with the ways to read its numbers."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from runners.workloads import given, patterns
from runners.workloads.base import (
    RESULT,
    TIMES,
    Batch,
    Processes,
    Workload,
    make_recorded_parameter,
)
from runners.workloads.code_parameters import CODE_PARAMETERS, find_code_problems
from runners.workloads.given import FilesParameter, MetricsParameter
from runners.workloads.output_checks import check_output
from runners.workloads.page_cache import PREPARED
from runners.workloads.parameters import Parameter, ParameterError, Value
from runners.workloads.reading import FIRST_STEP, READERS, REPORT, list_units
from runners.workloads.reports import STEP_TIME, read_partial_series
from runners.workloads.results import Metric, Result, SanityError, read_phases, read_result
from runners.workloads.several_jobs import SEVERAL_JOBS, find_job_problems

WALL_TIME = Metric("wall_time", "s", "lower", "From the program's start to its end")
CONTAINER_START = next(metric for metric in TIMES if metric.name == "container_start")
BY_STEPS = tuple(
    metric for metric in TIMES if metric.name not in ("import_time", "container_start")
)
"""Metrics of steps, which the recorder reports."""
ALWAYS = (WALL_TIME, CONTAINER_START)
BEFORE = ("container start", "start", "snapshot")
"""Phases of the payload before the program starts."""


class Command(Workload):
    kind = "command"
    label = "Any program of yours"
    description = (
        "A program of your own, with the files it needs. It reports its numbers by five lines of "
        "Python, or writes JSON lines, JSON or CSV, or Tare finds them in what it prints by "
        "regular expressions. How long it took is measured in any case."
    )
    parameters = (
        Parameter(
            name="argv",
            type="words",
            default=[],
            label="Command",
            longest=4000,
            group="The program",
            help="The program and its arguments. No shell reads them. A word that is the name of a "
            "file below stands for that file; {python}, {files}, {code}, {run}, {checkpoints}, "
            "{data}, {gpus} and {nodes} stand for the environment’s Python, the files’ folder, the "
            "folder of its code, the run’s folder, that of its checkpoints, the data set’s path, "
            "and the GPUs and nodes that it may use.",
        ),
        FilesParameter(
            name="files",
            type="files",
            default={},
            group="The program",
            help="Files that travel to the cluster with the job, at most 1 MB each.",
        ),
        make_recorded_parameter("The program"),
        *CODE_PARAMETERS,
        Parameter(
            name="read",
            type="choice",
            default="recorder",
            choices=("recorder", "patterns", "csv", "json", "nothing"),
            label="Result source",
            group="Its numbers",
            help="recorder: what it reports by `import tare`, or as JSON lines in $TARE_RESULT. "
            "patterns: regular expressions on its output. csv and json: a file that it writes. "
            "nothing: only how long it took.",
        ),
        Parameter(
            name="file",
            type="text",
            default="",
            label="File to read",
            longest=200,
            group="Its numbers",
            when=("read", ("patterns", "csv", "json")),
            help="In the run’s folder, where the program starts. With patterns, none is what it "
            "prints.",
        ),
        MetricsParameter(
            name="metrics",
            type="metrics",
            default=[],
            group="Its numbers",
            help="Each with its unit, whether lower or higher is better, and where it is found.",
        ),
        Parameter(
            name="primary",
            type="text",
            default="",
            label="Primary metric",
            longest=60,
            group="Its numbers",
            help="The metric that is compared. Left empty: the first of the table below; without "
            "any there, step_time of the recorder, else wall_time.",
        ),
        Parameter(
            name="success_pattern",
            type="text",
            default="",
            label="Success pattern",
            longest=patterns.LONGEST,
            group="Its numbers",
            help="A regular expression that matches in the output of every run that went well, "
            "such as the line of a check of residuals. A run without it is not sane. It may be "
            "empty.",
        ),
        Parameter(
            name="failure_pattern",
            type="text",
            default="",
            label="Failure pattern",
            longest=patterns.LONGEST,
            group="Its numbers",
            help="A regular expression that matches where a run has failed, whatever its exit "
            "code. A run whose output, or file to read, has it is not sane. It may be empty.",
        ),
        Parameter(
            name="burn_in",
            type="integer",
            label="Warm-up",
            default=0,
            minimum=0,
            maximum=999_999,
            unit="steps",
            group="Its numbers",
            help="First steps, rows or matches that no mean counts. 0: as many as the program "
            "itself tells the recorder.",
        ),
        Parameter(
            name="batch",
            type="choice",
            default="",
            choices=("", "total", "per GPU"),
            label="The same on more GPUs",
            group="On several GPUs",
            help="Whose work stays the same on more GPUs: the whole job’s (strong scaling) or each "
            "GPU’s (weak scaling).",
        ),
        Parameter(
            name="processes",
            type="choice",
            default="one",
            choices=("one", "node", "gpu"),
            label="Processes",
            group="On several GPUs",
            help="How many are started: one, one a node, or one a GPU. $TARE_RANK and $TARE_SIZE "
            "say which one it is; the first one’s numbers are the run’s.",
        ),
        *SEVERAL_JOBS,
        PREPARED,
    )
    metrics = (*BY_STEPS, *ALWAYS)
    primary = STEP_TIME
    is_the_users = True
    most_gpus = 1024
    most_nodes = 1024

    @classmethod
    def list_metrics(cls, parameters: Mapping[str, Any]) -> tuple[Metric, ...]:
        """Return the user's metrics, those of the recorder, and the run's duration."""
        own = given.make_metrics(parameters.get("metrics", ()))
        known = {metric.name for metric in own}
        steps = BY_STEPS if parameters.get("read", "recorder") == "recorder" else ()
        return (*own, *(metric for metric in (*steps, *ALWAYS) if metric.name not in known))

    @classmethod
    def choose_primary_metric(cls, parameters: Mapping[str, Any]) -> str:
        if parameters.get("primary"):
            return str(parameters["primary"])
        return cls.list_metrics(parameters)[0].name

    @classmethod
    def choose_batch(cls, parameters: Mapping[str, Any]) -> Batch:
        return cast("Batch", parameters.get("batch", ""))

    @classmethod
    def choose_processes(cls, parameters: Mapping[str, Any]) -> Processes:
        return cast("Processes", parameters.get("processes", "one"))

    @classmethod
    def needs_python(cls, parameters: Mapping[str, Any]) -> bool:
        is_named = any("{python}" in word for word in parameters.get("argv", ()))
        return is_named or super().needs_python(parameters)

    @classmethod
    def clean(cls, parameters: Mapping[str, object]) -> dict[str, Value]:
        cleaned: dict[str, Any] = super().clean(parameters)
        messages = (
            given.find_problems(cleaned)
            | find_code_problems(cleaned, cleaned["argv"])
            | find_job_problems(cleaned)
        )
        known = [metric.name for metric in cls.list_metrics(cleaned)]
        if cleaned["primary"] and cleaned["primary"] not in known:
            messages["primary"] = f"must be one of {', '.join(known)}; got {cleaned['primary']!r}"
        if messages:
            raise ParameterError(messages)
        return cleaned

    @classmethod
    def read_single(cls, run_files: Mapping[str, bytes], parameters: Mapping[str, Any]) -> Result:
        """Return the numbers of a program that ended well. SanityError's message has a cure."""
        frame = read_result(run_files.get(RESULT), ALWAYS, WALL_TIME.name)
        check_output(run_files, parameters)
        result = READERS[parameters["read"]](run_files, parameters)
        values = {**frame.measurements, **result.measurements}
        if FIRST_STEP in result.facts:  # the program counts from its own start
            is_resumed = bool(frame.facts.get("start_phases"))  # they are the first job's
            started = read_phases(frame.facts, "start_phases") if is_resumed else frame.phases
            before = math.fsum(part for name, part in started.items() if name in BEFORE)
            values.setdefault(FIRST_STEP, (before + result.facts[FIRST_STEP], "s"))
        primary = cls.choose_primary_metric(parameters)
        if primary in result.unknown:
            raise SanityError(
                f"{result.unknown[primary]}. Let the program print less, take the last match, or "
                "let it report by `import tare`"
            )
        if primary not in values:
            raise SanityError(
                f"there is no {primary}, the metric that is compared. Reported: "
                f"{', '.join(sorted(values))}. Report it, or choose one of these in the workload"
            )
        if values[primary][0] <= 0:
            number, unit = values[primary]
            raise SanityError(f"{primary} is {number:g} {unit}; what is compared is above zero")
        return replace(
            result, measurements=values, phases=_merge_phases(frame.phases, result.phases)
        )

    @classmethod
    def read_partial_single(
        cls, run_files: Mapping[str, bytes], parameters: Mapping[str, Any]
    ) -> Result:
        partial = Result({}, {}, {}, {})
        if parameters["read"] == "recorder":
            return replace(
                partial, series=read_partial_series(run_files, REPORT, list_units(parameters))
            )
        for row in parameters["metrics"]:
            try:
                row_result = READERS[parameters["read"]](
                    run_files, {**parameters, "metrics": [row]}
                )
            except SanityError:
                continue
            partial.series.update(row_result.series)
            partial.steps.update(row_result.steps)
        return partial


def _merge_phases(frame: Mapping[str, float], own: Mapping[str, float]) -> dict[str, float]:
    """Return the phases, with the program's own in place of its whole time if it reported any."""
    if not own:
        return dict(frame)
    phases = {name: seconds for name, seconds in frame.items() if name != "program"}
    for name, seconds in own.items():
        phases[name] = phases.get(name, 0.0) + seconds
    rest = frame.get("program", 0.0) - math.fsum(own.values())
    phases["end"] = phases.get("end", 0.0) + max(0.0, rest)
    return phases
