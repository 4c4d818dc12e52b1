from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0040_longest_interval")]

    operations = [
        migrations.AddField(
            model_name="cluster",
            name="visitor",
            field=models.CharField(
                blank=True,
                editable=False,
                help_text="The process that visited last, and may have a connection open.",
                max_length=32,
            ),
        ),
    ]
