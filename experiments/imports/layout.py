"""The parts of a run's path that name its environment, its configuration and its repeat.

Names are only names: model, batch size and GPUs come from the logs themselves.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.imports.lengths import EPOCHS, STEPS
from experiments.imports.problems import ImportProblem
from experiments.imports.tf_cnn import LoggedRun
from experiments.natural_order import make_natural_key, sort_naturally
from experiments.planning.free_names import add_number

TOOLS = {
    "udocker": r"udocker",
    "Apptainer": r"apptainer",
    "Singularity": r"singularity",
    "Podman": r"podman",
    "Charliecloud": r"charliecloud",
    "Shifter": r"shifter",
    "Sarus": r"sarus",
    "Enroot": r"enroot",
    "Docker": r"docker",
    "bare metal": r"bare|native|metal|host",
}
MOST_ENVIRONMENTS = 30
MOST_REPEATS = 1000
"""A number larger than this is a date, not a repeat."""
LONGEST_LABEL, LONGEST_VALUE, LONGEST_WORKLOAD = 70, 20, 90
"""Characters of a workload's name; a number may follow."""
LENGTH = "length"
TOLD_APART_BY = ("model", "dataset", "mode", LENGTH, "data_format", "optimizer")
UNKNOWN_TOOL = "not known"
REPEAT = re.compile(
    r"(?:run|rep|repeat|repetition|trial)?[-_. ]?(\d{1,9})", re.IGNORECASE | re.ASCII
)
GPUS = re.compile(r"[-_. ]*\d+[-_ ]?gpus?$", re.IGNORECASE)


@dataclass(frozen=True)
class Position:
    """One part of the runs' paths, counted from 0 after what they all begin with."""

    index: int
    values: tuple[str, ...]

    @property
    def counts(self) -> bool:
        """Return whether it is the number of a repeat."""
        return all(REPEAT.fullmatch(value) for value in self.values)

    @property
    def names_tools(self) -> bool:
        return any(find_tool(value) != UNKNOWN_TOOL for value in self.values)


@dataclass(frozen=True)
class Placed:
    """A run in its configuration: runs with the same `workload` and scale are compared."""

    run: LoggedRun
    environment: str
    workload: str
    scale: str
    repeat: int


def find_tool(name: str) -> str:
    """Return the container tool that is mentioned in `name`, such as a folder's."""
    return next(
        (tool for tool, pattern in TOOLS.items() if re.search(pattern, name, re.IGNORECASE)),
        UNKNOWN_TOOL,
    )


def list_positions(runs: Sequence[LoggedRun]) -> list[Position]:
    """Return the parts in which the runs' paths differ or may differ, outermost first.

    Raises ImportProblem if the paths are not equally deep.
    """
    parts = _parts(runs)
    columns = zip(*parts, strict=True)
    return [
        Position(index, tuple(sort_naturally(set(column)))) for index, column in enumerate(columns)
    ]


def list_choices(path_positions: Sequence[Position]) -> list[Position]:
    """Return the parts that can name the environment: at least two values, and not too many."""
    return [
        position for position in path_positions if 1 < len(position.values) <= MOST_ENVIRONMENTS
    ]


def suggest_position(path_positions: Sequence[Position]) -> Position | None:
    """Return the part that is most likely the environment; None if none can be."""
    named = [position for position in list_choices(path_positions) if not position.counts]
    return next(iter([*(part for part in named if part.names_tools), *named]), None)


