"""The parameters with which runs were started, one a row, for lists that ask for one of them."""

from __future__ import annotations

from django.db import models

from experiments.models.run import Run


class RunParameter(models.Model):
    """One parameter of one run. PostgreSQL writes them when a run is made or its `spec` changes.

    What a run was started with is its `spec`. Here stand texts, numbers, and yes or no, in an
    order that an index serves; a list of words as its text in JSON. Other lists and tables do not,
    nor do numbers of more than 1,000 characters; of a long text its first MOST stand here.
    """

    MOST = 301
    """One character more than a filter compares with, so that no beginning equals its value."""
    LONGEST_NAME = 200

    pk = models.CompositePrimaryKey("run", "name")
    run = models.ForeignKey(  # the primary key has the index
        Run, on_delete=models.CASCADE, related_name="parameters", db_index=False
    )
    name = models.CharField(max_length=LONGEST_NAME)
    value = models.JSONField()

    class Meta:
        # In the order of a list that is sorted by a parameter, for which it reads no other run.
        indexes = [models.Index(fields=["name", "value", "run"], name="run_parameter_by_value")]

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"
