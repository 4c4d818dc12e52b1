"""Recurrences that others ask for, such as a continuous integration after a commit.

Whoever has the token of a recurring experiment asks. The table has its hash alone.
"""

from __future__ import annotations

import re
from typing import Literal

from django.db import transaction
from django.db.models.functions import Now

from experiments.models import LaunchReason, RecurringExperiment
from experiments.models.database_time import database_now
from experiments.models.link import compute_token_hash, new_token
from experiments.models.recurring import LONGEST_COMMIT
from experiments.notify import enqueue_recur

COMMIT = re.compile(rf"[0-9A-Za-z][0-9A-Za-z._/+-]{{0,{LONGEST_COMMIT - 1}}}", re.ASCII)
LONGEST_TOKEN = 200
Answer = Literal["requested", "known", "over"]


def make_token(row: RecurringExperiment) -> str:
    """Return a new token of a recurring experiment; one that there was is worth nothing now."""
    token = new_token()
    RecurringExperiment.objects.filter(pk=row.pk).update(
        token_hash=compute_token_hash(token), token_made_at=Now()
    )
    return token


def withdraw_token(row: RecurringExperiment) -> bool:
    """Make the token worth nothing; return whether there was one."""
    rows = RecurringExperiment.objects.filter(pk=row.pk).exclude(token_hash="")
    return bool(rows.update(token_hash="", token_made_at=None))


def find_by_token(token: str) -> RecurringExperiment | None:
    """Return the recurring experiment with this token."""
    if not token or len(token) > LONGEST_TOKEN:
        return None
    rows = RecurringExperiment.objects.filter(token_hash=compute_token_hash(token))
    return rows.select_related("owner").first()


def is_commit(text: str) -> bool:
    """Return whether a text can be the name of a commit: a hash, a tag, a branch's name."""
    return COMMIT.fullmatch(text) is not None


def request_commit(pk: int, commit: str) -> Answer:
    """Ask for a recurrence because of a commit; of several that wait the last one counts.

    "known" where this commit was asked for or launched already.
    """
    with transaction.atomic():
        rows = RecurringExperiment.objects.select_for_update(of=("self",), no_key=True)
        row = rows.get(pk=pk)
        if row.is_over(database_now()):
            return "over"
        if row.requested_commit == commit or row.recurrences.filter(commit=commit).exists():
            return "known"
        RecurringExperiment.objects.filter(pk=pk).update(
            requested_at=Now(),
            requested_reason=LaunchReason.COMMIT,
            requested_commit=commit,
            requested_detail="",
        )
        enqueue_recur(pk)
    return "requested"
