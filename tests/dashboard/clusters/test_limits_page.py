"""Limits: those that a check suggests are taken over with one click, and pages say what they do."""

from __future__ import annotations

import re

import pytest
from bs4 import BeautifulSoup
from django.forms import modelform_factory
from django.urls import reverse
from django.utils import timezone

from experiments.clusters import preflights
from experiments.execution.gpu_hours import find_month
from experiments.execution.limits import note_use
from experiments.models import AuditEntry, CheckReport, Cluster, ClusterUse, GPUMonth, Job
from runners.preflight import Check
from tests.dashboard.conftest import People
from tests.factories import (
    CheckReportFactory,
    ClusterFactory,
    JobFactory,
    LaunchedFactory,
    RunFactory,
)

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


class TestWhatALimitHoldsBack:
    @pytest.fixture
    def waiting(self, people: People) -> Job:
        """A job that may take two GPU-hours, of a cluster that has one left."""
        now = timezone.now()
        cluster = ClusterFactory(
            name="far", max_gpu_hours_per_month=9, max_submissions_per_minute=2, last_tick_at=now
        )
        GPUMonth.objects.create(cluster=cluster, month=find_month(now), gpu_seconds=8 * 3600)
        experiment = LaunchedFactory(cluster=cluster, owner=people.owner)
        job: Job = JobFactory(experiment=experiment, state="planned", gpu_seconds=2 * 3600)
        RunFactory(job=job, state="planned")
        return job

    def page(self, people: People, address: str, who: str = "owner") -> str:
        return " ".join(people.client(who).get(address).content.decode().split())

    def test_says_each_page_of_the_cluster_the_experiment_and_the_run(
        self, waiting: Job, people: People
    ) -> None:
        why = f"far has 9 GPU-hours a month for Tare: 8.0 are used in {timezone.now():%B}"
        cluster = reverse("cluster", args=[waiting.cluster_id])
        run = waiting.runs.get()
        for address in (
            cluster,
            waiting.experiment.get_absolute_url(),
            run.get_absolute_url(),
        ):
            assert why in self.page(people, address), address
        assert "at most 2 a minute; 0 in the last one" in self.page(people, cluster)
        assert why in self.page(people, reverse("operations"), "admin")

    def test_is_said_no_more_when_the_limit_was_raised(self, waiting: Job, people: People) -> None:
        Cluster.objects.update(max_gpu_hours_per_month=10)
        page = self.page(people, waiting.experiment.get_absolute_url())
        assert "to be sent at the next visit to far" in page

    def test_of_connections_is_no_failure(self, waiting: Job, people: People) -> None:
        why = "far takes at most 3 connections an hour from Tare."
        Cluster.objects.update(last_error=why, last_error_kind="connection limit")
        page = self.page(people, reverse("cluster", args=[waiting.cluster_id]))
        assert "Limit of connections" in page
        assert "note error" not in page
        assert why in self.page(people, waiting.experiment.get_absolute_url())
        page = self.page(people, reverse("operations"), "admin")
        assert page.count(why.rstrip(".")) == 2, "among what is stuck, and at the visits"

    def test_of_live_jobs_too(self, waiting: Job, people: People) -> None:
        Cluster.objects.update(max_live_jobs=1, max_gpu_hours_per_month=None)
        JobFactory(cluster=waiting.cluster, experiment=waiting.experiment, repeat=2, state="queued")
        page = self.page(people, reverse("cluster", args=[waiting.cluster_id]))
        assert "takes at most 1 of Tare’s at once. 1 job waits" in page
        assert "1 of 1 live jobs" in self.page(people, reverse("operations"), "admin")

    def test_names_no_second_zone(self, waiting: Job, people: People) -> None:
        """The reader's browser shows all times in its own zone, those in sentences too."""
        note_use(waiting.cluster_id, ClusterUse.Kind.SUBMISSIONS, 2)
        Cluster.objects.update(
            last_error="far has had them; the next one is possible at 2026-11-23 09:06 UTC.",
            last_error_kind="connection limit",
        )
        run = waiting.runs.get()
        for address in (
            *(reverse("cluster", args=[waiting.cluster_id]), run.get_absolute_url()),
            *(waiting.experiment.get_absolute_url(), reverse("operations")),
            *(reverse("overview"), reverse("clusters")),
        ):
            page = people.client("admin").get(address).content.decode()
            assert 'datetime="2026-11-23T09:06:00+00:00" data-when="minutes">' in page, address
            soup = BeautifulSoup(page, "html.parser")
            for each in soup.find_all("time"):
                each.decompose()
            assert "UTC" not in soup.get_text(), address
        Cluster.objects.update(last_error="", last_error_kind="")
        page = people.client("admin").get(reverse("cluster", args=[waiting.cluster_id]))
        assert re.search(r'the next at <time [^>]+ data-when="seconds">', page.content.decode())
        assert re.search(r"it goes on at <time [^>]+-01T00:00:00", page.content.decode())


@pytest.mark.parametrize(
    "name",
    ["max_submissions_per_minute", "max_connections_per_hour", "max_gpu_hours_per_month"],
)
def test_limits_are_numbers_from_1_or_empty(name: str) -> None:
    form = modelform_factory(Cluster, fields=[name])
    assert form({name: ""}).is_valid()
    assert form({name: "1"}).is_valid()
    for wrong in ("0", "-1", "much"):
        assert name in form({name: wrong}).errors
