"""Pauses: where a site takes no jobs for now, in its own words."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Q

from experiments.models.cluster import Cluster
from experiments.models.experiment import Experiment
from experiments.models.partition import Partition
from experiments.models.run import Job


class PauseQuerySet(models.QuerySet["Pause"]):
    """Pauses, and which of them hold back an experiment."""

    def holding(self, experiment: Experiment) -> PauseQuerySet:
        """Return those that keep the planned jobs of `experiment` from being sent."""
        scope = Q(partition=None, experiment=None) | Q(experiment=experiment)
        if experiment.partition_id:
            scope |= Q(partition=experiment.partition_id)
        return self.filter(scope, cluster=experiment.cluster_id)


class Pause(models.Model):
    """Nothing is sent to a cluster, one of its partitions, or of one experiment, until it ends.

    It ends when a job is accepted there; one is tried whenever `retry_at` has come.
    """

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="pauses")
    partition = models.ForeignKey(
        Partition, null=True, on_delete=models.CASCADE, related_name="pauses"
    )
    experiment = models.ForeignKey(
        Experiment, null=True, on_delete=models.CASCADE, related_name="pauses"
    )
    kind = models.CharField(max_length=30)
    message = models.TextField(help_text="The scheduler's or the file system's own words.")
    details = models.TextField(
        blank=True, help_text="All that was said, where the message is shorter."
    )
    since = models.DateTimeField()
    failures = models.PositiveIntegerField(default=1)
    retry_at = models.DateTimeField()

    LONGEST = timedelta(minutes=15)

    objects = PauseQuerySet.as_manager()

    class Meta:
        ordering = ["since", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "partition", "experiment"],
                nulls_distinct=False,
                name="one_pause_a_place",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.place}"

    @property
    def is_of_the_site(self) -> bool:
        """Return whether it holds back everybody's jobs."""
        return not (self.experiment_id or self.partition_id)

    @property
    def place(self) -> str:
        """Return what the pause concerns, in words: a partition, an experiment or the cluster."""
        if self.experiment_id:
            return "this experiment"
        return f"partition {self.partition.name}" if self.partition else str(self.cluster)

    @property
    def jobs(self) -> models.QuerySet[Job]:
        """Return the jobs that wait for its end."""
        planned = Job.objects.filter(cluster=self.cluster_id, state=Job.State.PLANNED)
        if self.experiment_id:
            return planned.filter(experiment=self.experiment_id)
        if self.partition_id:
            return planned.filter(experiment__partition=self.partition_id)
        return planned

    @property
    def title(self) -> str:
        """Return a short title: what is paused."""
        return f"paused, {self.place}" if self.partition_id or self.experiment_id else "paused"

    def holds(self, *, partition_pk: int | None, experiment_pk: int | None) -> bool:
        """Return whether it keeps a job or operation of these from being sent."""
        if self.experiment_id:
            return self.experiment_id == experiment_pk
        return self.partition_id in (None, partition_pk)
