from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0093_margins_of_training'),
    ]

    operations = [
        migrations.AddField(
            model_name='experiment',
            name='further_metrics',
            field=models.JSONField(blank=True, default=list, help_text='Further decisive metrics in their order, each with its margin: [{"metric": "step_time_sd", "margin": 0.05}], with a "margin_faster" where it differs.'),
        ),
        migrations.AddField(
            model_name='experiment',
            name='metrics_rule',
            field=models.CharField(choices=[('all', 'all must be shown'), ('in order', 'in a fixed order, up to the first that is not shown')], default='all', help_text='How several decisive metrics are judged together.', max_length=8),
        ),
        migrations.AddConstraint(
            model_name='experiment',
            constraint=models.CheckConstraint(condition=models.Q(('metrics_rule__in', ['all', 'in order'])), name='known_metrics_rule'),
        ),
    ]
