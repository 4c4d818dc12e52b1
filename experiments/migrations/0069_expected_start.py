from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0061_live_samples'),
    ]

    operations = [
        migrations.AddField(
            model_name=name,
            name='expected_start_at',
            field=models.DateTimeField(help_text='When the scheduler expects to start it, as it said last.', null=True),
        )
        for name in ('job', 'operation')
    ]
