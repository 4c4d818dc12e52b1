"""Two environments, three repeats of `blas` on a warm lab: seconds from Launch to the verdict."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.servers import run_servers
from lab.client import ensure_lab, stop_lab
from standalone import children

GOAL_SECONDS = 60


def main() -> None:
    family = []
    with run_servers(with_valkey=True) as folder:
        try:
            ensure_lab(folder / "lab", images=("numpy",))
            measure(folder, family)
        finally:
            for child in family:
                children.terminate(child)
            children.wait_or_kill(family, seconds=3)
            stop_lab(folder / "lab")


def measure(folder: Path, family: list) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    from experiments import demo
    from experiments.comparisons import compare_experiment
    from experiments.execution import lifecycle
    from experiments.models import Experiment, Job, User, Workload
    from experiments.notify import enqueue_tick

    call_command("migrate", verbosity=0)
    owner = User.objects.create(username="bench")
    facts = json.loads((folder / "lab" / "lab.json").read_text())
    cluster = demo.register_lab(facts, owner)
    environments = demo.register_image(cluster, facts["images"]["numpy"], owner)[:2]
    experiment = Experiment.objects.create(
        question="How long does it take?",
        cluster=cluster,
        partition=cluster.partitions.get(name="gpu"),
        baseline=environments[0],
        repeats=3,
        margin=0.05,
        owner=owner,
    )
    experiment.environments.set(environments)
    experiment.workloads.set([Workload.objects.create(name="blas", kind="blas", owner=owner)])
    python = BASE / ".venv" / "bin" / "python"
    for command in ("worker", "clock"):
        argv = [python, BASE / "manage.py", command]
        family.append(children.start(argv, log=folder / command, env=os.environ))
    began = time.monotonic()
    lifecycle.launch(experiment, owner)
    enqueue_tick(cluster.pk)
    while experiment.jobs.exclude(state__in=Job.FINAL).exists():
        time.sleep(0.1)
    (pair,) = compare_experiment(experiment).pairs
    took = time.monotonic() - began
    runs = [
        (run.ended_at - run.began_at).total_seconds()
        for run in experiment.runs.exclude(began_at=None)
    ]
    print(f"from Launch to the verdict   {took:6.1f} s   (goal: {GOAL_SECONDS} s)")
    print(f"  of it inside the 6 runs    {sum(runs):6.1f} s")
    print(f"  everything else            {took - sum(runs):6.1f} s")
    print(f"  {pair.sentence}")


if __name__ == "__main__":
    main()
