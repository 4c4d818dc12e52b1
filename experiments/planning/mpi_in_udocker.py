"""Warnings of a plan: programs that speak MPI and lack something in containers of udocker."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.design import Scale
from experiments.models import Environment, Workload

ALREADY_THE_USER = ("S", "F")  # in these modes the program is not root inside
ONLY_ROOT = "R"


def warn_of_mpi_in_udocker(
    workloads: Sequence[Workload], environments: Sequence[Environment], scales: Sequence[str]
) -> list[str]:
    """Return a warning for each environment of udocker in which MPI_Init would wait for ever.

    `scales` may hold texts that are no scales; these start nothing.
    """
    speaking = [row for row in workloads if _speaks_mpi(row)]
    if not speaking or not any(_has_launcher(scale) for scale in scales):
        return []
    names = ", ".join(map(str, speaking))
    return [
        f"{environment}: MPI_Init waits until the time limit and prints nothing, if {names} "
        f"speak{'s' * (len(speaking) == 1)} MPI. {cure}"
        for environment in environments
        if (cure := _name_missing_parts(environment))
    ]


def _speaks_mpi(workload: Workload) -> bool:
    """Return whether a workload uses MPI, or is a program of which nothing is known."""
    return workload.kind == "command" or workload.parameters.get("parallel") == "horovod"


def _has_launcher(text: str) -> bool:
    try:
        return bool(Scale.parse(text).launcher)
    except ValueError:
        return False


def _name_missing_parts(environment: Environment) -> str:
    """Return what would cure an environment; "" for one in which MPI lacks nothing."""
    runtime, mode = environment.runtime, environment.start_mode
    if runtime is None or runtime.kind != "udocker":
        return ""
    if mode.startswith(ALREADY_THE_USER):
        return ""
    if mode.startswith(ONLY_ROOT):
        return (
            f"In {mode} udocker knows no user but root, whom the launcher's daemon does not "
            "believe: choose P1 or S1."
        )
    options = list(map(str, runtime.options))
    named = {option.partition("=")[0] for option in options}
    missing = [
        option
        for option, name in (("--hostauth", "--hostauth"), ("--user=NAME", "--user"))
        if name not in named
    ]
    parts = []
    if missing:
        parts.append(
            f"Add {' and '.join(missing)} to the options of {runtime}"
            f"{' (NAME: whom the jobs run under)' * ('--user=NAME' in missing)}"
        )
    inside = {bind.rpartition(":")[2] for bind in environment.binds}
    if parts and "/tmp" not in inside:  # noqa: S108
        parts.append("bind /tmp in the environment")
    return f"{', and '.join(parts)}." if parts else ""
