"""What a real site ends is named, and is tried again by rule: each attempt is executed once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import pytest

from experiments import execution
from experiments.execution import attempts_by_rule, lifecycle
from experiments.models import Cluster, Environment, Experiment, Job
from lab.client import Lab
from tests.conftest import finish, tick_until
from tests.factories import ExperimentFactory, WorkloadFactory
from tests.sending import send_files

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

PARAMETERS = {"steps": 5, "burn_in": 1, "matrix_size": 16, "decomposition_size": 8}
CONF = "/etc/slurm/slurm.conf"
NVIDIA_SMI = "/usr/local/bin/nvidia-smi"


@contextmanager
def node_down(lab: Lab, job: Job) -> Iterator[None]:
    node = job.runs.exclude(node="").values_list("node", flat=True)[0]
    update = ["scontrol", "update", f"nodename={node}"]
    lab.execute([*update, "state=down", "reason=test"])
    yield
    lab.execute([*update, "state=resume"])


@contextmanager
def preempted(lab: Lab, job: Job) -> Iterator[None]:
    """A job of a partition that goes first takes all GPUs of the node that this one must use."""
    lines = "PreemptType=preempt/partition_prio\\nPreemptMode=CANCEL\\n"
    lab.execute(["sh", "-c", f"printf '{lines}' >>{CONF}; scontrol reconfigure"])
    lab.execute(["scontrol", "update", "partitionname=debug", "prioritytier=9"])
    more = ["sbatch", "--partition=debug", "--gres=gpu:4", "--output=/dev/null", "--wrap=true"]
    assert lab.execute(more).returncode == 0
    yield
    lab.execute(["scontrol", "update", "partitionname=debug", "prioritytier=1"])
    lab.execute(["sh", "-c", f"sed -i /^Preempt/d {CONF}; scontrol reconfigure"])


@contextmanager
def requeued(lab: Lab, job: Job) -> Iterator[None]:
    """Tare asks that its jobs be never requeued; an administrator may decide otherwise."""
    refused = lab.execute(["scontrol", "requeue", job.scheduler_id])
    assert "disabled" in refused.stdout + refused.stderr
    lab.execute(["scontrol", "update", f"jobid={job.scheduler_id}", "requeue=1"])
    assert lab.execute(["scontrol", "requeue", job.scheduler_id]).returncode == 0
    yield


@pytest.mark.parametrize(
    ("does", "reason", "evidence"),
    [
        (node_down, "node failure", "sacct: NODE_FAIL"),
        (preempted, "preempted", "sacct: PREEMPTED 0:0, node1"),
        (requeued, "requeued", "the scheduler's queue"),
    ],
)
def test_what_the_site_ended_is_named_and_tried_again_by_rule(
    lab: Lab,
    registered: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    does: Callable[[Lab, Job], AbstractContextManager[None]],
    reason: str,
    evidence: str,
) -> None:
    monkeypatch.setattr(attempts_by_rule, "LATE_RESULTS", timedelta(0))
    registered.partitions.filter(name="gpu").update(directives=["--nodelist=node1"])
    made = experiment_that_waits_once(registered, folder := f"{registered.work_directory}/{reason}")
    tick_until(registered, made.runs.filter(state="running", position=0).exists)
    job = made.jobs.get()
    with does(lab, job):
        tick_until(registered, made.events.filter(what=attempts_by_rule.TRIED_BY_RULE).exists)
    finish(made)
    job.refresh_from_db()
    assert (job.state, job.attempt) == ("done", 2)
    by_rule = made.events.get(what=attempts_by_rule.TRIED_BY_RULE)
    assert by_rule.why.startswith(f"{reason} ({evidence}")
    counted = lab.execute(["cat", f"{folder}/count"]).stdout.split()
    first, second = (run.environment.name for run in made.runs.order_by("position"))
    assert counted == [first, first, second], "once in each attempt"


def test_a_node_without_its_gpus_is_avoided_by_the_next_attempt(
    lab: Lab, registered: Cluster
) -> None:
    folder = f"{registered.work_directory}/no-gpu"
    tool = (
        f"[ -e {folder}/bad ] || echo $SLURMD_NODENAME >{folder}/bad\n"
        f'[ $SLURMD_NODENAME = "$(cat {folder}/bad)" ] && echo No devices were found && exit 6\n'
        "echo GPU 00000000:00:06.0\n"
    )
    put = f"install -m 755 /dev/stdin {NVIDIA_SMI} <<'EOF'\n#!/bin/sh\n{tool}EOF"
    made = experiment_that_waits_once(registered, folder, waits=False)
    lab.execute(["sh", "-c", put])
    try:
        finish(made)
    finally:
        lab.execute(["rm", NVIDIA_SMI])
    job = made.jobs.get()
    bad = lab.execute(["cat", f"{folder}/bad"]).stdout.strip()
    assert (job.state, job.attempt, job.avoided_nodes) == ("done", 2, bad)
    assert bad not in set(made.runs.values_list("node", flat=True))
    why = made.events.get(what=attempts_by_rule.TRIED_BY_RULE).why
    assert why == f"no GPU ({bad}: nvidia-smi says: No devices were found)"
    counted = lab.execute(["cat", f"{folder}/count"]).stdout.split()
    assert counted == [run.environment.name for run in made.runs.order_by("position")]


def experiment_that_waits_once(cluster: Cluster, folder: str, *, waits: bool = True) -> Experiment:
    """An experiment whose programs count their starts; the first of all `waits` for its end."""
    environments = []
    with execution.connect(cluster) as runner:
        for name in ("a", "b"):
            script = (
                f"#!/bin/sh\necho {name} >>'{folder}/count'\n"
                f"[ \"$(wc -l <'{folder}/count')\" = {waits:d} ] && exec sleep 600\nexit 3\n"
            )
            path = f"{folder}/{name}"
            send_files(runner.transport, folder, {name: script.encode()})
            runner.transport.run(["chmod", "+x", path])
            environments.append(
                Environment.objects.create(
                    name=name, cluster=cluster, python=path, owner=cluster.owner
                )
            )
    made: Experiment = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name="gpu"),
        baseline=environments[0],
        environments=environments,
        workloads=[WorkloadFactory(kind="blas", parameters=PARAMETERS, time_limit_seconds=120)],
        repeats=1,
    )
    lifecycle.launch(made, cluster.owner)
    return made
