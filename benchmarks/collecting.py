"""Results collected a second: jobs of two runs each, which left two series of 1,000 steps.

One job is really run on this machine; the others are copies of what it left, with their own names
and numbers. With `--profile` it prints where the time went.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import random
import shutil
import sys
import time
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.servers import run_servers

JOBS, RUNS, STEPS = 500, 2, 1000


def main() -> None:
    with run_servers() as folder:
        measure(folder)


def measure(folder: Path) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    call_command("migrate", verbosity=0)
    from experiments import execution
    from experiments.execution import keeping, lifecycle
    from experiments.models import Cluster, Job
    from tests.conftest import QUICK, finish
    from tests.factories import (
        ClusterFactory,
        EnvironmentFactory,
        ExperimentFactory,
        WorkloadFactory,
    )

    cluster = ClusterFactory(
        work_directory=str(folder / "work"), poll_seconds=0, max_live_jobs=10**6
    )
    both = [EnvironmentFactory(cluster=cluster, python=sys.executable) for _ in range(RUNS)]

    def launch(repeats: int):  # type: ignore[no-untyped-def]
        made = ExperimentFactory(
            cluster=cluster,
            partition=None,
            baseline=both[0],
            environments=both,
            workloads=[WorkloadFactory(kind="blas", parameters=QUICK)],
            scales=["1x0"],
            repeats=repeats,
        )
        lifecycle.launch(made, made.owner)
        return made

    first = launch(1)
    finish(first)
    source = first.jobs.get()
    left = Path(source.directory)
    made = launch(JOBS)
    random_steps = random.Random(1)
    jobs = list(made.jobs.prefetch_related("runs"))
    for job in jobs:
        job.directory = str(left.with_name(f"{job.uid}-1"))
        pairs = [
            (old, new)
            for old in source.runs.all()
            for new in job.runs.all()
            if new.environment_id == old.environment_id
        ]
        folders = {old.folder: new.folder for old, new in pairs}
        names = folders | {old.uid: new.uid for old, new in pairs}
        copy_record(left, Path(job.directory), folders, names, random_steps)
        job.scheduler_id = str(job.pk)
        job.state = Job.State.COLLECTING
        job.gone_at = made.launched_at
    Job.objects.bulk_update(jobs, ["directory", "scheduler_id", "state", "gone_at"])
    results = JOBS * RUNS
    size_before = count_bytes(connection)
    profile = cProfile.Profile() if "--profile" in sys.argv else None
    copying_seconds: list[float] = []
    copy_series = keeping.copy_series

    def copy_and_time(*arguments):  # type: ignore[no-untyped-def]
        began = time.perf_counter()
        copy_series(*arguments)
        copying_seconds.append(time.perf_counter() - began)

    keeping.copy_series = copy_and_time
    began, own = time.perf_counter(), time.process_time()
    with CaptureQueriesContext(connection) as queries:
        if profile:
            profile.enable()
        while made.jobs.filter(state=Job.State.COLLECTING).exists():
            Cluster.objects.update(last_tick_at=None)
            execution.tick(cluster.pk)
        if profile:
            profile.disable()
    took, own = time.perf_counter() - began, time.process_time() - own
    succeeded = made.runs.filter(state="succeeded").count()
    grown = count_bytes(connection) - size_before
    print(f"{JOBS} jobs of {RUNS} runs with 2 series of {STEPS} steps, {succeeded} succeeded")
    print(f"{'results a second':32} {results / took:10.1f}")
    print(f"{'own processor time':32} {own:10.1f} s")
    steps = results * 2 * STEPS
    print(f"{'steps a second into PostgreSQL':32} {steps / sum(copying_seconds):10,.0f}")
    print(f"{'queries a result':32} {len(queries) / results:10.2f}")
    print(f"{'bytes a run in PostgreSQL':32} {grown / results:10.0f}")
    sizes = largest_tables(connection)
    of_steps = dict(sizes)["experiments_series"] / results
    print(f"{'... without its steps':32} {grown / results - of_steps:10.0f}")
    print(f"{'bytes a step':32} {of_steps / 2 / STEPS:10.1f}")
    for table, size in sizes:
        print(f"    {table:28} {size / results:10.0f}")
    if profile:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(70)


def copy_record(
    source: Path,
    target: Path,
    folders: dict[str, str],
    run_names: dict[str, str],
    rng: random.Random,
) -> None:
    """Copy what a job left, with other runs' folders, names and numbers in it."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("payload"))
    names = {source.name: target.name, **run_names}
    for path in list(target.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            for old, new in names.items():
                content = content.replace(old.encode(), new.encode())
            path.write_bytes(content)
    for old, new in folders.items():
        (target / old).rename(target / new)
    for path in target.glob("runs/*/result.json"):
        document = json.loads(path.read_bytes())
        document["series"] = {
            "step_time": {"unit": "s", "values": [rng.gauss(0.02, 0.001) for _ in range(STEPS)]},
            "loss": {"unit": "1", "values": [rng.random() for _ in range(STEPS)]},
        }
        path.write_text(json.dumps(document))
    (target / "sha256sums").write_bytes(b"")


def count_bytes(connection) -> int:  # type: ignore[no-untyped-def]
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])


def largest_tables(connection) -> list[tuple[str, int]]:  # type: ignore[no-untyped-def]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
            "WHERE relkind = 'r' ORDER BY 2 DESC LIMIT 8"
        )
        return cursor.fetchall()  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
