"""Find the rows of this site that the file of an experiment describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from experiments.access.permissions import list_groups_to_share_with
from experiments.definitions.definition import Definition
from experiments.definitions.definition_problems import Problem, shorten, suggest_near
from experiments.definitions.site_environments import EnvironmentFinder
from experiments.definitions.site_workloads import WorkloadFinder
from experiments.models import Cluster, Environment, Experiment, Partition, User, Workload
from experiments.models.environment_copies import make_copy

Names = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Missing:
    """A name of the file for which there is no row here, and the rows that may stand for it."""

    section: str
    """Of the table of names: clusters, partitions, environments or workloads."""
    name: str
    choices: tuple[str, ...]


@dataclass
class SiteRows:
    """The rows of each entry, in the order of the file; None where this site has none."""

    cluster: Cluster | None = None
    partition: Partition | None = None
    environments: list[Environment | None] = field(default_factory=list)
    workloads: list[Workload | None] = field(default_factory=list)
    group_keys: list[int] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Sentences on rows that have other names than in the file."""
    missing: list[Missing] = field(default_factory=list)


def find_rows(
    definition: Definition, user: User, mapping: Names, *, make_missing: bool = False
) -> SiteRows:
    """Return the rows that `user` may use for a definition, and a problem for each that is missing.

    `mapping`: section -> name in the file -> name here; it goes before the file's own. With
    `make_missing` workloads that the file describes in full are made: call it in a transaction.
    """
    names = {
        section: {
            name: site_name
            for name, site_name in {
                **definition.mapping.get(section, {}),
                **mapping.get(section, {}),
            }.items()
            if "\0" not in site_name  # the database takes none
        }
        for section in {*definition.mapping, *mapping}
    }
    rows = SiteRows()
    _find_cluster(rows, definition, user, names)
    finder = WorkloadFinder(user, names.get("workloads", {}), make_missing=make_missing)
    for number, workload in enumerate(definition.workloads):
        path = f"workloads[{number}]"
        row, why = finder.find(workload)
        if row is None:
            rows.problems.append(
                definition.make_problem(f"{path}.{why.part}".rstrip("."), why.text)
            )
            rows.missing.append(Missing("workloads", workload.name, finder.list_choices(workload)))
        elif row.name != workload.name and workload.name not in finder.names:
            rows.remarks.append(_remark_name("workload", workload.name, row.name))
        if row is not None and row in rows.workloads:
            other = rows.workloads.index(row)
            message = f"This is the same workload as workloads[{other}]: name it once."
            rows.problems.append(definition.make_problem(path, message))
        rows.workloads.append(row)
    if rows.cluster:
        _find_environments(rows, definition, user, names)
    _find_groups(rows, definition, user)
    return rows


def _find_cluster(rows: SiteRows, definition: Definition, user: User, names: Names) -> None:
    name = definition.values["cluster"]
    usable = Cluster.objects.usable_by(user)
    site_name = names.get("clusters", {}).get(name, name)
    rows.cluster = usable.filter(name=site_name).first()
    if rows.cluster is None:
        choices = tuple(usable.order_by("name").values_list("name", flat=True)[:200])
        near = suggest_near(site_name, choices) if choices else "There is none."
        message = (
            f"No cluster “{shorten(site_name)}” is here to which you may send jobs. {near} Map "
            "the name to one of them."
        )
        rows.problems.append(definition.make_problem("cluster", message))
        rows.missing.append(Missing("clusters", name, choices))
        return
    partition = definition.values["partition"]
    if not partition:
        return
    site_name = names.get("partitions", {}).get(partition, partition)
    partitions = list(Partition.objects.filter(cluster=rows.cluster).order_by("name"))
    rows.partition = next((row for row in partitions if row.name == site_name), None)
    if rows.partition is None:
        choices = tuple(row.name for row in partitions if row.enabled)
        near = suggest_near(site_name, choices) if choices else "It has none: leave it out."
        message = f"{rows.cluster} has no partition “{shorten(site_name)}”. {near}"
        rows.problems.append(definition.make_problem("partition", message))
        rows.missing.append(Missing("partitions", partition, choices))


def _find_environments(rows: SiteRows, definition: Definition, user: User, names: Names) -> None:
    if rows.cluster is None:
        return
    finder = EnvironmentFinder(
        rows.cluster, user, names.get("environments", {}), names.get("images", {})
    )
    for number, environment in enumerate(definition.environments):
        path = f"environments[{number}]"
        row, why = finder.find(environment)
        if row is None:
            rows.problems.append(
                definition.make_problem(f"{path}.{why.part}".rstrip("."), why.text)
            )
            rows.missing.append(Missing("environments", environment.name, finder.choices))
        elif environment.is_copy:
            row = make_copy(row)
        elif row.name != environment.name and environment.name not in finder.names:
            rows.remarks.append(_remark_name("environment", environment.name, row.name))
        if row is not None and row in rows.environments:
            other = rows.environments.index(row)
            message = f"This is the same environment as environments[{other}]: name it once."
            rows.problems.append(definition.make_problem(path, message))
        rows.environments.append(row)


def _remark_name(kind: str, name: str, site_name: str) -> str:
    return (
        f"The {kind} “{shorten(name)}” of the file is “{shorten(site_name)}” here: it has the "
        "same settings and another name."
    )


def _find_groups(rows: SiteRows, definition: Definition, user: User) -> None:
    group_names = definition.values["groups"]
    if not group_names:
        return
    offered = list_groups_to_share_with(user, Experiment(owner=user))
    keys = dict(offered.filter(name__in=group_names).values_list("name", "pk"))
    rows.group_keys = list(keys.values())
    unknown = [name for name in group_names if name not in keys]
    if unknown:
        message = f"You have no group {_join(unknown)} here: leave it out, or ask for it."
        rows.problems.append(definition.make_problem("groups", message))


def _join(names: Iterable[str]) -> str:
    return " or ".join(f"“{shorten(name)}”" for name in names)
