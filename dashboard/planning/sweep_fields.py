"""The fields of an experiment's form that take several values of a workload's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.forms import BoundField

from dashboard.form_styles import TextArea
from experiments.models import Workload
from experiments.planning.variants import CannotBeSwept, preview_workloads
from runners.workloads import WORKLOADS
from runners.workloads.parameter_sweeps import LONGEST_SWEEP, list_swept_parameters

BEGIN = "sweep_"
"""How the names of these fields begin; the key of the workload follows."""
MOST_NAMES = 200
SHOWN = 12
"""Variants that the form names for each workload."""


@dataclass(frozen=True)
class WorkloadOption:
    """A workload that may be chosen: its box, the field of its sweep, and the variants of that."""

    workload: Workload
    box: Any
    field: BoundField
    variants: Sequence[Workload]
    is_chosen: bool

    @property
    def is_open(self) -> bool:
        return bool(self.field.value() or (self.field.form.is_bound and self.field.errors))

    @property
    def shown_variants(self) -> Sequence[Workload]:
        return self.variants[:SHOWN]

    @property
    def more_variants(self) -> int:
        return max(0, len(self.variants) - SHOWN)


def name_sweep_field(key: int) -> str:
    """Return the name of the field for the workload with this key."""
    return f"{BEGIN}{key}"


def list_sweep_names(data: Iterable[str]) -> list[str]:
    """Return the names of such fields among all that a form has sent."""
    return [
        name for name in data if name.startswith(BEGIN) and name.removeprefix(BEGIN).isdecimal()
    ][:MOST_NAMES]


def add_sweep_fields(form: Any, workloads: Iterable[Workload]) -> None:
    """Add a field for each workload that is offered, with what was typed for the draft."""
    for workload in workloads:
        typed = form.instance.sweeps.get(str(workload.pk), "")
        example = _write_example(workload)
        form.fields[name_sweep_field(workload.pk)] = forms.CharField(
            label=f"Parameters of {workload.name} with their values",
            required=False,
            max_length=LONGEST_SWEEP,
            initial=typed,
            widget=TextArea(
                attrs={
                    "rows": min(8, max(2, typed.count("\n") + 1)),
                    "class": "form-control",
                    "placeholder": example,
                    "spellcheck": "false",
                    "aria-describedby": f"id_{name_sweep_field(workload.pk)}_help",
                }
            ),
        )


def _write_example(workload: Workload) -> str:
    """Return a line that this kind of workload would understand."""
    numbers = [
        parameter
        for parameter in list_swept_parameters(WORKLOADS[workload.kind])
        if parameter.type == "integer" and parameter.name not in ("steps", "burn_in", "seed")
    ]
    preferred = [parameter for parameter in numbers if parameter.name == "batch_size"] or numbers
    return f"{preferred[0].name}: 1, 2, 4" if preferred else ""


def read_sweeps(form: Any) -> dict[int, str]:
    """Return what was typed for each workload that is chosen, without its problems."""
    chosen = form.cleaned_data.get("workloads") or ()
    texts = {row.pk: form.cleaned_data.get(name_sweep_field(row.pk)) or "" for row in chosen}
    return {key: "\n".join(text.splitlines()) for key, text in texts.items() if text}


def plan_variants(form: Any, chosen: list[Workload]) -> list[Workload]:
    """Return the chosen workloads, or their variants; what is wrong becomes their fields' error."""
    try:
        return preview_workloads(chosen, read_sweeps(form))
    except CannotBeSwept as problem:
        for key, messages in problem.messages.items():
            form.add_error(name_sweep_field(key), messages)
        return list(problem.rows)


def list_options(form: Any) -> list[WorkloadOption]:
    """Return the workloads that the form offers, the chosen ones first."""
    chosen = {row.pk for row in form.offered.chosen}
    variants: dict[int, list[Workload]] = {}
    for row in form.planned_workloads:
        if row.parent_id:
            variants.setdefault(row.parent_id, []).append(row)
    return [
        WorkloadOption(
            workload=(row := box.data["value"].instance),
            box=box,
            field=form[name_sweep_field(row.pk)],
            variants=variants.get(row.pk, ()),
            is_chosen=row.pk in chosen,
        )
        for box in form["workloads"]
    ]
