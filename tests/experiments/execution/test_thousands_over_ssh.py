"""A cluster with 5,000 live jobs, over a real sshd. Its scheduler is three scripts and a table."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from experiments import execution
from experiments.clusters import credentials
from experiments.execution import connections, lifecycle
from experiments.models import Cluster, Credential, Experiment, Job, Origin, Run
from tests.factories import (
    ClusterFactory,
    EnvironmentFactory,
    LaunchedFactory,
    UserFactory,
    WorkloadFactory,
)
from tests.runners.sshd import Server, serve

pytestmark = pytest.mark.django_db

JOBS, DONE = 5000, 100
# Lines of the table: id, name, state.
COMMANDS = {
    "squeue": """
        for option; do case $option in
            --jobs=*) awk '{ print $1 "|" $3 "|N/A|" $2 "|None" }' "$TABLE" ;;
            --name=*) awk -v names="${option#--name=}" '
                BEGIN { split(names, list, ","); for (i in list) asked[list[i]] = 1 }
                $2 in asked { print $1 "|" $2 }' "$TABLE" ;;
        esac; done
    """,
    "scancel": ': >"$TABLE"',
    "sacct": "exit 0",
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "login"
    (folder / "bin").mkdir(parents=True)
    for name, script in COMMANDS.items():
        path = folder / "bin" / name
        path.write_text(f"#!/bin/sh\necho {name} >>{folder}/asked\nTABLE={folder}/table\n{script}")
        path.chmod(0o755)
    (folder / ".bashrc").write_text(f"PATH={folder}/bin:$PATH\n")
    with serve(folder) as server:
        yield server
        for _, link in connections._kept.values():
            link.close()
        connections._kept.clear()


@pytest.fixture
def experiment(server: Server, tmp_path: Path) -> Experiment:
    """5,000 jobs that wait in the queue, each of one run, as they are after they were sent."""
    key = Credential(name="login", user_name=server.address.user)
    by = UserFactory(role="cluster_administrator")
    pair = credentials.read_pair(server.address.private_key)
    cluster = ClusterFactory(
        transport="ssh",
        scheduler="slurm",
        host=server.address.host,
        port=server.address.port,
        host_key=server.address.host_key,
        credential=credentials.add(key, pair, Origin.IMPORTED, by),
        work_directory=str(tmp_path / "work"),
        poll_seconds=0,
        max_live_jobs=JOBS,
    )
    environments = [EnvironmentFactory(cluster=cluster) for _ in range(2)]
    made: Experiment = LaunchedFactory(
        cluster=cluster,
        baseline=environments[0],
        environments=environments,
        workloads=[WorkloadFactory(kind="blas")],
    )
    workload = made.workloads.get()
    common = {"experiment": made, "workload": workload, "scale": "1x0"}
    jobs = [
        Job(
            **common,
            cluster=cluster,
            repeat=number + 1,
            block=number,
            state=Job.State.QUEUED,
            scheduler_id=str(number + 1),
            submitted_at=timezone.now(),
        )
        for number in range(JOBS)
    ]
    for job in jobs:
        job.directory = f"{cluster.work_directory}/jobs/{job.uid}-1"
        Path(job.directory).mkdir(parents=True)
        Path(job.directory, "job.sh").touch()
    Job.objects.bulk_create(jobs)
    spec = {
        "workload": {"kind": "blas", "parameters": {}},
        "environment": {"image_digest": ""},
    }
    Run.objects.bulk_create(
        Run(
            **common,
            job=job,
            environment=environments[0],
            repeat=job.repeat,
            position=0,
            spec=spec,
        )
        for job in jobs
    )
    write_table(server, made, "PENDING")
    return made


def write_table(server: Server, made: Experiment, state: str, leave_out: int = 0) -> None:
    lines = [f"{job.scheduler_id} {job.name} {state}\n" for job in made.jobs.order_by("pk")]
    (server.directory / "table").write_text("".join(lines[leave_out:]))


def write_journal(job: Job, run: Run, *more: dict[str, object]) -> None:
    lines = [
        {"time": 1.0, "event": "job started"},
        {"time": 2.0, "event": "run began", "run": run.uid, "node": "node1"},
        *more,
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    Path(job.directory, "journal.ndjson").write_text(text)
    Path(job.directory, "started").write_text(job.scheduler_id)


def leave_result(job: Job, run: Run) -> None:
    """Write what a job of one run leaves."""
    write_journal(
        job,
        run,
        {"time": 3.0, "event": "run ended", "run": run.uid, "exit_code": 0},
        {"time": 4.0, "event": "job ended"},
    )
    folder = Path(job.directory, run.folder)
    folder.mkdir(parents=True)
    (folder / "exit_code").write_text("0")
    result = {
        "schema": 1,
        "metrics": {"step_time": {"value": 0.01 + run.pk / 1e6, "unit": "s"}},
        "series": {"step_time": {"unit": "s", "values": [0.01] * 50}},
        "phases": {},
        "facts": {},
    }
    (folder / "result.json").write_text(json.dumps(result))
    Path(job.directory, "exit_code").write_text("0")


def visit(cluster: Cluster) -> None:
    Cluster.objects.update(last_tick_at=None)
    assert execution.tick(cluster.pk) == "done", Cluster.objects.get(pk=cluster.pk).last_error
    assert Cluster.objects.get(pk=cluster.pk).own_failure == ""


def test_thousands_wait_start_end_and_are_cancelled(server: Server, experiment: Experiment) -> None:
    cluster, jobs = experiment.cluster, experiment.jobs
    visit(cluster)
    assert set(jobs.values_list("state", "scheduler_state")) == {("queued", "PENDING")}

    runs = list(experiment.runs.select_related("job").order_by("job__pk"))
    for run in runs:
        write_journal(run.job, run)
    write_table(server, experiment, "RUNNING")
    visit(cluster)
    assert set(jobs.values_list("state", flat=True)) == {"running"}
    assert set(experiment.runs.values_list("state", "node")) == {("running", "node1")}

    for run in runs[:DONE]:
        leave_result(run.job, run)
    write_table(server, experiment, "RUNNING", leave_out=DONE)
    (server.directory / "asked").unlink()
    visit(cluster)
    ended = {run.pk for run in runs[:DONE]}
    succeeded = experiment.runs.filter(state=Run.State.SUCCEEDED)
    assert set(succeeded.values_list("pk", flat=True)) == ended
    assert jobs.filter(state=Job.State.DONE).count() == DONE
    assert all(run.measurements.exists() for run in succeeded[:3])
    asked = (server.directory / "asked").read_text().split()
    assert asked == ["squeue"], "one question for all of them"

    lifecycle.cancel(experiment, experiment.owner)
    (server.directory / "asked").unlink()
    visit(cluster)
    visit(cluster)
    assert set(jobs.values_list("state", flat=True)) == {"done", "cancelled"}
    assert jobs.filter(state=Job.State.CANCELLED).count() == JOBS - DONE
    live = experiment.runs.exclude(state__in=(Run.State.SUCCEEDED, Run.State.CANCELLED))
    assert not live.exists()
    asked = (server.directory / "asked").read_text().split()
    assert len(asked) < JOBS / 20, "no question for each job"
