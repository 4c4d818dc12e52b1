"""Depositing a bundle, by a worker: one draft, its file, its metadata, and perhaps its publication.

Each step is stored before the next one begins. Whoever goes on after a failure, or after a worker
has died, begins with what the service says of the draft. A draft that was asked for, and of which
no answer came, is looked for by its mark before another one is made.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.module_loading import import_string
from django.views.decorators.debug import sensitive_variables

from experiments.access import audit, permissions
from experiments.bundles import ChangedMeanwhile, NoBundle
from experiments.citations import describe_citation
from experiments.deposits.deposit_api import DOI, DepositService, Failure
from experiments.deposits.deposit_metadata import describe_deposit, write_mark
from experiments.deposits.deposit_requests import find_due
from experiments.design import compute_hash
from experiments.encryption import WrongKey
from experiments.models import Citation, Deposit, DepositToken, Experiment, User
from experiments.models.database_time import database_now
from runners.scratch_folders import open_scratch_folder

logger = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 60, 3600
MOST_ATTEMPTS = 20
"""By themselves, within about 17 hours. Then a person is to look. So many workers may die of it."""
LOOKING_AGAIN = timedelta(minutes=2)
"""The service lists a new draft after a while only: before, none is made in place of a lost one."""
BEAT_SECONDS = 1.0
LONGEST_BUCKET = 500  # characters of the link to where files are put
CHANGED = "Title, authors or licence changed while the bundle was sent."


class Lost(Exception):
    """Somebody stopped the deposit, or another task has taken it over."""


class Attempt:
    """One attempt at a deposit, which it has claimed."""

    def __init__(self, row: Deposit, claim: uuid.UUID) -> None:
        self.row, self.claim = row, claim
        self._beaten_at = float("-inf")

    def store(self, **columns: Any) -> None:
        """Store what is known now, and that this task lives. Raises Lost."""
        mine = Deposit.objects.filter(pk=self.row.pk, claim=self.claim)
        if not mine.update(**columns, seen_at=Now()):
            raise Lost
        for name, value in columns.items():
            setattr(self.row, name, value)

    def beat(self, **columns: Any) -> None:
        """Do the same, at most once a second."""
        if time.monotonic() - self._beaten_at >= BEAT_SECONDS:
            self._beaten_at = time.monotonic()
            self.store(**columns)


def deposit_bundle(pk: int) -> str:
    """Work on a deposit, unless another task does; return the outcome in words."""
    claim = uuid.uuid4()
    claimed = Deposit.objects.filter(find_due(), pk=pk).update(
        claim=claim,
        state=Deposit.State.UNDER_WAY,
        seen_at=Now(),
        attempts=F("attempts") + 1,
        sent_bytes=0,
        total_bytes=0,
    )
    if not claimed:
        return "not due, or another task works on it"
    row = Deposit.objects.select_related("owner").filter(pk=pk, claim=claim).first()
    if row is None:
        return "taken over or stopped"
    attempt = Attempt(row, claim)
    if row.attempts > MOST_ATTEMPTS:  # no attempt before has come to an end of its own
        text = f"It was begun {MOST_ATTEMPTS} times, and its worker died each time."
        return _end_failed(attempt, Failure(text, may_pass=False, was_refused=True))
    try:
        _work(attempt)
    except Lost:
        return "taken over or stopped"
    except Failure as failure:
        return _end_failed(attempt, failure)
    except (NoBundle, ChangedMeanwhile) as why:
        return _end_failed(attempt, Failure(str(why), may_pass=True, was_refused=True))
    except OSError as error:
        text = f"The bundle could not be written: {error.strerror or error}."
        return _end_failed(attempt, Failure(text, may_pass=True, was_refused=True))
    except DatabaseError:
        raise  # another task goes on when this one has fallen silent
    except Exception as error:
        logger.exception("Deposit %s", pk)
        text = f"Tare itself failed: {type(error).__name__}. Its log says more."
        return _end_failed(attempt, Failure(text, may_pass=False, was_refused=True))
    return attempt.row.state


def _end_failed(attempt: Attempt, failure: Failure) -> str:
    """Keep why an attempt failed; try again by itself where that may help."""
    row = attempt.row
    if not failure.may_pass or row.attempts >= MOST_ATTEMPTS:
        ended: dict[str, Any] = {"state": Deposit.State.FAILED, "retry_at": None}
    else:
        pause = min(FIRST_PAUSE * 2 ** min(row.attempts - 1, 10), LONGEST_PAUSE)
        seconds = max(pause, failure.wait or 0)
        retry_at = database_now() + timedelta(seconds=seconds)
        ended = {"state": Deposit.State.WAITING, "retry_at": retry_at}
    with suppress(Lost):
        attempt.store(**ended, problem=str(failure))
        Deposit.objects.filter(pk=row.pk, claim=attempt.claim).update(claim=None)
    return "try again" if ended["retry_at"] else "failed"


def _work(attempt: Attempt) -> None:
    """Do what is not done yet. Raises Failure, Lost, NoBundle, ChangedMeanwhile, OSError."""
    row = attempt.row
    service = _open_service(row)
    experiment = Experiment.objects.select_related("citation").get(pk=row.experiment_id)
    if row.deposition is None:
        _begin(attempt, service, experiment)
    elif _is_published(document := _read(attempt, service, row.deposition)):
        _end_published(attempt, document)
        return
    assert row.deposition is not None
    if row.uploaded_at is None or row.uploaded_hash != compute_hash(_describe_now(row)):
        _upload(attempt, experiment.pk)
    if not row.publishes:
        attempt.store(state=Deposit.State.DRAFT, problem="", retry_at=None, claim=None)
        return
    service = _open_service(row)  # the upload may have taken an hour
    document = _publish(attempt, service, row.deposition)
    if not _is_published(document):
        document = service.read(row.deposition)
    if not _is_published(document):
        raise Failure(
            f"{service.host} does not say that it is published.", may_pass=True, was_refused=False
        )
    _end_published(attempt, document)


def _describe_now(row: Deposit) -> dict[str, Any]:
    """Return the metadata of a deposit by what is stated of its experiment now."""
    experiment = Experiment.objects.select_related("citation").get(pk=row.experiment_id)
    return describe_deposit(row, describe_citation(experiment))


def _read(attempt: Attempt, service: DepositService, number: int) -> dict[str, Any]:
    """Return what the service says of the draft; note if an earlier request published nothing."""
    try:
        document = service.read(number)
    except Failure as failure:
        if failure.is_missing:
            attempt.store(publish_sent_at=None)
        raise
    if not _is_published(document):
        attempt.store(publish_sent_at=None)
    return document


def _publish(attempt: Attempt, service: DepositService, number: int) -> dict[str, Any]:
    """Publish the draft, with the metadata that its bundle has; return the service's answer."""
    metadata = _describe_now(attempt.row)
    if compute_hash(metadata) != attempt.row.uploaded_hash:
        raise Failure(CHANGED, may_pass=True, was_refused=True)
    attempt.store()
    service.describe(number, metadata)
    attempt.store(publish_sent_at=database_now())
    try:
        return service.publish(number)
    except Failure as failure:
        if failure.was_refused:  # or somebody has published it there in the meantime
            with suppress(Failure):
                _read(attempt, service, number)
        raise


