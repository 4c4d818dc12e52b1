"""People, and what they are here for."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser, UserManager
from django.db import models, transaction

from experiments.models.audit import AuditEntry


class Role(models.TextChoices):
    """Each may what those before it may; `experiments.access.permissions` says what that is."""

    VIEWER = "viewer", "viewer"
    RESEARCHER = "researcher", "researcher"
    CLUSTER_ADMINISTRATOR = "cluster_administrator", "cluster administrator"
    SITE_ADMINISTRATOR = "site_administrator", "site administrator"

    @property
    def rank(self) -> int:
        return list(Role).index(self)


ADMINISTRATORS = (Role.CLUSTER_ADMINISTRATOR, Role.SITE_ADMINISTRATOR)


class People(UserManager["User"]):
    """`manage.py createsuperuser` comes this way: no role is given without an entry."""

    use_in_migrations = False

    @transaction.atomic
    def create_superuser(self, *args: Any, **kwargs: Any) -> User:
        user = super().create_superuser(*args, **kwargs)
        AuditEntry.objects.create(
            what="added",
            kind="user",
            object_pk=str(user.pk),
            name=str(user),
            changes={"role": [None, user.role]},
            why="createsuperuser",
        )
        return user


class User(AbstractUser):
    """A person. The role is the truth; Django's own two flags follow from it."""

    role = models.CharField(max_length=30, choices=Role.choices, default=Role.RESEARCHER)
    orcid = models.CharField(
        "ORCID",
        max_length=19,
        blank=True,
        default="",
        db_default="",  # for processes of the version before, while a site is upgraded
        help_text="Offered as that of an author.",
    )
    unread_notifications = models.PositiveIntegerField(
        default=0, editable=False, help_text="For the head of each page, without a statement."
    )

    objects: ClassVar[People] = People()

    class Meta(AbstractUser.Meta):
        constraints = [
            models.CheckConstraint(
                condition=models.Q(
                    role=Role.SITE_ADMINISTRATOR.value, is_superuser=True, is_staff=True
                )
                | models.Q(role=Role.CLUSTER_ADMINISTRATOR.value, is_superuser=False, is_staff=True)
                | models.Q(
                    role__in=(Role.VIEWER.value, Role.RESEARCHER.value),
                    is_superuser=False,
                    is_staff=False,
                ),
                name="flags_follow_from_the_role",
            )
        ]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self._state.adding and self.is_superuser:  # `manage.py createsuperuser`
            self.role = Role.SITE_ADMINISTRATOR
        self.is_superuser = self.role == Role.SITE_ADMINISTRATOR
        self.is_staff = self.role in ADMINISTRATORS
        columns = kwargs.get("update_fields")
        if columns is not None and "role" in columns:
            kwargs["update_fields"] = {*columns, "is_superuser", "is_staff"}
        super().save(*args, **kwargs)

    def is_at_least(self, role: Role) -> bool:
        """Return whether this person is active and has `role` or one that includes it."""
        return self.is_active and Role(self.role).rank >= role.rank
