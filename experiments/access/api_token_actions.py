"""Tokens of the API as owners and site administrators see them, and how they are withdrawn."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from experiments.access import audit
from experiments.access.permissions import why_not_see_all_tokens
from experiments.models import ApiToken, User
from experiments.models.api_token import ApiTokenQuerySet


def list_tokens(person: User, *, of_all: bool = False) -> ApiTokenQuerySet:
    """Return the tokens that are not withdrawn: one's own or, for site administrators, all."""
    rows = ApiToken.objects.filter(withdrawn_at=None)
    return rows if of_all and may_see_all_tokens(person) else rows.filter(owner=person)


def may_see_all_tokens(person: User) -> bool:
    """Return whether a person may see and withdraw everybody's tokens."""
    return not why_not_see_all_tokens(person)


def withdraw_token(row: ApiToken, by: User) -> bool:
    """Have a token open nothing any more; return whether it did before."""
    with transaction.atomic():
        rows = ApiToken.objects.filter(pk=row.pk, withdrawn_at=None)
        is_done = bool(rows.update(withdrawn_at=timezone.now()))
        if is_done:
            audit.note(by, "withdrawn", row)
    return is_done


def withdraw_all_tokens(person: User) -> int:
    """Have none of a person's own tokens open anything any more; return how many there were."""
    return sum(withdraw_token(row, person) for row in list_tokens(person))
