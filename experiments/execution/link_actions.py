"""Links for people without an account: made, and withdrawn, with an entry of who did so."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from experiments.access import audit
from experiments.execution.moves import record_event
from experiments.models import Experiment, ShareLink, User
from experiments.models.visibility import Visibility


def make_link(
    row: Any, by: User, *, expires_at: datetime | None = None, hides_names: bool = False
) -> ShareLink:
    """Make a link to a row and open the row to everybody with a link, in one transaction."""
    columns = {} if expires_at is None else {"expires_at": expires_at}
    with transaction.atomic():
        if row.visibility != Visibility.PUBLIC:
            row.visibility = Visibility.PUBLIC
            with audit.log_change(by, row):
                row.save(update_fields=["visibility"])
        link: ShareLink = ShareLink.objects.make(
            row, made_by=by, hides_names=hides_names, **columns
        )
        _note(row, by, "link made", f"until {link.expires_at:%Y-%m-%d}")
    return link


def withdraw_link(link: ShareLink, row: Any, by: User) -> bool:
    """End a link at once, also for those who have opened it; return whether it opened anything."""
    with transaction.atomic():
        links = ShareLink.objects.filter(pk=link.pk, withdrawn_at=None)
        is_done = bool(links.update(withdrawn_at=timezone.now()))
        if is_done:
            _note(row, by, "link withdrawn", f"made {link.made_at:%Y-%m-%d}")
    return is_done


def list_links(row: Any) -> Any:
    """Return the links of a row that are not withdrawn, with those who made them."""
    return ShareLink.objects.of(row).filter(withdrawn_at=None).select_related("made_by")


def _note(row: Any, by: User, what: str, why: str) -> None:
    audit.note(by, what, row, why=why)
    if isinstance(row, Experiment):
        record_event(row, what, why=why, by=by)
