from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("experiments", "0106_signatures_and_advisories")]

    operations = [
        migrations.AddField(
            model_name="importedbundle",
            name="signed_by",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="The fingerprint of the key that signed it; empty if it is not signed.",
                max_length=60,
            ),
        ),
    ]
