import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0101_imported_bundles'),
    ]

    operations = [
        migrations.AddField(
            model_name='experiment',
            name='reproduces',
            field=models.ForeignKey(editable=False, help_text='The experiment whose plan it does again.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='reproductions', to='experiments.experiment'),
        ),
        migrations.AddField(
            model_name='experiment',
            name='reproduction',
            field=models.JSONField(editable=False, help_text='Of a reproduction: the hash of the plan that it does again, which of its own workloads and environments stand for those of that plan, by their keys, and what could not be the same.', null=True),
        ),
    ]
