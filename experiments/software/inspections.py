"""Inspections: which software each environment has, as an operation on its cluster saw it.

An inspection counts until the environment or its staged image changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.access import audit
from experiments.access.permissions import why_not_use
from experiments.design import compute_hash
from experiments.models import Environment, EnvironmentInspection, Operation, Partition, User
from experiments.planning.freeze import freeze_environment


class NotRequested(Exception):
    """The inspection is refused; the message says why, to the person who requested it."""


@dataclass(frozen=True)
class KnownSoftware:
    """The software of one environment: the last inspection, or why none counts."""

    environment: Environment
    inspection: EnvironmentInspection | None
    """The newest inspection, also if it does not count any more."""
    why_not: str
    """Why the software is not known; "" if the inspection counts."""
    operation: Operation | None
    """The operation that inspects it now, or the last one if it failed."""

    @property
    def is_known(self) -> bool:
        return not self.why_not

    @property
    def under_way(self) -> bool:
        return self.operation is not None and not self.operation.is_final


def compute_fingerprint(environment: Environment) -> str:
    """Return a hash of all settings that decide which software a program finds there."""
    staged = environment.staged_image
    spec = freeze_environment(environment)
    del spec["label"]
    return compute_hash(
        {
            **spec,
            "cluster_setup_lines": environment.cluster.setup_lines,
            "image_sha256": staged.sha256 if staged else "",
        }
    )


def find_known_software(environments: Iterable[Environment]) -> dict[int, KnownSoftware]:
    """Return the known software of each environment, by key, in a fixed number of queries.

    That of an A/A copy is its environment's.
    """
    rows = {environment.pk: environment for environment in environments}
    inspected = {row.original_pk for row in rows.values()}
    all_inspections = EnvironmentInspection.objects.filter(
        environment__in=inspected
    ).select_related("operation")
    newest = {
        inspection.environment_id: inspection
        for inspection in all_inspections.order_by("environment_id", "-inspected_at").distinct(
            "environment_id"
        )
    }
    inspecting = Operation.objects.filter(kind=Operation.Kind.INSPECT, environment__in=inspected)
    last_inspecting = {
        operation.environment_id: operation
        for operation in inspecting.order_by("environment_id", "-pk").distinct("environment_id")
    }
    staged = {row.staged_image_id for row in rows.values() if row.staged_image_id}
    stagings = Operation.objects.filter(
        kind=Operation.Kind.STAGE, staged_image__in=staged, state=Operation.State.DONE
    ).order_by("staged_image_id", "-ended_at")
    last_stagings = {
        operation.staged_image_id: operation for operation in stagings.distinct("staged_image_id")
    }
    return {
        pk: _known_software(
            row,
            newest.get(row.original_pk),
            last_inspecting.get(row.original_pk),
            last_stagings.get(row.staged_image_id),
        )
        for pk, row in rows.items()
    }


def _known_software(
    environment: Environment,
    inspection: EnvironmentInspection | None,
    operation: Operation | None,
    staging: Operation | None,
) -> KnownSoftware:
    why_not = ""
    if inspection is None:
        why_not = "not inspected yet"
    else:
        day = f"{inspection.inspected_at:%Y-%m-%d %H:%M} UTC"
        if inspection.definition != compute_fingerprint(environment):
            why_not = f"inspected on {day}, and edited since"
        elif staging and staging.ended_at and staging.ended_at > inspection.inspected_at:
            why_not = f"inspected on {day}, and its image was staged anew since"
    done = operation is not None and operation.state == Operation.State.DONE
    return KnownSoftware(environment, inspection, why_not, None if done else operation)


def request_inspection(
    environment: Environment, user: User, partition: Partition | None = None
) -> Operation:
    """Create the operation that inspects an environment. Raises NotRequested.

    If one is under way it is returned instead. The caller enqueues the visit to the cluster.
    """
    environment = environment.copy_of or environment
    if environment.recorded_tool or environment.cluster.recorded:
        raise NotRequested(f"{environment} is only known from imported logs.")
    for row in (environment.cluster, environment):
        if refusal := why_not_use(user, row):
            raise NotRequested(refusal)
    staged = environment.staged_image
    if staged and staged.state != staged.State.READY:
        raise NotRequested(f"{environment}: {staged} is {staged.state}.")
    with transaction.atomic():
        audit.get_stored(Environment.objects.select_for_update(), pk=environment.pk)
        alive = environment.operations.filter(kind=Operation.Kind.INSPECT).exclude(
            state__in=Operation.FINAL
        )
        return alive.first() or Operation.objects.create(
            kind=Operation.Kind.INSPECT,
            cluster=environment.cluster,
            environment=environment,
            partition=partition,
            owner=user,
        )


def keep_inspection(
    environment: Environment,
    facts: Mapping[str, Any],
    definition: str,
    operation: Operation | None = None,
) -> EnvironmentInspection:
    """Store the result of an inspection, of the environment as it was when it was sent."""
    return EnvironmentInspection.objects.create(
        environment=environment,
        operation=operation,
        definition=definition,
        facts=dict(facts),
        inspected_at=timezone.now(),
    )
