"""Results of other tests are kept with the comparison."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0120_run_parameters_of_before")]

    operations = [
        migrations.CreateModel(
            name="KeptRobustness",
            fields=[
                (
                    "experiment",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="kept_robustness",
                        serialize=False,
                        to="experiments.experiment",
                    ),
                ),
                (
                    "key",
                    models.CharField(
                        help_text="The key of the comparison that it is of.", max_length=64
                    ),
                ),
                ("content", models.BinaryField(help_text="Compressed, behind its check sum.")),
            ],
        ),
    ]
