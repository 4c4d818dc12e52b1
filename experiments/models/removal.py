"""Job directories that were removed from a cluster's disk by the rule of the cluster."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from experiments.models.operation import Operation
from experiments.models.run import Job

WHAT_STAYS = (
    "Tare keeps the numbers, steps and snapshots, the script and command, and the last lines of "
    "the output."
)


class RemovalQuerySet(models.QuerySet["Removal"]):
    """Removals, and how far they are."""

    def done(self) -> RemovalQuerySet:
        return self.filter(removed_at__isnull=False)

    def under_way(self) -> RemovalQuerySet:
        """Return those whose directories an operation was sent to remove, with no outcome yet."""
        return self.filter(removed_at=None, problem="")

    def not_failed(self) -> RemovalQuerySet:
        return self.filter(problem="")

    def of_directory(self, job: Job) -> RemovalQuerySet:
        """Return that of the directory that the job has now: a further attempt has another."""
        return self.filter(job=job.pk, attempt=job.attempt)

    def of_outer_job(self) -> RemovalQuerySet:
        """Return the same for each job of a query that this is a subquery of."""
        return self.filter(job=models.OuterRef("pk"), attempt=models.OuterRef("attempt"))


class Removal(models.Model):
    """The removal of the directory of one attempt of a job. Once a directory."""

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="removals")
    attempt = models.PositiveIntegerField()
    directory = models.CharField(max_length=700)
    days = models.PositiveIntegerField(help_text="What the cluster's rule was.")
    operation = models.ForeignKey(
        Operation, null=True, on_delete=models.SET_NULL, related_name="removals"
    )
    chosen_at = models.DateTimeField()
    removed_at = models.DateTimeField(null=True)
    freed_bytes = models.PositiveBigIntegerField(
        null=True, help_text="Space on the disk; none where the directory was gone already."
    )
    problem = models.TextField(blank=True, help_text="Why it could not be removed.")

    objects = RemovalQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "attempt"], name="one_removal_a_directory")
        ]

    def __str__(self) -> str:
        return self.directory

    @property
    def sentence(self) -> str:
        """Return what became of the files on the cluster, and what there is instead."""
        rule = f"the rule of {self.days} day{'' if self.days == 1 else 's'}"
        if self.removed_at is None:
            return f"Its files on the cluster are being removed, by {rule}. {WHAT_STAYS}"
        day = timezone.localtime(self.removed_at).strftime("%-d %B %Y")
        if self.freed_bytes is None:
            return (
                f"Its directory on the cluster was gone already when {rule} was applied on {day}. "
                f"{WHAT_STAYS}"
            )
        return f"Its files on the cluster were removed on {day} by {rule}. {WHAT_STAYS}"
