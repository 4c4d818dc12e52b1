"""The main job, end to end: a definition goes in, a comparison comes out. Nothing is faked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from experiments import execution
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle, repairs
from experiments.execution.further_attempts import find_further_attempts
from experiments.models import Cluster, Environment, Experiment, Job, Pause, Run
from experiments.statistics import Stamp
from lab.client import Lab
from tests.conftest import finish, tick_until
from tests.factories import ExperimentFactory, WorkloadFactory

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

QUICK = {"steps": 20, "burn_in": 2, "matrix_size": 64, "decomposition_size": 16}
QUICK_CNN = {"steps": 8, "burn_in": 2}
WITH_TENSORFLOW = (
    *("bare metal", "Apptainer SIF", "Apptainer sandbox", "Charliecloud"),
    *("udocker P1", "udocker R1"),
)

Make = Callable[..., Experiment]


@pytest.fixture
def experiment(registered: Cluster) -> Make:
    """Make a launched experiment on the lab; the first environment named is the baseline."""

    def make(
        environments: Sequence[str | Environment],
        *,
        kind: str = "blas",
        parameters: dict[str, Any] | None = None,
        time_limit_seconds: int = 120,
        **columns: Any,
    ) -> Experiment:
        rows = [
            registered.environments.get(name=name) if isinstance(name, str) else name
            for name in environments
        ]
        quick = {"blas": QUICK, "cnn": QUICK_CNN}[kind]
        made: Experiment = ExperimentFactory(
            cluster=registered,
            partition=registered.partitions.get(name="gpu"),
            baseline=rows[0],
            environments=rows,
            workloads=[
                WorkloadFactory(
                    kind=kind,
                    parameters=parameters or quick,
                    time_limit_seconds=time_limit_seconds,
                )
            ],
            **({"repeats": 1} | columns),
        )
        lifecycle.launch(made, registered.owner)
        return made

    return make


@pytest.fixture
def program(registered: Cluster) -> Callable[[str], Environment]:
    """Make a bare-metal environment whose `python` is a shell script on the cluster."""

    def make(script: str) -> Environment:
        number = registered.environments.count()
        path = f"{registered.work_directory}/program-{number}"
        with execution.connect(registered) as runner:
            runner.transport.run(["mkdir", "-p", registered.work_directory])
            runner.transport.write(path, f"#!/bin/sh\n{script}\n".encode())
            runner.transport.run(["chmod", "+x", path])
        return Environment.objects.create(
            name=f"program {number}", cluster=registered, python=path, owner=registered.owner
        )

    return make


def test_tensorflow_trains_alike_on_bare_metal_and_in_containers(experiment: Make) -> None:
    made = experiment(WITH_TENSORFLOW, kind="cnn")
    finish(made)
    assert {(run.state, run.message) for run in made.runs.all()} == {("succeeded", "")}
    losses = {run.measurements.get(metric="loss").value for run in made.runs.all()}
    assert max(losses) - min(losses) < 1e-6 * max(losses)
    accuracies = {run.measurements.get(metric="accuracy").value for run in made.runs.all()}
    assert all(0 <= accuracy <= 1 for accuracy in accuracies)
    assert max(accuracies) - min(accuracies) < 0.01
    run = made.runs.get(environment__name="Apptainer SIF")
    content = run.snapshot_content
    inside, outside = content["inside"], content["outside"]
    assert inside["packages"]["tensorflow-cpu"]
    assert inside["variables"]["CUDA_VISIBLE_DEVICES"], "Slurm's choice of GPU reaches the program"
    assert "JobId=" in outside["scheduler"]
    assert "apptainer" in content["runtime"]
    assert content["image"].startswith("sha256:")


def test_sbatchs_refusal_is_shown_in_its_own_words(registered: Cluster, experiment: Make) -> None:
    registered.partitions.filter(name="gpu").update(directives=["--constraint=quantum"])
    made = experiment(["bare metal", "Apptainer SIF"])
    finish(made)
    job = made.jobs.get()
    assert (job.state, job.reason) == ("failed", "refused")
    assert "Invalid feature specification" in job.message
    assert set(made.runs.values_list("reason", flat=True)) == {"not submitted"}
    registered.partitions.filter(name="gpu").update(directives=[])
    assert find_further_attempts(job).can_retry


def test_a_run_that_takes_too_long_ends_and_the_next_one_follows(
    experiment: Make, program: Callable[[str], Environment]
) -> None:
    made = experiment([program("exec sleep 600"), "bare metal"], time_limit_seconds=10, repeats=1)
    finish(made)
    slow = made.runs.get(environment__name__startswith="program")
    assert (slow.state, slow.reason) == ("failed", "time limit reached")
    assert made.runs.get(environment__name="bare metal").state == "succeeded"
    assert made.jobs.get().state == Job.State.DONE


def test_what_memory_kept_from_starting_runs_in_a_second_job_on_the_same_node(
    registered: Cluster, experiment: Make, program: Callable[[str], Environment]
) -> None:
    """Of a block of three the second run takes too much memory, and the third never begins."""
    registered.partitions.filter(name="gpu").update(memory_mb=1500)
    greedy = "exec python3 -c 'x = [bytes([1]) * 50_000_000 for _ in range(1000)]'"
    made = experiment(["bare metal", program(greedy), "Apptainer SIF"])
    in_order = (
        "bare metal",
        made.environments.get(python__contains="program").name,
        "Apptainer SIF",
    )
    made.runs.update(position=F("position") + 10)
    for position, name in enumerate(in_order):
        made.runs.filter(environment__name=name).update(position=position)
    finish(made)
    job = made.jobs.get()
    ends = list(made.runs.order_by("position").values_list("state", "reason"))
    assert job.reason == "out of memory", job.message
    assert ends == [("succeeded", ""), ("failed", "out of memory"), ("failed", "not started")]
    Job.objects.filter(pk=job.pk).update(collect_tries=2)
    job.refresh_from_db()
    second = repairs.repair(job, registered.owner, same_node=True)
    assert second
    finish(made)
    second.refresh_from_db()
    assert f"--nodelist={second.node}" in second.script
    first, rest = made.runs.get(environment=made.baseline), second.runs.get()
    assert (rest.state, rest.message) == ("succeeded", "")
    assert rest.node == first.node
    compared = {pair.environment: pair for pair in compare_experiment(made).pairs}
    pair = compared["Apptainer SIF"]
    assert pair.n_blocks == 1
    assert Stamp.ACROSS_JOBS in pair.stamps
    assert Stamp.CONFOUNDED not in pair.stamps, pair.reasons


def test_two_blocks_run_on_two_nodes_and_the_third_anywhere(experiment: Make) -> None:
    """Of itself Slurm sends each block to the first node, which is free again."""
    made = experiment(
        ["bare metal", "Apptainer SIF"], repeats=3, spreads_nodes=True, estimand="partition"
    )
    finish(made)
    assert {run.state for run in made.runs.all()} == {"succeeded"}
    first, second, third = made.jobs.order_by("block")
    node, other = (
        job.runs.values_list("node", flat=True).distinct().get() for job in (first, second)
    )
    assert {node, other} == {"node1", "node2"}
    assert f"#SBATCH --exclude={node}" in second.script
    assert (first.excluded_nodes, second.excluded_nodes) == (None, [node])
    assert third.excluded_nodes is None, "both have had a block"
    assert "--exclude" not in first.script + third.script
    (pair,) = compare_experiment(made).pairs
    assert (pair.n_nodes, pair.n_blocks) == (2, 3)
    assert Stamp.FEW_NODES in pair.stamps
    assert "3 blocks on 2 nodes" in pair.sentence


def test_cancel_reaches_the_cluster(
    lab: Lab, experiment: Make, program: Callable[[str], Environment]
) -> None:
    made = experiment([program("exec sleep 600"), "bare metal"])
    tick_until(made.cluster, made.jobs.filter(state="running").exists)
    lifecycle.cancel(made, made.owner)
    finish(made)
    assert made.jobs.get().state == Job.State.CANCELLED
    assert lab.execute(["squeue", "-h", "-n", made.jobs.get().name]).stdout == ""


class TestBadDays:
    """Nothing is lost, the cluster's page says what is wrong, and the next tick goes on."""

    @pytest.mark.parametrize(
        ("change", "kind", "words"),
        [
            ({"port": 1}, "unreachable", "listen"),
            ({"host": "no-such-host.invalid"}, "host name", "no-such-host.invalid"),
            (
                {"host_key": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43},
                "host key",
                "SHA256:",
            ),
        ],
    )
    def test_of_the_way_in(
        self, experiment: Make, change: dict[str, Any], kind: str, words: str
    ) -> None:
        made = experiment(["bare metal", "Apptainer SIF"])
        before = {name: getattr(made.cluster, name) for name in change}
        Cluster.objects.update(**change)
        assert execution.tick(made.cluster.pk) == "try again"
        made.cluster.refresh_from_db()
        assert (made.cluster.last_error_kind, words in made.cluster.last_error) == (kind, True)
        assert set(made.jobs.values_list("state", flat=True)) == {"planned"}
        Cluster.objects.update(retry_at=None, **before)
        finish(made)
        assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}

    def test_of_the_key(self, lab: Lab, registered: Cluster) -> None:
        credential = registered.credential
        assert credential
        credential.private_key = lab.passphrase_key.read_text()
        credential.save()
        assert execution.tick(registered.pk) == "try again"
        registered.refresh_from_db()
        assert registered.last_error_kind == "passphrase"
        assert lab.passphrase not in registered.last_error
        credential.passphrase = lab.passphrase
        credential.save()
        Cluster.objects.update(retry_at=None)
        assert execution.tick(registered.pk) == "done"

    def test_of_a_full_disk(self, lab: Lab, experiment: Make) -> None:
        tiny = "/scratch/tiny"
        lab.execute(["mkdir", "-p", tiny])
        lab.execute(["mount", "-t", "tmpfs", "-o", "size=16k,mode=1777", "tmpfs", tiny])
        made = experiment(["bare metal", "Apptainer SIF"])
        place = made.cluster.work_directory
        Cluster.objects.update(work_directory=tiny)
        assert execution.tick(made.cluster.pk) == "done"
        assert Pause.objects.get().kind == "disk full"
        assert made.jobs.get().state in (Job.State.PLANNED, Job.State.SUBMITTING)
        lab.execute(["mount", "-o", "remount,size=64m", tiny])
        Cluster.objects.update(retry_at=None, work_directory=place)
        Pause.objects.update(retry_at=timezone.now())
        finish(made)
        lab.execute(["umount", "-l", tiny])
        assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


