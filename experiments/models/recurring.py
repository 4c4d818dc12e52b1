"""Recurring experiments: one plan that is launched again and again, and each of its launches."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.urls import reverse

from experiments.models.experiment import Experiment
from experiments.models.visibility import SharedInside, SharedQuerySet

MOST_DAYS = 366
MOST_RECURRENCES = 1000
LONGEST_COMMIT = 100


class LaunchReason(models.TextChoices):
    """Why an experiment was launched once more."""

    FIRST = "first", "first launch, whose plan is repeated"
    TIME = "time", "scheduled"
    CHANGE = "change", "a fact of the cluster changed"
    COMMIT = "commit", "a commit"
    HAND = "hand", "by hand"


class RecurringExperiment(SharedInside):
    """The plan of a launched experiment, and the rule by which it is launched again.

    Each recurrence is an experiment of its own with the same plan and another order seed. Times are
    by the database's clock.
    """

    source = models.ForeignKey(Experiment, on_delete=models.PROTECT, related_name="recurring")
    question = models.CharField(max_length=300)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="recurring"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    every_days = models.PositiveSmallIntegerField(
        null=True,
        blank=True,
        default=7,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_DAYS)],
        help_text="Empty: it is never launched because time has passed.",
    )
    on_changes = models.BooleanField(
        default=False, help_text="Launch it when a fact of the cluster is another one."
    )
    token_hash = models.CharField(
        max_length=64,
        blank=True,
        editable=False,
        help_text="SHA-256 of the token with which others ask for a recurrence; empty: nobody can.",
    )
    token_made_at = models.DateTimeField(null=True, editable=False)
    most_recurrences = models.PositiveSmallIntegerField(
        default=52,
        validators=[MinValueValidator(2), MaxValueValidator(MOST_RECURRENCES)],
        help_text="With the first one. Then it ends.",
    )
    ends_at = models.DateTimeField(null=True, blank=True, help_text="Nothing is launched after it.")
    due_at = models.DateTimeField(null=True, editable=False, help_text="When it is time next.")
    requested_at = models.DateTimeField(null=True, editable=False)
    requested_reason = models.CharField(max_length=10, blank=True, editable=False)
    requested_commit = models.CharField(max_length=LONGEST_COMMIT, blank=True, editable=False)
    requested_detail = models.TextField(blank=True, editable=False, help_text="What changed.")
    last_number = models.PositiveSmallIntegerField(default=0, editable=False)
    limits_from = models.PositiveSmallIntegerField(
        default=1, editable=False, help_text="The first recurrence of which limits are computed."
    )
    charted_metrics = models.JSONField(
        default=list,
        db_default=[],  # for processes of the version before, while a site is upgraded
        blank=True,
        help_text="Names of metrics that decide nothing and are charted too, in their order.",
    )
    stopped_at = models.DateTimeField(null=True, editable=False)
    stopped_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        null=True,
        editable=False,
        on_delete=models.PROTECT,
        related_name="+",
    )
    tried_at = models.DateTimeField(null=True, editable=False)
    problem = models.TextField(blank=True, editable=False, help_text="Why it was not launched.")

    objects = SharedQuerySet["RecurringExperiment"].as_manager()

    class Meta:
        ordering = ["-created_at", "-pk"]
        verbose_name = "recurring experiment"
        indexes = [
            models.Index(
                fields=["due_at"], condition=models.Q(stopped_at=None), name="recurring_by_due_time"
            )
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["token_hash"],
                condition=~models.Q(token_hash=""),
                name="one_recurring_experiment_a_token",
            )
        ]

    def __str__(self) -> str:
        return self.question

    def get_absolute_url(self) -> str:
        return reverse("recurring", args=[self.pk])

    def is_over(self, now: datetime) -> bool:
        """Return whether nothing of it will be launched any more."""
        return (
            self.stopped_at is not None
            or self.last_number >= self.most_recurrences
            or (self.ends_at is not None and self.ends_at <= now)
        )


class Recurrence(models.Model):
    """One launch of a recurring experiment, and what its control charts show of it."""

    recurring = models.ForeignKey(
        RecurringExperiment, on_delete=models.CASCADE, related_name="recurrences"
    )
    number = models.PositiveSmallIntegerField(help_text="From 1.")
    experiment = models.ForeignKey(Experiment, on_delete=models.PROTECT, related_name="recurrences")
    reason = models.CharField(max_length=10, choices=LaunchReason.choices)
    commit = models.CharField(max_length=LONGEST_COMMIT, blank=True)
    detail = models.TextField(blank=True, help_text="What of the cluster changed before it.")
    differences = models.JSONField(
        default=list, help_text="What the cluster's rows made other than in the plan."
    )
    launched_at = models.DateTimeField()
    points = models.JSONField(
        null=True, help_text="The value of each chart; empty until all runs have ended."
    )
    charted = models.JSONField(
        default=list,
        db_default=[],
        help_text="The metrics that were asked for when its values were noted.",
    )
    method = models.CharField(
        max_length=64, blank=True, help_text="A hash of the code that computed the values."
    )
    problem = models.TextField(blank=True, help_text="Why it has no values.")
    changes = models.JSONField(
        default=list, help_text="Facts that differ from the recurrence before, as text."
    )
    reported = models.JSONField(
        null=True,
        help_text="The charts whose limits it left, of which its owner was told; empty until it is "
        "judged.",
    )

    class Meta:
        ordering = ["recurring", "number"]
        constraints = [
            models.UniqueConstraint(fields=["recurring", "number"], name="one_recurrence_a_number"),
            models.UniqueConstraint(
                fields=["recurring", "experiment"], name="an_experiment_recurs_once"
            ),
        ]

    def __str__(self) -> str:
        return f"recurrence {self.number}"
