"""The rows of the catalogue that a bundle's plan names: records of another site's, never its own.

Each bundle gets rows of its own. A name is kept where it is free here, and gets a number else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError

from experiments.access import audit
from experiments.imports.layout import find_tool
from experiments.imports.problems import ImportProblem
from experiments.models import Cluster, Environment, Partition, User, Workload
from experiments.models.cluster_choices import BY_HAND
from experiments.planning.free_names import LONGEST_NAME, save_under_free_name
from runners.workloads import KNOWN_WORKLOADS, WORKLOADS
from runners.workloads.parameters import ParameterError

WHY = "an import of a bundle"


@dataclass(frozen=True)
class Catalogue:
    """The rows of one bundle, by the names that its plan has for them."""

    cluster: Cluster
    partition: Partition | None
    environments: Mapping[str, Environment]
    workloads: Mapping[str, Workload]

    @property
    def keys(self) -> dict[str, dict[str, str]]:
        """Return what the plan calls each row, by the keys that they have here."""
        return {
            "workloads": {str(row.pk): key for key, row in self.workloads.items()},
            "environments": {str(row.pk): key for key, row in self.environments.items()},
        }


def create_catalogue(
    about: Mapping[str, Any],
    plan: Mapping[str, Any] | None,
    owner: User,
    *,
    printed: Sequence[str],
) -> Catalogue:
    """Store the machine, the environments and the workloads that a bundle is about.

    `printed` are the names of workloads in the order in which their site shows them.
    """
    cluster, partition = _create_machine(about, plan or {}, owner)
    return Catalogue(
        cluster,
        partition,
        _create_environments(about, plan, cluster, owner),
        _create_workloads(about, plan, owner, printed),
    )


def _save(owner: User, row: Any) -> Any:
    """Store a row, with its entry in the audit log. ImportProblem for values that it cannot have.

    Who sees it: its owner, and whoever may view the experiment.
    """
    relations = [field.name for field in row._meta.fields if field.is_relation]
    try:
        row.clean_fields(exclude=relations)
    except ValidationError as error:
        raise ImportProblem(f"{row}: {' '.join(error.messages)}") from None
    with audit.log_change(owner, row, why=WHY):
        row.save()
    return row


def _save_under_free_name(owner: User, row: Any) -> Any:
    """Store a row as `_save` does; its name gets a number if another row here has it."""
    save_under_free_name(row, lambda: _save(owner, row), among=type(row)._default_manager.all())
    return row


def _create_machine(
    about: Mapping[str, Any], plan: Mapping[str, Any], owner: User
) -> tuple[Cluster, Partition | None]:
    machine = about.get("machine") or {}
    stated = machine.get("cluster") or (plan.get("cluster") or {}).get("name") or "a machine"
    cluster = Cluster(
        name=stated.strip()[:LONGEST_NAME],
        transport=BY_HAND,
        scheduler="direct",
        work_directory="/",
        enabled=False,
        recorded=True,
        owner=owner,
    )
    _save_under_free_name(owner, cluster)
    size = machine.get("partition") or (
        {"name": plan["partition"]} if plan.get("partition") else {}
    )
    if not size:
        return cluster, None
    known = {name: value for name, value in size.items() if value is not None}
    return cluster, _save(owner, Partition(cluster=cluster, **known))


def _create_environments(
    about: Mapping[str, Any], plan: Mapping[str, Any] | None, cluster: Cluster, owner: User
) -> dict[str, Environment]:
    """Return the environments in the order in which their site made them."""
    frozen = plan["environments"] if plan else {}
    tools = about.get("tools") or {}
    rows: dict[str, Environment] = {}
    for key, name in _in_order(about["environments"]):
        spec = frozen.get(key) or {}
        runtime = spec.get("runtime") or ""
        tool = find_tool(runtime) if runtime not in ("", "bare_metal") else tools.get(key) or ""
        rows[key] = _save(
            owner,
            Environment(
                name=name,
                cluster=cluster,
                recorded_tool=tool,
                mode=(spec.get("mode") or "")[:10],
                python=spec.get("python") or "python3",
                binds=spec.get("binds") or [],
                variables=_read_variables(name, spec.get("variables") or []),
                setup_lines="\n".join(spec.get("setup_lines") or []),
                owner=owner,
            ),
        )
    _mark_copies(about, plan or {}, rows)
    return rows


def _read_variables(name: str, pairs: list[list[str]]) -> dict[str, str]:
    if any(len(pair) != 2 for pair in pairs):
        raise ImportProblem(f"{name}: its variables are not pairs of a name and a value.")
    return dict(pairs)


def _mark_copies(
    about: Mapping[str, Any], plan: Mapping[str, Any], rows: Mapping[str, Environment]
) -> None:
    """Mark the environment that measures the baseline a second time, in an A/A test."""
    baseline = rows[about["definition"]["baseline"]]
    for key, report in (plan.get("parity") or {}).items():
        if key in rows and (report or {}).get("itself"):
            Environment.objects.filter(pk=rows[key].pk).update(copy_of=baseline)
            break


def _create_workloads(
    about: Mapping[str, Any], plan: Mapping[str, Any] | None, owner: User, printed: Sequence[str]
) -> dict[str, Workload]:
    frozen = plan["workloads"] if plan else about.get("programs") or {}
    shown = list(dict.fromkeys([*printed, *about["workloads"].values()]))
    rows: dict[str, Workload] = {}
    for key, name in _in_order(about["workloads"]):
        spec = frozen.get(key)
        if not spec:
            raise ImportProblem(f"It does not say what the workload {name} is.")
        kind = spec["kind"]
        if kind not in KNOWN_WORKLOADS:
            raise ImportProblem(f"{name}: this site knows no workload of the kind “{kind}”.")
        if kind in WORKLOADS:
            try:
                WORKLOADS[kind].clean(spec["parameters"])
            except ParameterError as error:
                raise ImportProblem(f"{name}: its parameters are not known here: {error}") from None
        rows[key] = _save_under_free_name(
            owner,
            Workload(
                name=name,
                kind=kind,
                parameters=spec["parameters"],
                time_limit_seconds=spec.get("time_limit_seconds") or 600,
                recorded=True,
                # As there, where variants of a sweep stand by their values: not by new names.
                sweep_order=f"{shown[0]} {shown.index(name):05}" if len(shown) > 1 else "",
                owner=owner,
            ),
        )
    return rows


def _in_order(names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return names by the keys of their rows. ImportProblem for a key that no row can have."""
    if any(not (key.isdecimal() and key.isascii() and len(key) <= 18) for key in names):
        raise ImportProblem("The names of its workloads and environments are no keys.")
    if len(set(names.values())) < len(names):
        raise ImportProblem("Two of its workloads or environments have the same name.")
    return sorted(names.items(), key=lambda item: int(item[0]))