def test_odd_names_and_values_reach_the_program_as_typed(
    registered: Cluster, experiment: Make
) -> None:
    """Promise 6: nothing a user types reaches a shell unquoted."""
    odd = 'it\'s $(touch /tmp/pwned) `id` "quoted" \\ ünïcödé \n newline'
    python = registered.environments.get(name="bare metal").python
    environment = Environment.objects.create(
        name=odd,
        cluster=registered,
        python=python,
        variables={"TF_ODD": odd},
        owner=registered.owner,
    )
    made = experiment(["bare metal", environment])
    finish(made)
    run = made.runs.get(environment=environment)
    assert run.state == Run.State.SUCCEEDED, run.message
    assert run.snapshot
    assert run.snapshot.content["inside"]["variables"]["TF_ODD"] == odd


def test_a_connection_lost_while_submitting_does_not_double_the_job(experiment: Make) -> None:
    """Slurm forgets nothing here: the job is found by its name before anything is sent again."""
    made = experiment(["bare metal", "Apptainer SIF"])
    execution.tick(made.cluster.pk)
    job = made.jobs.get()
    known = job.scheduler_id
    assert known
    Job.objects.filter(pk=job.pk).update(
        state=Job.State.SUBMITTING, scheduler_id="", submitted_at=timezone.now() - timedelta(1)
    )
    execution.tick(made.cluster.pk)
    job.refresh_from_db()
    assert job.scheduler_id == known
    finish(made)
    assert set(made.runs.values_list("state", flat=True)) == {"succeeded"}


