"""Readings of clusters are forgotten after a while, by the clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError
from django.utils import timezone

from experiments.clusters.old_readings import KEPT
from experiments.management.commands import clock
from experiments.models import ClusterDraft, ClusterReading
from tests.factories import ClusterFactory, UserFactory

pytestmark = pytest.mark.django_db
KEY = "login.example ssh-ed25519 AAAA"
OLD, YOUNG = KEPT + timedelta(hours=1), KEPT - timedelta(hours=1)


@pytest.fixture
def draft() -> ClusterDraft:
    return ClusterDraft.objects.create(owner=UserFactory(), name="horeka", host_key=KEY)


def make_reading(age: timedelta, *, ended: bool = True, **columns: Any) -> ClusterReading:
    """Return a reading that was asked for so long ago, and answered at once or not at all."""
    row = ClusterReading.objects.create(**{"kind": ClusterReading.Kind.OFFER, **columns})
    then = timezone.now() - age
    ClusterReading.objects.filter(pk=row.pk).update(
        requested_at=then, ended_at=then if ended else None
    )
    return row


def test_the_clock_forgets_old_readings_once_an_hour(draft: ClusterDraft) -> None:
    retried_at: dict[str, float] = {}
    clock.forget_old_rows(retried_at, 0)
    cluster = ClusterFactory()
    make_reading(OLD, cluster=cluster)
    make_reading(OLD, draft=draft)
    make_reading(OLD, cluster=cluster, ended=False)
    other = ClusterFactory()
    young = {make_reading(YOUNG, cluster=other), make_reading(YOUNG, draft=draft, ended=False)}
    clock.forget_old_rows(retried_at, clock.CLEANING_SECONDS - 1)
    assert ClusterReading.objects.count() == 5
    clock.forget_old_rows(retried_at, clock.CLEANING_SECONDS)
    assert set(ClusterReading.objects.all()) == young


def test_the_host_key_that_was_confirmed_keeps_its_reading(draft: ClusterDraft) -> None:
    kind = ClusterReading.Kind.HOST_KEY
    confirmed = make_reading(OLD, draft=draft, kind=kind, key=KEY)
    make_reading(OLD, draft=draft, kind=kind, key="login.example ssh-rsa BBBB")
    make_reading(OLD, draft=draft, kind=kind)
    clock.forget_old_rows({}, 0)
    assert ClusterReading.objects.get() == confirmed


def test_what_cannot_be_forgotten_ends_neither_the_clock_nor_the_rest(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise IntegrityError("duplicate key")

    forgotten = []
    monkeypatch.setattr(clock, "forget_old", fail)
    monkeypatch.setattr(clock, "forget_old_readings", lambda: forgotten.append("readings"))
    clock.forget_old_rows({}, 0)
    assert forgotten == ["readings"]
    assert "duplicate key" in caplog.text
