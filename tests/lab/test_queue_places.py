"""The place of a waiting job among those of everybody, as the real Slurm orders them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from django.urls import reverse
from redis import Redis

from experiments import execution
from experiments.execution import lifecycle
from experiments.models import Cluster, Credential, Experiment, Job
from lab.client import Lab
from runners import gate
from runners.schedulers import Slurm
from runners.transports import SSH
from tests.conftest import finish, tick_until
from tests.factories import EnvironmentFactory, ExperimentFactory, WorkloadFactory
from tests.lab import bare_lab
from tests.lab.gated import INSTALL, gated, own
from tests.lab.machine import until

lab, registered = bare_lab.lab, bare_lab.registered

pytestmark = [pytest.mark.lab, pytest.mark.django_db]
CONF = "/etc/slurm/slurm.conf"
QUICK = {"steps": 5, "burn_in": 1, "matrix_size": 16, "decomposition_size": 8}


def administer(lab: Lab, script: str) -> str:
    done = lab.execute(["sh", "-ec", f"cd /tmp; {script}"])
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def busy(lab: Lab) -> Iterator[list[str]]:
    """Jobs of somebody else: one has all nodes, others wait; yield the ids of these."""
    submit = "sbatch --parsable --output=/dev/null"
    sleep = "--wrap='sleep 600'"
    running = administer(lab, f"{submit} -p gpu -N2 --exclusive {sleep}")
    assert until(lambda: administer(lab, f"squeue -h -j {running} -o %T") == "RUNNING", 30)
    waiting = [
        administer(lab, f"{submit} {options} {sleep}")
        for options in ("-p gpu", "-p gpu --array=1-3%2", "-p gpu --hold", "-p debug -t 1")
    ]
    yield waiting
    administer(lab, f"scancel {' '.join([running, *waiting])}")


@pytest.fixture
def waiting(registered: Cluster, busy: list[str], settings: object) -> Iterator[Experiment]:
    """An experiment of two jobs that wait in the partition gpu behind them."""
    Cluster.objects.update(max_live_jobs=10)
    rows = [
        EnvironmentFactory(name=name, cluster=registered, owner=registered.owner)
        for name in ("one", "another")
    ]
    made: Experiment = ExperimentFactory(
        cluster=registered,
        owner=registered.owner,
        partition=registered.partitions.get(name="gpu"),
        baseline=rows[0],
        environments=rows,
        workloads=[WorkloadFactory(kind="blas", parameters=QUICK, time_limit_seconds=60)],
        scales=["1x1"],
        repeats=2,
    )
    lifecycle.launch(made, registered.owner)
    queued = made.jobs.filter(state=Job.State.QUEUED)
    tick_until(registered, lambda: queued.count() == 2, seconds=30)
    yield made
    lifecycle.cancel(made, made.owner)
    finish(made)


def look(experiment: Experiment, number: int) -> str:
    """Return what the page of a run says of its job's place, after a visit that it asks for."""
    client = Client()
    client.force_login(experiment.owner)
    (job,) = experiment.jobs.order_by("pk")[number : number + 1]
    address = job.runs.all()[0].get_absolute_url()
    client.get(address, headers={"HX-Request": "true"})
    execution.tick(experiment.cluster_id)
    page = client.get(address, headers={"HX-Request": "true"}).content.decode()
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", page))
    place = re.search(r"\S+ of \d+ jobs? that waits? in [^<]* may see", text)
    return place[0] if place else ""


def let_a_minute_pass(settings: object) -> None:
    client = Redis.from_url(settings.REDIS_URL)  # type: ignore[attr-defined]
    for key in client.scan_iter("queue:asked:*"):
        client.delete(key)


def test_a_place_is_that_of_priorities_among_the_jobs_of_all(
    lab: Lab, waiting: Experiment, busy: list[str], settings: object
) -> None:
    words = "jobs that wait in gpu, by priority, of those that the account researcher may see"
    first, second = waiting.jobs.order_by("pk").values_list("scheduler_id", flat=True)
    # One job and three tasks of an array came first; the held one has no place.
    assert look(waiting, 0) == f"5th of 6 {words}"
    assert look(waiting, 1) == f"6th of 6 {words}"
    administer(lab, f"scontrol update jobid={second} priority=1000")
    assert look(waiting, 1) == f"6th of 6 {words}", "it is not asked for again within a minute"
    let_a_minute_pass(settings)
    assert look(waiting, 1) == f"1st of 6 {words}"
    assert look(waiting, 0) == f"6th of 6 {words}"
    administer(lab, f"scontrol hold {second}")
    let_a_minute_pass(settings)
    assert look(waiting, 0) == f"5th of 5 {words}"
    assert look(waiting, 1) == "", "a job that is held has none"
    administer(lab, f"scontrol release {second}; scontrol release {busy[2]}")
    let_a_minute_pass(settings)
    assert look(waiting, 0).startswith("6th of 7 "), "the one that was held has an earlier number"
    assert first != second


def test_where_jobs_of_others_are_hidden_the_words_are_still_true(
    lab: Lab, waiting: Experiment, settings: object
) -> None:
    shown = "scontrol show config | grep PrivateData"
    administer(lab, f"echo PrivateData=jobs >>{CONF}; scontrol reconfigure")
    try:
        assert until(lambda: "= jobs" in administer(lab, shown), 60)
        assert look(waiting, 1) == (
            "2nd of 2 jobs that wait in gpu, by priority, of those that the account researcher "
            "may see"
        )
    finally:
        administer(lab, f"sed -i '/^PrivateData=jobs$/d' {CONF}; scontrol reconfigure")
        assert until(lambda: "= none" in administer(lab, shown), 60)


def test_an_older_forced_command_costs_the_place_alone(
    lab: Lab, waiting: Experiment, settings: object
) -> None:
    address = gated(lab, Slurm())
    Credential.objects.update(private_key=address.private_key, fingerprint="")
    Cluster.objects.update(work_directory=lab.work_directory)
    older = re.sub(r'    \("places in the queue".*\n.*\n', "", gate.render_script())
    assert older != gate.render_script()

    def install(script: str) -> None:
        with SSH(own(lab)) as transport:
            transport.run(["sh", "-c", INSTALL], stdin=script.encode())

    install(older)
    assert look(waiting, 0) == ""
    waiting.cluster.refresh_from_db()
    assert (waiting.cluster.last_error, waiting.cluster.older_gate_at) == ("", None)
    client = Client()
    client.force_login(waiting.owner)
    page = reverse("cluster", args=[waiting.cluster_id])
    assert "which places they have in Slurm’s queue" in client.get(page).content.decode()
    install(gate.render_script())
    let_a_minute_pass(settings)
    assert look(waiting, 0).startswith("5th of 6 jobs")
    assert "Older script" not in client.get(page).content.decode()
