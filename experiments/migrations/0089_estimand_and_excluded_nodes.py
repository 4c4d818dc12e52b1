from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0088_secret_addresses'),
    ]

    operations = [
        migrations.AddField(
            model_name='experiment',
            name='estimand',
            field=models.CharField(blank=True, choices=[('nodes', 'this node: the nodes that its runs will have run on'), ('partition', 'this partition: its nodes, of which these stand for all')], help_text='What its verdicts speak of. Empty: planned before there was the choice.', max_length=10),
        ),
        migrations.AddField(
            model_name='experiment',
            name='spreads_nodes',
            field=models.BooleanField(default=False, help_text='Send each block of a configuration to a node of its own.'),
        ),
        migrations.AddField(
            model_name='job',
            name='excluded_nodes',
            field=models.JSONField(blank=True, help_text='Nodes of other blocks that it is not to run on, as they were when it was sent; empty: any node, because the scheduler refused it without some.', null=True),
        ),
    ]
