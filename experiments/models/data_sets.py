"""Data sets: what workloads read, known by a digest, and where copies of them lie."""

from __future__ import annotations

import hashlib

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.urls import reverse

from experiments.models.cluster import Cluster
from experiments.models.images import is_digest
from experiments.models.visibility import SharedInside, SharedQuerySet
from runners.data_sets import why_no_data_path


def is_data_path(path: str) -> None:
    """Refuse a path that no job script or bind can name safely."""
    if problem := why_no_data_path(path):
        raise ValidationError(problem)


class DataSet(SharedInside):
    """Files that workloads read, known by their digest, which docs/data-sets.md defines.

    The digest, the number of files and their size are empty until a copy has been read for the
    first time; from then on they stay.
    """

    name = models.CharField(max_length=100, unique=True)
    description = models.TextField(blank=True)
    licence = models.CharField(
        max_length=200, blank=True, help_text="An SPDX identifier, such as CC-BY-4.0, or a text."
    )
    source = models.CharField(
        max_length=500, blank=True, help_text="Where it comes from: an address or a citation."
    )
    digest = models.CharField(max_length=71, blank=True, validators=[is_digest])
    is_file = models.BooleanField(default=False, help_text="One file, and no folder.")
    files = models.PositiveIntegerField(null=True, blank=True)
    size_bytes = models.BigIntegerField(null=True, blank=True)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="data_sets"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    objects = SharedQuerySet["DataSet"].as_manager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("dataset", args=[self.pk])

    @property
    def short_digest(self) -> str:
        return self.digest.removeprefix("sha256:")[:12]


class DataCopy(models.Model):
    """A copy of a data set at a path of one cluster."""

    class State(models.TextChoices):
        STAGING = "staging", "staging"
        READY = "ready", "ready"
        MISSING = "missing", "missing"
        CHANGED = "changed", "changed"
        FAILED = "failed", "failed"

    data_set = models.ForeignKey(DataSet, on_delete=models.CASCADE, related_name="copies")
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="data_copies")
    path = models.CharField(max_length=500, validators=[is_data_path])
    state = models.CharField(max_length=10, choices=State.choices, default=State.STAGING)
    message = models.TextField(blank=True, help_text="Why it is not ready.")
    checked_at = models.DateTimeField(
        null=True, blank=True, help_text="When sizes and times were last compared."
    )
    read_at = models.DateTimeField(
        null=True, blank=True, help_text="When all files were last read."
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="data_copies"
    )

    class Meta:
        ordering = ["cluster", "path"]
        verbose_name_plural = "data copies"
        constraints = [
            models.UniqueConstraint(fields=["cluster", "path"], name="data_copy_once_a_path"),
            models.UniqueConstraint(fields=["data_set", "cluster"], name="one_data_copy_a_cluster"),
        ]

    def __str__(self) -> str:
        return f"{self.data_set} on {self.cluster}"

    @property
    def manifest(self) -> str:
        """Return where the list of its files lies on the cluster."""
        name = hashlib.sha256(self.path.encode()).hexdigest()[:32]
        return f"{self.cluster.work_directory.rstrip('/')}/data/{name}.manifest"
