from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0078_partition_enabled")]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="older_gate_at",
            field=models.DateTimeField(
                editable=False,
                help_text=(
                    "When the forced command last refused a command that older scripts do not know."
                ),
                null=True,
            ),
        ),
    ]
