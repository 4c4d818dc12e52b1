"""A large site: 100,000 runs in 1,000 experiments, on 20 clusters, of 50 people.

    DATABASE_URL=postgresql://... python benchmarks/large_site.py [RUNS]

fills the database named, which must be migrated and hold no experiment yet. Other benchmarks call
`fill_large_site` for servers of their own.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

if TYPE_CHECKING:
    from django.db.models import Model

    from experiments.models import User

RUNS = 100_000
REPEATS, ENVIRONMENTS = 25, 4
RUNS_EACH = REPEATS * ENVIRONMENTS
CLUSTERS, PEOPLE, NODES = 20, 50, 8
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
WORKLOADS = (("blas", 0.020), ("cnn", 0.190))
"""Kinds with the seconds of a step on bare metal."""
BATCHES = (16, 32, 64)
COSTS = (1.0, 1.004, 1.03, 1.2)
"""What the environments of a cluster cost, the baseline first."""


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    import django

    django.setup()
    from experiments.models import Experiment

    if Experiment.objects.exists():
        raise SystemExit("This database has experiments already: nothing was changed.")
    began = time.perf_counter()
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    person = fill_large_site(count)
    print(f"{count:,} runs in {time.perf_counter() - began:.1f} s; log in as {person.username}")


def fill_large_site(count: int = RUNS) -> User:
    """Make so many runs, a hundred an experiment; return a person who is no administrator.

    Three of four experiments can be viewed by everybody who logs in.
    """
    from django.db import transaction

    with transaction.atomic():
        person = _fill(math.ceil(count / RUNS_EACH))
    _count_rows()
    return person


def _fill(experiments_count: int) -> User:
    from experiments.models import Environment, Experiment, Job, Measurement, Run, User
    from tests.factories import (
        ClusterFactory,
        ContainerFactory,
        EnvironmentFactory,
        WorkloadFactory,
    )

    rng = random.Random(13)
    people = User.objects.bulk_create(
        User(username=f"person-{number:02}", role="researcher") for number in range(PEOPLE)
    )
    clusters = [
        ClusterFactory(name=f"cluster-{number:02}", owner=people[0], users=people)
        for number in range(CLUSTERS)
    ]
    environments: list[list[Environment]] = []
    for cluster in clusters:
        bare = EnvironmentFactory(name=f"bare metal {cluster}", cluster=cluster, owner=people[0])
        environments.append(
            [bare]
            + [
                ContainerFactory(name=f"{name} {cluster}", cluster=cluster, owner=people[0])
                for name in ("Apptainer SIF", "Podman", "udocker P1")
            ]
        )
    workloads = [
        (WorkloadFactory(name=f"{kind} batch {batch}", kind=kind, owner=people[0]), seconds)
        for kind, seconds in WORKLOADS
        for batch in BATCHES
    ]
    experiments = Experiment.objects.bulk_create(
        Experiment(
            question=f"What does a container cost? Question {number:04}",
            cluster=clusters[number % CLUSTERS],
            baseline=environments[number % CLUSTERS][0],
            owner=people[number * 7 % PEOPLE],
            visibility="members" if number % 4 else "private",
            repeats=REPEATS,
            launched_at=BEGIN + timedelta(hours=7 * number),
            order_seed=number,
            plan_hash=f"{number:064}",
            plan={},
        )
        for number in range(experiments_count)
    )
    Experiment.environments.through._default_manager.bulk_create(
        Experiment.environments.through(experiment_id=row.pk, environment_id=environment.pk)
        for number, row in enumerate(experiments)
        for environment in environments[number % CLUSTERS]
    )
    Experiment.workloads.through._default_manager.bulk_create(
        Experiment.workloads.through(
            experiment_id=row.pk, workload_id=workloads[number % len(workloads)][0].pk
        )
        for number, row in enumerate(experiments)
    )
    snapshots = _keep_snapshots([[row.pk for row in rows] for rows in environments])

    def list_jobs() -> Iterator[dict[str, Any]]:
        for number, experiment in enumerate(experiments):
            for repeat in range(REPEATS):
                began = _begin(number, repeat)
                key = number * REPEATS + repeat + 1
                yield {
                    "id": key,
                    "uid": _uid("job", key),
                    "cluster_id": experiment.cluster_id,
                    "experiment_id": experiment.pk,
                    "workload_id": workloads[number % len(workloads)][0].pk,
                    "scale": "1x1",
                    "repeat": repeat + 1,
                    "block": repeat,
                    "state": "done",
                    "scheduler_id": str(key),
                    "directory": f"/scratch/jobs/{key}",
                    "submitted_at": began,
                    "started_at": began,
                    "ended_at": began + timedelta(minutes=20),
                }

    def list_runs() -> Iterator[dict[str, Any]]:
        for number, experiment in enumerate(experiments):
            workload, _ = workloads[number % len(workloads)]
            spec = _describe(workload, number)
            for place in range(RUNS_EACH):
                repeat, position = divmod(place, ENVIRONMENTS)
                environment = environments[number % CLUSTERS][position]
                node = f"node{(number + repeat) % NODES}"
                key = number * RUNS_EACH + place + 1
                began = _begin(number, repeat) + timedelta(minutes=4 * position)
                failed = place % 50 == 49
                yield {
                    "id": key,
                    "uid": _uid("run", key),
                    "experiment_id": experiment.pk,
                    "job_id": number * REPEATS + repeat + 1,
                    "workload_id": workload.pk,
                    "environment_id": environment.pk,
                    "scale": "1x1",
                    "repeat": repeat + 1,
                    "position": position,
                    "spec": spec,
                    "state": "failed" if failed else "succeeded",
                    "reason": "out of memory" if failed else "",
                    "exit_code": 137 if failed else 0,
                    "node": node,
                    "began_at": began,
                    "ended_at": began + timedelta(seconds=120 + place),
                    "snapshot_id": snapshots[environment.pk, node],
                }

    def list_measurements() -> Iterator[dict[str, Any]]:
        for number in range(experiments_count):
            _, seconds = workloads[number % len(workloads)]
            for place in range(RUNS_EACH):
                if place % 50 == 49:
                    continue
                step = seconds * COSTS[place % ENVIRONMENTS] * rng.gauss(1, 0.01)
                values = {
                    "step_time": (step, "s"),
                    "step_time_sd": (step * abs(rng.gauss(0.02, 0.004)), "s"),
                    "container_start": (abs(rng.gauss(0.4, 0.1)), "s"),
                    "import_time": (abs(rng.gauss(2.1, 0.3)), "s"),
                    "time_to_first_step": (abs(rng.gauss(4.2, 0.5)), "s"),
                }
                for metric, (value, unit) in values.items():
                    yield {
                        "run_id": number * RUNS_EACH + place + 1,
                        "metric": metric,
                        "value": value,
                        "unit": unit,
                    }

    copy_rows(Job, list_jobs())
    copy_rows(Run, list_runs())
    copy_rows(Measurement, list_measurements())
    return people[1]


def add_series(metrics: Iterable[str] = ("step_time", "loss", "power"), steps: int = 20) -> None:
    """Give each run a series of each of these metrics, by one statement."""
    from django.db import connection

    from experiments.models import Run, Series

    columns = ("run_id", "metric", "unit", "values", "shape", "tail_means", "digest")
    with connection.cursor() as cursor:
        for number, metric in enumerate(metrics):
            cursor.execute(
                f"INSERT INTO {Series._meta.db_table} ({', '.join(columns)}) "
                "SELECT id, %s, 's', (SELECT array_agg(0.1 + (id * 7919 + step * 104729 + %s) %% "
                "10007 / 1e5) FROM generate_series(1, %s) AS step), '', '{}', '' "
                f"FROM {Run._meta.db_table} WHERE state = 'succeeded'",
                [metric, number, steps],
            )
        cursor.execute(f"ANALYZE {Series._meta.db_table}")


def _describe(workload: Any, number: int) -> str:
    """Return what a run was started with, as JSON: a few hundred bytes, as of real ones."""
    parameters = {
        "batch": BATCHES[number % len(BATCHES)],
        "steps": 200,
        "burn_in": 20,
        "threads": 1,
        "seed": number,
        "seeds": "same in all repeats",
        "size": 512,
        "precision": "float32",
    }
    content = {"kind": workload.kind, "name": workload.name, "parameters": parameters}
    environment = {"variables": [["OMP_NUM_THREADS", "1"]]}
    return json.dumps({"workload": content, "environment": environment})


def _keep_snapshots(environments: list[list[int]]) -> dict[tuple[int, str], int]:
    """Store the facts of each environment on each node; return their keys."""
    from experiments.models import Snapshot

    kept: dict[tuple[int, str], int] = {}
    for cluster, keys in enumerate(environments):
        for key in keys:
            for node in (f"node{number}" for number in range(NODES)):
                packages = {f"package{number}": f"1.{key % 7}.{number}" for number in range(60)}
                inside = {
                    "hostname": node,
                    "kernel": f"6.1.{cluster}",
                    "cpu": "EPYC 7763",
                    "cpu_cores": 64,
                    "gpu_driver": f"550.{cluster}",
                    "packages": packages,
                }
                kept[key, node] = Snapshot.objects.keep({"inside": inside}).pk
    return kept


def _begin(experiment: int, repeat: int) -> datetime:
    return BEGIN + timedelta(hours=7 * experiment, minutes=25 * repeat)


def _uid(kind: str, key: int) -> str:
    return hashlib.sha256(f"{kind} {key}".encode()).hexdigest()[:32]


def copy_rows(model: type[Model], rows: Iterable[Mapping[str, Any]]) -> None:
    """Store rows, dictionaries by column, by COPY; what they do not name has the field's default.

    All rows name the same columns. Columns that PostgreSQL itself fills in are left to it.
    """
    from django.db import connection

    iterator = iter(rows)
    first = next(iterator)
    names = list(first)
    defaults = {
        field.column: _encode(
            BEGIN if getattr(field, "auto_now_add", False) else field.get_default()
        )
        for field in model._meta.concrete_fields
        if field.column not in first and not field.primary_key and not field.has_db_default()
    }
    constant = "".join(f"\t{value}" for value in defaults.values())
    content = io.StringIO()
    for row in (first, *iterator):
        content.write("\t".join([_encode(row[name]) for name in names]))
        content.write(f"{constant}\n")
    content.seek(0)
    table = model._meta.db_table
    columns = ", ".join(f'"{name}"' for name in (*names, *defaults))
    with connection.cursor() as cursor:
        cursor.copy_expert(f"COPY {table} ({columns}) FROM STDIN", content)
        if "id" in first:
            cursor.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}"
            )


def _encode(value: Any) -> str:
    """Return a value in the text format of COPY."""
    if value is None:
        return r"\N"
    if isinstance(value, str):
        return value.replace("\\", r"\\").replace("\t", r"\t").replace("\n", r"\n")
    if isinstance(value, dict | list):
        return _encode(json.dumps(value))
    return str(value)


def _count_rows() -> None:
    """Let PostgreSQL count and tidy up, as its own daemon does sooner or later."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")


if __name__ == "__main__":
    main()
