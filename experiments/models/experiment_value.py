"""What the runs of experiments say of each metric, parameter and fact, for lists of experiments."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models


class ExperimentValue(models.Model):
    """What the runs of one experiment say of one metric, parameter or fact.

    Only `experiments.execution.stored_values` writes rows, one process at a time. They may be
    deleted if their experiments get `ValueChange` rows: they are computed anew then. There is no
    foreign key, so that a person who deletes an experiment does not wait for that process: the note
    of its deleted runs has the process delete the rows.
    """

    pk = models.CompositePrimaryKey("experiment_id", "key")
    experiment_id = models.BigIntegerField()
    key = models.CharField(
        max_length=220, help_text='As in addresses: "metric.step_time"; "runs" are all that count.'
    )
    runs = models.PositiveIntegerField(help_text="How many runs that count have it.")
    count = models.PositiveIntegerField(
        help_text="How many distinct values there are; of a metric, how many finite ones."
    )
    units = ArrayField(models.CharField(max_length=30), null=True)
    median = models.FloatField(null=True, help_text="Of a metric in one unit, of all runs.")
    low = models.FloatField(null=True, help_text="The lowest median of a configuration.")
    high = models.FloatField(null=True, help_text="The highest median of a configuration.")
    lowest = models.FloatField(null=True, help_text="The lowest finite value, in any unit.")
    highest = models.FloatField(null=True, help_text="The highest finite value, in any unit.")
    shown = models.JSONField(
        null=True, help_text="Of a parameter or a fact: the three smallest values."
    )
    largest = models.JSONField(null=True, help_text="And the largest.")

    class Meta:
        # For an order by one column, which reads one row of each experiment.
        indexes = [models.Index(fields=["key", "experiment_id"], name="experiment_value_by_key")]

    def __str__(self) -> str:
        return f"{self.key} of experiment {self.experiment_id}"


class ValueChange(models.Model):
    """A note that runs of an experiment have changed since its values were stored.

    PostgreSQL adds a row with each change, in the same transaction. No row is updated, and only the
    process that stores the values deletes any, so processes that write runs do not wait for others.
    """

    experiment_id = models.BigIntegerField()

    def __str__(self) -> str:
        return f"change of experiment {self.experiment_id}"
