from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0019_losses'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='own_failed_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='cluster',
            name='own_failure',
            field=models.TextField(blank=True, editable=False, help_text='What Tare could not handle there, of one job.'),
        ),
    ]
