"""Jobs that a person carries to a real cluster, submits there, and brings the results of."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Iterator

import pytest

from experiments import demo
from experiments.execution import bring_results, lifecycle, write_jobs
from experiments.models import Cluster, Experiment, Job, Run
from lab.client import Lab, ensure_lab, stop_lab
from runners.transports import SSH
from tests.conftest import tick_until
from tests.factories import AdminFactory, ExperimentFactory, WorkloadFactory
from tests.lab.gated import own
from tests.lab.machine import until

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

PARAMETERS = {"steps": 5, "burn_in": 1, "matrix_size": 16, "decomposition_size": 8}
MOST_SECONDS = 120


@pytest.fixture(scope="module")
def with_both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab that has Grid Engine beside Slurm."""
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=("numpy",), grid_engine=True)
    stop_lab(directory)
    shutil.rmtree(directory)


def register_without_connection(lab: Lab, scheduler: str, partition: str) -> Cluster:
    """Return the lab as a cluster on which nothing is known but what people typed."""
    owner = AdminFactory()
    facts = json.loads((lab.directory / "lab.json").read_text())
    cluster = demo.register_lab(facts, owner)
    demo.register_image(cluster, facts["images"]["numpy"], owner)
    options = [] if scheduler == "slurm" else ["-pe smp {cpus}"]
    cluster.partitions.filter(name="gpu").update(name=partition, directives=options)
    Cluster.objects.update(
        transport="by_hand",
        scheduler=scheduler,
        host="",
        host_key="",
        credential=None,
        work_directory=f"{lab.work_directory}/carried-{scheduler}",
    )
    cluster.refresh_from_db()
    return cluster


def carry_and_submit(carried: Experiment, transport: SSH) -> bytes:
    """Unpack the jobs there, submit them all, wait for their end; return what is brought back."""
    work = carried.cluster.work_directory
    archive = b"".join(write_jobs(carried, carried.owner).content)
    unpack = ["sh", "-c", 'mkdir -p "$1" && tar -xzf - -C "$1"', "unpack", work]
    done = transport.run(unpack, stdin=archive)
    assert done.returncode == 0, done.stderr
    script = f"{work}/by-hand/experiment-{carried.pk}/run-all.sh"

    def call(*words: str) -> str:
        """Return what the start script says."""
        said = transport.run(["sh", script, *words], timeout=60)
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout.decode()

    call()
    assert until(lambda: call("status").count("has ended") == carried.jobs.count(), MOST_SECONDS)
    assert call("status").count("has ended, exit code 0") == carried.jobs.count()
    call()  # begins nothing twice
    call("pack")
    name = f"{work}/results-experiment-{carried.pk}.tar.gz"
    return transport.run(["cat", name], timeout=60).stdout


def check_that_carried_jobs_enter(lab: Lab, cluster: Cluster, partition: str) -> None:
    """Have two blocks carried there, submitted and brought back, in a container and out of it."""
    bare = cluster.environments.get(runtime=None)
    container = cluster.environments.filter(name__startswith="Apptainer SIF").get()
    carried: Experiment = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name=partition),
        baseline=bare,
        environments=[bare, container],
        workloads=[WorkloadFactory(kind="blas", parameters=PARAMETERS)],
        scales=["1x1"],
        repeats=2,
        owner=cluster.owner,
    )
    lifecycle.launch(carried, carried.owner)
    planned = carried.jobs.filter(state=Job.State.PLANNED)
    tick_until(cluster, lambda: not planned.exists(), 20)
    with SSH(own(lab)) as transport:
        results = carry_and_submit(carried, transport)

    brought = bring_results(carried, io.BytesIO(results), carried.owner, name="results.tar.gz")

    assert (len(brought.entered), brought.refused, brought.left) == (2, [], 0)
    assert set(carried.runs.values_list("state", flat=True)) == {Run.State.SUCCEEDED}
    assert all(run.measurements.exists() and run.node for run in carried.runs.all())
    assert all(job.verified_at for job in carried.jobs.all())


def test_slurm_runs_what_was_carried(lab: Lab) -> None:
    cluster = register_without_connection(lab, "slurm", "gpu")
    check_that_carried_jobs_enter(lab, cluster, "gpu")


def test_grid_engine_runs_what_was_carried(with_both: Lab) -> None:
    cluster = register_without_connection(with_both, "grid_engine", "main.q")
    check_that_carried_jobs_enter(with_both, cluster, "main.q")
