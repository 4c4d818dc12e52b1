"""The form of an experiment warns of MPI in udocker, which would wait for ever."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Environment, Workload
from experiments.planning.mpi_in_udocker import warn_of_mpi_in_udocker
from runners.workloads import WORKLOADS
from tests.dashboard.conftest import Site
from tests.dashboard.planning.test_form import asked
from tests.factories import EnvironmentFactory, RuntimeFactory, StagedImageFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

WHOLE = ["--hostauth", "--user=me"]


@pytest.fixture
def horovod() -> Workload:
    parameters = WORKLOADS["cnn"].clean({"parallel": "horovod"})
    made: Workload = WorkloadFactory(name="training", kind="cnn", parameters=parameters)
    return made


def in_udocker(site: Site, options: list[str], mode: str = "P1", **more: object) -> Environment:
    runtime = RuntimeFactory(cluster=site.cluster, kind="udocker", options=options)
    staged = StagedImageFactory(cluster=site.cluster, format="udocker", mode=mode)
    made: Environment = EnvironmentFactory(
        name=f"u {mode}", cluster=site.cluster, runtime=runtime, staged_image=staged, **more
    )
    return made


def test_the_form_says_that_mpi_would_wait_and_what_is_missing(
    as_owner: Client, site: Site, horovod: Workload
) -> None:
    u = in_udocker(site, [])

    def ask(scales: str) -> str:
        sent = asked(
            site,
            workloads=[horovod.pk],
            environments=[site.bare.pk, u.pk],
            scales=scales,
        )
        answer = as_owner.post(reverse("experiment_new"), sent, headers={"HX-Request": "true"})
        return answer.content.decode()

    page = ask("1x2 mpirun")
    assert "u P1: MPI_Init waits until the time limit and prints nothing" in page
    assert "Add --hostauth and --user=NAME to the options of udocker" in page
    assert "bind /tmp in the environment" in page
    u.runtime.options = WHOLE  # type: ignore[union-attr]
    u.runtime.save()  # type: ignore[union-attr]
    assert "MPI_Init" not in ask("1x2 mpirun")


@pytest.mark.parametrize(
    ("options", "mode", "binds", "says"),
    [
        (["--hostauth"], "P2", ["/tmp:/tmp"], "Add --user=NAME to the options"),
        (["--user=me"], "P1", ["/tmp"], "Add --hostauth to the options"),
        (["--hostauth", "--user", "me"], "P1", [], ""),
        (WHOLE, "R1", [], "In R1 udocker knows no user but root"),
        ([], "S1", [], ""),
        ([], "F3", [], ""),
    ],
)
def test_only_what_is_missing_is_named(
    site: Site, horovod: Workload, options: list[str], mode: str, binds: list[str], says: str
) -> None:
    u = in_udocker(site, options, mode, binds=binds)
    warnings = warn_of_mpi_in_udocker([horovod], [site.bare, site.container, u], ["2x1 mpirun"])
    assert len(warnings) == bool(says)
    assert says in "".join(warnings)
    assert "bind /tmp" not in "".join(warnings) or not binds


def test_what_has_no_launcher_or_no_mpi_is_not_warned_of(site: Site, horovod: Workload) -> None:
    u = in_udocker(site, [])
    ddp = WorkloadFactory(
        name="ddp",
        kind="cnn",
        parameters=WORKLOADS["cnn"].clean({"framework": "pytorch", "parallel": "ddp"}),
    )
    assert warn_of_mpi_in_udocker([horovod], [u], ["1x1", "nonsense"]) == []
    assert warn_of_mpi_in_udocker([ddp, site.workload], [u], ["2x1 srun"]) == []
    assert len(warn_of_mpi_in_udocker([horovod], [u], ["nonsense", "2x1 srun"])) == 1