def arrange(runs: Sequence[LoggedRun], environment: int) -> list[Placed]:
    """Return each run with its environment, workload, scale and repeat, in the order of `runs`.

    `environment` is the index of the part that names the environment. Repeats keep the numbers of
    their folders if these are numbers, each once in a configuration; else they are counted in the
    order of their paths. A workload's name is that of the configuration's folder without the
    number of GPUs; runs with other logged parameters have another workload.
    """
    parts = _parts(runs)
    last = len(parts[0]) - 1 if parts else 0
    counted = [REPEAT.fullmatch(path[last]) for path in parts]
    numbered = environment != last and all(counted)
    labels = []
    for path in parts:
        rest = [
            part
            for index, part in enumerate(path)
            if index != environment and not (numbered and index == last)
        ]
        labels.append(GPUS.sub("", " ".join(rest)))
    names = _names(labels, [run.workload for run in runs])
    groups: defaultdict[tuple[str, str, str], list[int]] = defaultdict(list)
    for index, run in enumerate(runs):
        groups[parts[index][environment], names[index], run.scale].append(index)
    placed: dict[int, Placed] = {}
    for (where, workload, scale), members in groups.items():
        members.sort(key=lambda index: make_natural_key(runs[index].path))
        own = [int(match[1]) for index in members if numbered and (match := counted[index])]
        if not own or len(set(own)) < len(own) or not 1 <= min(own) <= max(own) <= MOST_REPEATS:
            own = list(range(1, len(members) + 1))
        for index, repeat in zip(members, own, strict=True):
            placed[index] = Placed(runs[index], where, workload, scale, repeat)
    return [placed[index] for index in range(len(runs))]


def _parts(runs: Sequence[LoggedRun]) -> list[list[str]]:
    """Return the runs' paths in parts, without the folders that they all share."""
    paths = [list(run.parts) for run in runs]
    for run in runs:
        if len(run.parts) != len(runs[0].parts):
            raise ImportProblem(
                f"{runs[0].path} and {run.path} are not equally deep: which part is the "
                "environment? Bring all runs into one form, such as environment/configuration/1."
            )
    shared = 0
    while paths and shared < len(paths[0]) and len({path[shared] for path in paths}) == 1:
        shared += 1
    # A single run differs from none; its whole path may matter.
    return [path[shared:] for path in paths] if len(paths) > 1 else paths


def _names(labels: Sequence[str], workloads: Sequence[dict[str, Any]]) -> list[str]:
    """Return a name for each workload: label, batch, and the parameters that differ.

    A number is added only where no parameter differs.
    """
    bases = [_base(label, workload) for label, workload in zip(labels, workloads, strict=True)]
    alike: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for base, workload in zip(bases, workloads, strict=True):
        alike[base].append(workload)
    differing = {base: list_differing_parameters(members) for base, members in alike.items()}
    known: dict[tuple[str, str], str] = {}
    taken: set[str] = set()
    names = []
    for label, base, workload in zip(labels, bases, workloads, strict=True):
        key = label, repr(sorted(workload.items()))
        if key not in known:
            known[key] = add_number(name_apart(base, workload, differing[base]), taken)
            taken.add(known[key])
        names.append(known[key])
    return names


def _base(label: str, workload: Mapping[str, Any]) -> str:
    model = " on ".join(str(workload[name]) for name in ("model", "dataset") if workload.get(name))
    batch = workload.get("batch_size_per_device")
    name = (label or model or "tf_cnn_benchmarks")[:LONGEST_LABEL]
    return name + (f", batch {batch}" if batch else "")


def list_differing_parameters(workloads: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the parameters whose values are not the same in all workloads."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for workload in workloads:
        for parameter in TOLD_APART_BY:
            values[parameter].add(_text(workload, parameter))
    return [parameter for parameter in TOLD_APART_BY if len(values[parameter]) > 1]


def name_apart(name: str, workload: Mapping[str, Any], differing: Iterable[str]) -> str:
    """Return the name with the values of these parameters: "alexnet, batch 64, 5 epochs"."""
    for parameter in differing:
        text = _text(workload, parameter)[:LONGEST_VALUE]
        if text and len(name) + len(text) + 2 <= LONGEST_WORKLOAD:
            name = f"{name}, {text}"
    return name[:LONGEST_WORKLOAD]


def _text(workload: Mapping[str, Any], parameter: str) -> str:
    if parameter != LENGTH:
        return str(workload.get(parameter) or "")
    for name, noun in ((EPOCHS, "epoch"), (STEPS, "step")):
        if count := workload.get(name):
            return f"{count} {noun}{'s' * (count != 1)}"
    return ""