@sensitive_variables("token")
def _open_service(row: Deposit) -> DepositService:
    """Return the service with the token as it is now. Raises Failure where it may not be used.

    Asked again before each step that takes long: what is published stays published, whoever was
    put out of service or has withdrawn the token meanwhile.
    """
    _require_rights(row)
    token = DepositToken.objects.filter(owner=row.owner_id, service=row.service).first()
    problem = ""
    if row.service != settings.DEPOSIT_ADDRESS:
        problem = f"This site deposits at {settings.DEPOSIT_ADDRESS or 'no service'} now."
    elif token is None:
        problem = "There is no token any more."
    if problem or token is None:
        raise Failure(problem, may_pass=False, was_refused=True)
    try:
        token.token.reveal()
    except WrongKey:
        text = "This site can no longer read the token: save it again."
        raise Failure(text, may_pass=False, was_refused=True) from None
    return DepositService(row.service, token.token)


def _require_rights(row: Deposit) -> None:
    """Raise Failure unless whoever asked for the deposit may still change the experiment."""
    owner = None if row.owner_id is None else User.objects.filter(pk=row.owner_id).first()
    experiment = Experiment.objects.without_plan().select_related("owner").get(pk=row.experiment_id)
    if owner is None:
        why = "The person who asked for it has no account any more."
    elif not owner.is_active:
        why = f"The account of {owner} is not in service any more."
    else:
        why = permissions.why_not_change(owner, experiment)
    if why:
        raise Failure(why, may_pass=False, was_refused=True)


