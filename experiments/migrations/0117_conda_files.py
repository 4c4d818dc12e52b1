from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("experiments", "0116_code_copies"),
    ]

    operations = [
        migrations.AddField(
            model_name="imageimport",
            name="conda_file",
            field=models.TextField(
                blank=True,
                db_default="",
                default="",
                help_text="A recipe's environment file of conda.",
            ),
        ),
    ]
