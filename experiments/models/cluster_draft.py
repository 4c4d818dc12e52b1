"""A cluster that somebody is adding, step by step, and what was read from it or from another one.

No private key is here: a draft names a credential, which keeps its own encrypted.
"""

from __future__ import annotations

import hashlib
import json

from django.conf import settings
from django.db import models
from django.urls import reverse

from experiments.models.checks import compute_fingerprint, name_key_type, outcome_choices
from experiments.models.cluster import Cluster
from experiments.models.cluster_choices import is_host, is_work_directory, scheduler_choices
from experiments.models.credential import Credential
from runners.cluster_reading import Found
from runners.preflight.checks import Check


class ClusterDraft(models.Model):
    """The address, host key and credential of a cluster that is not there yet."""

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="cluster_drafts"
    )
    name = models.CharField(max_length=100)
    host = models.CharField(max_length=255, validators=[is_host])
    port = models.PositiveIntegerField(default=22)
    user_name = models.CharField(max_length=100)
    jump_host = models.ForeignKey(
        Cluster, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    scheduler = models.CharField(
        max_length=20, blank=True, choices=scheduler_choices, help_text="Empty: find out."
    )
    host_key = models.TextField(blank=True, help_text="The one that a person has confirmed.")
    credential = models.ForeignKey(
        Credential, null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )
    work_directory = models.CharField(max_length=500, blank=True, validators=[is_work_directory])
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-created_at", "-pk"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse(f"cluster_draft_{self.next_step}", args=[self.pk])

    @property
    def next_step(self) -> str:
        """Return the first step that is not done: "host_key", "credential" or "test"."""
        if not self.host_key:
            return "host_key"
        return "test" if self.credential_id else "credential"

    @property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.host_key)

    @property
    def key_type(self) -> str:
        return name_key_type(self.host_key)

    @property
    def address_digest(self) -> str:
        """Return a digest of where the host is: a key that it showed belongs to that."""
        return _hash(self.host, self.port, self.jump_host_id)

    @property
    def access_digest(self) -> str:
        """Return a digest of all that decides what a reading finds."""
        whole = (self.host_key.split()[:2], self.credential_id, self.scheduler)
        return _hash(self.address_digest, *whole, self.work_directory)


def compute_access_digest(cluster: Cluster) -> str:
    """Return a digest of all that decides what a reading of a stored cluster finds."""
    where = (cluster.transport, cluster.host, cluster.port, cluster.jump_host_id)
    key = (cluster.host_key.split()[:2], cluster.credential_id)
    return _hash(*where, *key, cluster.scheduler, cluster.work_directory)


def _hash(*values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


class ClusterReading(models.Model):
    """One request to ask a host for its key, or a cluster for what it offers, and the answer."""

    class Kind(models.TextChoices):
        HOST_KEY = "host key", "host key"
        OFFER = "offer", "what the cluster offers"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    draft = models.ForeignKey(
        ClusterDraft, null=True, on_delete=models.CASCADE, related_name="readings"
    )
    cluster = models.ForeignKey(
        Cluster, null=True, on_delete=models.CASCADE, related_name="readings"
    )
    digest = models.CharField(max_length=64, blank=True, help_text="Of the way to it, when asked.")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    requested_at = models.DateTimeField(auto_now_add=True)
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=20, blank=True, choices=outcome_choices)
    key = models.TextField(blank=True)
    rows = models.JSONField(default=list)
    found = models.JSONField(default=dict)

    class Meta:
        ordering = ["-requested_at", "-pk"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(draft=None) ^ models.Q(cluster=None),
                name="a_reading_is_of_a_draft_or_a_cluster",
            ),
            models.UniqueConstraint(
                fields=["draft", "kind"],
                condition=models.Q(ended_at=None),
                name="one_reading_of_a_draft_at_a_time",
            ),
            models.UniqueConstraint(
                fields=["cluster"],
                condition=models.Q(ended_at=None),
                name="one_reading_of_a_cluster_at_a_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.draft or self.cluster}, {self.requested_at:%Y-%m-%d %H:%M}"

    @property
    def fingerprint(self) -> str:
        return compute_fingerprint(self.key)

    @property
    def key_type(self) -> str:
        return name_key_type(self.key)

    @property
    def checks(self) -> list[Check]:
        return [Check.from_json(row) for row in self.rows]

    @property
    def offer(self) -> Found | None:
        """Return what was found; None if the cluster could not be asked."""
        return Found.read(self.found)
