"""Signs of life: what workers and the clock write while they run, and what is left of them."""

from __future__ import annotations

import os
import socket
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.utils import timezone

from experiments.execution.holder import make_token
from experiments.health import signs
from experiments.health.signs import MOST_KEPT, Sign, beat_beside, show_sign
from experiments.models import ServiceSign
from tests.conftest import pause_longer

pytestmark = pytest.mark.django_db


def test_a_process_says_where_it_runs_and_that_it_ended_in_order() -> None:
    with show_sign("clock") as sign:
        sign.beat()
        row = ServiceSign.objects.get()
        assert (row.service, row.host, row.pid) == ("clock", socket.gethostname(), os.getpid())
        assert row.ended_at is None
    row.refresh_from_db()
    assert row.ended_at is not None


def test_one_that_fails_did_not_end_in_order() -> None:
    with pytest.raises(ValueError, match="of ours"), show_sign("clock") as sign:  # noqa: PT012
        sign.beat()
        raise ValueError("a fault of ours")
    assert ServiceSign.objects.get().ended_at is None


def test_one_that_is_told_to_stop_ends_in_order() -> None:
    with pytest.raises(SystemExit), show_sign("clock") as sign:  # noqa: PT012
        sign.beat()
        raise SystemExit(0)
    assert ServiceSign.objects.get().ended_at is not None


def test_it_beats_every_few_seconds_only_and_writes_its_row_anew_if_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(signs.time, "monotonic", lambda: now)
    sign = Sign("worker", "bulk")
    sign.beat()
    long_ago = timezone.now() - timedelta(hours=1)
    ServiceSign.objects.update(seen_at=long_ago)
    sign.beat()
    assert ServiceSign.objects.get().seen_at == long_ago, "too early"
    now += signs.BEAT_SECONDS
    sign.beat()
    assert ServiceSign.objects.get().seen_at > long_ago
    ServiceSign.objects.all().delete()  # as by a restored backup
    now += signs.BEAT_SECONDS
    sign.beat()
    assert ServiceSign.objects.get().token == sign.token


def test_a_row_whose_answer_was_lost_is_taken_over() -> None:
    sign = Sign("clock")
    sign.beat()
    sign._is_written, sign._next_beat = False, 0.0  # as after a connection that broke
    sign.beat()
    assert ServiceSign.objects.count() == 1


def test_one_that_dies_again_and_again_leaves_few_rows() -> None:
    old = timezone.now() - timedelta(hours=1)
    columns = {"service": "worker", "queue": "default", "pid": 1, "started_at": old}
    here = [
        ServiceSign(host=socket.gethostname(), token=make_token(), seen_at=old, **columns)
        for _ in range(3 * MOST_KEPT)
    ]
    elsewhere = ServiceSign(host="elsewhere", token=make_token(), seen_at=old, **columns)
    ancient = ServiceSign(host="x", token=make_token(), seen_at=old - signs.KEPT, **columns)
    ServiceSign.objects.bulk_create([*here, elsewhere, ancient])
    sign = Sign("worker", "default")
    sign.beat()
    left = ServiceSign.objects.filter(host=socket.gethostname())
    assert left.count() == MOST_KEPT
    assert left.filter(token=sign.token).exists()
    assert set(ServiceSign.objects.values_list("host", flat=True)) == {
        socket.gethostname(),
        "elsewhere",
    }


def test_an_absence_of_the_database_is_survived_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([OperationalError("away"), OperationalError("away"), None, None])

    def beat(self: Sign) -> None:
        if answer := next(answers):
            raise answer

    monkeypatch.setattr(Sign, "beat", beat)
    monkeypatch.setattr(signs, "close_old_connections", lambda: None)
    monkeypatch.setattr(signs, "connection", type("None", (), {"close": staticmethod(int)}))
    waits = iter([False, False, False, True])
    signs._beat_until(lambda seconds: next(waits), Sign("clock"))
    assert [record.message for record in caplog.records] == [
        "No sign of life could be written: away"
    ]


@pytest.mark.django_db(transaction=True)
def test_a_thread_beats_while_the_block_works() -> None:
    pauses = pause_longer()
    with beat_beside("worker", "default"):
        while not ServiceSign.objects.filter(queue="default", ended_at=None).exists():
            next(pauses)
    assert ServiceSign.objects.filter(queue="default", ended_at=None).count() == 0
