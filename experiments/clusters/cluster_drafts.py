"""Clusters that are being added step by step: drafts, readings, and the cluster at the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from django.db import IntegrityError, transaction
from django.utils import timezone

from experiments.access import audit
from experiments.clusters.visit_requests import (
    DIED,
    NotStored,
    find_under_way,
    list_unanswered,
    save_unless_under_way,
)
from experiments.models import (
    Cluster,
    ClusterDraft,
    ClusterReading,
    Credential,
    HostKey,
    Partition,
    Runtime,
    User,
)
from experiments.models.cluster_draft import compute_access_digest
from runners.preflight.checks import Check, find_worst_outcome
from runners.transports import parse_known_hosts_line

MOST_DRAFTS = 20  # of one person
CHANGED = Check(
    "Connection",
    "Entry",
    "failed",
    "The address, host key or credential was changed after this was asked for.",
    "Read again.",
)
# What a check advises for a cluster that is stored already reads otherwise here.
CURES = {
    "Host name": "Correct the host in step 1. A name that only the centre’s own machines know "
    "needs a jump host.",
    "Port": "Correct the port in step 1, or ask whether a firewall keeps this machine out.",
    "SSH": "Does an SSH server listen on this port? Correct host and port in step 1.",
    "Host key": "Ask the centre whether the host was set up anew. If it was, confirm its new key "
    "in step 2.",
    "Private key": "Choose another credential in step 3, or import the key again, whole.",
    "Passphrase": "Import the key again together with its passphrase, in step 3.",
    "Entry": "Go through steps 1 to 3 again.",
}


class NotDone(Exception):
    """Nothing was changed; the message says why."""


def make_cluster(draft: ClusterDraft) -> Cluster:
    """Return the cluster that a draft describes, not saved."""
    return Cluster(
        name=draft.name,
        host=draft.host,
        port=draft.port,
        host_key=draft.host_key,
        jump_host=draft.jump_host,
        credential=draft.credential,
        scheduler=draft.scheduler or "direct",
        work_directory=draft.work_directory,
        owner=draft.owner,
    )


def save_draft(draft: ClusterDraft) -> None:
    """Store a draft's address. Raises NotDone if its owner has too many drafts.

    A host key that was confirmed for another address is forgotten.
    """
    stored = ClusterDraft.objects.filter(pk=draft.pk).first() if draft.pk else None
    if draft.pk and stored is None:
        raise NotStored  # saved now, it would be there again
    if stored is None and draft.owner.cluster_drafts.count() >= MOST_DRAFTS:
        raise NotDone(f"You have {MOST_DRAFTS} unfinished clusters: finish or discard one first.")
    if stored and stored.address_digest != draft.address_digest:
        draft.host_key = ""
    draft.save()


def request_host_key(draft: ClusterDraft) -> ClusterReading:
    """Store a request for the key that the host shows, or return the one under way.

    Raises NotDone where the way to the host takes a key that the draft's owner may not use.
    """
    if draft.jump_host:
        require_usable_keys(draft.owner, draft.jump_host)
    digest = draft.address_digest
    return _request(ClusterReading.Kind.HOST_KEY, draft.owner, draft=draft, digest=digest)


def request_offer(draft: ClusterDraft) -> ClusterReading:
    """Store a request to read what the cluster offers, or return the one under way.

    Raises NotDone where a step is missing, or its owner may not use the key any more.
    """
    if not draft.host_key:
        raise NotDone("Confirm the host key first: Tare logs in to no host without.")
    require_usable_key(draft)
    digest = draft.access_digest
    return _request(ClusterReading.Kind.OFFER, draft.owner, draft=draft, digest=digest)


def require_usable_key(draft: ClusterDraft) -> None:
    """Raise NotDone unless the draft has keys that its owner may use, on all of the way."""
    if draft.credential is None:
        raise NotDone("Choose a credential first.")
    require_usable_keys(draft.owner, make_cluster(draft))


def require_usable_keys(person: User, cluster: Cluster) -> None:
    """Raise NotDone unless `person` may use the keys of all hosts on the way to a cluster."""
    hops = cluster.list_hops()
    keys = {hop.credential_id for hop in hops if hop.credential_id is not None}
    if Credential.objects.usable_by(person).filter(pk__in=keys).count() < len(keys):
        raise NotDone("A key on the way to this cluster is not yours to use: choose another one.")


def _request(
    kind: ClusterReading.Kind, by: User, *, draft: ClusterDraft, digest: str
) -> ClusterReading:
    """Store a request about a draft as it is now, or return the one under way."""
    under_way = ClusterReading.objects.filter(kind=kind, draft=draft, ended_at=None)
    for rows, check in (
        (list_unanswered(under_way), DIED),
        (under_way.exclude(digest=digest), CHANGED),
    ):
        rows.update(ended_at=timezone.now(), outcome=check.outcome, rows=[check.as_json()])
    row = ClusterReading(kind=kind, owner=by, draft=draft, digest=digest)
    try:
        return save_unless_under_way(row, under_way)
    except NotStored:
        raise NotDone("This was changed in another tab meanwhile: look again.") from None


@dataclass(frozen=True)
class LatestReading:
    """The last answer about a draft, and the request under way."""

    under_way: ClusterReading | None
    last: ClusterReading | None

    @property
    def checks(self) -> list[Check]:
        """Return the checks, with advice for somebody who is adding the cluster."""
        checks = self.last.checks if self.last else []
        return [
            replace(check, cure=CURES.get(check.name, check.cure))
            if check.is_bad and check.area.startswith("Connection")
            else check
            for check in checks
        ]

    @property
    def outcome(self) -> str:
        return find_worst_outcome(self.checks)

    @property
    def red(self) -> list[Check]:
        return [check for check in self.checks if check.outcome == "failed"]


def get_latest_key(draft: ClusterDraft) -> LatestReading:
    """Return the host key that was fetched last from the draft's address."""
    return _get_latest(draft, ClusterReading.Kind.HOST_KEY, draft.address_digest)


