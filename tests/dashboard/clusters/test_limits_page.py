"""The limits that a check suggests are taken over with one click."""

from __future__ import annotations

import pytest
from django.forms import modelform_factory
from django.urls import reverse

from experiments.clusters import preflights
from experiments.models import AuditEntry, CheckReport, Cluster
from runners.preflight import Check
from tests.dashboard.conftest import People
from tests.factories import CheckReportFactory, ClusterFactory

pytestmark = pytest.mark.django_db

SUGGESTS = Check("Scheduler", "Limits", "ok", "A status call takes 0.02 s.", limits="16 2")


@pytest.fixture
def checked(people: People) -> CheckReport:
    cluster = ClusterFactory(owner=people.admin, max_live_jobs=4, poll_seconds=15)
    made: CheckReport = CheckReportFactory(cluster=cluster, rows=[SUGGESTS.as_json()])
    return made


def test_one_click_takes_them_over_and_writes_it_down(checked: CheckReport, people: People) -> None:
    client, pk = people.client("admin"), checked.cluster_id
    page = client.get(reverse("cluster", args=[pk])).content.decode()
    assert "16 live jobs, a status call every 2 s" in page
    assert client.post(reverse("cluster_limits", args=[pk])).status_code == 302
    assert Cluster.objects.filter(pk=pk, max_live_jobs=16, poll_seconds=2).exists()
    assert AuditEntry.objects.get().changes["max_live_jobs"] == [4, 16]
    assert "Use these limits" not in client.get(reverse("cluster", args=[pk])).content.decode()


def test_who_may_not_change_the_cluster_does_not(checked: CheckReport, people: People) -> None:
    client, address = people.client("other"), reverse("cluster", args=[checked.cluster_id])
    assert "Use these limits" not in client.get(address).content.decode()
    assert client.post(reverse("cluster_limits", args=[checked.cluster_id])).status_code == 403
    assert Cluster.objects.get(pk=checked.cluster_id).max_live_jobs == 4


def test_earlier_checks_suggest_nothing(checked: CheckReport, people: People) -> None:
    row = SUGGESTS.as_json()
    del row["limits"]
    CheckReport.objects.update(rows=[row])
    address = reverse("cluster", args=[checked.cluster_id])
    assert "Use these limits" not in people.client("admin").get(address).content.decode()


def test_one_job_at_a_time_is_a_decision_that_no_check_undoes(
    checked: CheckReport, people: People
) -> None:
    Cluster.objects.update(max_live_jobs=1)
    page = people.client("admin").get(reverse("cluster", args=[checked.cluster_id]))
    assert "Use these limits" not in page.content.decode()
    assert preflights.take_suggested_limits(checked.cluster, people.admin) == {}
    assert Cluster.objects.get(pk=checked.cluster_id).max_live_jobs == 1


@pytest.mark.parametrize("seconds", ["0.5", "86401", "1e14", "inf", "nan"])
def test_an_interval_that_no_calendar_holds_is_refused(seconds: str) -> None:
    """It would break the clock, and every page with the cluster."""
    form = modelform_factory(Cluster, fields=["poll_seconds"])
    assert "poll_seconds" in form({"poll_seconds": seconds}).errors
    assert form({"poll_seconds": "86400"}).is_valid()
