"""A rule on job directories at a real site: an operation of Slurm, over a real sshd."""

from __future__ import annotations

from datetime import timedelta

import pytest

from experiments.execution import lifecycle
from experiments.models import Cluster, Experiment, Job, Operation, Removal
from lab.client import Lab
from tests.conftest import finish, tick_until
from tests.factories import ExperimentFactory, WorkloadFactory

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

QUICK = {"steps": 5, "burn_in": 1, "matrix_size": 16, "decomposition_size": 8}


def test_an_old_directory_goes_by_a_job_of_the_scheduler(lab: Lab, registered: Cluster) -> None:
    bare = registered.environments.get(name="bare metal")
    made: Experiment = ExperimentFactory(
        cluster=registered,
        partition=registered.partitions.get(name="gpu"),
        baseline=bare,
        environments=[bare, registered.environments.get(name="Apptainer SIF")],
        workloads=[WorkloadFactory(kind="blas", parameters=QUICK, time_limit_seconds=60)],
        repeats=2,
    )
    lifecycle.launch(made, registered.owner)
    finish(made)
    old, young = made.jobs.order_by("pk")
    assert old.verified_at
    assert young.verified_at
    Job.objects.filter(pk=old.pk).update(verified_at=old.verified_at - timedelta(days=8))
    Cluster.objects.update(retention_days=7)
    tick_until(registered, Operation.objects.filter(state__in=Operation.FINAL).exists)
    operation = Operation.objects.get()
    assert (operation.state, operation.message) == ("done", "")
    removal = Removal.objects.get()
    assert removal.job == old
    assert removal.freed_bytes
    assert lab.execute(["test", "-e", old.directory]).returncode == 1
    assert lab.execute(["test", "-e", young.directory]).returncode == 0
