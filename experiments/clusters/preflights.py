"""Requests for preflights and host keys, and their results for pages. No network here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from django.db import transaction
from django.db.models import Prefetch, prefetch_related_objects
from django.utils import timezone

from experiments.access import audit, permissions
from experiments.clusters.visit_requests import (
    DIED,
    list_unanswered,
    read_newest,
    save_unless_under_way,
)
from experiments.models import CheckReport, Cluster, Experiment, HostKey, User
from experiments.models.checks import compute_fingerprint
from runners.preflight.checks import (
    ARCHITECTURE,
    MACHINE,
    PARTITION,
    Change,
    Check,
    find_changes,
)
from runners.preflight.modes import WORKS, name_mode_check
from runners.runtimes import RUNTIMES
from runners.transports.by_hand import NO_CONNECTION

REPORTS_WITH_MODES = 10  # the number of newest reports that are searched for trials of modes
ENDED_REPORTS = "ended_reports"
"""Where a cluster keeps its newest checks once they are read."""

APPLIED = ("failed", "warning", "ok")  # outcomes worth counting


class NotPinned(Exception):
    """The key was not pinned; the message says why."""


def why_not_check(cluster: Cluster, user: User) -> str:
    """Return why `user` may not check the cluster; "" if they may.

    Those who may change it or send jobs to it may; nobody may where it is known from logs alone.
    """
    if cluster.recorded:
        return f"{cluster} is known from imported logs: nobody logs in there."
    if permissions.may_change(user, cluster):
        return ""
    return permissions.why_not_use(user, cluster)


def why_not_ask(cluster: Cluster) -> str:
    """Return why nothing can be asked of the cluster itself; "" if something can."""
    return f"{cluster}: {NO_CONNECTION}" if cluster.is_by_hand else ""


def request_check(cluster: Cluster, by: User | None) -> CheckReport:
    """Store a request for a preflight and return it, or the one under way if there is one."""
    under_way = cluster.checkreports.filter(ended_at=None)
    list_unanswered(under_way).update(
        ended_at=timezone.now(), outcome=DIED.outcome, rows=[DIED.as_json()]
    )
    return save_unless_under_way(CheckReport(cluster=cluster, owner=by), under_way)


def request_host_key(cluster: Cluster, by: User) -> HostKey:
    """Store a request for the host's key and return it, or the one under way if there is one."""
    under_way = cluster.hostkeys.filter(ended_at=None)
    list_unanswered(under_way).update(ended_at=timezone.now(), problem=DIED.found)
    row = HostKey(cluster=cluster, owner=by, host=cluster.host, port=cluster.port)
    return save_unless_under_way(row, under_way)


def pin(row: HostKey, by: User) -> None:
    """Trust the key that a person has compared. Raises NotPinned.

    The cluster must still have the address at which the key was shown.
    """
    now = timezone.now()
    with transaction.atomic():
        cluster = audit.get_stored(Cluster.objects.select_for_update(), pk=row.cluster_id)
        latest = cluster.hostkeys.exclude(key="").first()
        if not row.key or latest is None or latest.pk != row.pk:
            raise NotPinned("A newer key was fetched meanwhile: compare that one.")
        if (cluster.host, cluster.port) != (row.host, row.port):
            raise NotPinned(
                "The cluster's host or port was changed meanwhile: fetch the key again."
            )
        before = cluster.host_key.strip()
        Cluster.objects.filter(pk=cluster.pk).update(host_key=row.key, retry_at=None)
        HostKey.objects.filter(pk=row.pk).update(pinned_at=now, pinned_by=by, replaced=before)
        pinned = {"host_key": [compute_fingerprint(before), row.fingerprint]}
        audit.note(by, "host key pinned", cluster, changes=pinned)


@dataclass(frozen=True)
class Area:
    """The checks of one area of a cluster. An area without failures or warnings is shown folded."""

    name: str
    checks: list[Check]

    @property
    def counts(self) -> list[tuple[str, int]]:
        """Return the outcomes with their numbers of checks, the worst first."""
        return count_outcomes(self.checks)

    @property
    def is_bad(self) -> bool:
        return any(check.is_bad for check in self.checks)


def count_outcomes(checks: list[Check]) -> list[tuple[str, int]]:
    """Return each outcome that occurs among the checks, with its number."""
    outcomes = [check.outcome for check in checks]
    return [(name, outcomes.count(name)) for name in APPLIED if name in outcomes]


@dataclass(frozen=True)
class Findings:
    """The results of a cluster's last check, and what has changed since earlier ones."""

    under_way: CheckReport | None
    last: CheckReport | None
    before: CheckReport | None
    changed: list[Change]  # since the check before
    launched_at: datetime | None  # of the last experiment there
    at_launch: CheckReport | None  # the last check before it; None: there was none
    changed_since_launch: list[Change]

    @property
    def areas(self) -> list[Area]:
        """Return the areas that were checked, the worst check of each first."""
        checks = self.last.checks if self.last else []
        groups = groupby(checks, lambda check: check.area)
        return [Area(name, sorted(rows, key=_worst_first)) for name, rows in groups]

    @property
    def counts(self) -> list[tuple[str, int]]:
        return count_outcomes(self.last.checks) if self.last else []

    @property
    def suggested(self) -> dict[str, int]:
        """Return the limits that the last check suggests, by column; {} if the cluster has them."""
        return suggest_limits(self.last) if self.last else {}


