from urllib.parse import urlsplit

from django.conf import settings
from django.db import migrations, models

import experiments.encryption

# What was noticed of experiments was counted otherwise: by the attempts of the jobs that their runs
# belong to, so that a repair could be missed. What had been noticed stays noticed, whichever way one
# goes; of the rest the end is told.
COUNT_ENDS_ANEW = """
UPDATE experiments_noticedexperiment n
SET ended = CASE WHEN n.ended = counted.{old} THEN counted.{new} ELSE 0 END
FROM (
    SELECT e.experiment_id AS pk,
           (SELECT coalesce(sum(j.attempt), 0) FROM experiments_run r
            JOIN experiments_job j ON j.id = r.job_id
            WHERE r.experiment_id = e.experiment_id) AS of_runs,
           (SELECT coalesce(sum(j.attempt), 0) FROM experiments_job j
            WHERE j.experiment_id = e.experiment_id) AS of_jobs
    FROM experiments_noticedexperiment e
    WHERE e.ended > 0
) counted
WHERE n.experiment_id = counted.pk
"""
COUNT_ALL_JOBS = COUNT_ENDS_ANEW.format(old="of_runs", new="of_jobs")
COUNT_JOBS_OF_RUNS = COUNT_ENDS_ANEW.format(old="of_jobs", new="of_runs")
# The attempts before the repairs of those runs that have failed in them again.
COUNT_FAILURES_ANEW = """
WITH RECURSIVE earlier AS (
    SELECT j.id AS job, j.repairs_id AS first, 0::bigint AS attempts
    FROM experiments_job j WHERE j.repairs_id IS NOT NULL
    UNION ALL
    SELECT e.job, f.repairs_id, e.attempts + f.attempt
    FROM earlier e JOIN experiments_job f ON f.id = e.first
)
UPDATE experiments_noticedexperiment n
SET failures = greatest(n.failures {sign} more.attempts, 0)
FROM (
    SELECT r.experiment_id AS pk, sum(e.attempts) AS attempts
    FROM earlier e JOIN experiments_run r ON r.job_id = e.job AND r.state = 'failed'
    WHERE e.first IS NULL
    GROUP BY r.experiment_id
) more
WHERE n.experiment_id = more.pk
"""
ADD_REPAIRED_FAILURES = COUNT_FAILURES_ANEW.format(sign="+")
SUBTRACT_REPAIRED_FAILURES = COUNT_FAILURES_ANEW.format(sign="-")


def encrypt_addresses(apps, schema_editor):
    """Encrypt what stands there in plain text, and keep the host, which names the webhook."""
    for row in apps.get_model("experiments", "Webhook").objects.all():
        row.host = urlsplit(row.address).netloc
        ring = experiments.encryption.KeyRing(settings.CREDENTIAL_KEYS)
        row.address = ring.seal(row.address)
        row.save(update_fields=["address", "host"])


def decrypt_addresses(apps, schema_editor):
    """Write the addresses in plain text again, as the version before expects them."""
    for row in apps.get_model("experiments", "Webhook").objects.all():
        ring = experiments.encryption.KeyRing(settings.CREDENTIAL_KEYS)
        row.address = ring.open(row.address)
        row.save(update_fields=["address"])


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0087_webhooks_and_alerts'),
    ]

    operations = [
        migrations.AddField(
            model_name='webhook',
            name='host',
            field=models.CharField(default='', help_text='Of the address, with its port where it names one.', max_length=500),
        ),
        # Ciphertext is longer.
        migrations.AlterField(
            model_name='webhook',
            name='address',
            field=models.TextField(),
        ),
        migrations.RunPython(encrypt_addresses, decrypt_addresses),
        migrations.AlterField(
            model_name='webhook',
            name='address',
            field=experiments.encryption.SecretField(help_text='Shown to its owner, in the form that changes it.'),
        ),
        migrations.AlterField(
            model_name='noticedexperiment',
            name='ended',
            field=models.PositiveBigIntegerField(default=0, help_text='Attempts of all jobs when its end was noticed; 0: never.'),
        ),
        migrations.AlterField(
            model_name='noticedexperiment',
            name='failures',
            field=models.PositiveBigIntegerField(default=0, help_text='Attempts of the failed runs, with those before repairs.'),
        ),
        migrations.RunSQL(COUNT_ALL_JOBS, COUNT_JOBS_OF_RUNS),
        migrations.RunSQL(ADD_REPAIRED_FAILURES, SUBTRACT_REPAIRED_FAILURES),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(condition=models.Q(('read_at__isnull', False)), fields=['read_at'], name='notification_read'),
        ),
        migrations.AddIndex(
            model_name='notification',
            index=models.Index(fields=['changed_at'], name='notification_changed'),
        ),
    ]
