"""What administrators are told of: services, disks, clusters and certificates that need somebody.

What is wrong is a state, not an event: it is compared with the alerts that are kept. A trouble is
told once it has lasted for a while, and told again when it is over for a while, so that neither a
restart nor a network that comes and goes writes a message each minute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.conf import settings
from django.db import transaction

from experiments.access.permissions import filter_changeable
from experiments.health.processes import NEEDED, find_missing, read_processes
from experiments.health.status_report import find_disk_problems, find_valkey_problems
from experiments.health.storage import read_disks
from experiments.health.valkey import read_valkey
from experiments.models import (
    Alert,
    AlertEnding,
    Cluster,
    Credential,
    NotificationKind,
    Pause,
    ServiceSign,
    User,
)
from experiments.models.database_locks import try_lock
from experiments.models.database_time import database_now
from experiments.models.notification import ROLES
from experiments.models.user import Role
from experiments.notifications import Subject, notify_person
from experiments.statistics.numbers import duration

SERVICE_MISSING = timedelta(minutes=3)
"""A service that is away for less was started again."""
RECOVERY_DELAY = timedelta(minutes=5)
"""A trouble that comes back sooner was never over."""
EXPIRY = timedelta(days=14)
LOCK = "alerts"
"""The lock that is held while one process looks."""


@dataclass(frozen=True)
class Trouble:
    """Something that administrators are told of, if it lasts as long as `told_after`."""

    kind: NotificationKind
    subject: Subject
    what: str
    text: str
    title: str = ""
    """Of what has no row: for the others it is the name of the cluster or credential."""
    told_after: timedelta = timedelta(0)
    is_pause: bool = False

    @property
    def facts(self) -> dict[str, Any]:
        facts = {"what": self.what, "title": self.title, "text": self.text}
        return facts | ({"is_pause": True} if self.is_pause else {})


def watch_health() -> list[str]:
    """Tell administrators what is wrong since, or not any more; return that in words.

    Any process may call it at any time. One looks at a time: others return at once.
    """
    # Before the transaction: Valkey may take seconds to answer, and a disk that hangs would keep
    # the lock, and all others from looking.
    troubles = [*_list_service_troubles(), *_list_disk_troubles()]
    with try_lock(LOCK) as is_held, transaction.atomic():
        if not is_held:
            return []
        now = database_now()
        troubles += [
            *_list_cluster_troubles(),
            *_list_expiry_troubles(now),
        ]
        return list(_tell_news(troubles, now))


def _tell_news(troubles: Iterable[Trouble], now: datetime) -> Iterator[str]:
    """Compare what is wrong with the alerts that are kept, tell what is new, and keep it."""
    kept = Alert.objects.select_related("cluster", "credential")
    alerts = {(alert.kind, alert.subject): alert for alert in kept}
    for trouble in troubles:
        alert = alerts.pop((trouble.kind, trouble.subject.name), None)
        if alert is None:
            alert = Alert(
                kind=trouble.kind,
                subject=trouble.subject.name,
                cluster=trouble.subject.cluster,
                credential=trouble.subject.credential,
                since=now,
            )
        if alert.facts and alert.facts["what"] != trouble.what:
            alert.told_at = None  # it is another trouble by now
        alert.facts, alert.over_at = trouble.facts, None
        if alert.told_at is None and now - alert.since >= trouble.told_after:
            alert.told_at = now
            _tell_administrators(alert, alert.facts)
            yield trouble.what
        alert.save()
    for alert in alerts.values():
        if _is_unknown(alert):
            continue
        alert.over_at = alert.over_at or now
        if alert.told_at is not None and now - alert.over_at < RECOVERY_DELAY:
            alert.save(update_fields=["over_at"])
            continue
        if alert.told_at is not None:
            lasted = duration((alert.over_at - alert.since).total_seconds())
            facts = {**alert.facts, "lasted": lasted, "ending": _find_ending(alert)}
            _tell_administrators(alert, facts)
            yield f"{alert.facts['what']}: {facts['ending'] or 'over'}"
        alert.delete()


def _is_unknown(alert: Alert) -> bool:
    """Return whether nobody can say now if a trouble lasts: no visit was allowed since."""
    cluster = alert.cluster
    is_of_visits = alert.subject == f"cluster {alert.cluster_id} reach"
    return bool(is_of_visits and cluster and cluster.enabled and cluster.waits_for_connections)


def _find_ending(alert: Alert) -> AlertEnding | Literal[""]:
    """Return why a trouble is seen no more, if that is not because all is well again."""
    if alert.cluster and not alert.cluster.enabled:
        return AlertEnding.DISABLED
    if alert.credential and alert.credential.certificate_ends_at is None:
        return AlertEnding.CERTIFICATE_REMOVED
    if alert.facts.get("is_pause"):  # also where the jobs that it held back were cancelled
        return AlertEnding.PAUSE_OVER
    return ""


def _tell_administrators(alert: Alert, facts: dict[str, Any]) -> None:
    """Write a notification to everybody who is to be told of this kind and this subject."""
    subject = Subject(alert.subject, cluster=alert.cluster, credential=alert.credential)
    roles = [role for role in Role if role.rank >= ROLES[NotificationKind(alert.kind)].rank]
    for person in User.objects.filter(role__in=roles, is_active=True).order_by("pk"):
        if _may_change(person, alert):
            notify_person(person, alert.kind, subject=subject, facts=facts)


def _may_change(person: User, alert: Alert) -> bool:
    """Return whether what an alert is about is the person's to look after."""
    return all(
        filter_changeable(person, rows.filter(pk=key)).exists()
        for rows, key in (
            (Cluster.objects.all(), alert.cluster_id),
            (Credential.objects.all(), alert.credential_id),
        )
        if key is not None
    )


