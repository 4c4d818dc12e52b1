"""A cluster's page: what was checked, what is red with its cure, and the host key to agree to."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from experiments.models import CheckReport, Cluster, HostKey
from runners.preflight.checks import Check
from tests.dashboard.conftest import People, Site
from tests.factories import NOON, CheckReportFactory, ExperimentFactory, LaunchedFactory

pytestmark = pytest.mark.django_db

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDLJHbEtm7+rtjp1pPZQFglu9+WS2kMZJ3yJUNzbx1Ej"
ODD = "<script>alert(1)</script>"


def kept(*checks: Check) -> list[dict[str, str]]:
    return [check.as_json() for check in checks]


RED = Check("Partition gpu", "Start of SIF", "failed", "It does not start.", "Stage it.", ODD)
GREEN = Check("Login node", "System", "ok", "Debian 13.", value="13")


def page(client: Client, site: Site, **headers: str) -> str:
    answer = client.get(reverse("cluster", args=[site.cluster.pk]), headers=headers)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_a_click_asks_for_one_check_that_the_page_then_awaits(
    as_owner: Client, site: Site, people: People
) -> None:
    assert "Not checked yet" in page(as_owner, site)
    address = reverse("cluster_check", args=[site.cluster.pk])
    for _ in range(2):
        answer = as_owner.post(address)
    assert answer["Location"] == f"/clusters/{site.cluster.pk}/#checks"
    assert CheckReport.objects.get().owner == people.owner
    shown = page(as_owner, site)
    assert "waiting" in shown
    assert 'hx-trigger="every 1s"' in shown
    CheckReport.objects.update(began_at=timezone.now())
    assert "Tare is looking" in page(as_owner, site)
    CheckReport.objects.update(ended_at=timezone.now(), outcome="ok", rows=kept(GREEN))
    shown = page(as_owner, site)
    assert "hx-trigger" not in shown
    assert "Debian 13." in shown


def test_whoever_is_about_to_launch_is_told_what_is_red(
    as_owner: Client, site: Site, people: People
) -> None:
    """On the form and on the draft, with the way to the cure; a later check takes it away."""
    draft = ExperimentFactory(owner=people.owner, cluster=site.cluster, baseline=site.bare)
    places = (f"{reverse('experiment_new')}?cluster={site.cluster.pk}", draft.get_absolute_url())
    for outcome, told in (("failed", True), ("warning", False)):
        CheckReportFactory(
            cluster=site.cluster, ended_at=timezone.now(), outcome=outcome, rows=kept(GREEN, RED)
        )
        for place in places:
            shown = " ".join(as_owner.get(place).content.decode().split())
            assert ("found 1 failed check" in shown) is told, place
            assert ("Partition gpu, Start of SIF: It does not start." in shown) is told
            assert (f'href="/clusters/{site.cluster.pk}/#checks"' in shown) is told


def test_the_cure_stands_beside_what_is_red(as_owner: Client, site: Site) -> None:
    CheckReportFactory(cluster=site.cluster, outcome="failed", rows=kept(GREEN, RED))
    shown = page(as_owner, site)
    assert "It does not start." in shown
    assert "Stage it." in shown
    assert "1 failed" in shown
    assert "<script>alert" not in shown
    assert shown.count('<details class="area" open>') == 1


def test_what_changed_since_the_last_launch_is_flagged(as_owner: Client, site: Site) -> None:
    for days, found in ((0, "Debian 12."), (3, "Debian 13.")):
        one = Check("Login node", "System", "ok", found, value=found)
        CheckReportFactory(
            cluster=site.cluster, ended_at=NOON + timedelta(days=days), rows=kept(one)
        )
    assert "1 change since the check of" in page(as_owner, site)
    launched = LaunchedFactory(
        cluster=site.cluster, launched_at=NOON + timedelta(days=1), visibility="private"
    )
    shown = page(as_owner, site)
    assert "Changed since the last experiment was launched here" in shown
    assert "<del>Debian 12.</del> Debian 13." in shown
    assert launched.question not in shown


def test_the_fragment_is_the_live_part_alone(as_owner: Client, site: Site) -> None:
    CheckReportFactory(cluster=site.cluster, rows=kept(GREEN))
    shown = page(as_owner, site, **{"HX-Request": "true"})
    assert shown.startswith('<div id="live"')
    assert "Debian 13." in shown
    assert "<html" not in shown


def test_a_host_key_is_shown_by_its_fingerprint_and_pinned_by_a_click(
    site: Site, people: People
) -> None:
    Cluster.objects.update(host="login.example", port=22, transport="ssh")
    client = people.client("admin")
    assert client.post(reverse("host_key_fetch", args=[site.cluster.pk])).status_code == 302
    assert "Tare asks the host for its key" in page(client, site)
    HostKey.objects.update(key=KEY, began_at=timezone.now(), ended_at=timezone.now())
    row = HostKey.objects.get()
    shown = page(client, site)
    assert row.fingerprint in shown
    assert "I have compared it: pin this key" in shown
    assert KEY.split()[1] not in shown
    client.post(reverse("host_key_pin", args=[row.pk]))
    assert Cluster.objects.get(pk=site.cluster.pk).host_key == KEY
    shown = page(client, site)
    assert "Agreed to" in shown
    assert "I have compared it" not in shown


def test_another_key_than_the_pinned_one_is_loud_and_shows_both(site: Site, people: People) -> None:
    old = KEY.replace("DLJH", "DLJI")
    Cluster.objects.update(host="login.example", port=22, transport="ssh", host_key=old)
    row = HostKey.objects.create(
        cluster=site.cluster, host="login.example", port=22, key=KEY, ended_at=NOON
    )
    shown = page(people.client("admin"), site)
    assert "This is not the key that is pinned" in shown
    assert shown.count("SHA256:") >= 2
    assert row.fingerprint in shown
    Cluster.objects.update(port=2222)
    people.client("admin").post(reverse("host_key_pin", args=[row.pk]))
    assert Cluster.objects.get(pk=site.cluster.pk).host_key == old


def test_a_page_with_many_checks_costs_as_many_queries_as_one_with_few(
    as_owner: Client, site: Site
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(as_owner, site)
        return len(captured)

    CheckReportFactory.create_batch(2, cluster=site.cluster, rows=kept(GREEN))
    LaunchedFactory(cluster=site.cluster, launched_at=NOON + timedelta(days=1))
    page(as_owner, site)
    few = queries()
    for _ in range(10):
        CheckReportFactory(cluster=site.cluster, rows=kept(*[GREEN] * 50))
        LaunchedFactory(cluster=site.cluster, launched_at=NOON + timedelta(days=1))
    assert queries() == few
    assert few <= 20
