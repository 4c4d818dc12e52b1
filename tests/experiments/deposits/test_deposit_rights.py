"""Deposits whose owner, token or experiment changes while a worker is at it: nothing goes out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from experiments.deposits import deposit_bundle, depositing, list_due_deposits, request_deposit
from experiments.deposits.deposit_api import DepositService
from experiments.encryption import Secret
from experiments.models import AuditEntry, Citation, Deposit, DepositToken, Experiment, User
from tests.deposit_service import Service, answer
from tests.experiments.deposits.test_deposits import CREATE, UPLOAD, read
from tests.experiments.deposits.test_deposits import experiment as experiment
from tests.experiments.deposits.test_deposits import service as service
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db
PUBLISH = "POST /api/deposit/depositions/1000/actions/publish"


def disable(row: Deposit) -> None:
    User.objects.filter(pk=row.owner_id).update(is_active=False)


def demote(row: Deposit) -> None:
    User.objects.filter(pk=row.owner_id).update(role="viewer")


def withdraw_token(row: Deposit) -> None:
    DepositToken.objects.filter(owner=row.owner_id).delete()


def give_away(row: Deposit) -> None:
    Experiment.objects.filter(pk=row.experiment_id).update(owner=UserFactory())


CHANGES: dict[str, tuple[Callable[[Deposit], None], str]] = {
    "disabled": (disable, "is not in service any more"),
    "demoted": (demote, "you must be a researcher"),
    "token withdrawn": (withdraw_token, "There is no token any more."),
    "given away": (give_away, "is not yours to change"),
}


@pytest.mark.parametrize("case", CHANGES)
def test_nothing_is_sent_for_somebody_who_may_not_any_more(
    experiment: Experiment, service: Service, case: str
) -> None:
    change, why = CHANGES[case]
    row = request_deposit(experiment, experiment.owner, publishes=True)
    change(row)
    assert deposit_bundle(row.pk) == "failed"
    assert why in read(row).problem
    assert service.requests == []


@pytest.mark.parametrize("case", CHANGES)
def test_nothing_is_published_for_somebody_who_lost_the_right_during_the_upload(
    experiment: Experiment, service: Service, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, why = CHANGES[case]
    row = request_deposit(experiment, experiment.owner, publishes=True)
    upload = DepositService.upload

    def upload_and_change(self: DepositService, *arguments: Any) -> None:
        upload(self, *arguments)
        change(row)

    monkeypatch.setattr(DepositService, "upload", upload_and_change)
    assert deposit_bundle(row.pk) == "failed"
    assert why in read(row).problem
    assert (service.count(UPLOAD), service.count(PUBLISH)) == (1, 0)
    assert Citation.objects.get().doi_published_at is None


def test_the_token_that_is_saved_during_the_upload_is_the_one_that_publishes(
    experiment: Experiment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = request_deposit(experiment, experiment.owner, publishes=True)
    upload = DepositService.upload

    def upload_and_save(self: DepositService, *arguments: Any) -> None:
        upload(self, *arguments)
        token = DepositToken.objects.get()
        token.token = Secret("another-token")
        token.save()

    monkeypatch.setattr(DepositService, "upload", upload_and_save)
    deposit_bundle(row.pk)
    assert service.tokens[-1] == "Bearer another-token"


def test_a_bundle_that_kills_its_worker_is_not_begun_for_ever(
    experiment: Experiment, service: Service
) -> None:
    row = request_deposit(experiment, experiment.owner, publishes=True)
    Deposit.objects.update(
        state="under way", attempts=depositing.MOST_ATTEMPTS, seen_at=Now() - timedelta(minutes=6)
    )
    assert list_due_deposits() == [row.pk]
    assert deposit_bundle(row.pk) == "failed"
    assert "its worker died each time" in read(row).problem
    assert (list_due_deposits(), service.requests) == ([], [])


def test_an_experiment_that_is_deleted_during_the_upload_ends_it(
    experiment: Experiment, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = request_deposit(experiment, experiment.owner, publishes=True)
    upload = DepositService.upload

    def upload_and_delete(self: DepositService, *arguments: Any) -> None:
        upload(self, *arguments)
        Deposit.objects.filter(pk=row.pk).delete()

    monkeypatch.setattr(DepositService, "upload", upload_and_delete)
    assert deposit_bundle(row.pk) == "taken over or stopped"
    assert service.count(PUBLISH) == 0


@pytest.mark.parametrize("bucket", ["/api/files/" + "x" * 600, None, 7])
def test_a_link_that_cannot_be_kept_is_no_place_for_a_file(
    experiment: Experiment, service: Service, bucket: object
) -> None:
    link = f"http://127.0.0.1:{service.port}{bucket}" if isinstance(bucket, str) else bucket
    service.fail(CREATE, answer(201, {"id": 1000, "links": {"bucket": link}}))
    row = request_deposit(experiment, experiment.owner, publishes=True)
    assert deposit_bundle(row.pk) == "failed"
    assert "without its bucket" in read(row).problem
    assert service.count(UPLOAD) == 0


def test_no_token_is_told_to_anybody(
    experiment: Experiment, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    secret = DepositToken.objects.get().token.reveal()
    service.fail(CREATE, answer(500, {"message": f"no to Bearer {secret}"}))
    row = request_deposit(experiment, experiment.owner, publishes=True)
    deposit_bundle(row.pk)
    withdraw_token(row)
    told = [caplog.text, read(row).problem, *map(str, AuditEntry.objects.values())]
    told += [str(event) for event in experiment.events.values()]
    assert [text for text in told if secret in text] == []
