"""When a person last opened the overview, so that it can say what has ended since."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import models
from django.db.models import F
from django.utils import timezone

if TYPE_CHECKING:
    from experiments.models.user import User

LASTS = timedelta(hours=2)
"""A visit ends when the overview has not been opened for so long."""
WRITTEN_AFTER = timedelta(minutes=1)


class LastVisitManager(models.Manager["LastVisit"]):
    """The visits of all people, one row each."""

    def note_visit(self, user: User) -> datetime | None:
        """Note that `user` looks now; return when the visit before this one ended.

        None if there was none. A reload and a second tab belong to the visit under way.
        """
        now = timezone.now()
        row, _ = self.get_or_create(user=user, defaults={"seen_at": now})
        if row.seen_at < now - LASTS:
            # Of two tabs that are opened at once, the first begins the visit.
            mine = self.filter(pk=row.pk, seen_at=row.seen_at)
            if mine.update(previous_at=F("seen_at"), seen_at=now):
                return row.seen_at
            row.refresh_from_db()
        elif row.seen_at < now - WRITTEN_AFTER:
            self.filter(pk=row.pk, seen_at__lt=now).update(seen_at=now)
        return row.previous_at


class LastVisit(models.Model):
    """A person's visits to the overview: the one under way, and the end of the one before."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="last_visit",
    )
    seen_at = models.DateTimeField(help_text="When the overview was last opened.")
    previous_at = models.DateTimeField(null=True, help_text="When the visit before this one ended.")

    objects = LastVisitManager()

    def __str__(self) -> str:
        return f"visit of {self.user_id}"
