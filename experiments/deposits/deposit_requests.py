"""Requests to deposit a bundle. There is one deposit of an experiment, whoever asks how often."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from experiments.access import audit
from experiments.bundles import NoBundle, require_ended
from experiments.citations import describe_citation, why_not_state
from experiments.models import Citation, Deposit, DepositToken, Experiment, User
from experiments.models.database_time import database_now
from experiments.notify import enqueue_deposit

SILENCE = timedelta(minutes=5)
"""A task that has said nothing for as long has died; another one goes on."""
FORGOTTEN: dict[str, Any] = {
    "create_sent_at": None,
    "deposition": None,
    "bucket": "",
    "page": "",
    "doi": "",
    "uploaded_at": None,
    "uploaded_hash": "",
    "publish_sent_at": None,
    "published_at": None,
}


class NotDone(Exception):
    """Why a deposit was not begun, for the person who wanted it."""


def is_offered() -> bool:
    """Return whether this site deposits bundles anywhere."""
    return bool(settings.DEPOSIT_ADDRESS)


def name_service(address: str = "") -> str:
    """Return the host of the service, as people know it."""
    return urlsplit(address or settings.DEPOSIT_ADDRESS).netloc


def list_missing(experiment: Experiment, person: User) -> list[str]:
    """Return what a deposit still lacks, in sentences."""
    if why := why_not_state(experiment):
        return [why]
    cited, missing = describe_citation(experiment), list[str]()
    try:
        require_ended(experiment)
    except NoBundle as why:
        missing.append(str(why))
    if not cited.authors:
        missing.append("No authors are stated.")
    if not cited.licence:
        missing.append("No licence is stated.")
    if not has_token(person):
        missing.append(f"Your account has no token of {name_service()}.")
    return missing


def has_token(person: User) -> bool:
    """Return whether a person has a token for the service of this site."""
    return DepositToken.objects.filter(owner=person, service=settings.DEPOSIT_ADDRESS).exists()


def request_deposit(experiment: Experiment, by: User, *, publishes: bool) -> Deposit:
    """Have a worker deposit the bundle, or go on where it stopped. Raises NotDone."""
    if not is_offered():
        raise NotDone("This site deposits nothing.")
    if missing := list_missing(experiment, by):
        raise NotDone(" ".join(missing))
    with transaction.atomic():
        row, is_new = Deposit.objects.get_or_create(
            experiment=experiment,
            defaults={
                "owner": by,
                "service": settings.DEPOSIT_ADDRESS,
                "requested_at": database_now(),
                "publishes": publishes,
            },
        )
        if not is_new:
            row = Deposit.objects.select_for_update().get(pk=row.pk)
            _request_again(row, by, publishes=publishes)
        audit.note(by, "asked for a deposit", row)
        enqueue_deposit(row.pk)
    return row


def _request_again(row: Deposit, by: User, *, publishes: bool) -> None:
    """Have a deposit that has stopped go on; what the service has given already stays."""
    if row.is_open:
        raise NotDone("It is under way already.")
    if row.service != settings.DEPOSIT_ADDRESS:  # such as that of the sandbox
        _forget(row)
    elif row.state == Deposit.State.PUBLISHED:
        raise NotDone(f"It is published already: {row.doi}.")
    elif row.deposition and row.owner_id != by.pk:
        raise NotDone(
            f"The draft is in the account of {row.owner or 'somebody who is gone'} at "
            f"{name_service(row.service)}: only they can go on with it. Or have it forgotten here."
        )
    elif row.state == Deposit.State.DRAFT and not publishes:
        row.uploaded_at = None  # the file is replaced by one as it would be now
    row.owner, row.publishes, row.state = by, publishes, Deposit.State.WAITING
    row.requested_at, row.retry_at, row.attempts = database_now(), None, 0
    row.problem, row.claim, row.sent_bytes, row.total_bytes = "", None, 0, 0
    row.save()


def stop_deposit(experiment: Experiment, by: User) -> None:
    """Stop what waits or is under way; its task notices. Raises NotDone."""
    with transaction.atomic():
        row = Deposit.objects.select_for_update().filter(experiment=experiment).first()
        if row is None or not row.is_open:
            raise NotDone("Nothing is under way.")
        if row.state == Deposit.State.UNDER_WAY and row.publish_sent_at:
            raise NotDone(f"{name_service(row.service)} is publishing it: wait for its answer.")
        row.state, row.claim, row.problem = Deposit.State.FAILED, None, f"Stopped by {by}."
        row.save()
        audit.note(by, "stopped a deposit", row)


def forget_deposit(experiment: Experiment, by: User) -> None:
    """Forget a draft, so that another one can be made. It stays where it is. Raises NotDone."""
    with transaction.atomic():
        row = Deposit.objects.select_for_update().filter(experiment=experiment).first()
        if row is None or row.is_open or row.state == Deposit.State.PUBLISHED:
            raise NotDone("There is no draft to forget.")
        if row.publish_sent_at and row.owner_id:  # else nobody can ask any more
            service = name_service(row.service)
            raise NotDone(
                f"{service} was to publish it, and what came of that is not known. Deposit it "
                f"once more: Tare asks {service} first."
            )
        audit.note(by, "forgot a deposit", row, changes={"doi": [row.doi, ""]})
        Citation.objects.filter(pk=experiment.pk, doi=row.doi).update(doi="")
        row.delete()


def _forget(row: Deposit) -> None:
    for name, nothing in FORGOTTEN.items():
        setattr(row, name, nothing)
    row.uid, row.service = uuid.uuid4(), settings.DEPOSIT_ADDRESS
    Citation.objects.filter(pk=row.experiment_id).update(doi="", doi_published_at=None)


def list_due_deposits() -> list[int]:
    """Return the deposits on which a task should work now."""
    return list(Deposit.objects.filter(find_due()).values_list("pk", flat=True)[:50])


def find_due() -> Q:
    """Return the condition under which a task may begin: it is time, or another one has died."""
    is_time = Q(retry_at=None) | Q(retry_at__lte=Now())
    died = Q(state=Deposit.State.UNDER_WAY, seen_at__lt=Now() - SILENCE)
    return Q(is_time, state=Deposit.State.WAITING) | died
