"""Runs from before have rows of their parameters, too, and an index serves lists of all."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

FILL = """
INSERT INTO experiments_runparameter (run_id, name, value)
SELECT run.id, parameter.name, parameter.value
FROM experiments_run AS run, list_run_parameters(run.spec) AS parameter
ON CONFLICT DO NOTHING
"""
FORGET_UNFINISHED = "DROP INDEX CONCURRENTLY IF EXISTS run_parameter_by_value"
"""An index whose making was interrupted has the name, and serves nothing."""


class Migration(migrations.Migration):
    atomic = False  # runs are made and results collected meanwhile; safe to begin anew

    dependencies = [("experiments", "0120_run_parameters")]

    operations = [
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.RunSQL(FORGET_UNFINISHED, migrations.RunSQL.noop),
        AddIndexConcurrently(
            model_name="runparameter",
            index=models.Index(fields=["name", "value", "run"], name="run_parameter_by_value"),
        ),
    ]
