"""Readings of clusters: a worker asks, at a person's request, what a cluster offers."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from experiments.access.permissions import why_not_write_setup_lines
from experiments.clusters.cluster_drafts import (
    CHANGED,
    NotDone,
    make_cluster,
    require_usable_keys,
)
from experiments.execution.connection_test_visits import make_entry_check
from experiments.execution.connections import Link, make_ssh_address
from experiments.execution.guard import end_on_failure, make_storable
from experiments.execution.preflight_visits import scan_key
from experiments.models import Cluster, ClusterDraft, ClusterReading, User
from experiments.models.cluster_choices import LOCAL_TRANSPORT
from experiments.models.cluster_draft import compute_access_digest
from runners.cluster_reading import Reading
from runners.cluster_reading import read_cluster as ask_cluster
from runners.errors import TryAgain
from runners.preflight import Check, find_worst_outcome
from runners.transports import Local

NOT_ALLOWED = Check(
    "Connection",
    "Entry",
    "failed",
    "A key on the way to this cluster is not yours to use.",
    "Choose another jump host in step 1, or another credential in step 3.",
)
NO_LONGER_ALLOWED = Check(
    "Connection",
    "Entry",
    "failed",
    "The person who asked for this may no longer use the keys on the way to this cluster.",
    "Ask again as somebody who may.",
)
RELATIONS = ("draft__credential", "draft__jump_host", "cluster__credential", "cluster__jump_host")


def read_cluster(pk: int) -> str:
    """Make a requested reading, once, and return its outcome."""
    if not ClusterReading.objects.filter(pk=pk, began_at=None).update(began_at=timezone.now()):
        return "begun already"
    with end_on_failure(lambda problem: _end(pk, Reading([problem]))):
        reading = ClusterReading.objects.select_related(*RELATIONS).get(pk=pk)
        if reading.kind == ClusterReading.Kind.HOST_KEY:
            return _fetch_key(reading)
        answer = _ask(reading)
        _end(pk, answer)
    return find_worst_outcome(answer.checks)


def _ask(reading: ClusterReading) -> Reading:
    if reading.draft:
        return _read_draft(reading.draft, reading.digest)
    assert reading.cluster
    return _read_stored(reading.cluster, reading)


def _read_draft(draft: ClusterDraft, digest: str) -> Reading:
    if draft.access_digest != digest:
        return Reading([CHANGED])
    cluster = make_cluster(draft)
    if not _may_use_keys(draft.owner, cluster):
        return Reading([NOT_ALLOWED])
    return _log_in_and_read(cluster, scheduler=draft.scheduler)


def _read_stored(cluster: Cluster, reading: ClusterReading) -> Reading:
    """Read a stored cluster for who has asked, if they still may."""
    if compute_access_digest(cluster) != reading.digest:
        return Reading([CHANGED])
    if reading.owner is None or why_not_write_setup_lines(reading.owner, cluster):
        return Reading([NO_LONGER_ALLOWED])
    names = set(cluster.partitions.values_list("name", flat=True))
    return _log_in_and_read(cluster, scheduler=cluster.scheduler, known_partitions=names)


def _log_in_and_read(cluster: Cluster, **options: Any) -> Reading:
    options["work_directory"] = cluster.work_directory
    if cluster.transport == LOCAL_TRANSPORT:
        return ask_cluster(Local(), **options)
    try:
        link = Link(make_ssh_address(cluster))
    except TryAgain as problem:
        return Reading([make_entry_check(cluster, problem)])
    with link:
        return ask_cluster(link, **options)


def _fetch_key(reading: ClusterReading) -> str:
    """Fetch the key that a draft's host shows, for a person to compare."""
    draft = reading.draft
    assert draft
    if draft.jump_host and not _may_use_keys(draft.owner, draft.jump_host):
        _end(reading.pk, Reading([NOT_ALLOWED]))
        return "failed"
    try:
        key = scan_key(draft.host, draft.port, draft.jump_host)
    except TryAgain as error:
        problem = Check("Connection", "Host key", "failed", make_storable(str(error)))
        _end(reading.pk, Reading([problem]))
        return "failed"
    is_same = draft.address_digest == reading.digest
    _end(reading.pk, Reading([] if is_same else [CHANGED]), key=key if is_same else "")
    return "fetched"


def _may_use_keys(person: User, cluster: Cluster) -> bool:
    """Return whether `person` may still use the keys of all hosts on the way to a cluster."""
    try:
        require_usable_keys(person, cluster)
    except NotDone:
        return False
    return True


def _end(pk: int, answer: Reading, *, key: str = "") -> None:
    found: dict[str, Any] = answer.found.as_json() if answer.found else {}
    ClusterReading.objects.filter(pk=pk, ended_at=None).update(
        ended_at=timezone.now(),
        outcome=find_worst_outcome(answer.checks),
        rows=[check.as_json() for check in answer.checks],
        found=found,
        key=key,
    )
