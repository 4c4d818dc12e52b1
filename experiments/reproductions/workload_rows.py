"""The rows of the catalogue that run what a plan has frozen of its workloads."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from django.db.models import Q

from experiments.models import Cluster, DataCopy, DataSet, Experiment, SentFile, User, Workload
from experiments.models.visibility import Visibility
from experiments.planning.free_names import find_free_name
from experiments.planning.frozen_code import explain_closed_archive
from experiments.reproductions.frozen_plans import WorkloadSpec
from runners.workloads import WORKLOADS, ParameterError


def find_workloads(
    specs: Sequence[WorkloadSpec], source: Experiment, person: User, cluster: Cluster
) -> tuple[list[Workload], list[str]]:
    """Return a row for each workload of a plan, and what forbids some of them, as sentences.

    A row that is not stored stands for one that has to be made, with the parameters of the plan.
    """
    taken: set[int] = set()
    rows: list[Workload] = []
    problems: list[str] = []
    for spec in specs:
        data_sets = _find_data_sets(spec, person, cluster)
        row = _find_row(spec, person, data_sets, taken)
        if row is None:
            if spec.data_set and not data_sets:
                problems.append(_explain_missing_data(spec, cluster))
            problems += _list_file_problems(spec, source, person)
            if closed := explain_closed_archive(spec.template, person):
                problems.append(f"{spec.name}: {closed}")
            row = Workload(
                name=find_free_name(spec.name, {other.name for other in rows}),
                kind=spec.kind,
                parameters=spec.template,
                data_set=data_sets[0] if data_sets else None,
                data_proof=spec.data_set.proof
                if spec.data_set
                else Workload.DataProof.SIZES_AND_TIMES,
                time_limit_seconds=spec.time_limit_seconds,
                owner=person,
                visibility=Visibility.PRIVATE,
            )
        else:
            taken.add(row.pk)
        rows.append(row)
    return rows, problems


def _find_row(
    spec: WorkloadSpec, person: User, data_sets: Sequence[DataSet], taken: Collection[int]
) -> Workload | None:
    """Return the workload that a person may use with exactly the plan's parameters and data."""
    usable = Workload.objects.visible_to(person).originals().launchable()
    same = usable.filter(kind=spec.kind, time_limit_seconds=spec.time_limit_seconds)
    if spec.data_set:
        same = same.filter(data_set__in=data_sets[:1], data_proof=spec.data_set.proof)
    else:
        same = same.filter(data_set=None)
    likely = Q(name=spec.name) | Q(parameters=spec.template)
    if spec.key.isdecimal() and len(spec.key) < 18:
        likely |= Q(pk=int(spec.key))
    rows = [row for row in same.filter(likely).order_by("pk") if row.pk not in taken]
    rows.sort(key=lambda row: (str(row.pk) != spec.key, row.name != spec.name))
    return next((row for row in rows if _has_parameters(row, spec)), None)


def _has_parameters(row: Workload, spec: WorkloadSpec) -> bool:
    try:
        return WORKLOADS[row.kind].clean(row.parameters) == spec.template
    except ParameterError:
        return False


def _find_data_sets(spec: WorkloadSpec, person: User, cluster: Cluster) -> list[DataSet]:
    """Return the data sets that a person may view with the plan's digest, the best one first.

    One that is ready on the cluster is better than one of the same name.
    """
    if spec.data_set is None:
        return []
    name = spec.data_set.name
    rows = list(DataSet.objects.visible_to(person).filter(digest=spec.data_set.digest))
    copies = DataCopy.objects.filter(data_set__in=rows, cluster=cluster)
    states = dict(copies.values_list("data_set_id", "state"))
    rows.sort(
        key=lambda row: (
            states.get(row.pk) != DataCopy.State.READY,
            row.pk not in states,
            row.name != name,
            row.pk,
        )
    )
    return rows


def _explain_missing_data(spec: WorkloadSpec, cluster: Cluster) -> str:
    data = spec.data_set
    return (
        f"{spec.name} reads the data set {data and data.name}, and no data set that you may view "
        f"has the digest {data and data.digest}. Register the folder in which it lies on "
        f"{cluster}, or ask who has registered it to show it to you: the digest tells that it is "
        "the same."
    )


def list_data_differences(
    specs: Sequence[WorkloadSpec], rows: Sequence[Workload], cluster: Cluster
) -> Iterator[str]:
    """Yield where data sets lie elsewhere than they did, or have another name here."""
    keys = [row.data_set_id for row in rows if row.data_set_id]
    copies = DataCopy.objects.filter(data_set__in=keys, cluster=cluster) if keys else ()
    paths = {copy.data_set_id: copy.path for copy in copies}
    for spec, row in zip(specs, rows, strict=True):
        path = paths.get(row.data_set_id or 0)
        if spec.data_set and path and path != spec.data_set.path:
            yield (
                f"{spec.name} reads {row.data_set} at {path}, and not at {spec.data_set.path}; the "
                "digest is the same."
            )


def _list_file_problems(spec: WorkloadSpec, source: Experiment, person: User) -> list[str]:
    """Return why the files of a workload cannot be sent: they are not here, or not for `person`."""
    files = spec.files
    if not files:
        return []
    if source.is_from_bundle:
        return _list_bundle_file_problems(spec, person)
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


def _list_bundle_file_problems(spec: WorkloadSpec, person: User) -> list[str]:
    """Return why the files that a bundle only names by their check sums cannot be sent.

    A bundle may state any check sum: of a file that others keep here it opens nothing.
    """
    own = Workload.objects.visible_to(person).launchable().filter(kind=spec.kind)
    shown: set[str] = set()
    for parameters in own.values_list("parameters", flat=True):
        files = parameters.get("files")
        shown |= set(files.values()) if isinstance(files, dict) else set()
    missing = sorted(name for name, sha256 in spec.files.items() if sha256 not in shown)
    if not missing:
        return []
    return [
        f"{spec.name} sends files of which the bundle has only the check sums, and no workload "
        f"that you may view has them: {', '.join(missing)}. Make a workload with the same files: "
        "they are found by their check sums."
    ]
