"""Workloads of the catalogue: their parameters as text, and whether they can still be changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet

from experiments.models import Experiment, Workload
from runners.workloads import KNOWN_WORKLOADS, WORKLOADS, Parameter
from runners.workloads.parameters import join_arguments


@dataclass(frozen=True)
class Setting:
    """One parameter of a workload, as text."""

    name: str
    label: str
    value: str
    default: str
    unit: str = ""
    help: str = ""


@dataclass(frozen=True)
class Settings:
    """All parameters of a workload: those that differ from the defaults, and the others."""

    differing: list[Setting]
    others: list[Setting]


def describe_settings(workload: Workload) -> Settings:
    """Return the parameters of `workload`. One that its kind does not know (any more) differs."""
    kind = KNOWN_WORKLOADS.get(workload.kind)
    declared = {each.name: each for each in kind.parameters} if kind else {}
    differing: list[Setting] = []
    others: list[Setting] = []
    for name, parameter in declared.items():
        value = workload.parameters.get(name, parameter.default)
        setting = Setting(
            name,
            make_label(parameter),
            parameter.describe(value) or format_value(value),
            format_value(parameter.default),
            parameter.unit,
            parameter.help,
        )
        (others if value == parameter.default else differing).append(setting)
    for name in workload.parameters.keys() - declared.keys():
        differing.append(Setting(name, name, format_value(workload.parameters[name]), ""))
    return Settings(differing, others)


def describe_parameters(spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) of each parameter in the `spec` with which a run was started."""
    kind = KNOWN_WORKLOADS.get(spec.get("kind", ""))
    declared = {parameter.name: parameter for parameter in kind.parameters} if kind else {}
    return [
        (name, (name in declared and declared[name].describe(value)) or format_value(value))
        for name, value in spec.get("parameters", {}).items()
    ]


def make_label(parameter: Parameter) -> str:
    """Return the name of a parameter as forms show it."""
    return parameter.label or parameter.name.replace("_", " ").capitalize()


def format_value(value: Any) -> str:
    """Return a parameter's value as people write it; an empty one as "none"."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return join_arguments(value) or "none"
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False) if value else "none"
    return str(value) if value not in (None, "") else "none"


def describe_limits(parameter: Parameter) -> str:
    """Return the values that are allowed, as text; "" if any is."""
    if parameter.type == "choice":
        return ", ".join(choice or "none" for choice in parameter.choices)
    if parameter.type == "flag":
        return "yes or no"
    if parameter.type in ("integer", "number"):
        low, high = (_grouped(limit) for limit in (parameter.minimum, parameter.maximum))
        if parameter.minimum == float("-inf"):
            return "" if parameter.maximum == float("inf") else f"at most {high}"
        return f"from {low} on" if parameter.maximum == float("inf") else f"from {low} to {high}"
    return f"at most {_grouped(parameter.longest)} characters"


def _grouped(number: float) -> str:
    """Return a limit with narrow spaces between its thousands."""
    return f"{number:,.12g}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def count_launched(workload: Workload) -> int:
    """Return the number of experiments that need it unchanged: launched ones and imports."""
    held = Q(launched_at__isnull=False) | Q(imported_at__isnull=False)
    return list_experiments(workload).filter(held).count()


def list_experiments(workload: Workload) -> QuerySet[Experiment]:
    """Return the experiments that have the workload or one of its variants."""
    rows = Workload.objects.filter(Q(pk=workload.pk) | Q(parent=workload.pk))
    return Experiment.objects.filter(
        pk__in=Experiment.workloads.through._default_manager.filter(
            workload__in=rows.values("pk")
        ).values("experiment")
    )


def why_not_edit(workload: Workload) -> str:
    """Return the reason why its parameters cannot be changed; empty if they can.

    Comparisons read a workload's parameters from its row, and later drafts are meant to repeat it.
    """
    if workload.kind not in WORKLOADS:
        return f"{workload} is only known from imported logs, and stays as it was."
    if workload.parent_id:
        return f"{workload} is a variant that a sweep has made: it changes with {workload.parent}."
    count = count_launched(workload)
    if not count:
        return ""
    holders = "A launched experiment holds" if count == 1 else f"{count} launched experiments hold"
    return f"{holders} {workload}: it stays as it was measured. Copy it, and change the copy."


def why_not_delete(workload: Workload) -> str:
    """Return the reason why it cannot be deleted; empty if it can."""
    if workload.parent_id:
        return f"{workload} is a variant that a sweep has made: it goes with its last experiment."
    count = list_experiments(workload).count()
    if not count:
        return ""
    holders = "an experiment names" if count == 1 else f"{count} experiments name"
    return f"{workload} stays: {holders} it, drafts included."