class TestPromise7OneConnection:
    """One connection a cluster, kept while jobs are live there and ended with the last of them."""

    def logins(self, lab: Lab) -> int:
        log = lab.execute(["cat", "/var/log/sshd.log"]).stdout
        return log.count("Accepted publickey")

    def test_ticks_share_it_while_jobs_are_live(
        self, lab: Lab, experiment: Make, program: Callable[[str], Environment]
    ) -> None:
        made = experiment([program("exec sleep 600"), "bare metal"])
        tick_until(made.cluster, made.runs.filter(state="running").exists)
        before = self.logins(lab)
        for _ in range(5):
            assert execution.tick(made.cluster.pk) == "done"
        assert self.logins(lab) == before
        lifecycle.cancel(made, made.owner)
        finish(made)
        execution.tick(made.cluster.pk)
        execution.tick(made.cluster.pk)
        assert self.logins(lab) == before + 2, "an idle cluster's connections are not held"

    def test_one_that_broke_is_replaced_in_the_same_tick(
        self, lab: Lab, experiment: Make, program: Callable[[str], Environment]
    ) -> None:
        made = experiment([program("exec sleep 600"), "bare metal"])
        tick_until(made.cluster, made.runs.filter(state="running").exists)
        lab.execute(["pkill", "-u", lab.user, "-f", "^sshd"])
        assert execution.tick(made.cluster.pk) == "done"
        made.cluster.refresh_from_db()
        assert made.cluster.last_error == ""
        lifecycle.cancel(made, made.owner)
        finish(made)
