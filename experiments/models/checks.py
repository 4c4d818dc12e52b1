"""What was found on a cluster, when, and which host keys were shown and pinned. Append-only."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from experiments.models.cluster import Cluster
from experiments.models.credential import Credential
from runners.preflight.checks import Check, Outcome
from runners.transports import fingerprint_public_key


def outcome_choices() -> list[tuple[str, str]]:
    """Return the outcomes of checks, as choices."""
    return [(name, name) for name in Outcome.__args__]  # type: ignore[attr-defined]


class Visit(models.Model):
    """Something that a person asked to be done on a cluster, once, by a worker."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="%(class)ss")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    requested_at = models.DateTimeField(auto_now_add=True)
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True
        ordering = ["-requested_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster"],
                condition=models.Q(ended_at=None),
                name="one_%(class)s_at_a_time",
            )
        ]
        indexes = [models.Index(fields=["cluster", "-ended_at"], name="%(class)s_by_end")]


class CheckReport(Visit):
    """One preflight. What it found never changes; the next one is another row."""

    outcome = models.CharField(max_length=20, blank=True, choices=outcome_choices)
    rows = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"check of {self.cluster}, {self.requested_at:%Y-%m-%d %H:%M}"

    @property
    def checks(self) -> list[Check]:
        return [Check.from_json(row) for row in self.rows]

    @property
    def red(self) -> list[Check]:
        return [check for check in self.checks if check.outcome == "failed"]

    @property
    def seconds(self) -> float | None:
        """Return how long it took, in seconds; None while it has not ended."""
        if self.began_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.began_at).total_seconds()


class HostKey(Visit):
    """The key that a host showed, and who agreed to pin it."""

    host = models.CharField(max_length=255)
    port = models.PositiveIntegerField()
    key = models.TextField(blank=True)
    problem = models.TextField(blank=True)
    pinned_at = models.DateTimeField(null=True)
    pinned_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    replaced = models.TextField(blank=True, help_text="The key that was pinned before.")

    def __str__(self) -> str:
        return f"{self.fingerprint or 'no key'} of {self.host} port {self.port}"

    @property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.key)

    @property
    def replaced_fingerprint(self) -> str:
        return compute_fingerprint(self.replaced)


class ConnectionTest(models.Model):
    """One try to log in with a credential: on one cluster, or on all that use it."""

    credential = models.ForeignKey(
        Credential, on_delete=models.CASCADE, related_name="connection_tests"
    )
    cluster = models.ForeignKey(
        Cluster,
        null=True,
        on_delete=models.CASCADE,
        related_name="connection_tests",
        help_text="None: every cluster that uses the credential.",
    )
    tried = models.CharField(max_length=100, blank=True, help_text="The key's fingerprint.")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    requested_at = models.DateTimeField(auto_now_add=True)
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, blank=True, choices=outcome_choices)
    rows = models.JSONField(default=list)
    """A dict for each cluster: its `name`, its `pk`, and its `checks`."""

    class Meta:
        ordering = ["-requested_at", "-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["credential"],
                condition=models.Q(ended_at=None),
                name="one_connection_test_at_a_time",
            )
        ]

    def __str__(self) -> str:
        return f"connection test of {self.credential}, {self.requested_at:%Y-%m-%d %H:%M}"


def compute_fingerprint(key: str) -> str:
    """Return `SHA256:...` of a public key, however it was pasted; "" for an empty text."""
    try:
        return fingerprint_public_key(key) if key else ""
    except ValueError:
        return "a text that is no key"


def name_key_type(key: str) -> str:
    """Return the type of a public key as ssh-keygen writes it: "ED25519", "ECDSA" or "RSA"."""
    return key.partition(" ")[0].removeprefix("ssh-").partition("-")[0].upper()