def suggest_limits(report: CheckReport) -> dict[str, int]:
    """Return the limits that a check suggests, by column; none if its cluster has them."""
    if report.cluster.max_live_jobs == 1:
        return {}  # chosen so that no run disturbs another: the number of nodes says nothing here
    texts = (check.limits.split() for check in report.checks if check.limits)
    for live, seconds in texts:
        limits = {"max_live_jobs": int(live), "poll_seconds": int(seconds)}
        if any(getattr(report.cluster, name) != value for name, value in limits.items()):
            return limits
    return {}


def take_suggested_limits(cluster: Cluster, by: User) -> dict[str, int]:
    """Set the limits that the cluster's last check suggests; return them, {} if nothing changes."""
    ended = cluster.checkreports.exclude(ended_at=None).order_by("-ended_at", "-pk")
    last = ended.select_related("cluster").first()
    limits = suggest_limits(last) if last else {}
    if limits:
        for name, value in limits.items():
            setattr(cluster, name, value)
        with audit.log_change(by, cluster):
            Cluster.objects.filter(pk=cluster.pk).update(**limits)
    return limits


def find_last_if_red(cluster: Cluster) -> CheckReport | None:
    """Return the cluster's last check if it failed."""
    ended = cluster.checkreports.exclude(ended_at=None).order_by("-ended_at", "-pk")
    last = ended.first()
    return last if last and last.outcome == "failed" else None


def prefetch_ended_reports() -> Prefetch[Any, Any, Any]:
    """Return what has the modes that were tried on many clusters read by one statement."""
    ended = CheckReport.objects.exclude(ended_at=None).order_by("-ended_at", "-pk")
    return Prefetch("checkreports", ended[:REPORTS_WITH_MODES], to_attr=ENDED_REPORTS)


def _list_ended_reports(cluster: Cluster) -> list[CheckReport]:
    """Return the newest checks of a cluster that have ended, read once."""
    if not hasattr(cluster, ENDED_REPORTS):
        prefetch_related_objects([cluster], prefetch_ended_reports())
    reports: list[CheckReport] = getattr(cluster, ENDED_REPORTS)
    return reports


def find_tried_modes(cluster: Cluster) -> dict[str, Check]:
    """Return the newest check of each runtime's mode, by `name_mode_check`; no entry: never tried.

    A check beside runs that are measured leaves modes out, so earlier ones count too.
    """
    names = {
        name_mode_check(kind.label, mode)
        for runtime in cluster.runtimes.all()
        for kind in [RUNTIMES[runtime.kind]]
        for mode in kind.modes
    }
    tried: dict[str, Check] = {}
    if names:
        for report in _list_ended_reports(cluster):
            for check in report.checks:
                if check.name in names and (check.name not in tried or check.value == WORKS):
                    tried[check.name] = check
            if tried:
                break
    return tried


def explain_impossible_mode(check: Check, cluster: Cluster) -> str:
    """Return why a mode is not possible, as its check saw, and what would cure that."""
    cure = check.cure or f"If that is mended, check {cluster} again."
    return f"{check.name}: {check.found} {cure}"


def find_node_machines(cluster: Cluster) -> dict[str, str]:
    """Return what the kernel calls the machines of nodes, by partition, as the last check saw.

    Without partitions the machine itself counts, under no name. A login node is no node.
    """
    for report in _list_ended_reports(cluster):
        machines = {
            check.area.removeprefix(PARTITION) if check.area != MACHINE else "": check.value
            for check in report.checks
            if check.name == ARCHITECTURE and check.area.startswith((PARTITION, MACHINE))
        }
        if machines:
            return machines
    return {}


def why_modes_are_untried(cluster: Cluster) -> str:
    """Return why no check has tried a mode, and what to do, for modes that none has tried."""
    if _list_ended_reports(cluster):
        return "the last check left it out, as it does beside runs: check again when none are live"
    return "not tried yet: check the cluster"


def _worst_first(check: Check) -> int:
    return APPLIED.index(check.outcome) if check.is_bad else len(APPLIED)


def collect_findings(cluster: Cluster) -> Findings:
    """Return the last check of a cluster, what has changed since, and the check under way."""
    under_way, newest = read_newest(cluster.checkreports.select_related("owner", "cluster"), 2)
    last, before = [*newest, None, None][:2]
    launched = Experiment.objects.filter(cluster=cluster, launched_at__isnull=False)
    launched_at = launched.order_by("-launched_at").values_list("launched_at", flat=True).first()
    ended = cluster.checkreports.exclude(ended_at=None).order_by("-ended_at", "-pk")
    at_launch = ended.filter(ended_at__lte=launched_at).first() if launched_at else None
    return Findings(
        under_way=under_way,
        last=last,
        before=before,
        changed=_changed(before, last),
        launched_at=launched_at,
        at_launch=at_launch,
        changed_since_launch=_changed(at_launch, last),
    )


def _changed(before: CheckReport | None, after: CheckReport | None) -> list[Change]:
    if before is None or after is None or before.pk == after.pk:
        return []
    return find_changes(before.checks, after.checks)


def find_host_key(cluster: Cluster) -> HostKey | None:
    """Return the last host key that was requested; None if the cluster's address has changed."""
    row = cluster.hostkeys.select_related("owner", "pinned_by").first()
    if row and (row.host, row.port) != (cluster.host, cluster.port):
        return None
    return row
