"""A real site that says no for now: nothing fails, its words are kept, and jobs go afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from django.utils import timezone

from experiments import execution
from experiments.execution import lifecycle
from experiments.models import Cluster, Experiment, Job, Pause
from lab.client import Lab
from tests.conftest import finish
from tests.factories import ExperimentFactory, WorkloadFactory
from tests.lab.machine import until

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

QUICK = {"steps": 5, "burn_in": 1, "matrix_size": 16, "decomposition_size": 8}
BLOCKS = 14


@pytest.fixture
def planned(registered: Cluster) -> Experiment:
    """A launched experiment none of whose jobs has been sent."""
    Cluster.objects.update(max_live_jobs=BLOCKS)
    rows = [registered.environments.get(name=name) for name in ("bare metal", "Apptainer SIF")]
    made: Experiment = ExperimentFactory(
        cluster=registered,
        partition=registered.partitions.get(name="gpu"),
        baseline=rows[0],
        environments=rows,
        workloads=[WorkloadFactory(kind="blas", parameters=QUICK, time_limit_seconds=60)],
        repeats=BLOCKS,
    )
    lifecycle.launch(made, registered.owner)
    return made


@contextmanager
def administrator(lab: Lab, does: Sequence[str], undoes: Sequence[str]) -> Iterator[None]:
    """Have an administrator of the cluster do something, and undo it in the end."""
    done = lab.execute(does)
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        yield
    finally:
        lab.execute(undoes)


def check_that_it_pauses(planned: Experiment, kind: str, words: str) -> None:
    assert execution.tick(planned.cluster_id) == "done"
    pause = Pause.objects.get()
    assert pause.kind == kind
    assert words in pause.message
    assert set(planned.jobs.values_list("state", flat=True)) == {"planned"}
    Pause.objects.update(retry_at=timezone.now())
    execution.tick(planned.cluster_id)
    assert Pause.objects.get().failures == 2
    assert set(planned.jobs.values_list("state", flat=True)) == {"planned"}


def check_that_it_goes_on(planned: Experiment) -> None:
    """All blocks are sent in one visit, and the first of them end well."""
    Pause.objects.update(retry_at=timezone.now())
    execution.tick(planned.cluster_id)
    assert not Pause.objects.exists()
    assert not planned.jobs.filter(state=Job.State.PLANNED).exists()
    lifecycle.cancel(planned, planned.owner)
    finish(planned)
    assert not planned.jobs.filter(state=Job.State.FAILED).exists()


def test_a_work_directory_that_may_not_be_written(lab: Lab, planned: Experiment) -> None:
    work = f"{lab.work_directory}/locked"
    lab.execute(["install", "-d", "-o", lab.user, work])
    Cluster.objects.update(work_directory=work)
    planned.refresh_from_db()
    with administrator(lab, ["chmod", "555", work], ["chmod", "755", work]):
        check_that_it_pauses(planned, "work directory", "Permission denied")
    check_that_it_goes_on(planned)


@pytest.mark.parametrize("state", ["drain", "inactive"])
def test_a_partition_that_takes_no_jobs(lab: Lab, planned: Experiment, state: str) -> None:
    update = ["scontrol", "update", "partitionname=gpu"]
    with administrator(lab, [*update, f"state={state}"], [*update, "state=up"]):
        check_that_it_pauses(planned, "partition", "Required partition not available")
    check_that_it_goes_on(planned)


@pytest.fixture
def enforcing(lab: Lab) -> Iterator[str]:
    """Have Slurm take jobs of accounts only that slurmdbd knows; yield the researcher's."""
    account, conf = "measured", "/etc/slurm/slurm.conf"
    enforce = "AccountingStorageEnforce=associations,limits,qos"
    manage = f"sacctmgr -i add account {account}; sacctmgr -i add user {lab.user} account={account}"
    lab.execute(["sh", "-c", f"{manage}; echo {enforce} >>{conf}; scontrol reconfigure"])
    until_slurm_says(lab, "= associations,limits,qos")
    yield account
    lab.execute(["sh", "-c", f"sed -i '/^{enforce}$/d' {conf}; scontrol reconfigure"])
    until_slurm_says(lab, "= none")
    lab.execute(["sacctmgr", "-i", "delete", "account", account])


def until_slurm_says(lab: Lab, words: str) -> None:
    shown = ["sh", "-c", "scontrol show config | grep AccountingStorageEnforce"]
    assert until(lambda: words in lab.execute(shown).stdout, 60)


def test_an_account_that_the_site_does_not_know(planned: Experiment, enforcing: str) -> None:
    partitions = planned.cluster.partitions.filter(name="gpu")
    partitions.update(account="nobody")
    check_that_it_pauses(planned, "account", "Invalid account or account/partition combination")
    partitions.update(account=enforcing)
    check_that_it_goes_on(planned)


def test_a_limit_on_jobs_that_are_sent(lab: Lab, planned: Experiment, enforcing: str) -> None:
    """As many go as the site allows; the others wait for those to end."""
    modify = ["sacctmgr", "-i", "modify", "user", f"name={lab.user}", "set"]
    with administrator(lab, [*modify, "maxsubmitjobs=2"], [*modify, "maxsubmitjobs=-1"]):
        execution.tick(planned.cluster_id)
        assert planned.jobs.filter(state__in=Job.LIVE).count() == 2
        assert planned.jobs.filter(state=Job.State.PLANNED).count() == BLOCKS - 2
        pause = Pause.objects.get()
        assert (pause.kind, "AssocMaxSubmitJobLimit" in pause.message) == ("limit", True)
        lifecycle.cancel(planned, planned.owner)
        finish(planned)
    assert not planned.jobs.filter(state=Job.State.FAILED).exists()
    execution.tick(planned.cluster_id)
    assert not Pause.objects.exists(), "nothing waits for its end"
