"""The rows of the catalogue that run what a plan has frozen of its workloads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db.models import Q

from experiments.models import Experiment, SentFile, User, Workload
from experiments.models.visibility import Visibility
from experiments.planning.workloads import find_free_name
from experiments.reproductions.frozen_plans import WorkloadSpec
from runners.workloads import WORKLOADS, ParameterError


def find_workloads(
    specs: Sequence[WorkloadSpec], source: Experiment, person: User
) -> tuple[list[Workload], list[str]]:
    """Return a row for each workload of a plan, and what forbids some of them, as sentences.

    A row that is not stored stands for one that has to be made, with the parameters of the plan.
    """
    taken: set[int] = set()
    rows: list[Workload] = []
    problems: list[str] = []
    for spec in specs:
        row = _find_row(spec, person, taken)
        if row is None:
            problems += _list_file_problems(spec, source, person)
            row = Workload(
                name=find_free_name(spec.name, {other.name for other in rows}),
                kind=spec.kind,
                parameters=spec.parameters,
                time_limit_seconds=spec.time_limit_seconds,
                owner=person,
                visibility=Visibility.PRIVATE,
            )
        else:
            taken.add(row.pk)
        rows.append(row)
    return rows, problems


def _find_row(spec: WorkloadSpec, person: User, taken: Collection[int]) -> Workload | None:
    """Return the workload that a person may use with exactly the plan's parameters."""
    usable = Workload.objects.visible_to(person).originals()
    same = usable.filter(kind=spec.kind, time_limit_seconds=spec.time_limit_seconds)
    likely = Q(name=spec.name) | Q(parameters=spec.parameters)
    if spec.key.isdecimal() and len(spec.key) < 18:
        likely |= Q(pk=int(spec.key))
    rows = [row for row in same.filter(likely).order_by("pk") if row.pk not in taken]
    rows.sort(key=lambda row: (str(row.pk) != spec.key, row.name != spec.name))
    return next((row for row in rows if _has_parameters(row, spec)), None)


def _has_parameters(row: Workload, spec: WorkloadSpec) -> bool:
    try:
        return WORKLOADS[row.kind].clean(row.parameters) == spec.parameters
    except ParameterError:
        return False


def _list_file_problems(spec: WorkloadSpec, source: Experiment, person: User) -> list[str]:
    """Return why the files of a workload cannot be sent: they are not here, or not for `person`."""
    files = spec.files
    if not files:
        return []
    known = set(SentFile.objects.filter(sha256__in=files.values()).values_list("sha256", flat=True))
    missing = sorted(name for name, sha256 in files.items() if sha256 not in known)
    if missing:
        return [
            f"{spec.name} sends files that this site does not have: {', '.join(missing)}. Make a "
            "workload with the same files and parameters: it is found by their check sums."
        ]
    own = source.workloads.values("pk")
    if not Workload.objects.visible_to(person).filter(pk__in=own, name=spec.name).exists():
        return [
            f"The files of {spec.name} belong to a workload that you may not view. Ask its owner "
            "to show it to you, or make one with the same files."
        ]
    return []
