"""Views may be saved of the list of experiments, too. The database keeps what it has."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0120_kept_robustness")]

    operations = [
        migrations.AlterField(
            model_name="savedview",
            name="page",
            field=models.CharField(
                choices=[("runs", "runs"), ("experiments", "experiments")], max_length=20
            ),
        ),
    ]