def get_latest_offer(draft: ClusterDraft) -> LatestReading:
    """Return what was read last by the draft's address, host key and credential."""
    return _get_latest(draft, ClusterReading.Kind.OFFER, draft.access_digest)


def _get_latest(draft: ClusterDraft, kind: ClusterReading.Kind, digest: str) -> LatestReading:
    rows = draft.readings.filter(kind=kind, digest=digest).select_related("owner")
    under_way = find_under_way(rows)
    last = rows.exclude(ended_at=None).order_by("-ended_at", "-pk").first()
    return LatestReading(under_way, last)


def confirm_host_key(draft: ClusterDraft, fingerprint: str) -> None:
    """Trust the key that was fetched and compared. Raises NotDone if it is not the last one."""
    last = get_latest_key(draft).last
    if last is None or not last.key or last.fingerprint != fingerprint:
        raise NotDone("A newer key was fetched meanwhile: compare that one.")
    ClusterDraft.objects.filter(pk=draft.pk).update(host_key=last.key)


def paste_host_key(draft: ClusterDraft, text: str) -> None:
    """Trust the key in a line of known_hosts. Raises NotDone, which says what is wrong with it."""
    try:
        key = parse_known_hosts_line(text, draft.host, draft.port)
    except ValueError as problem:
        raise NotDone(str(problem)) from None
    ClusterDraft.objects.filter(pk=draft.pk).update(host_key=key)


def choose_credential(draft: ClusterDraft, credential: Credential) -> None:
    """Give a draft the key by which Tare is to log in.

    A key with a forced command says itself which work directory and scheduler it is for.
    """
    draft.credential, draft.user_name = credential, credential.user_name
    if credential.forced_command and credential.work_directory:
        draft.work_directory, draft.scheduler = credential.work_directory, credential.scheduler
    draft.save(update_fields=["credential", "user_name", "work_directory", "scheduler"])


def add_cluster(
    draft: ClusterDraft,
    reading: ClusterReading,
    cluster: Cluster,
    partitions: Iterable[Partition],
    runtimes: Iterable[Runtime],
) -> Cluster:
    """Store the cluster that a draft has led to, with its parts, and remove the draft.

    All of it is one transaction, with an audit entry for each row. Raises NotDone.
    """
    by = draft.owner
    try:
        with transaction.atomic():
            stored = ClusterDraft.objects.select_for_update().filter(pk=draft.pk).first()
            if stored is None:
                raise NotDone("This cluster has been added or discarded meanwhile.")
            if stored.access_digest != reading.digest:
                raise NotDone("An earlier step was changed meanwhile: read the cluster again.")
            require_usable_key(stored)
            with audit.log_change(by, cluster, why="added step by step"):
                cluster.save()
            parts: list[Partition | Runtime] = [*partitions, *runtimes]
            for part in parts:
                part.cluster = cluster
                with audit.log_change(by, part):
                    part.save()
            _keep_host_key(stored, cluster)
            ClusterReading.objects.filter(pk=reading.pk).update(
                draft=None, cluster=cluster, digest=compute_access_digest(cluster)
            )
            stored.delete()
    except IntegrityError:
        raise NotDone(f"There is a cluster called {cluster.name} already.") from None
    return cluster


def _keep_host_key(draft: ClusterDraft, cluster: Cluster) -> None:
    """Write down who has compared the key that the host showed, and when."""
    shown = draft.readings.filter(key=draft.host_key).exclude(key="").first()
    if shown:
        HostKey.objects.create(
            cluster=cluster,
            owner=draft.owner,
            began_at=shown.began_at,
            ended_at=shown.ended_at,
            host=draft.host,
            port=draft.port,
            key=draft.host_key,
            pinned_at=timezone.now(),
            pinned_by=draft.owner,
        )
