"""What a visit writes down about the cluster itself, whether it has jobs there or not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments import execution
from experiments.models import Cluster
from tests.factories import CredentialFactory

pytestmark = pytest.mark.django_db


def test_a_visit_that_went_well_forgets_the_errors_before_it(here: Cluster) -> None:
    credential = CredentialFactory()
    before = timezone.now()
    Cluster.objects.filter(pk=here.pk).update(
        credential=credential,
        last_seen_at=before - timedelta(days=1),
        last_error="Nobody listens.",
        last_error_kind="unreachable",
        failures=3,
        retry_at=before - timedelta(seconds=1),
    )
    assert execution.tick(here.pk) == "done"
    here.refresh_from_db()
    assert here.last_seen_at
    assert here.last_seen_at >= before
    assert (here.last_error, here.last_error_kind, here.failures) == ("", "", 0)
    assert here.retry_at is None
    credential.refresh_from_db()
    assert credential.last_used_at
    assert credential.last_used_at >= before


def test_a_visit_with_nothing_to_do_asks_the_database_little(here: Cluster) -> None:
    """Most visits of a cluster on which jobs run are such visits."""
    execution.tick(here.pk)
    Cluster.objects.update(last_tick_at=timezone.now() - timedelta(minutes=1))
    with CaptureQueriesContext(connection) as statements:
        assert execution.tick(here.pk) == "done"
    assert len(statements) == 13
