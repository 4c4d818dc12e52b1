import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0038_service_signs")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="snapshot",
            field=models.ForeignKey(
                help_text="Its node outside the containers; of older ones the runs' own snapshots "
                "say it.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="jobs",
                to="experiments.snapshot",
            ),
        ),
    ]
