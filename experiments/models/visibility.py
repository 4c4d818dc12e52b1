"""Who may read and who may change what a person made: the same rules for everything that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from django.contrib.auth.models import AnonymousUser
from django.db import models

if TYPE_CHECKING:
    from experiments.models.user import User

Row = TypeVar("Row", bound=models.Model)


class Visibility(models.TextChoices):
    PRIVATE = "private", "only me"
    MEMBERS = "members", "everybody who can log in"
    PUBLIC = "public", "everybody with the link"


class OwnedQuerySet(models.QuerySet[Row]):
    """Rows with an `owner` and a `visibility`."""

    def visible_to(self, user: User | AnonymousUser) -> Self:
        """Return what `user` may read: anonymous readers follow links to what is public."""
        public = models.Q(visibility=Visibility.PUBLIC)
        if not user.is_authenticated:
            return self.filter(public)
        if user.is_superuser:
            return self
        members = models.Q(visibility=Visibility.MEMBERS)
        return self.filter(public | members | models.Q(owner=user))

    def editable_by(self, user: User | AnonymousUser) -> Self:
        if not user.is_authenticated:
            return self.none()
        return self if user.is_superuser else self.filter(owner=user)
