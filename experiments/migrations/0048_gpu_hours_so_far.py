"""Jobs that have not ended learn their GPU time, and this month learns what ended ones used."""

import math
from datetime import UTC, datetime

from django.db import migrations
from django.db.models import Count

FINAL = ("done", "failed", "cancelled")


def count_gpus(scale):
    nodes, gpus = scale.split()[0].split("x")[:2]
    return int(nodes) * int(gpus)


def fill_jobs(apps, schema_editor):
    Job = apps.get_model("experiments", "Job")
    rows = (
        Job.objects.exclude(state__in=FINAL)
        .annotate(runs_count=Count("runs"))
        .values_list(
            *("pk", "scale", "runs_count"),
            *("workload__time_limit_seconds", "experiment__cooldown_seconds"),
        )
    )
    changed = []
    for pk, scale, runs, seconds, cooldown in rows:
        whole = runs * seconds + max(runs - 1, 0) * cooldown + 60
        changed.append(Job(pk=pk, gpu_seconds=count_gpus(scale) * math.ceil(whole / 60) * 60))
    Job.objects.bulk_update(changed, ["gpu_seconds"], batch_size=500)


def fill_month(apps, schema_editor):
    Job, GPUMonth = (apps.get_model("experiments", name) for name in ("Job", "GPUMonth"))
    now = datetime.now(UTC)
    begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    ended = Job.objects.filter(state__in=FINAL, gone_at__gte=begin, started_at__isnull=False)
    totals = {}
    for cluster, scale, started, ended_at, gone_at in ended.values_list(
        "cluster_id", "scale", "started_at", "ended_at", "gone_at"
    ):
        until = min(ended_at or gone_at, gone_at)
        seconds = max((until - max(started, begin)).total_seconds(), 0)
        totals[cluster] = totals.get(cluster, 0) + seconds * count_gpus(scale)
    GPUMonth.objects.bulk_create(
        GPUMonth(cluster_id=cluster, month=begin.date(), gpu_seconds=gpu_seconds)
        for cluster, gpu_seconds in totals.items()
        if gpu_seconds
    )


class Migration(migrations.Migration):

    dependencies = [
        ('experiments', '0047_cluster_limits'),
    ]

    operations = [
        migrations.RunPython(fill_jobs, migrations.RunPython.noop),
        migrations.RunPython(fill_month, migrations.RunPython.noop),
    ]
