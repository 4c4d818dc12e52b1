import django.core.validators
import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0097_recurring_experiments'),
    ]

    operations = [
        migrations.AddField(
            model_name='experiment',
            name='output_mib',
            field=models.PositiveSmallIntegerField(db_default=2, default=2, help_text='How much is kept of what a run prints: of more its beginning and its end.', validators=[django.core.validators.MaxValueValidator(8)]),
        ),
        migrations.CreateModel(
            name='StoredRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('output', models.BinaryField(help_text='As it was printed, compressed by zlib.')),
                ('output_bytes', models.PositiveBigIntegerField(default=0, help_text='That the run printed.')),
                ('output_left_out', models.PositiveBigIntegerField(default=0, help_text='Bytes between its beginning and its end that are not kept.')),
                ('output_sha256', models.CharField(blank=True, help_text='Of all that it printed, as the job summed it up.', max_length=64)),
                ('files', models.BinaryField(help_text='JSON, compressed by zlib: of each file its path, bytes and sha256.')),
                ('files_listed', models.PositiveIntegerField(default=0)),
                ('files_left_out', models.PositiveIntegerField(default=0)),
                ('facts', models.JSONField(default=dict, help_text='Of this run alone: its command inside the environment.')),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='stored_record', to='experiments.run')),
            ],
            options={
                'verbose_name_plural': 'stored records',
            },
        ),
    ]
