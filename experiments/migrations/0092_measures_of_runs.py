import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0091_goal_and_margin_if_faster'),
    ]

    operations = [
        migrations.AddField(
            model_name='measurement',
            name='source',
            field=models.CharField(blank=True, db_default='', help_text='Where Tare has it from; empty: the program reported it.', max_length=60),
        ),
        migrations.CreateModel(
            name='MeasureNotes',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('details', models.JSONField(default=dict, help_text='What limits a value, such as its step.')),
                ('missing', models.JSONField(default=dict, help_text='Why it has no value.')),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='measure_notes', to='experiments.run')),
            ],
            options={
                'verbose_name_plural': 'measure notes',
            },
        ),
    ]
