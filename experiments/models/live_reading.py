"""What a running run has printed and reported, as it was read last for somebody who looks at it."""

from __future__ import annotations

from django.db import models

from experiments.models.run import Run


class LiveReading(models.Model):
    """The last reading of a run that is being watched.

    Once the run has ended it is deleted by the next reading of another run on its cluster.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="live_reading")
    watched_at = models.DateTimeField(help_text="When its page was last open.")
    directory = models.TextField(
        blank=True, help_text="Where it was read: a further attempt has a directory of its own."
    )
    read_at = models.DateTimeField(null=True)
    offset = models.PositiveBigIntegerField(
        default=0, help_text="Bytes of its report that have been read."
    )
    report = models.JSONField(
        default=dict, help_text="Its numbers so far, thinned (runners.workloads.live_reports)."
    )
    output_tail = models.TextField(blank=True)
    samples = models.JSONField(
        default=dict, help_text="Of its node, lately (runners.node_samples.describe_so_far)."
    )
    problem = models.TextField(blank=True, help_text="Why it could not be read last time.")

    def __str__(self) -> str:
        return f"reading of {self.run}"
