"""Parity reports: whether, before a launch, each container has the software of the baseline.

An operation inspects an environment (`request_inspection`). The result counts until the environment
or its staged image changes. A person may waive a difference, in writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.access.permissions import why_not_use
from experiments.design import content_hash
from experiments.models import (
    Environment,
    EnvironmentInspection,
    Event,
    Experiment,
    Operation,
    Partition,
    User,
    Waiver,
)
from experiments.planning.freeze import environment_spec
from experiments.software.parity import Difference, Grade, counts, differences
from runners.workloads import KNOWN_WORKLOADS

NAMED = 5
"""A sentence names at most as many differences, and counts the others."""


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


@dataclass(frozen=True)
class ParityReport:
    """The comparison of one environment's software with the baseline's."""

    baseline: KnownSoftware
    software: KnownSoftware
    differences: list[Difference]
    waivers: list[Waiver]

    @property
    def environment(self) -> Environment:
        return self.software.environment

    @property
    def is_known(self) -> bool:
        return self.baseline.is_known and self.software.is_known

    @property
    def is_same(self) -> bool:
        return self.is_known and not self.differences

    @property
    def unknown(self) -> list[KnownSoftware]:
        return [software for software in (self.baseline, self.software) if not software.is_known]

    @property
    def rows(self) -> list[tuple[Difference, Waiver | None]]:
        """Return each difference with the waiver that covers it."""
        return [
            (difference, next((w for w in self.waivers if w.covers(difference)), None))
            for difference in self.differences
        ]

    @property
    def unwaived(self) -> list[Difference]:
        return [difference for difference, waiver in self.rows if waiver is None]

    @property
    def counts(self) -> dict[Grade, int]:
        return counts(self.differences)

    @property
    def answer(self) -> str:
        """Return the answer to: is it the same software as the baseline's?"""
        if not self.is_known:
            return "not inspected yet"
        count = len(self.differences)
        return f"{count} difference{'s' * (count != 1)}" if count else "yes"


def fingerprint(environment: Environment) -> str:
    """Return a hash of all settings that decide which software a program finds there."""
    staged = environment.staged_image
    spec = environment_spec(environment)
    del spec["label"]
    return content_hash(
        {
            **spec,
            "cluster_setup_lines": environment.cluster.setup_lines,
            "image_sha256": staged.sha256 if staged else "",
        }
    )


def known_software(environments: Iterable[Environment]) -> dict[int, KnownSoftware]:
    """Return the known software of each environment, by key, in a fixed number of queries."""
    rows = {environment.pk: environment for environment in environments}
    all_inspections = EnvironmentInspection.objects.filter(environment__in=rows).select_related(
        "operation"
    )
    newest = {
        inspection.environment_id: inspection
        for inspection in all_inspections.order_by("environment_id", "-inspected_at").distinct(
            "environment_id"
        )
    }
    inspecting = Operation.objects.filter(kind=Operation.Kind.INSPECT, environment__in=rows)
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
            row, newest.get(pk), last_inspecting.get(pk), last_stagings.get(row.staged_image_id)
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
        if inspection.definition != fingerprint(environment):
            why_not = f"inspected on {day}, and edited since"
        elif staging and staging.ended_at and staging.ended_at > inspection.inspected_at:
            why_not = f"inspected on {day}, and its image was staged anew since"
    done = operation is not None and operation.state == Operation.State.DONE
    return KnownSoftware(environment, inspection, why_not, None if done else operation)


def make_reports(experiment: Experiment) -> list[ParityReport]:
    """Return a report for each environment but the baseline, in the order of their names."""
    rows = list(
        experiment.environments.select_related(
            "cluster", "runtime", "staged_image__image"
        ).order_by("name")
    )
    software_by_pk = known_software(rows)
    baseline = software_by_pk.get(experiment.baseline_id)
    if baseline is None:  # an incomplete draft
        return []
    waivers: dict[int, list[Waiver]] = {}
    for waiver in Waiver.objects.filter(experiment=experiment).select_related("by"):
        waivers.setdefault(waiver.environment_id, []).append(waiver)
    return [
        _make_report(baseline, software_by_pk[row.pk], waivers.get(row.pk, []))
        for row in rows
        if row.pk != experiment.baseline_id
    ]


def _make_report(
    baseline: KnownSoftware, software: KnownSoftware, waivers: list[Waiver]
) -> ParityReport:
    found_differences: list[Difference] = []
    baseline_inspection, inspection = baseline.inspection, software.inspection
    if baseline.is_known and software.is_known and baseline_inspection and inspection:
        found_differences = differences(baseline_inspection.facts, inspection.facts)
    return ParityReport(baseline, software, found_differences, waivers)


def request_inspection(
    environment: Environment, user: User, partition: Partition | None = None
) -> Operation:
    """Create the operation that inspects an environment. Raises NotRequested.

    If one is under way it is returned instead. The caller enqueues the visit to the cluster.
    """
    if environment.recorded_tool or environment.cluster.recorded:
        raise NotRequested(f"{environment} is only known from imported logs.")
    for row in (environment.cluster, environment):
        if refusal := why_not_use(user, row):
            raise NotRequested(refusal)
    staged = environment.staged_image
    if staged and staged.state != staged.State.READY:
        raise NotRequested(f"{environment}: {staged} is {staged.state}.")
    with transaction.atomic():
        Environment.objects.select_for_update().get(pk=environment.pk)
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


