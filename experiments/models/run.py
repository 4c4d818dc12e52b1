"""Jobs, the runs they hold, and the events that tell what moved them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import models
from django.urls import reverse

from experiments.models.catalogue import Environment, Workload
from experiments.models.experiment import Experiment
from experiments.models.results import Snapshot
from experiments.models.states import RUN_FINAL, RUN_NEXT, RunState
from experiments.models.submission import Submission, new_uid
from experiments.snapshots import restore_paths


class Job(Submission):
    """The runs of one block, or a single run."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="jobs")
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="+")
    scale = models.CharField(max_length=40)
    repeat = models.PositiveIntegerField()
    block = models.PositiveIntegerField(help_text="Its place in the plan's random order.")
    payload_hash = models.CharField(max_length=64, blank=True)
    gpu_seconds = models.PositiveBigIntegerField(
        default=0, help_text="What it may use at most: the GPUs that it asks for, its time limit."
    )
    collect_at = models.DateTimeField(
        null=True, help_text="When its files are to be read once more, though it has ended."
    )
    collect_tries = models.PositiveSmallIntegerField(default=0)
    collect_asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    verified_at = models.DateTimeField(
        null=True, help_text="When its whole record was collected, and its check sums compared."
    )
    repairs = models.ForeignKey(
        "self",
        null=True,
        on_delete=models.CASCADE,
        related_name="repaired_by",
        help_text="The first job of its block, of which it runs what never began.",
    )
    node = models.CharField(
        max_length=255, blank=True, help_text="The node that it must run on; empty: any."
    )
    avoided_nodes = models.CharField(
        max_length=500,
        blank=True,
        help_text="Nodes on which its earlier attempts found no GPU, separated by commas.",
    )
    excluded_nodes = models.JSONField(
        null=True,
        blank=True,
        help_text="Nodes of other blocks that it is not to run on, as they were when it was sent; "
        "empty: any node, because the scheduler refused it without some.",
    )
    nodes = models.JSONField(
        default=list,
        db_default=[],  # for processes of the version before, while a site is upgraded
        blank=True,
        help_text="The names of all its nodes, where it has several and its scheduler told them.",
    )
    snapshot = models.ForeignKey(
        Snapshot,
        null=True,
        on_delete=models.PROTECT,
        related_name="jobs",
        help_text="Its node outside the containers; of older ones the runs' own snapshots say it.",
    )

    class Meta:
        ordering = ["experiment", "block", "pk"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=("planned", "submitting", "failed", "cancelled"))
                | ~models.Q(scheduler_id="")
                # One that was imported: nobody here has sent it anywhere.
                | models.Q(state="done", submitted_at__isnull=True, script=""),
                name="sent_jobs_know_their_id",
            )
        ]
        indexes = [
            models.Index(
                fields=["cluster", "state"],
                condition=~models.Q(state__in=("done", "failed", "cancelled")),
                name="job_alive",
            ),
            models.Index(
                fields=["experiment", "block"],
                condition=models.Q(state="planned"),
                name="job_planned",
            ),
            models.Index(
                fields=["cluster", "collect_at"],
                condition=models.Q(collect_at__isnull=False),
                name="job_to_collect_again",
            ),
            models.Index(
                fields=["cluster", "verified_at"],
                condition=models.Q(verified_at__isnull=False),
                name="job_verified",
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.uid[:8]}"

    @property
    def can_be_collected(self) -> bool:
        """Return whether it has ended and its directory on the cluster is known."""
        return self.is_final and bool(self.directory and self.submitted_at)

    @property
    def may_be_late(self) -> bool:
        """Return whether late files are still expected: it has to be collected once more."""
        return self.collect_at is not None and self.collect_tries <= 1  # 1: at its end

    @property
    def number(self) -> int:
        """Return the number of its block, counted from 1."""
        return self.block + 1


class Run(models.Model):
    """One execution of a configuration in an environment: the unit of all statistics."""

    State = RunState
    FINAL = RUN_FINAL
    NEXT = RUN_NEXT
    MOVED = ("uid", "state", "experiment", "job")
    """What is read of it where only its state moves."""

    uid = models.CharField(max_length=32, unique=True, default=new_uid, editable=False)
    # The constraints below have the indexes of these two.
    experiment = models.ForeignKey(
        Experiment, on_delete=models.CASCADE, related_name="runs", db_index=False
    )
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="runs", db_index=False)
    workload = models.ForeignKey(Workload, on_delete=models.PROTECT, related_name="runs")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="runs")
    scale = models.CharField(max_length=40)
    repeat = models.PositiveIntegerField()
    position = models.PositiveIntegerField(help_text="Its place in the job's random order.")
    spec = models.JSONField(default=dict)
    state = models.CharField(max_length=12, choices=State.choices, default=State.PLANNED)
    reason = models.CharField(max_length=40, blank=True)
    message = models.TextField(blank=True)
    exit_code = models.IntegerField(null=True)
    node = models.CharField(max_length=255, blank=True)
    began_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    command = models.TextField(blank=True)
    output_tail = models.TextField(blank=True)
    snapshot = models.ForeignKey(Snapshot, null=True, on_delete=models.PROTECT, related_name="runs")
    phases = models.JSONField(default=dict)
    files_count = models.PositiveIntegerField(null=True, help_text="Files that it left, in all.")
    files_bytes = models.PositiveBigIntegerField(null=True)

    class Meta:
        ordering = ["experiment", "job__block", "position"]
        constraints = [
            models.UniqueConstraint(
                fields=["experiment", "workload", "environment", "scale", "repeat"],
                name="a_cell_is_run_once_a_repeat",
            ),
            models.UniqueConstraint(fields=["job", "position"], name="one_run_a_position"),
        ]
        # In the order that lists ask for: what has not begun comes last, and the key decides.
        indexes = [
            models.Index(
                "state",
                models.F("began_at").desc(nulls_last=True),
                models.F("id").desc(),
                name="run_by_state",
            ),
            models.Index(
                models.F("began_at").desc(nulls_last=True),
                models.F("id").desc(),
                name="run_newest_first",
            ),
            models.Index(fields=["began_at", "id"], name="run_oldest_first"),
            models.Index(fields=["node", "id"], name="run_by_node"),
            models.Index(fields=["experiment", "state"], name="run_of_an_experiment"),
        ]

    def __str__(self) -> str:
        return f"run {self.uid[:8]}"

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.uid])

    @property
    def is_final(self) -> bool:
        return self.state in self.FINAL

    @property
    def snapshot_content(self) -> dict[str, Any]:
        """Return what was true on both sides of the container wall, with the paths of this run."""
        content: dict[str, Any] = {}
        for snapshot in (self.job.snapshot, self.snapshot):
            content |= snapshot.content if snapshot else {}
        restored: dict[str, Any] = restore_paths(content, self.job.directory, self.folder)
        return restored

    @property
    def folder(self) -> str:
        """Return its directory on the cluster, relative to its job's."""
        return f"runs/{self.position}-{self.uid}"

    @property
    def awaits_job(self) -> bool:
        """Return whether it has ended by the journal, but its job's files are not fetched yet."""
        return self.state == self.State.RUNNING and self.ended_at is not None


RENAMED_EVENTS = {
    "readers changed": "visibility changed",
    "stopped at look": "stopped at interim analysis",
}
"""How stored events began before, and how pages say it today."""


class Event(models.Model):
    """Append-only: what was moved, by whom or what, when and why."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="events")
    job = models.ForeignKey(Job, null=True, on_delete=models.CASCADE, related_name="events")
    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(auto_now_add=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+"
    )
    what = models.CharField(max_length=100)
    why = models.TextField(blank=True)
    stated_by = models.CharField(
        max_length=150,
        blank=True,
        db_default="",
        help_text="Who, by a bundle of another Tare: its users are not those of this one.",
    )

    class Meta:
        ordering = ["at", "pk"]
        indexes = [models.Index(fields=["experiment", "at", "id"], name="event_by_time")]

    def __str__(self) -> str:
        return self.text

    @property
    def who(self) -> str:
        """Return the name of the person who did it; "Tare" where nobody did."""
        return str(self.actor) if self.actor else self.stated_by or "Tare"

    @property
    def text(self) -> str:
        """Return what happened as pages say it; entries of before a renaming keep the old word."""
        for old, new in RENAMED_EVENTS.items():
            if self.what.startswith(old):
                return new + self.what.removeprefix(old)
        return self.what
