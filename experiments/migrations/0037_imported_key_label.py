from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("experiments", "0036_operation_columns"),
    ]

    operations = [
        migrations.AlterField(
            model_name="credential",
            name="origin",
            field=models.CharField(
                choices=[("generated", "made by Tare"), ("imported", "imported")],
                default="imported",
                max_length=20,
            ),
        ),
    ]
