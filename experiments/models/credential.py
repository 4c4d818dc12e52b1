"""The keys that open clusters, and who may use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import models
from django.urls import reverse
from django.utils import timezone

from experiments.encryption import SecretField, list_unopened_secrets
from experiments.models.cluster_choices import is_work_directory, scheduler_choices
from experiments.models.visibility import filter_shared_with_groups

if TYPE_CHECKING:
    from experiments.models.user import User


class CredentialQuerySet(models.QuerySet["Credential"]):
    """Credentials, and which of them a person may use."""

    def usable_by(self, user: User) -> CredentialQuerySet:
        if user.is_superuser:
            return self
        # A subquery, so that counts annotated later are not multiplied by a join.
        named = Credential.users.through._default_manager.filter(user=user)
        return self.filter(
            models.Q(owner=user)
            | models.Q(pk__in=named.values("credential_id"))
            | filter_shared_with_groups(user, Credential)
        )


class Origin(models.TextChoices):
    """Where a private key was made."""

    GENERATED = "generated", "made by Tare"
    IMPORTED = "imported", "imported"


class Credential(models.Model):
    """A key pair for login nodes. No page shows its private key; only transports read it."""

    name = models.CharField(max_length=100, unique=True)
    user_name = models.CharField(max_length=100, help_text="The account on the login node.")
    private_key = SecretField(help_text="OpenSSH private key (ed25519, ECDSA or RSA).")
    passphrase = SecretField(blank=True, default="")
    fingerprint = models.CharField(max_length=100, blank=True, editable=False)
    public_key = models.TextField(blank=True, editable=False)
    origin = models.CharField(max_length=20, choices=Origin.choices, default=Origin.IMPORTED)
    certificate = models.TextField(blank=True, help_text="Of the key; not secret.")
    certificate_ends_at = models.DateTimeField(null=True, blank=True, editable=False)
    key_since = models.DateTimeField(null=True, blank=True, editable=False)

    # The settings of the forced command for a credential that no cluster uses yet.
    forced_command = models.BooleanField(default=False)
    work_directory = models.CharField(max_length=500, blank=True, validators=[is_work_directory])
    scheduler = models.CharField(max_length=20, blank=True, choices=scheduler_choices)

    # The new pair of a rotation, until it replaces the one above.
    next_private_key = SecretField(blank=True, default="")
    next_public_key = models.TextField(blank=True, editable=False)
    next_fingerprint = models.CharField(max_length=100, blank=True, editable=False)
    next_certificate = models.TextField(blank=True)
    next_since = models.DateTimeField(null=True, blank=True, editable=False)

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="credentials"
    )
    users = models.ManyToManyField(
        settings.AUTH_USER_MODEL, blank=True, related_name="usable_credentials"
    )
    groups = models.ManyToManyField(Group, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = CredentialQuerySet.as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("credential", args=[self.pk])

    @property
    def who_may_use_it(self) -> list[User | Group]:
        """Return the owner, then the groups and people; prefetch `groups` and `users`."""
        return [self.owner, *self.groups.all(), *self.users.all()]

    @property
    def is_rotating(self) -> bool:
        return bool(self.next_fingerprint)

    @property
    def cannot_be_opened(self) -> bool:
        """Return whether none of CREDENTIAL_KEYS is the one with which it was encrypted."""
        return bool(list_unopened_secrets(self))

    @property
    def certificate_has_ended(self) -> bool:
        return self.certificate_ends_at is not None and self.certificate_ends_at <= timezone.now()
