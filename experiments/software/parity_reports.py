"""Parity reports: whether, before a launch, each container has the software of the baseline.

They compare inspections. A person may waive a difference, in writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from experiments.confounder_table import Grade
from experiments.models import Environment, Event, Experiment, User, Waiver
from experiments.software.inspections import (
    KnownSoftware,
    find_known_software,
    request_inspection,
)
from experiments.software.parity import Difference, count_by_grade, list_differences
from runners.workloads import KNOWN_WORKLOADS

NAMED = 5
"""A sentence names at most as many differences, and counts the others."""


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
    def is_itself(self) -> bool:
        """Return whether both are one environment, in an A/A test: then nothing can differ."""
        return self.baseline.environment.original_pk == self.environment.original_pk

    @property
    def is_known(self) -> bool:
        return self.is_itself or (self.baseline.is_known and self.software.is_known)

    @property
    def is_same(self) -> bool:
        return self.is_known and not self.differences

    @property
    def unknown(self) -> list[KnownSoftware]:
        if self.is_itself:
            return []
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
        return count_by_grade(self.differences)

    @property
    def answer(self) -> str:
        """Return the answer to: is it the same software as the baseline's?"""
        if self.is_itself:
            return "yes, the same environment"
        if not self.is_known:
            return "not inspected yet"
        count = len(self.differences)
        return f"{count} difference{'s' * (count != 1)}" if count else "yes"


def make_reports(experiment: Experiment) -> list[ParityReport]:
    """Return a report for each environment but the baseline, in the order of their names."""
    rows = list(
        experiment.environments.select_related(
            "cluster", "runtime", "staged_image__image"
        ).order_by("name")
    )
    software_by_pk = find_known_software(rows)
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


def request_inspections(experiment: Experiment, by: User) -> None:
    """Request an inspection of each environment whose software is not known. Raises NotRequested.

    The caller enqueues the visit to the cluster.
    """
    unknown = {
        software.environment.pk: software.environment
        for report in make_reports(experiment)
        for software in report.unknown
    }
    for environment in unknown.values():
        request_inspection(environment, by, experiment.partition)


def _make_report(
    baseline: KnownSoftware, software: KnownSoftware, waivers: list[Waiver]
) -> ParityReport:
    found_differences: list[Difference] = []
    baseline_inspection, inspection = baseline.inspection, software.inspection
    if baseline.is_known and software.is_known and baseline_inspection and inspection:
        found_differences = list_differences(baseline_inspection.facts, inspection.facts)
    return ParityReport(baseline, software, found_differences, waivers)


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


def list_own_programs(experiment: Experiment) -> list[str]:
    """Return the names of the experiment's workloads that start a program of the user's."""
    kinds = {kind for kind, known in KNOWN_WORKLOADS.items() if known.is_the_users}
    return sorted(row.name for row in experiment.workloads.all() if row.kind in kinds)