def _begin(attempt: Attempt, service: DepositService, experiment: Experiment) -> None:
    """Make the draft, or find the one that an earlier attempt has made."""
    row, document = attempt.row, None
    if row.create_sent_at:
        attempt.store()
        document = service.find(write_mark(row))
        rest = row.create_sent_at + LOOKING_AGAIN - database_now()
        if document is None and rest > timedelta(0):
            raise Failure(
                f"It is not known yet whether {service.host} has made the draft. It is looked for "
                "again before another one is made.",
                may_pass=True,
                was_refused=True,
                wait=int(rest.total_seconds()) + 1,
            )
    if document is None:
        metadata = describe_deposit(row, describe_citation(experiment))
        attempt.store(create_sent_at=database_now())
        try:
            document = service.create(metadata)
        except Failure as failure:
            if failure.was_refused:
                attempt.store(create_sent_at=None)
            raise
    number, links = document.get("id"), document.get("links")
    bucket, page = (
        links.get(name) if isinstance(links, dict) else "" for name in ("bucket", "html")
    )
    is_number = type(number) is int and 0 < number < 2**63
    if not is_number or not isinstance(bucket, str) or len(bucket) > LONGEST_BUCKET:
        raise Failure(
            f"{service.host} answered without the number of a draft, or without its bucket.",
            may_pass=False,
            was_refused=False,
        )
    doi = _find_doi(document)
    with transaction.atomic():
        attempt.store(
            deposition=number,
            bucket=bucket,
            page=page if service.is_of_service(page) else "",
            doi=doi,
            create_sent_at=None,
        )
        _store_doi(row, doi, is_published=False)


def _upload(attempt: Attempt, experiment_pk: int) -> None:
    """Write the bundle as it is now, set the metadata, and send the file."""
    row = attempt.row
    experiment = Experiment.objects.select_related("citation", "owner", "cluster").get(
        pk=experiment_pk
    )
    metadata = describe_deposit(row, describe_citation(experiment))
    make_bundle: Callable[[Experiment], tuple[str, Iterator[bytes]]]
    make_bundle = import_string(settings.BUNDLE_MAKER)
    with open_scratch_folder("deposit") as folder:
        name, pieces = make_bundle(experiment)
        path = folder / "bundle.zip"
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
                attempt.beat()
        attempt.store(total_bytes=path.stat().st_size)
        service = _open_service(row)  # the bundle of a large experiment takes minutes
        assert row.deposition is not None
        service.describe(row.deposition, metadata)
        attempt.store()
        service.upload(row.bucket, name, path, lambda sent: attempt.beat(sent_bytes=sent))
    attempt.store(
        uploaded_at=database_now(),
        uploaded_hash=compute_hash(metadata),
        sent_bytes=row.total_bytes,
    )


def _is_published(document: dict[str, Any]) -> bool:
    return document.get("submitted") is True


def _find_doi(document: dict[str, Any]) -> str:
    """Return the DOI that a deposition has, or that is reserved for it; "" without one."""
    metadata = document.get("metadata")
    reserved = metadata.get("prereserve_doi") if isinstance(metadata, dict) else None
    for doi in (document.get("doi"), reserved.get("doi") if isinstance(reserved, dict) else ""):
        if isinstance(doi, str) and DOI.fullmatch(doi):
            return doi
    return ""


def _end_published(attempt: Attempt, document: dict[str, Any]) -> None:
    """Keep that it is published, with its DOI, and say so in the audit log."""
    row = attempt.row
    doi = _find_doi(document) or row.doi
    with transaction.atomic():
        attempt.store(
            state=Deposit.State.PUBLISHED,
            doi=doi,
            published_at=database_now(),
            publish_sent_at=None,
            problem="",
            retry_at=None,
        )
        _store_doi(row, doi, is_published=True)
        audit.note(row.owner, "published", row, changes={"doi": ["", doi]})


def _store_doi(row: Deposit, doi: str, *, is_published: bool) -> None:
    Citation.objects.update_or_create(
        experiment_id=row.experiment_id,
        defaults={"doi": doi, "doi_published_at": database_now() if is_published else None},
    )
