"""The other tests of an experiment's verdicts as they were computed last."""

from __future__ import annotations

from django.db import models

from experiments.models.experiment import Experiment


class KeptRobustness(models.Model):
    """Results of other tests of the runs of a kept comparison, for the page *Robustness*.

    It may be deleted at any time: the page computes it anew then. In a table of its own, as other
    pages read the comparison without it.
    """

    experiment = models.OneToOneField(
        Experiment, on_delete=models.CASCADE, primary_key=True, related_name="kept_robustness"
    )
    key = models.CharField(max_length=64, help_text="The key of the comparison that it is of.")
    content = models.BinaryField(help_text="Compressed, behind its check sum.")

    def __str__(self) -> str:
        return f"robustness of experiment {self.pk}"
