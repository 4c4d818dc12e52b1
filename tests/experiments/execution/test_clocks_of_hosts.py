"""Hosts whose clocks differ work together: what one writes and another judges is PostgreSQL's."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from experiments import execution
from experiments.clusters import pauses
from experiments.execution import connections, file_copies, holder, image_transfers
from experiments.execution.limits import LimitReached, claim_connection
from experiments.models import Cluster, ClusterUse, ImageImport, Job, Pause, RunFile
from runners.errors import TryAgain
from tests.factories import ImageImportFactory, JobFactory, RunFactory

pytestmark = pytest.mark.django_db
MOMENT = timedelta(minutes=30)


@pytest.fixture(params=[2, -2], ids=["ahead", "behind"])
def now(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> datetime:
    """The time, on a host whose clock is hours off."""
    real = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: real() + timedelta(hours=request.param))
    return real()


def test_visits_are_as_far_apart_as_ever(here: Cluster, now: datetime) -> None:
    Cluster.objects.update(poll_seconds=3600)
    assert execution.tick(here.pk) == "done"
    here.refresh_from_db()
    assert here.last_tick_at
    assert here.last_seen_at
    assert abs(here.last_tick_at - now) < MOMENT
    assert abs(here.last_seen_at - now) < MOMENT
    assert execution.tick(here.pk) == "early"
    here.refresh_from_db()
    assert here.wanted_at
    assert abs(here.wanted_at - now) < MOMENT
    Cluster.objects.update(last_tick_at=now - timedelta(hours=1))
    assert execution.tick(here.pk) == "done"


def test_a_back_off_is_as_long_as_ever(
    here: Cluster, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise TryAgain("nobody there", kind="unreachable")

    monkeypatch.setattr(connections, "_greet", fail)
    Cluster.objects.update(poll_seconds=60)
    assert execution.tick(here.pk) == "try again"
    here.refresh_from_db()
    assert here.retry_at
    assert timedelta() < here.retry_at - now < MOMENT


def test_one_process_visits_a_cluster(here: Cluster, now: datetime) -> None:
    other = holder.make_token()
    Cluster.objects.update(visitor=other, last_tick_at=now)
    assert execution.find_visitor(here.pk) == other


def test_a_pause_of_a_site_is_as_long_as_ever(here: Cluster, now: datetime) -> None:
    job: Job = JobFactory(experiment__cluster=here, cluster=here, state="planned")
    pause = pauses.hold(job, "full", kind="disk full", scope="site")
    assert abs(pause.retry_at - now) < MOMENT
    pauses.try_now(pause, here.owner)
    assert abs(Pause.objects.get().retry_at - now) < MOMENT


def test_a_limit_counts_what_another_host_has_used(here: Cluster, now: datetime) -> None:
    Cluster.objects.update(max_connections_per_hour=1)
    claim_connection(here.pk)
    assert abs(ClusterUse.objects.get().at - now) < MOMENT
    with pytest.raises(LimitReached):
        claim_connection(here.pk)


def test_a_transfer_is_not_begun_beside_another_hosts(now: datetime) -> None:
    file = RunFile.objects.create(
        run=RunFactory(), path="model", size_bytes=1, requested_at=now, seen_at=now
    )
    assert file_copies.copy_file(file.pk) == "copied or being copied"
    arriving = ImageImportFactory(state=ImageImport.State.UNDER_WAY, seen_at=now)
    assert image_transfers.receive(arriving.pk) == "fetched or being fetched"
