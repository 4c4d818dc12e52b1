"""Say of runs that were excluded before Tare kept it whether their verdict could be read."""

from django.db import migrations
from django.db.models import Q

EXCLUDED = "succeeded → excluded"
EXCLUDED_AFTER = "excluded after a verdict"


def find_late_exclusions(apps, schema_editor):
    """Write an event for each run that was excluded when all runs of the first look had ended.

    Of imported runs the verdict could be read at once; of a cancelled experiment when all had
    ended.
    """
    Event = apps.get_model("experiments", "Event")
    Job = apps.get_model("experiments", "Job")
    told = Event.objects.filter(what=EXCLUDED_AFTER).values("run")
    exclusions = Event.objects.filter(what=EXCLUDED, run__state="excluded").exclude(run__in=told)
    for event in exclusions.select_related("experiment"):
        experiment = event.experiment
        jobs = Job.objects.filter(experiment=experiment)
        open_then = jobs.filter(Q(ended_at=None) | Q(ended_at__gt=event.at))
        first_look = open_then.filter(repeat__lte=experiment.repeats // experiment.looks)
        cancelled = experiment.cancelled_at and experiment.cancelled_at <= event.at
        waited_for = open_then if cancelled else first_look
        if experiment.imported_at or not waited_for.exists():
            made = Event.objects.create(
                experiment=experiment,
                job_id=event.job_id,
                run_id=event.run_id,
                actor_id=event.actor_id,
                what=EXCLUDED_AFTER,
                why="found when Tare was updated, by the times of the events",
            )
            Event.objects.filter(pk=made.pk).update(at=event.at)


class Migration(migrations.Migration):
    dependencies = [("experiments", "0020_own_failure")]
    operations = [migrations.RunPython(find_late_exclusions, migrations.RunPython.noop)]
