"""Lists of runs are sorted by any metric."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # results are collected while it is built

    dependencies = [
        ("experiments", "0051_live_readings"),
    ]

    operations = [
        # One whose making was interrupted has the name, and serves nothing.
        migrations.RunSQL(
            "DROP INDEX CONCURRENTLY IF EXISTS measurement_by_value", migrations.RunSQL.noop
        ),
        AddIndexConcurrently(
            model_name="measurement",
            index=models.Index(
                fields=["metric", "value", "run"], name="measurement_by_value"
            ),
        ),
    ]
