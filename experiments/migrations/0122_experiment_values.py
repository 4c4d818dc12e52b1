"""Lists of experiments are sorted by what their runs say: tables, without rows yet."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0121_saved_views_of_experiments'),
    ]

    operations = [
        migrations.CreateModel(
            name='ValueChange',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('experiment_id', models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name='ExperimentValue',
            fields=[
                ('pk', models.CompositePrimaryKey('experiment_id', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('experiment_id', models.BigIntegerField()),
                ('key', models.CharField(help_text='As in addresses: "metric.step_time"; "runs" are all that count.', max_length=220)),
                ('runs', models.PositiveIntegerField(help_text='How many runs that count have it.')),
                ('count', models.PositiveIntegerField(help_text='How many distinct values there are; of a metric, how many finite ones.')),
                ('units', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=30), null=True, size=None)),
                ('median', models.FloatField(help_text='Of a metric in one unit, of all runs.', null=True)),
                ('low', models.FloatField(help_text='The lowest median of a configuration.', null=True)),
                ('high', models.FloatField(help_text='The highest median of a configuration.', null=True)),
                ('lowest', models.FloatField(help_text='The lowest finite value, in any unit.', null=True)),
                ('highest', models.FloatField(help_text='The highest finite value, in any unit.', null=True)),
                ('shown', models.JSONField(help_text='Of a parameter or a fact: the three smallest values.', null=True)),
                ('largest', models.JSONField(help_text='And the largest.', null=True)),
            ],
            options={
                'indexes': [models.Index(fields=['key', 'experiment_id'], name='experiment_value_by_key')],
            },
        ),
    ]
