from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0114_segments"),
    ]

    operations = [
        migrations.AddField(
            model_name="stagedimage",
            name="changed_tree",
            field=models.CharField(
                blank=True,
                editable=False,
                help_text="The hash after the runtime changed files, for its mode or to add the "
                "driver's; tree: before.",
                max_length=71,
            ),
        ),
        migrations.AddField(
            model_name="stagedimage",
            name="driver_files",
            field=models.JSONField(
                blank=True,
                default=list,
                editable=False,
                help_text="Paths inside of the files of the GPU's driver, copied when it was "
                "staged.",
            ),
        ),
    ]
