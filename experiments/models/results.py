"""Numbers, and all that was true where they were taken."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.utils import timezone

from experiments.design import compute_hash
from experiments.snapshot_facts import list_facts
from runners.untrusted import Table, validate


class Measurement(models.Model):
    """One number of one run."""

    run = models.ForeignKey(  # the constraint below has the index
        "Run", on_delete=models.CASCADE, related_name="measurements", db_index=False
    )
    metric = models.CharField(max_length=100)
    value = models.FloatField()
    unit = models.CharField(max_length=30)
    source = models.CharField(
        max_length=60,
        blank=True,
        db_default="",
        help_text="Where Tare has it from; empty: the program reported it.",
    )

    class Meta:
        ordering = ["metric"]
        constraints = [models.UniqueConstraint(fields=["run", "metric"], name="one_value_a_metric")]
        # In the order of a list that is sorted by a metric, for which it reads no other run.
        indexes = [models.Index(fields=["metric", "value", "run"], name="measurement_by_value")]

    def __str__(self) -> str:
        return f"{self.metric} = {self.value} {self.unit}"


class Series(models.Model):
    """The steps inside one run: for plots, never tested.

    What `comparisons.step_summaries.add_step_summary` finds in times per step and in losses stands
    beside them, so that nobody has to read them all to compare a thousand runs. Places are numbers
    of steps from the start.
    """

    run = models.ForeignKey(  # the constraint below has the index
        "Run", on_delete=models.CASCADE, related_name="series", db_index=False
    )
    metric = models.CharField(max_length=100)
    unit = models.CharField(max_length=30)
    values = ArrayField(models.FloatField())
    steps = ArrayField(
        models.PositiveIntegerField(),
        null=True,
        help_text="The last step that each value is the mean of; none: every step has a value.",
    )
    burn_in = models.PositiveIntegerField(
        null=True, help_text="Steps that no mean counts, where the program said so itself."
    )
    shape = models.CharField(
        max_length=20, blank=True, help_text="Flat, warm-up...; empty where nobody has looked."
    )
    block_steps = models.PositiveIntegerField(null=True, help_text="Steps in a block.")
    warm_up = models.PositiveIntegerField(null=True, help_text="Steps before the cut.")
    steady_from = models.PositiveIntegerField(null=True)
    trend = models.FloatField(null=True, help_text="Kendall's tau after the cut.")
    trend_p = models.FloatField(null=True)
    settled_mean = models.FloatField(null=True, help_text="Of all steps after the cut.")
    tail_means = ArrayField(
        models.FloatField(), default=list, help_text="Of all steps from each block on."
    )
    first_value = models.FloatField(null=True, help_text="Of a loss alone, like the next two.")
    last_value = models.FloatField(null=True)
    digest = models.CharField(
        max_length=64, blank=True, help_text="sha256 of all values, as float64 in network order."
    )

    class Meta:
        ordering = ["metric"]
        verbose_name_plural = "series"
        constraints = [
            models.UniqueConstraint(fields=["run", "metric"], name="one_series_a_metric")
        ]

    def __str__(self) -> str:
        return f"{self.metric} ({len(self.values)} steps)"


class SnapshotManager(models.Manager["Snapshot"]):
    """The snapshots, each stored once under the hash of its content."""

    def keep(self, content: dict[str, Any]) -> Snapshot:
        """Return the row that holds `content`; equal facts are kept once.

        What no database takes is cleaned, or raises Damaged.
        """
        return self.keep_all([content])[0]

    def keep_all(self, contents: Sequence[dict[str, Any]]) -> list[Snapshot]:
        """Return the rows that hold `contents`, in their order; two queries for all of them."""
        hashes = []
        rows = {}
        known: dict[str, str] = {}  # most contents of a portion are the same
        for content in contents:
            text = json.dumps(content, sort_keys=True)
            if text not in known:
                cleaned = validate(content, Table())
                digest = known[text] = compute_hash(cleaned)
                facts = list_facts(cleaned)
                rows[digest] = Snapshot(content_hash=digest, content=cleaned, facts=facts)
            hashes.append(known[text])
        in_order = [rows[digest] for digest in sorted(rows)]  # as other visits lock them
        self.bulk_create(in_order, ignore_conflicts=True)
        stored = self.filter(content_hash__in=rows).only("content_hash")  # the rest is known
        stored_rows = {row.content_hash: row for row in stored}
        return [stored_rows[digest] for digest in hashes]


class Snapshot(models.Model):
    """What was true on both sides of the container wall."""

    content_hash = models.CharField(max_length=64, unique=True)
    content = models.JSONField()
    facts = models.JSONField(
        default=dict, help_text="The few that a comparison rests on, so that it need not read all."
    )

    objects = SnapshotManager()

    def __str__(self) -> str:
        return f"snapshot {self.content_hash[:12]}"


class RunFileQuerySet(models.QuerySet["RunFile"]):
    """Files of runs, and which of them wait to be copied."""

    def to_be_copied(self) -> RunFileQuerySet:
        """Return those that somebody has asked for, and that are neither here nor refused."""
        return self.filter(requested_at__isnull=False, copied_at=None, problem="")


class RunFile(models.Model):
    """A file that a run has left on the cluster, and the copy of it that somebody asked for."""

    class State(models.TextChoices):
        SAME = "same", "matches its check sum"
        DIFFERS = "differs", "differs from its check sum"
        STAYED = "stayed", "not compared"

    MOST_BYTES = 10**9
    KEPT = timedelta(days=1)

    run = models.ForeignKey("Run", on_delete=models.CASCADE, related_name="files")
    path = models.TextField(help_text="Relative to the run's directory.")
    has_plain_name = models.BooleanField(default=True, help_text="In UTF-8: it can be fetched.")
    size_bytes = models.PositiveBigIntegerField()
    sha256 = models.CharField(
        max_length=64, blank=True, help_text="As the job summed it up; empty if it did not."
    )
    state = models.CharField(max_length=10, choices=State.choices, default=State.STAYED)
    requested_at = models.DateTimeField(null=True, help_text="When somebody wanted a copy.")
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    seen_at = models.DateTimeField(null=True, help_text="When a worker last said how far it is.")
    done_bytes = models.PositiveBigIntegerField(default=0)
    copied_at = models.DateTimeField(null=True)
    problem = models.TextField(blank=True, help_text="Why there is no copy, or what it lacks.")

    objects = RunFileQuerySet.as_manager()

    class Meta:
        ordering = ["-size_bytes", "path"]
        indexes = [
            models.Index(
                fields=["requested_at"],
                condition=models.Q(requested_at__isnull=False, copied_at=None, problem=""),
                name="copy_wanted",
            )
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def has_copy(self) -> bool:
        return self.copied_at is not None and timezone.now() - self.copied_at < self.KEPT

    @property
    def is_wanted(self) -> bool:
        """Return whether a copy has been requested and is not there yet."""
        return bool(self.requested_at and not self.copied_at and not self.problem)

    @property
    def can_be_fetched(self) -> bool:
        return self.has_plain_name and self.size_bytes <= self.MOST_BYTES
