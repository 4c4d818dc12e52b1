"""Drafts of A/A tests: one environment, measured against itself on one partition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from django.db import transaction

from experiments.access import audit
from experiments.models import Cluster, Environment, Experiment, Partition, User, Workload
from experiments.models.environment_copies import make_copy
from experiments.planning import rules
from experiments.planning.estimands import PARTITION, propose_estimand
from experiments.planning.scale_rules import suggest_scale
from experiments.presets import LAPTOP, PRESETS
from experiments.presets.preset_drafts import has_package, list_known_packages, make_workloads
from experiments.software.inspections import find_known_software
from runners.workloads import WORKLOADS

MOST_TRIED = 50
"""Workloads of the catalogue that are looked at, those with the shortest time limit first."""
NEEDS = {"blas": ("numpy",), "cnn": ("tensorflow",), "segmentation": ("tensorflow",)}
"""Packages without which a kind of workload fails."""


class CannotBeTested(Exception):
    """No A/A test can be made of an environment, for the reason that its text gives."""


def list_partitions_to_offer(cluster: Cluster) -> list[Partition]:
    """Return the partitions in service; first the one that a new draft proposes."""
    rows = cluster.partitions.filter(enabled=True)
    return list(rows.order_by("-time_limit_minutes", "name"))


def choose_workload(
    environment: Environment, partition: Partition | None, person: User
) -> Workload | None:
    """Return the workload with the shortest time limit that the environment can run.

    One of the catalogue that `person` may view, else the smallest of the presets, which is not
    stored then; None where the environment is known to lack what all of these need. Programs of
    users are left out: nobody knows what they need.
    """
    software = find_known_software([environment])[environment.pk]
    packages = list_known_packages(environment, software)
    known = Workload.objects.visible_to(person).originals().launchable()
    stored = known.order_by("time_limit_seconds", "pk")[:MOST_TRIED]
    for workload in chain(stored, _list_preset_workloads(person)):
        if WORKLOADS[workload.kind].is_the_users or not _has_all(packages, workload):
            continue
        if not _list_refusals(environment, partition, workload):
            return workload
    return None


def _list_preset_workloads(person: User) -> Iterator[Workload]:
    """Yield the workloads of presets for a laptop, the shortest first; some are not stored."""
    sizes = [preset.sizes[LAPTOP] for preset in PRESETS.values() if LAPTOP in preset.sizes]
    workloads = [row for size in sizes if not size.data for row in make_workloads(size, person)]
    yield from sorted(workloads, key=lambda row: row.time_limit_seconds)


def _has_all(packages: set[str], workload: Workload) -> bool:
    """Return whether an environment has what a workload needs, as far as it is known."""
    needs = NEEDS.get(workload.kind, ())
    if WORKLOADS[workload.kind].is_recorded_outside(workload.parameters):
        return True
    if workload.kind == "startup":
        needs = (str(workload.parameters.get("module", "numpy")).partition(".")[0],)
    return not packages or all(has_package(packages, need) for need in needs)


def _list_refusals(
    environment: Environment, partition: Partition | None, workload: Workload
) -> dict[str, list[str]]:
    """Return why a workload cannot run there, twice in each job."""
    problems = rules.list_refusals(
        cluster=environment.cluster,
        partition=partition,
        workloads=[workload],
        environments=[environment, environment],
        baseline=environment,
        scales=[suggest_scale(partition)],
        repeats=1,
        paired=True,
    )
    return {name: texts for name, texts in problems.items() if name != "environments"}


def make_aa_draft(
    environment: Environment,
    partition: Partition | None,
    person: User,
    *,
    workload: Workload | None,
    repeats: int,
    margin: float,
) -> tuple[Experiment, bool]:
    """Return the draft of an A/A test, and whether it is new.

    The one that `person` has already of this environment and partition is returned again: a button
    may be pressed twice. A workload that is not stored yet is. The draft is as private as the
    environment. Raises CannotBeTested.
    """
    if environment.recorded_tool or environment.cluster.recorded:
        raise CannotBeTested(f"{environment} is only known from imported logs.")
    with transaction.atomic():
        copy = make_copy(environment)  # which locks the environment
        drafts = Experiment.objects.filter(
            owner=person,
            launched_at=None,
            imported_at=None,
            baseline=environment,
            environments=copy,
            partition=partition,
        )
        if draft := drafts.first():
            return draft, False
        where = partition.name if partition else environment.cluster.name
        estimand = propose_estimand(environment.cluster, partition)
        draft = Experiment.objects.create(
            question=f"Does {environment} equal itself on {where}?",
            cluster=environment.cluster,
            partition=partition,
            baseline=environment,
            scales=[suggest_scale(partition)],
            repeats=repeats,
            margin=margin,
            estimand=estimand,
            spreads_nodes=estimand == PARTITION,
            visibility=environment.visibility,
            owner=person,
        )
        draft.groups.set(environment.groups.all())
        draft.environments.set([environment, copy])
        if workload:
            if workload.pk is None:
                with audit.log_change(person, workload, why=f"A/A test of {environment}"):
                    workload.save()
            # It may have been deleted since it was chosen.
            draft.workloads.set(Workload.objects.filter(pk=workload.pk))
        return draft, True