def waive_differences(
    experiment: Experiment, environment: Environment, names: Sequence[str], reason: str, by: User
) -> int:
    """Waive those of today's differences that are in `names`; return how many.

    An empty reason waives nothing.
    """
    if not reason.strip():
        return 0
    report = next((p for p in make_reports(experiment) if p.environment == environment), None)
    rows = (
        [difference for difference in report.differences if difference.what in names]
        if report
        else []
    )
    with transaction.atomic():
        draft = Experiment.objects.select_for_update().filter(
            pk=experiment.pk, launched_at=None, imported_at=None
        )
        if not draft.exists():
            return 0
        for row in rows:
            Waiver.objects.update_or_create(
                experiment=experiment,
                environment=environment,
                what=row.what,
                defaults={
                    "on_baseline": row.on_baseline,
                    "in_environment": row.in_environment,
                    "reason": reason.strip(),
                    "by": by,
                    "at": timezone.now(),
                },
            )
        if rows:
            what = f"waived {len(rows)} of {environment}"[:100]
            why = f"{reason.strip()} ({', '.join(row.what for row in rows)})"
            Event.objects.create(experiment=experiment, what=what, why=why, actor=by)
    return len(rows)


def withdraw_waivers(experiment: Experiment, environment: Environment, by: User) -> int:
    """Delete a draft's waivers for an environment; return how many."""
    drafts = Experiment.objects.filter(pk=experiment.pk, launched_at=None)
    count = Waiver.objects.filter(experiment__in=drafts, environment=environment).delete()[0]
    if count:
        what = f"took back {count} waived of {environment}"[:100]
        Event.objects.create(experiment=experiment, what=what, actor=by)
    return count


def explain_unwaived(reports: Iterable[ParityReport]) -> list[str]:
    """Return a sentence for each report with differences that nobody has waived."""
    return [
        f"{report.environment} differs from {report.baseline.environment} in "
        f"{join_names([row.what for row in report.unwaived])}. Make the software the same, or "
        "waive it with a reason."
        for report in reports
        if report.unwaived
    ]


def join_names(names: Sequence[str]) -> str:
    """Return the names as in "Python, numpy and 3 more"."""
    if len(names) > NAMED:
        return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])


def freeze_reports(reports: Iterable[ParityReport]) -> dict[str, Any]:
    """Return the reports as a launch stores them in the plan, by the environment's primary key."""
    return {
        str(report.environment.pk): {
            "unknown": [
                f"{software.environment}: {software.why_not}" for software in report.unknown
            ],
            "looked_at": [
                software.inspection.inspected_at.isoformat()
                if software.inspection and software.is_known
                else None
                for software in (report.baseline, report.software)
            ],
            "differences": [
                {
                    "what": difference.what,
                    "here": difference.on_baseline,
                    "there": difference.in_environment,
                    "grade": str(difference.grade),
                    "reason": waiver.reason if waiver else "",
                    "by": str(waiver.by) if waiver else "",
                    "at": waiver.at.isoformat() if waiver else "",
                }
                for difference, waiver in report.rows
            ],
        }
        for report in reports
    }


def read_frozen(experiment: Experiment) -> dict[str, dict[str, Any]]:
    """Return the reports in the plan, by the environment's present name.

    Empty for plans that are older than parity reports, and for imports.
    """
    parity = (experiment.plan or {}).get("parity", {})
    names = dict(experiment.environments.values_list("pk", "name")) if parity else {}
    return {names[int(pk)]: report for pk, report in parity.items() if int(pk) in names}


def list_own_programs(experiment: Experiment) -> list[str]:
    """Return the names of the experiment's workloads that start a program of the user's."""
    kinds = [kind for kind, known in KNOWN_WORKLOADS.items() if known.is_the_users]
    rows = experiment.workloads.filter(kind__in=kinds).order_by("name")
    return list(rows.values_list("name", flat=True))


def describe_known_differences(parity: Mapping[str, Any], *, own_program: bool = False) -> str:
    """Return a sentence on the differences of one environment that the plan has stored.

    `own_program`: the runs start a program of the user's, which no inspection sees.
    """
    if unknown := parity["unknown"]:
        return f"Software not compared before the launch: {'; '.join(unknown)}."
    if not parity["differences"]:
        day = max(parity["looked_at"])[:10]
        same = "Python, packages and libraries were" if own_program else "software was"
        return f"Before the launch the same {same} found on both sides (inspected {day})."
    count = len(parity["differences"])
    return (
        f"{count} difference{'s' * (count != 1)} in software "
        f"{'were' if count != 1 else 'was'} known before the launch, and waived."
    )


def describe_waivers(parity: Mapping[str, Any]) -> str:
    """Return sentences on what was waived, by whom and why; "" if nothing was."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in parity["differences"]:
        difference = f"{row['what']} ({row['here']} on the baseline, {row['there']} here)"
        groups.setdefault((row["reason"], row["by"], row["at"][:10]), []).append(difference)
    return " ".join(
        f"{join_names(rows)}: waived by {by} on {day}, “{reason}”."
        for (reason, by, day), rows in groups.items()
    )
