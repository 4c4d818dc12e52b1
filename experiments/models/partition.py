"""The partitions of clusters."""

from __future__ import annotations

from django.db import models

from experiments.models.cluster import Cluster


class Partition(models.Model):
    """A partition of a cluster, with the limits that forms check."""

    cluster = models.ForeignKey(Cluster, on_delete=models.CASCADE, related_name="partitions")
    name = models.CharField(max_length=100)
    nodes = models.PositiveIntegerField(default=1)
    gpus_per_node = models.PositiveIntegerField(default=0)
    gpu_model = models.CharField(max_length=100, blank=True)
    gres = models.CharField(
        max_length=100, default="gpu", help_text="What `--gres` calls a GPU, such as gpu:a100."
    )
    cpus_per_node = models.PositiveIntegerField(default=1)
    cpus_per_run = models.PositiveIntegerField(default=1, help_text="CPUs asked for per node.")
    memory_mb = models.PositiveIntegerField(
        null=True, blank=True, help_text="Memory asked for per node, in MB; empty: the default."
    )
    time_limit_minutes = models.PositiveIntegerField(default=60)
    account = models.CharField(max_length=100, blank=True)
    qos = models.CharField("QOS", max_length=100, blank=True)
    side_by_side = models.BooleanField(
        default=False,
        help_text="Without a scheduler only: jobs that find enough free GPUs run while others do. "
        "A measurement wants the machine to itself.",
    )
    enabled = models.BooleanField(
        default=True,
        help_text="Experiments and operations may ask for it. What was made with it stays.",
    )
    directives = models.JSONField(
        default=list, blank=True, help_text='More scheduler options, such as ["--exclusive"].'
    )
    srun_options = models.JSONField(
        default=list, blank=True, help_text='Of srun as a launcher, such as ["--mpi=pmix"].'
    )
    mpirun_options = models.JSONField(
        default=list, blank=True, help_text='Of mpirun, such as ["--mca btl ^openib"].'
    )

    class Meta:
        ordering = ["cluster", "name"]
        constraints = [
            models.UniqueConstraint(fields=["cluster", "name"], name="partition_once_a_cluster")
        ]

    def __str__(self) -> str:
        return f"{self.name} on {self.cluster}"
