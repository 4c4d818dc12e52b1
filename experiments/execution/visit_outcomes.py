"""What becomes of a cluster after a visit: when the next one may begin, and what its page says."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.db.models.functions import Now

from experiments.execution.guard import make_storable
from experiments.execution.lease import Lease
from experiments.execution.limits import LimitReached
from experiments.execution.own_failures import Failure
from experiments.models import Cluster, Credential
from experiments.models.cluster import LONGEST_BACK_OFF
from experiments.models.database_time import database_now
from runners.errors import TryAgain
from runners.untrusted import clean_text

logger = logging.getLogger("experiments.execution.tick")


def ask_for_another_visit(cluster: Cluster) -> None:
    """Have the clock enqueue a visit as soon as one is allowed: somebody waits for it."""
    Cluster.objects.filter(pk=cluster.pk).update(wanted_at=Now())


def wait_for_limit(cluster: Cluster, reached: LimitReached) -> None:
    """Have the next visit wait for the cluster's own limit; nothing has failed."""
    # In case somebody raises the limit it is looked at again before that.
    retry_at = min(reached.goes_on_at, database_now() + LONGEST_BACK_OFF)
    Cluster.objects.filter(pk=cluster.pk).update(
        last_error=str(reached), last_error_kind=reached.kind, failures=0, retry_at=retry_at
    )


def back_off(cluster: Cluster, error: TryAgain) -> None:
    """Write the error on the cluster's page, and wait longer until the next visit."""
    failures = cluster.failures + 1
    pause = min(
        timedelta(seconds=cluster.poll_seconds) * 2 ** min(failures - 1, 10), LONGEST_BACK_OFF
    )
    logger.warning("%s: %s (%s)", cluster, clean_text(str(error)), error.kind)
    Cluster.objects.filter(pk=cluster.pk).update(
        last_error=make_storable(str(error)),
        last_error_kind=error.kind,
        failures=failures,
        retry_at=Now() + pause,
    )


def back_off_from(cluster: Cluster, problem: Failure) -> None:
    """Back off after a failure of Tare's own has ended a visit."""
    back_off(cluster, TryAgain(problem.message, kind="Tare itself failed"))
    Cluster.objects.filter(pk=cluster.pk).update(
        own_failure="", own_failure_details=problem.details, own_failed_at=Now()
    )


def note_success(held: Lease) -> None:
    """Have the cluster's page say that it was reached, as soon as the visit gives it back."""
    held.at_end |= {
        **({} if held.cluster.is_by_hand else {"last_seen_at": Now()}),
        "last_error": "",
        "last_error_kind": "",
        "failures": 0,
        "retry_at": None,
    }
    cluster = held.cluster
    if cluster.credential_id:
        Credential.objects.filter(pk=cluster.credential_id).update(last_used_at=Now())
