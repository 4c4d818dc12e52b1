"""Drafts from presets: a preset's workloads, on one cluster, in the environments that fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from django.db import IntegrityError, transaction

from experiments.access import audit
from experiments.design import Scale
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Partition,
    StagedImage,
    User,
    Workload,
)
from experiments.planning import rules
from experiments.planning.free_names import find_free_name
from experiments.presets.base import Preset, Size
from experiments.presets.commands import place_script
from experiments.software import inspections, parity
from runners.workloads import WORKLOADS

ATTEMPTS = 3
"""If two people create workloads of one name at once, the second one tries another name."""
CURES = {
    "scales": "Take these scales out of the draft, or choose another partition or cluster.",
    "environments": "Add an environment to the catalogue first, or choose another cluster.",
}


@dataclass(frozen=True)
class Candidate:
    """An environment that the preset could run in, or the reason why it cannot."""

    environment: Environment
    why_not: str = ""


def list_candidates(preset: Preset, cluster: Cluster, person: User) -> list[Candidate]:
    """Return the cluster's environments in their order; four queries."""
    visible = Environment.objects.originals().visible_to(person)
    rows = visible.filter(cluster=cluster, recorded_tool="")
    environments = list(rows.select_related("runtime", "staged_image__image", "cluster"))
    software_by_pk = inspections.find_known_software(environments)
    return [
        Candidate(
            row, _why_not(row, preset.needs, list_known_packages(row, software_by_pk[row.pk]))
        )
        for row in environments
    ]


def list_known_packages(environment: Environment, software: inspections.KnownSoftware) -> set[str]:
    """Return the names of the Python packages in an environment; empty if it was not inspected."""
    packages: set[str] = set()
    if software.inspection:
        packages |= parity.list_packages(software.inspection.facts).keys()
    if environment.staged_image:
        packages |= environment.staged_image.image.packages.keys()
    return packages


def _why_not(environment: Environment, needs: Iterable[str], packages: set[str]) -> str:
    staged = environment.staged_image
    if staged and staged.state != StagedImage.State.READY:
        return f"its image is {staged.state}"
    if needs and not rules.has_python(environment):
        return "without Python 3.8 or later"
    missing = [need for need in needs if packages and not has_package(packages, need)]
    return f"without {' and '.join(missing)}" if missing else ""


def has_package(packages: set[str], need: str) -> bool:
    """Return whether `need` is installed in any of its builds, such as tensorflow-cpu."""
    builds = {need, *(f"{need}-{build}" for build in ("cpu", "gpu", "intel"))}
    return not builds.isdisjoint(packages)


def select_ready(candidates: Sequence[Candidate]) -> tuple[list[Environment], Environment | None]:
    """Return the ready environments to select in a new form, and the baseline: bare metal.

    Only one environment on bare metal is selected; others are for other frameworks.
    """
    ready = [candidate.environment for candidate in candidates if not candidate.why_not]
    bare = [row for row in ready if row.is_bare_metal]
    baseline = next(iter(bare or ready), None)
    return [row for row in ready if row == baseline or not row.is_bare_metal], baseline


def choose_partition(size: Size, cluster: Cluster) -> Partition | None:
    """Return the smallest partition that has the nodes and GPUs of the scales, else the largest."""
    scales = [Scale.parse(text) for text in size.scales]
    nodes = max(scale.nodes for scale in scales)
    gpus = max(scale.gpus_per_node for scale in scales)
    rows = cluster.partitions.filter(enabled=True)
    partitions = list(rows.order_by("-time_limit_minutes", "name"))
    fitting = [row for row in partitions if row.nodes >= nodes and row.gpus_per_node >= gpus]
    if fitting:
        return fitting[0]
    return max(partitions, key=lambda row: (row.gpus_per_node, row.nodes), default=None)


@dataclass(frozen=True)
class ScriptPlace:
    """Where the script of others lies that a preset starts."""

    folder: str
    """A path in every environment, or one below {code}; without a last slash."""
    code: Mapping[str, str] = field(default_factory=dict)
    """The parameters of `command` that name its code, where Tare puts that on the cluster."""


def make_workloads(
    size: Size, owner: User, *, folder: str = "", script: ScriptPlace | None = None
) -> list[Workload]:
    """Return the workloads of a size: those that `owner` has already, else new ones, not saved.

    `folder` is where the data set lies on the cluster. Raises ParameterError where a kind refuses
    what the preset, `folder` or `script` says.
    """
    workloads: list[Workload] = []
    for piece in size.workloads:
        parameters = dict(piece.parameters)
        declared = {parameter.name for parameter in WORKLOADS[piece.kind].parameters}
        if folder and piece.reads_data and "data_directory" in declared:
            parameters |= {"data_directory": folder, **size.with_data}
        if script:
            parameters = {**place_script(parameters, script.folder), **script.code}
        same = {
            "kind": piece.kind,
            "parameters": WORKLOADS[piece.kind].clean(parameters),
            "time_limit_seconds": piece.time_limit_seconds,
            "owner": owner,
            "parent": None,
            "data_set": None,
        }
        known = Workload.objects.filter(**same).order_by("pk").first()
        taken = {row.name for row in workloads}
        workloads.append(known or Workload(name=find_free_name(piece.name, taken), **same))
    return workloads


def list_refusals(
    preset: Preset,
    size: Size,
    cluster: Cluster,
    environments: Sequence[Environment],
    baseline: Environment | None,
    workloads: Sequence[Workload],
) -> list[str]:
    """Return the reasons why the preset cannot run there, each with what to change."""
    problems = rules.list_refusals(
        cluster=cluster,
        partition=choose_partition(size, cluster),
        workloads=workloads,
        environments=environments,
        baseline=baseline,
        scales=size.scales,
        repeats=size.repeats,
        paired=True,
        primary_metric=preset.metric,
        find_warm_up=preset.warm_up == Experiment.WarmUp.FOUND,
    )
    return [
        " ".join(filter(None, (*dict.fromkeys(messages), CURES.get(name, ""))))
        for name, messages in problems.items()
    ]


def make_draft(
    preset: Preset,
    size: Size,
    *,
    cluster: Cluster,
    environments: Sequence[Environment],
    baseline: Environment,
    owner: User,
    folder: str = "",
    script: ScriptPlace | None = None,
) -> Experiment:
    """Create the missing workloads and a draft experiment with them, in one transaction.

    Raises ParameterError as `make_workloads` does.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with transaction.atomic():
                workloads = make_workloads(size, owner, folder=folder, script=script)
                for row in workloads:
                    if row.pk is None:
                        with audit.log_change(owner, row, why=f"preset {preset.title}"):
                            row.save()
                draft = Experiment.objects.create(
                    question=preset.question,
                    cluster=cluster,
                    partition=choose_partition(size, cluster),
                    baseline=baseline,
                    scales=list(size.scales),
                    repeats=size.repeats,
                    margin=preset.margin,
                    primary_metric=preset.metric,
                    warm_up=preset.warm_up,
                    owner=owner,
                )
                draft.workloads.set(workloads)
                draft.environments.set(environments)
                return draft
        except IntegrityError:
            if attempt == ATTEMPTS:
                raise
    raise AssertionError("unreachable")
