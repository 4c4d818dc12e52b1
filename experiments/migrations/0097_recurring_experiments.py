import django.core.validators
import django.db.models.deletion
import experiments.models.visibility
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('experiments', '0096_aa_tests'),
    ]

    operations = [
        migrations.AlterField(
            model_name='notification',
            name='kind',
            field=models.CharField(choices=[('ended', 'An experiment of mine has ended'), ('failed', 'Runs of mine have failed'), ('verdict', 'A verdict is there, or another one'), ('recurring', 'A recurring experiment left its limits, or was not launched'), ('webhook', 'A webhook of mine was switched off'), ('service', 'A service of Tare does not run'), ('storage', 'A disk of Tare is nearly full'), ('cluster', 'A cluster is not reachable, paused, or its disk is full'), ('expiry', 'A certificate of a credential expires within 14 days')], max_length=20),
        ),
        migrations.CreateModel(
            name='RecurringExperiment',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('visibility', models.CharField(choices=experiments.models.visibility.readers_inside, default='members', max_length=10)),
                ('question', models.CharField(max_length=300)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('every_days', models.PositiveSmallIntegerField(blank=True, default=7, help_text='Empty: it is never launched because time has passed.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(366)])),
                ('on_changes', models.BooleanField(default=False, help_text='Launch it when a fact of the cluster is another one.')),
                ('token_hash', models.CharField(blank=True, editable=False, help_text='SHA-256 of the token with which others ask for a recurrence; empty: nobody can.', max_length=64)),
                ('token_made_at', models.DateTimeField(editable=False, null=True)),
                ('most_recurrences', models.PositiveSmallIntegerField(default=52, help_text='With the first one. Then it ends.', validators=[django.core.validators.MinValueValidator(2), django.core.validators.MaxValueValidator(1000)])),
                ('ends_at', models.DateTimeField(blank=True, help_text='Nothing is launched after it.', null=True)),
                ('due_at', models.DateTimeField(editable=False, help_text='When it is time next.', null=True)),
                ('requested_at', models.DateTimeField(editable=False, null=True)),
                ('requested_reason', models.CharField(blank=True, editable=False, max_length=10)),
                ('requested_commit', models.CharField(blank=True, editable=False, max_length=100)),
                ('requested_detail', models.TextField(blank=True, editable=False, help_text='What changed.')),
                ('last_number', models.PositiveSmallIntegerField(default=0, editable=False)),
                ('limits_from', models.PositiveSmallIntegerField(default=1, editable=False, help_text='The first recurrence of which limits are computed.')),
                ('stopped_at', models.DateTimeField(editable=False, null=True)),
                ('tried_at', models.DateTimeField(editable=False, null=True)),
                ('problem', models.TextField(blank=True, editable=False, help_text='Why it was not launched.')),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups that are meant by my groups.', related_name='+', to='auth.group')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='recurring', to=settings.AUTH_USER_MODEL)),
                ('source', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='recurring', to='experiments.experiment')),
                ('stopped_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'recurring experiment',
                'ordering': ['-created_at', '-pk'],
            },
        ),
        migrations.CreateModel(
            name='Recurrence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveSmallIntegerField(help_text='From 1.')),
                ('reason', models.CharField(choices=[('first', 'first launch, whose plan is repeated'), ('time', 'scheduled'), ('change', 'a fact of the cluster changed'), ('commit', 'a commit'), ('hand', 'by hand')], max_length=10)),
                ('commit', models.CharField(blank=True, max_length=100)),
                ('detail', models.TextField(blank=True, help_text='What of the cluster changed before it.')),
                ('differences', models.JSONField(default=list, help_text="What the cluster's rows made other than in the plan.")),
                ('launched_at', models.DateTimeField()),
                ('points', models.JSONField(help_text='The value of each chart; empty until all runs have ended.', null=True)),
                ('method', models.CharField(blank=True, help_text='A hash of the code that computed the values.', max_length=64)),
                ('problem', models.TextField(blank=True, help_text='Why it has no values.')),
                ('changes', models.JSONField(default=list, help_text='Facts that differ from the recurrence before, as text.')),
                ('reported', models.JSONField(help_text='The charts whose limits it left, of which its owner was told; empty until it is judged.', null=True)),
                ('experiment', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='recurrences', to='experiments.experiment')),
                ('recurring', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='recurrences', to='experiments.recurringexperiment')),
            ],
            options={
                'ordering': ['recurring', 'number'],
            },
        ),
        migrations.AddIndex(
            model_name='recurringexperiment',
            index=models.Index(condition=models.Q(('stopped_at', None)), fields=['due_at'], name='recurring_by_due_time'),
        ),
        migrations.AddConstraint(
            model_name='recurringexperiment',
            constraint=models.UniqueConstraint(condition=models.Q(('token_hash', ''), _negated=True), fields=('token_hash',), name='one_recurring_experiment_a_token'),
        ),
        migrations.AddConstraint(
            model_name='recurrence',
            constraint=models.UniqueConstraint(fields=('recurring', 'number'), name='one_recurrence_a_number'),
        ),
        migrations.AddConstraint(
            model_name='recurrence',
            constraint=models.UniqueConstraint(fields=('recurring', 'experiment'), name='an_experiment_recurs_once'),
        ),
    ]
