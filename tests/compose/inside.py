"""What the proof asks inside a site: piped into `manage.py shell` of its web server.

It calls only what the last versions have too, since the upgrade begins with one of them.
"""

from collections import Counter
from pathlib import Path

from experiments import demo
from experiments.comparisons import compare_experiment
from experiments.models import Experiment, Job, User


def launch(facts, key):
    """Register the lab, its runtimes and the image, and launch the demo experiment."""
    path = Path("/tmp/key")
    path.write_text(key)
    owner = User.objects.create_superuser("demo", password="long enough to be one")
    cluster = demo.register_lab(facts | {"private_key": path}, owner)
    path.unlink()
    demo.register_image(cluster, facts["images"]["tensorflow"], owner)
    return demo.launch_demo(cluster, demo.DEMO_ENVIRONMENTS, owner).pk


def describe():
    """Return the states of the experiment's runs, its jobs, and what was in the database."""
    from django.db.migrations.recorder import MigrationRecorder

    experiment = Experiment.objects.get()
    jobs = Job.objects.order_by("pk")
    return {
        "runs": Counter(experiment.runs.values_list("state", flat=True)),
        "jobs": [[job.uid, job.state, job.scheduler_id] for job in jobs],
        "is_over": not jobs.exclude(state__in=Job.FINAL).exists(),
        "users": list(User.objects.values_list("username", flat=True)),
        "migrations": MigrationRecorder.Migration.objects.filter(app="experiments").count(),
        "events": experiment.events.count(),
    }


def list_verdicts():
    """Return each comparison's sentence."""
    pairs = compare_experiment(Experiment.objects.get()).pairs
    return [f"{pair.environment}: {pair.sentence}" for pair in pairs]
