"""The columns that jobs and operations share: both are submitted and pass the same states."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import models
from django.utils import timezone

from experiments.models.cluster import Cluster
from experiments.models.states import JOB_FINAL, JOB_LIVE, JOB_NEXT, JobState
from runners.schedulers.waiting_reasons import explain_reason


def new_uid() -> str:
    """Return a random name for a job or an operation."""
    return uuid.uuid4().hex


class Submission(models.Model):
    """One submission to a cluster's scheduler. `moves.move` alone changes its state."""

    State = JobState
    LIVE = JOB_LIVE
    FINAL = JOB_FINAL
    NEXT = JOB_NEXT

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    cluster = models.ForeignKey(Cluster, on_delete=models.PROTECT, related_name="%(class)ss")
    state = models.CharField(max_length=12, choices=State.choices, default=State.PLANNED)
    reason = models.CharField(max_length=40, blank=True)
    message = models.TextField(blank=True)
    attempt = models.PositiveIntegerField(default=1)
    scheduler_id = models.CharField(max_length=100, blank=True)
    scheduler_state = models.CharField(max_length=200, blank=True)
    expected_start_at = models.DateTimeField(
        null=True, help_text="When the scheduler expects to start it, as it said last."
    )
    directory = models.CharField(max_length=700, blank=True)
    script = models.TextField(blank=True)
    journal_offset = models.PositiveBigIntegerField(default=0)
    exit_code = models.IntegerField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    cancel_sent_at = models.DateTimeField(
        null=True, help_text="When the scheduler was asked to cancel it."
    )
    submitted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True, help_text="When it had left the queue.")
    ended_at = models.DateTimeField(null=True)
    collecting_attempts = models.PositiveSmallIntegerField(
        default=0, help_text="Attempts to read its files that never came to an end."
    )
    collecting_tried_at = models.DateTimeField(
        null=True, help_text="When the last attempt to read its files began."
    )

    class Meta:
        abstract = True

    @property
    def name(self) -> str:
        """Return the job name for the scheduler: unique per attempt, to find the job by it."""
        return f"tare-{self.uid}-{self.attempt}"

    @property
    def is_final(self) -> bool:
        return self.state in self.FINAL

    @property
    def upcoming_start(self) -> datetime | None:
        """Return when the scheduler expects to start it; None once that time has passed."""
        expected = self.expected_start_at if self.state == self.State.QUEUED else None
        return expected if expected and expected > timezone.now() else None

    @property
    def scheduler_words(self) -> str:
        """Return why the scheduler keeps it waiting, as text; "" if it does not."""
        return explain_reason(self.scheduler_state)
