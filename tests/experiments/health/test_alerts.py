"""What administrators are told of: once, to those who look after it, and again when it is over."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection
from django.db.models import F
from pytest_django import Settings

from experiments.health import alert_watch
from experiments.health.alerts import watch_health
from experiments.models import (
    Alert,
    Cluster,
    Notification,
    NotificationChoices,
    NotificationDelivery,
    Pause,
    Role,
    ServiceSign,
    User,
)
from experiments.models.database_time import database_now
from experiments.notifications import describe_notification, list_notifications, mark_read
from tests.experiments.health.conftest import MakeSign
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    CredentialFactory,
    ExperimentFactory,
    PartitionFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> User:
    person: User = AdminFactory(username="admin")
    return person


def let_pass(**span: float) -> None:
    """Make all alerts as much older, and have what runs go on."""
    by = timedelta(**span)
    Alert.objects.update(
        since=F("since") - by, told_at=F("told_at") - by, over_at=F("over_at") - by
    )


def watch_for(**span: float) -> list[str]:
    """Look, and look again after a while; return what was told then."""
    first = watch_health()
    let_pass(**span)
    return first + watch_health()


def texts(person: User) -> list[tuple[str, str]]:
    """Return what a person reads, unread ones alone, the first one first."""
    rows = list_notifications(person).filter(read_at=None).order_by("pk")
    return [
        (text.what, text.title)
        for row in rows.select_related("cluster", "credential")
        if (text := describe_notification(row))
    ]


@pytest.mark.usefixtures("all_run")
def test_where_all_is_well_nobody_is_told(admin: User) -> None:
    assert watch_for(hours=1) == []
    assert not Notification.objects.exists()
    assert not Alert.objects.exists()


@pytest.mark.parametrize(
    ("service", "queue", "title"),
    [
        ("worker", "default", "No worker runs"),
        ("worker", "bulk", "No worker of the queue bulk runs"),
        ("clock", "", "No clock runs"),
    ],
)
@pytest.mark.usefixtures("all_run")
def test_a_service_that_is_away_for_minutes_is_told_once(
    admin: User, sign: MakeSign, service: str, queue: str, title: str
) -> None:
    UserFactory(role=Role.CLUSTER_ADMINISTRATOR)
    ServiceSign.objects.filter(service=service, queue=queue).update(
        seen_at=database_now() - timedelta(minutes=1)
    )
    assert watch_for(minutes=2) == []  # it may have been started again
    assert watch_for(minutes=1) == ["Service does not run"]
    assert watch_for(hours=9) == []
    assert texts(admin) == [("Service does not run", title)]
    assert Notification.objects.count() == 1
    sign(service, queue)
    assert watch_for(minutes=4) == []
    assert watch_for(minutes=1) == ["Service does not run: over"]
    assert texts(admin) == [("Well again", title)]  # the same row
    assert Notification.objects.count() == 1
    assert not Alert.objects.exists()


@pytest.mark.usefixtures("all_run")
def test_what_was_read_is_followed_by_another_row(admin: User, sign: MakeSign) -> None:
    ServiceSign.objects.filter(service="clock").delete()
    watch_for(minutes=3)
    mark_read(admin)
    sign("clock", "")
    watch_for(minutes=5)
    assert texts(admin) == [("Well again", "No clock runs")]
    assert Notification.objects.count() == 2


@pytest.mark.usefixtures("all_run")
def test_one_that_comes_and_goes_is_one_trouble(admin: User, sign: MakeSign) -> None:
    for _ in range(5):
        ServiceSign.objects.filter(service="clock").delete()
        watch_for(minutes=3)
        sign("clock", "")
        watch_for(minutes=3)
    assert Notification.objects.count() == 1
    assert texts(admin) == [("Service does not run", "No clock runs")]


@pytest.mark.usefixtures("all_run")
def test_a_valkey_that_does_not_answer_is_a_service(admin: User, settings: Settings) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings.REDIS_URL = f"redis://127.0.0.1:{free.getsockname()[1]}/0"
    watch_for(minutes=3)
    assert texts(admin) == [("Service does not run", "Valkey does not answer")]


@pytest.mark.usefixtures("all_run")
def test_a_disk_that_hangs_keeps_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    inside = []

    def note(path: str) -> Any:
        inside.append(len(connection.savepoint_ids))
        return mock.Mock(total=100, free=90, used=10)

    monkeypatch.setattr(shutil, "disk_usage", note)
    watch_health()
    assert inside
    assert set(inside) == {len(connection.savepoint_ids)}


@pytest.mark.usefixtures("all_run")
def test_a_disk_that_is_nearly_full_is_told_at_once(
    admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = mock.Mock(free=10**9, total=10**12)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: full)
        watch_health()
        titles = [title for _, title in texts(admin)]
        assert titles[-1] == "The disk of the image store is nearly full"
        assert all(title.startswith("The disk of the ") for title in titles)
    watch_for(minutes=5)
    assert {what for what, _ in texts(admin)} == {"Well again"}


@pytest.fixture
def cluster(all_run: None) -> Cluster:
    row: Cluster = ClusterFactory(name="alpha", transport="ssh", host="login.example")
    return row


def fail(cluster: Cluster, kind: str = "time-out", message: str = "No answer.") -> None:
    Cluster.objects.filter(pk=cluster.pk).update(
        failures=3, last_error=message, last_error_kind=kind
    )


def recover(cluster: Cluster) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(failures=0, last_error="", last_error_kind="")


def test_a_cluster_that_is_away_for_the_set_time_is_told(
    admin: User, cluster: Cluster, settings: Settings
) -> None:
    settings.CLUSTER_ALERT_MINUTES = 40
    fail(cluster)
    assert watch_for(minutes=39) == []
    assert watch_for(minutes=1) == ["Cluster not reachable"]
    assert texts(admin) == [("Cluster not reachable", "alpha")]
    row = list_notifications(admin).get()
    assert describe_notification(row).sentence == "time-out: No answer."
    assert describe_notification(row).address == f"/clusters/{cluster.pk}/"
    recover(cluster)
    watch_for(minutes=5)
    assert texts(admin) == [("Well again", "alpha")]
    assert (
        "Cluster not reachable: over after 40 min"
        in describe_notification(list_notifications(admin).get()).sentence
    )


def test_short_troubles_and_clusters_that_are_off_are_not_told(
    admin: User, cluster: Cluster
) -> None:
    fail(cluster)
    watch_for(minutes=10)
    recover(cluster)
    watch_for(minutes=1)
    fail(cluster)
    watch_for(minutes=10)
    Cluster.objects.filter(pk=cluster.pk).update(enabled=False)
    watch_for(hours=1)
    assert not Notification.objects.exists()


def told_last(person: User) -> tuple[str, str]:
    text = describe_notification(list_notifications(person)[0])
    return text.what, text.sentence


def test_a_cluster_that_was_disabled_is_not_said_to_be_well(admin: User, cluster: Cluster) -> None:
    fail(cluster)
    watch_for(minutes=15)
    Cluster.objects.filter(pk=cluster.pk).update(enabled=False)
    watch_for(minutes=5)
    what, sentence = told_last(admin)
    assert what == "Cluster disabled"
    assert sentence.startswith("Cluster not reachable: seen for 15 min")
    assert sentence.endswith(", then the cluster was disabled and is not visited any more.")


def test_a_limit_of_connections_does_not_make_a_cluster_reachable(
    admin: User, cluster: Cluster
) -> None:
    fail(cluster)
    watch_for(minutes=15)
    Cluster.objects.filter(pk=cluster.pk).update(
        failures=0, last_error="60 an hour", last_error_kind="connection limit"
    )
    assert watch_for(hours=1) == []
    assert texts(admin) == [("Cluster not reachable", "alpha")]
    recover(cluster)
    watch_for(minutes=5)
    assert texts(admin) == [("Well again", "alpha")]


def test_a_pause_without_jobs_ends_as_a_pause(admin: User, cluster: Cluster) -> None:
    """Nobody has asked the site again: all jobs that waited were cancelled."""
    row = pause(cluster)
    watch_for(minutes=15)
    row.delete()
    watch_for(minutes=5)
    what, sentence = told_last(admin)
    assert what == "Pause over"
    assert sentence.startswith("Cluster paused: seen for 15 min")
    assert sentence.endswith(", then the pause ended and holds no job back.")


@pytest.mark.usefixtures("all_run")
def test_a_certificate_that_was_taken_away_is_not_said_to_be_well(admin: User) -> None:
    ends_at = database_now() + timedelta(days=3)
    key = CredentialFactory(name="hpc", certificate_ends_at=ends_at)
    watch_for(minutes=1)
    key.certificate_ends_at = None
    key.save()
    watch_for(minutes=5)
    assert told_last(admin)[0] == "Certificate removed"


def pause(cluster: Cluster, kind: str = "limit", **columns: Any) -> Pause:
    now = database_now()
    return Pause.objects.create(
        cluster=cluster, kind=kind, message="Enough.", since=now, retry_at=now, **columns
    )


def test_pauses_of_a_cluster_and_of_a_partition_are_told_and_those_of_experiments_are_not(
    admin: User, cluster: Cluster
) -> None:
    rows = [
        pause(cluster),
        pause(cluster, partition=PartitionFactory(cluster=cluster, name="gpu")),
        pause(cluster, experiment=ExperimentFactory(cluster=cluster)),
    ]
    watch_for(minutes=15)
    assert texts(admin) == [("Cluster paused", "alpha"), ("Paused, partition gpu", "alpha")]
    rows[0].delete()
    watch_for(minutes=5)
    assert texts(admin) == [("Pause over", "alpha"), ("Paused, partition gpu", "alpha")]


@pytest.mark.parametrize("is_paused", [True, False])
def test_a_full_disk_of_a_cluster_is_told_at_once_and_once(
    admin: User, cluster: Cluster, is_paused: bool
) -> None:
    if is_paused:
        pause(cluster, "disk full")
        pause(cluster, "disk full", partition=PartitionFactory(cluster=cluster))
    else:
        fail(cluster, "disk full", "No space left on device")
    assert watch_health() == ["Disk of a cluster full"]
    fail(cluster, "disk full", "No space left on device")
    assert watch_health() == []
    assert texts(admin) == [("Disk of a cluster full", "alpha")]


def test_who_may_not_change_a_cluster_is_not_told_and_who_lost_the_right_reads_no_more(
    cluster: Cluster,
) -> None:
    group = Group.objects.create(name="neurophysics")
    owner, member, stranger = (UserFactory(role=Role.CLUSTER_ADMINISTRATOR) for _ in range(3))
    researcher = UserFactory()
    member.groups.add(group)
    researcher.groups.add(group)
    cluster.groups.add(group)
    Cluster.objects.filter(pk=cluster.pk).update(owner=owner, visibility="group")
    fail(cluster)
    watch_for(minutes=15)
    assert [bool(texts(person)) for person in (owner, member, stranger, researcher)] == [
        *(True, True, False, False)
    ]
    member.groups.clear()
    assert texts(member) == []
    owner.role = Role.RESEARCHER
    owner.save()
    assert texts(owner) == []


@pytest.mark.usefixtures("all_run")
def test_a_certificate_that_expires_soon_is_told_and_its_renewal_too(admin: User) -> None:
    now = database_now()
    owner, other = (UserFactory(role=Role.CLUSTER_ADMINISTRATOR) for _ in range(2))
    key = CredentialFactory(name="hpc", owner=owner, certificate_ends_at=now + timedelta(days=15))
    CredentialFactory(owner=owner)
    assert watch_health() == []
    key.certificate_ends_at = now + timedelta(days=13)
    key.save()
    assert watch_health() == ["Certificate expires"]
    assert watch_for(days=1) == []
    for person in (admin, owner):
        assert texts(person) == [("Certificate expires", "hpc")]
    assert texts(other) == []
    row = list_notifications(owner).get()
    assert f"{key.certificate_ends_at:%Y-%m-%d %H:%M} UTC" in describe_notification(row).sentence
    assert describe_notification(row).address == key.get_absolute_url()
    key.certificate_ends_at = now + timedelta(days=90)
    key.save()
    watch_for(minutes=5)
    assert texts(owner) == [("Well again", "hpc")]


@pytest.mark.usefixtures("all_run")
def test_a_certificate_that_was_told_is_told_again_when_it_has_expired(admin: User) -> None:
    now = database_now()
    key = CredentialFactory(name="hpc", certificate_ends_at=now + timedelta(days=13))
    watch_health()
    mark_read(admin)
    key.certificate_ends_at = now - timedelta(minutes=1)
    key.save()
    assert watch_for(hours=1) == ["Certificate has expired"]
    assert texts(admin) == [("Certificate has expired", "hpc")]


def test_alerts_are_chosen_by_kind_and_go_out_as_others_do(
    admin: User, cluster: Cluster, settings: Settings
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    NotificationChoices.objects.create(person=admin, ways={"cluster": ["email"]})
    silent = AdminFactory(username="silent")
    NotificationChoices.objects.create(person=silent, ways={"cluster": []})
    fail(cluster)
    watch_for(minutes=15)
    delivery = NotificationDelivery.objects.get()
    assert (delivery.recipient, delivery.way, delivery.cluster) == (admin, "email", cluster)
    assert not Notification.objects.exists()


def test_what_is_deleted_takes_its_alerts_along(admin: User, cluster: Cluster) -> None:
    fail(cluster)
    watch_for(minutes=15)
    cluster.delete()
    assert watch_for(minutes=5) == []
    assert not Alert.objects.exists()
    assert not Notification.objects.exists()


@pytest.mark.usefixtures("all_run")
def test_clusters_and_their_alerts_take_few_statements(
    admin: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(100):
        fail(ClusterFactory(name=f"c{number}", transport="ssh", host="login.example"))
    watch_health()
    with django_assert_max_num_queries(120):
        watch_health()


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("all_run")
def test_one_looks_at_a_time(admin: User) -> None:
    ServiceSign.objects.filter(service="clock").delete()
    watch_health()
    let_pass(minutes=3)
    told: list[list[str]] = []

    def look() -> None:
        told.append(watch_health())
        connection.close()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == [[], [], [], ["Service does not run"]]
    assert Notification.objects.count() == 1


def test_a_thread_beside_the_block_looks_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = threading.Semaphore(0)
    troubles: Iterator[Exception | None] = iter([OperationalError("away"), KeyError("what"), None])

    def look() -> list[str]:
        looked.release()
        if problem := next(troubles, None):
            raise problem
        return ["it"]

    monkeypatch.setattr(alert_watch, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(alert_watch, "watch_health", look)
    with alert_watch.watch_beside():
        for _ in range(4):  # through both failures
            assert looked.acquire(timeout=60)
    assert not [thread for thread in threading.enumerate() if thread.name == "watch for alerts"]
