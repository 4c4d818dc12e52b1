import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0095_extensions'),
    ]

    operations = [
        migrations.AddField(
            model_name='environment',
            name='copy_of',
            field=models.OneToOneField(editable=False, help_text='The environment that this row measures a second time, in A/A tests.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='own_copy', to='experiments.environment'),
        ),
        migrations.AddField(
            model_name='keptcomparison',
            name='aa_verdicts',
            field=models.JSONField(help_text='The verdicts on environments that were compared with themselves, once all runs have ended; empty where none was.', null=True),
        ),
        migrations.AddIndex(
            model_name='keptcomparison',
            index=models.Index(condition=models.Q(('aa_verdicts__isnull', False)), fields=['experiment'], name='comparison_with_aa_verdicts'),
        ),
    ]
