"""Links that open one experiment or one published table to whoever has them, without an account."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import models
from django.urls import reverse
from django.utils import timezone

from experiments.encryption import SecretField
from experiments.models.experiment import Experiment
from experiments.models.published_table import PublishedTable
from experiments.models.visibility import Visibility

USUAL_DAYS = 90
MOST_DAYS = 730


def new_token() -> str:
    """Return a random token for a link."""
    return secrets.token_urlsafe(32)


def compute_token_hash(token: str) -> str:
    """Return the SHA-256 of a token, by which its link is found."""
    return hashlib.sha256(token.encode()).hexdigest()


def usual_end() -> datetime:
    """Return when a link that is made now ends, unless its maker says otherwise."""
    return timezone.now() + timedelta(days=USUAL_DAYS)


class ShareLinkQuerySet(models.QuerySet["ShareLink"]):
    """Links, and which of them are valid, were opened, or lead to a row."""

    def valid(self) -> ShareLinkQuerySet:
        """Return those that open something now."""
        shared = models.Q(experiment__visibility=Visibility.PUBLIC)
        shared |= models.Q(table__visibility=Visibility.PUBLIC)
        return self.filter(shared, withdrawn_at=None, expires_at__gt=timezone.now())

    def opened_by(self, token: str) -> ShareLink | None:
        """Return the valid link with this token. It is looked up by its hash."""
        return self.valid().filter(token_hash=compute_token_hash(token)).first()

    def of(self, row: models.Model) -> ShareLinkQuerySet:
        return self.filter(**{get_link_column(row): row})


def get_link_column(row: models.Model) -> str:
    """Return the column of a link that names this row."""
    return "table" if isinstance(row, PublishedTable) else "experiment"


class ShareLinkManager(models.Manager["ShareLink"]):
    """The manager that makes links; their tokens are stored encrypted."""

    def get_queryset(self) -> ShareLinkQuerySet:
        return ShareLinkQuerySet(self.model, using=self._db)

    def make(self, row: models.Model, **columns: Any) -> ShareLink:
        """Make a link to `row`, with a token of its own."""
        token = new_token()
        known = {get_link_column(row): row, "token": token, "token_hash": compute_token_hash(token)}
        return self.create(**known, **columns)


class ShareLink(models.Model):
    """A random token. The table holds its hash, by which it is found, and its ciphertext."""

    experiment = models.ForeignKey(
        Experiment, null=True, on_delete=models.CASCADE, related_name="links"
    )
    table = models.ForeignKey(
        PublishedTable, null=True, on_delete=models.CASCADE, related_name="links"
    )
    token = SecretField()
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    hides_names = models.BooleanField(default=False)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    made_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(default=usual_end)
    withdrawn_at = models.DateTimeField(null=True)

    objects = ShareLinkManager.from_queryset(ShareLinkQuerySet)()

    class Meta:
        ordering = ["-made_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(experiment__isnull=False, table=None)
                | models.Q(experiment=None, table__isnull=False),
                name="a_link_opens_one_thing",
            )
        ]

    def __str__(self) -> str:
        return f"link {self.pk}"

    def get_absolute_url(self) -> str:
        return reverse("link", args=[self.token.reveal()])

    @property
    def row(self) -> Experiment | PublishedTable:
        row = self.experiment or self.table
        assert row is not None  # the table's own check
        return row


def filter_opened(model: type[models.Model], keys: Iterable[int]) -> models.Q:
    """Return the rule for rows of `model` that the links with these keys open now."""
    columns: dict[type[models.Model], str] = {Experiment: "experiment", PublishedTable: "table"}
    column = columns.get(model)
    if column is None or not keys:
        return models.Q(pk__in=[])
    links = ShareLink.objects.valid().filter(pk__in=list(keys))
    return models.Q(pk__in=links.filter(**{f"{column}__isnull": False}).values(column))
