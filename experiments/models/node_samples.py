"""What the node did while a run ran: GPUs, CPUs and memory, sampled by the job script."""

from __future__ import annotations

from django.db import models

from experiments.models.run import Run


class NodeSamples(models.Model):
    """The samples of one run, thinned; the job's directory on the cluster holds all of them."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="node_samples")
    content = models.JSONField(help_text="As runners.node_samples.describe_run returns it.")

    class Meta:
        verbose_name_plural = "node samples"

    def __str__(self) -> str:
        return f"samples of {self.run}"
