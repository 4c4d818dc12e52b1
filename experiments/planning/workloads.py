"""Workloads of the catalogue: what they are set to, and what may still be done to them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from experiments.models import Workload
from runners.workloads import KNOWN_WORKLOADS, WORKLOADS, Parameter
from runners.workloads.parameters import join_arguments

LONGEST_NAME = 100


@dataclass(frozen=True)
class Setting:
    """One parameter of a workload, in words."""

    name: str
    label: str
    value: str
    default: str
    unit: str = ""
    help: str = ""


@dataclass(frozen=True)
class Settings:
    """All parameters of a workload: first those that somebody has chosen otherwise."""

    differing: list[Setting]
    others: list[Setting]


def settings(workload: Workload) -> Settings:
    """Return what `workload` is set to. What its kind does not know (any more) differs too."""
    kind = KNOWN_WORKLOADS.get(workload.kind)
    declared = {one.name: one for one in kind.parameters} if kind else {}
    differing: list[Setting] = []
    others: list[Setting] = []
    for name, parameter in declared.items():
        value = workload.parameters.get(name, parameter.default)
        setting = Setting(
            name,
            label(parameter),
            parameter.describe(value) or in_words(value),
            in_words(parameter.default),
            parameter.unit,
            parameter.help,
        )
        (others if value == parameter.default else differing).append(setting)
    for name in workload.parameters.keys() - declared.keys():
        differing.append(Setting(name, name, in_words(workload.parameters[name]), ""))
    return Settings(differing, others)


def run_with(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return name and value of each parameter that a run was started with, as its `spec` says."""
    kind = KNOWN_WORKLOADS.get(spec.get("kind", ""))
    declared = {one.name: one for one in kind.parameters} if kind else {}
    return [
        (name, (name in declared and declared[name].describe(value)) or in_words(value))
        for name, value in spec.get("parameters", {}).items()
    ]


def label(parameter: Parameter) -> str:
    return parameter.label or parameter.name.replace("_", " ").capitalize()


def in_words(value: Any) -> str:
    """A parameter's value as people write it; an empty one is "none"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return join_arguments(value) or "none"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False) if value else "none"
    return str(value) if value not in (None, "") else "none"


def limits(parameter: Parameter) -> str:
    """What may be given, in words; "" where there is nothing to say."""
    if parameter.type == "choice":
        return ", ".join(choice or "none" for choice in parameter.choices)
    if parameter.type == "flag":
        return "yes or no"
    if parameter.type in ("integer", "number"):
        low, high = (_grouped(one) for one in (parameter.minimum, parameter.maximum))
        if parameter.minimum == float("-inf"):
            return "" if parameter.maximum == float("inf") else f"at most {high}"
        return f"from {low} on" if parameter.maximum == float("inf") else f"from {low} to {high}"
    return f"at most {_grouped(parameter.longest)} characters"


def _grouped(number: float) -> str:
    """Return a limit with narrow spaces between its thousands."""
    return f"{number:,.12g}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def launched_with(workload: Workload) -> int:
    """Return how many experiments hold it for good: launched ones, and imports."""
    held = Q(launched_at__isnull=False) | Q(imported_at__isnull=False)
    return workload.experiments.filter(held).count()


def why_not_edit(workload: Workload) -> str:
    """What stands against changing its parameters; empty if nothing does.

    Comparisons say what a workload was by its row, and drafts that follow are meant to repeat it.
    """
    if workload.kind not in WORKLOADS:
        return f"{workload} is only known from imported logs, and stays as it was."
    count = launched_with(workload)
    if not count:
        return ""
    words = "A launched experiment holds" if count == 1 else f"{count} launched experiments hold"
    return f"{words} {workload}: it stays as it was measured. Copy it, and change the copy."


def why_not_delete(workload: Workload) -> str:
    """What stands against deleting it; empty if nothing does."""
    count = workload.experiments.count()
    if not count:
        return ""
    words = "an experiment names" if count == 1 else f"{count} experiments name"
    return f"{workload} stays: {words} it, drafts included."


def free_name(wanted: str, taken: Iterable[str] = ()) -> str:
    """Return `wanted`, or with the first number after it that makes it a name of its own."""
    number, name = 1, wanted[:LONGEST_NAME]
    while name in taken or Workload.objects.filter(name=name).exists():
        number += 1
        end = f" ({number})"
        name = wanted[: LONGEST_NAME - len(end)] + end
    return name
