"""Tokens by which programs use the API with the rights of a person."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from experiments.models.user import User

PREFIX = "tare_"
"""Each token begins with it, so that programs that search repositories for secrets know one."""
USUAL_DAYS = 90
MOST_DAYS = 366
EXACT_USE = timedelta(minutes=1)
"""How exactly the last use is known: not every request writes a row."""


class Scope(models.TextChoices):
    """What a token may be used for; its owner's rights are the limit in any case."""

    READ = "read", "view what you may view"
    EXPERIMENTS = "experiments", "make, launch and change experiments"
    CATALOGUE = "catalogue", "change workloads, environments, images and data sets"
    CLUSTERS = "clusters", "change and check clusters, partitions and credentials"


def list_usual_scopes() -> list[str]:
    """Return the scopes of a token for which none were chosen."""
    return [str(Scope.READ)]


def make_token_text() -> str:
    """Return a new random token: 256 bits."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_token(text: str) -> str:
    """Return the SHA-256 by which a token is found; surrogates do not stop it."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


class ApiTokenQuerySet(models.QuerySet["ApiToken"]):
    """Tokens, and which of them open something now."""

    def valid(self) -> ApiTokenQuerySet:
        """Return those that are neither withdrawn nor expired, of people in service."""
        return self.filter(withdrawn_at=None, expires_at__gt=timezone.now(), owner__is_active=True)

    def find(self, text: str) -> ApiToken | None:
        """Return the valid token with this text, with its owner. It is looked up by its hash."""
        rows = self.valid().select_related("owner")
        return rows.filter(token_hash=hash_token(text)).first()


class ApiToken(models.Model):
    """A token of one person. Its hash alone is stored: the text is shown once, when it is made."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens"
    )
    name = models.CharField(max_length=100, help_text="Where it is used, such as: nightly job.")
    token_hash = models.CharField(max_length=64, unique=True, editable=False)
    ending = models.CharField(
        max_length=4, editable=False, help_text="Its last characters, by which a person knows it."
    )
    scopes = ArrayField(models.CharField(max_length=20), default=list_usual_scopes)
    made_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    withdrawn_at = models.DateTimeField(null=True)
    used_at = models.DateTimeField(null=True, help_text="The last use, to the minute.")

    objects = ApiTokenQuerySet.as_manager()

    class Meta:
        ordering = ["-made_at", "-pk"]
        verbose_name = "API token"

    def __str__(self) -> str:
        return f"token {self.name} (…{self.ending})"

    def allows(self, scope: str) -> bool:
        """Return whether the token may be used for this; each scope includes to read."""
        return scope in self.scopes or (scope == Scope.READ and bool(self.scopes))

    def note_use(self, now: datetime) -> None:
        """Keep when the token was used last, to the minute."""
        if self.used_at is None or now - self.used_at > EXACT_USE:
            type(self).objects.filter(pk=self.pk).update(used_at=now)


def make_token(
    owner: User, name: str, scopes: list[str], expires_at: datetime
) -> tuple[ApiToken, str]:
    """Store a token; return its row and its text, which nobody can read again."""
    text = make_token_text()
    row = ApiToken.objects.create(
        owner=owner,
        name=name,
        token_hash=hash_token(text),
        ending=text[-4:],
        scopes=scopes,
        expires_at=expires_at,
    )
    return row, text