def _list_service_troubles() -> Iterator[Trouble]:
    """Yield the services that do not run, and Valkey if it does not answer."""
    processes = read_processes()
    missing = {
        f"{service} {queue}".strip(): problem
        for service, queue in NEEDED
        if (problem := find_missing(processes, service=ServiceSign.Service(service), queue=queue))
    }
    valkey = [problem for problem in find_valkey_problems(read_valkey()) if problem.is_essential]
    for name, problem in (*missing.items(), *(("valkey", problem) for problem in valkey)):
        yield Trouble(
            NotificationKind.SERVICE,
            Subject(name),
            "Service does not run",
            f"{problem.consequence} {problem.advice}",
            title=problem.title,
            told_after=SERVICE_MISSING,
        )


def _list_disk_troubles() -> Iterator[Trouble]:
    """Yield the disks that are nearly full, of the database and of the image store."""
    for problem in find_disk_problems(*read_disks()):
        yield Trouble(
            NotificationKind.STORAGE,
            Subject(problem.title),
            "Disk nearly full",
            f"{problem.consequence} {problem.advice}",
            title=problem.title,
        )


def _list_cluster_troubles() -> Iterator[Trouble]:
    """Yield the clusters in use that are not reachable, are paused, or whose disk is full."""
    lasting = timedelta(minutes=settings.CLUSTER_ALERT_MINUTES)
    kind = NotificationKind.CLUSTER
    for cluster in Cluster.objects.filter(enabled=True, recorded=False, failures__gt=0):
        if not cluster.trouble:
            continue
        if cluster.last_error_kind == "disk full":
            yield _describe_full_disk(cluster, cluster.last_error)
        else:
            yield Trouble(
                kind,
                Subject(f"cluster {cluster.pk} reach", cluster=cluster),
                "Cluster not reachable",
                f"{cluster.trouble}: {cluster.last_error}",
                told_after=lasting,
            )
    pauses = Pause.objects.filter(cluster__enabled=True).select_related("cluster", "partition")
    full_clusters: set[int] = set()
    for pause in pauses:
        cluster = pause.cluster
        if pause.kind == "disk full":
            if cluster.failures == 0 and cluster.pk not in full_clusters:
                full_clusters.add(cluster.pk)
                yield _describe_full_disk(cluster, pause.message)
        elif pause.experiment_id is None:  # those of one experiment stand on its page
            place = f"partition {pause.partition_id}" if pause.partition_id else "all"
            yield Trouble(
                kind,
                Subject(f"cluster {cluster.pk} pause {place}", cluster=cluster),
                "Cluster paused" if pause.is_of_the_site else f"Paused, {pause.place}",
                f"No job is sent there for now: {pause.message}",
                told_after=lasting,
                is_pause=True,
            )


def _describe_full_disk(cluster: Cluster, text: str) -> Trouble:
    subject = Subject(f"cluster {cluster.pk} disk", cluster=cluster)
    return Trouble(NotificationKind.CLUSTER, subject, "Disk of a cluster full", text)


def _list_expiry_troubles(now: datetime) -> Iterator[Trouble]:
    """Yield the credentials with a certificate that expires soon, or has expired."""
    for key in Credential.objects.filter(certificate_ends_at__lte=now + EXPIRY):
        ends_at = key.certificate_ends_at
        assert ends_at is not None
        yield Trouble(
            NotificationKind.EXPIRY,
            Subject(f"credential {key.pk}", credential=key),
            "Certificate expires" if ends_at > now else "Certificate has expired",
            f"Its last moment is {ends_at:%Y-%m-%d %H:%M} UTC; Tare does not log in with it after "
            "that. Have the public key signed again, and add the certificate.",
        )
