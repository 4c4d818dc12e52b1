"""A rule of the plan on the load of others on the node of a run."""

import django.core.validators
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0089_estimand_and_excluded_nodes"),
    ]

    operations = [
        migrations.AddField(
            model_name="experiment",
            name="reject_others_cpus",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Reject runs beside which so many CPUs were busy beyond all those of the run.",
                null=True,
                validators=[
                    django.core.validators.MinValueValidator(1),
                    django.core.validators.MaxValueValidator(100000),
                ],
            ),
        ),
    ]
