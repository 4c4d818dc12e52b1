"""Old notifications are deleted, in portions, and nobody's number of unread ones is wrong then."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from django.db import connection, transaction

from experiments.models import Notification, User
from experiments.models.database_time import database_now
from experiments.notifications import count_unread, forget_notifications
from experiments.notifications.expiry import PORTION
from tests.factories import UserFactory
from tests.runners.direct_jobs import until

pytestmark = pytest.mark.django_db


def write(
    person: User, count: int = 1, *, changed_days: float = 0, read_days: float | None = None
) -> None:
    """Write notifications that were changed, and read, so many days ago."""
    now = database_now()
    first = Notification.objects.count()
    Notification.objects.bulk_create(
        (
            Notification(
                recipient=person,
                kind="ended",
                subject=f"experiment {first + number}",
                created_at=now - timedelta(days=changed_days),
                changed_at=now - timedelta(days=changed_days),
                read_at=None if read_days is None else now - timedelta(days=read_days),
            )
            for number in range(count)
        ),
        batch_size=5_000,
    )


def test_read_ones_go_after_90_days_and_all_after_a_year() -> None:
    person = UserFactory()
    write(person, changed_days=200, read_days=91)
    write(person, changed_days=200, read_days=89)
    write(person, changed_days=366)
    write(person, changed_days=364)
    count_unread(person)
    assert forget_notifications() == 2
    kept = Notification.objects.order_by("pk").values_list("subject", flat=True)
    assert list(kept) == ["experiment 1", "experiment 3"]
    person.refresh_from_db()
    assert person.unread_notifications == 1
    assert forget_notifications() == 0


def test_a_hundred_thousand_go_in_portions_by_an_index(django_assert_max_num_queries) -> None:
    write(UserFactory(), 100_000, changed_days=100, read_days=95)
    write(UserFactory(), 3_000, changed_days=1, read_days=1)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE experiments_notification")
    old = Notification.objects.filter(read_at__lt=database_now() - timedelta(days=90))
    plan = old.order_by("read_at")[:PORTION].explain()
    assert "notification_read" in plan
    plan = Notification.objects.filter(changed_at__lt=database_now() - timedelta(days=365))
    assert "notification_changed" in plan.order_by("changed_at")[:PORTION].explain()
    with django_assert_max_num_queries(400):
        assert forget_notifications() == 100_000
    assert Notification.objects.count() == 3_000


def is_somebody_waiting() -> bool:
    """Return whether a statement waits for a lock that this connection holds."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_locks "
            "WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        )
        return bool(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_no_reader_stays_locked_while_another_one_is_waited_for() -> None:
    """An alert locks several people in one transaction, and would wait for ever otherwise."""
    people = [UserFactory() for _ in range(2)]
    for person in people:
        write(person, changed_days=366)
        count_unread(person)

    def forget() -> None:
        forget_notifications()
        connection.close()

    thread = threading.Thread(target=forget)
    rows = User.objects.select_for_update(no_key=True, nowait=True)
    try:
        with transaction.atomic():
            rows.get(pk=people[1].pk)
            thread.start()
            until(is_somebody_waiting)
            rows.get(pk=people[0].pk)
    finally:
        thread.join()
    assert not Notification.objects.exists()
    assert set(User.objects.values_list("unread_notifications", flat=True)) == {0}
