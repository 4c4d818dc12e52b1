"""The check of a real cluster, on good days and bad ones."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from django.core.management import call_command

from experiments.execution.preflight_visits import run_checks
from experiments.models import CheckReport, Cluster, Environment, Partition
from lab.client import Lab
from runners.preflight.checks import Check
from runners.schedulers import Slurm
from tests.lab.gated import gated

pytestmark = [pytest.mark.lab, pytest.mark.django_db]

Found = dict[tuple[str, str], Check]


@pytest.fixture
def found(registered: Cluster) -> Callable[[], Found]:
    """Look at the lab as it is now; by area and name."""

    def now() -> Found:
        cluster = Cluster.objects.get(pk=registered.pk)
        return {(check.area, check.name): check for check in run_checks(cluster)}

    return now


@pytest.fixture
def root(lab: Lab) -> Iterator[Callable[[str, str], None]]:
    """Do something as the cluster's administrator, and undo it afterwards."""
    undone: list[str] = []

    def execute(command: str) -> None:
        done = lab.execute(command.split())
        assert done.returncode == 0, done.stderr

    def do(command: str, undo: str) -> None:
        undone.append(undo)
        execute(command)

    yield do
    for command in undone:
        execute(command)
    execute("timeout 60 srun -N2 true")  # only a job proves that all is well again


# The lab has stand-ins for the parts of R2, R3 and the F modes that udocker downloads.
UDOCKER_MODES = dict.fromkeys(("P1", "P2", "R1", "R2", "R3", "F1", "F2", "F3", "F4", "S1"), "works")


def red(found: Found) -> dict[tuple[str, str], Check]:
    return {place: check for place, check in found.items() if check.outcome == "failed"}


def test_a_cluster_that_is_well_has_nothing_red_and_every_environment_starts(
    found: Callable[[], Found], registered: Cluster, lab: Lab
) -> None:
    now = found()
    assert red(now) == {}
    assert lab.slurm_version in now["Scheduler", "Version"].found
    assert now["Partition gpu", "Work directory"].value == "shared"
    started = {check.name for check in now.values() if check.name.startswith("Start of ")}
    modes = {row.mode for row in Environment.objects.exclude(mode="")}
    assert {"P1", "R1"} <= modes
    forms = ("bare metal", "Apptainer SIF", "Apptainer sandbox", "udocker P1", "udocker R1")
    for form in forms:
        assert any(name.startswith(f"Start of {form}") for name in started), form
    tried = {name: now["Modes of udocker", f"udocker {name}"].value for name in UDOCKER_MODES}
    assert tried == UDOCKER_MODES
    # The lab's GPUs are stand-ins, and that is all there is to say against it; how full the disk
    # is, is up to the machine on which the tests run.
    amber = {check.name for check in now.values() if check.outcome == "warning"}
    assert amber - {"Disk space"} == {"GPU"}
    assert not list((lab.directory / "scratch" / "researcher").rglob(".tare-check*"))


def test_forms_that_allow_too_much_are_red(found: Callable[[], Found]) -> None:
    Partition.objects.filter(name="gpu").update(gpus_per_node=8, time_limit_minutes=600)
    Partition.objects.filter(name="debug").update(name="nope")
    now = red(found())
    assert "8 GPUs a node, and there are 4" in now["Partition gpu", "Limits"].found
    assert "10 h, and the limit is 1 h" in now["Partition gpu", "Limits"].found
    assert ("Partition gpu", "Trial job") in now
    assert "no partition nope" in now["Partition nope", "Limits"].found
    assert "gpu, debug" in now["Partition nope", "Limits"].cure


def test_drained_nodes_are_told(
    found: Callable[[], Found], root: Callable[[str, str], None]
) -> None:
    node = "scontrol update nodename=node1 state="
    root(f"{node}drain reason=test", f"{node}resume")
    now = found()
    assert now["Partition gpu", "State"].outcome == "warning"
    assert now["Partition gpu", "Node"].outcome == "ok"
    assert now["Partition debug", "State"].outcome == "failed"
    assert now["Partition debug", "Node"].outcome != "ok"


def test_a_work_directory_of_somebody_else_is_red(
    found: Callable[[], Found], root: Callable[[str, str], None], registered: Cluster
) -> None:
    where = registered.work_directory  # which an earlier test may have made
    root(f"install -d -o root {where}", f"chown researcher {where}")
    check = red(found())["Login node", "Work directory"]
    assert "cannot be written" in check.found
    assert "Permission denied" in check.words


def test_a_controller_that_hangs_is_red_in_time(
    found: Callable[[], Found], root: Callable[[str, str], None]
) -> None:
    root("pkill -STOP slurmctld", "pkill -CONT slurmctld")
    now = found()
    assert now["Scheduler", "Version"].outcome == "ok"
    for place in (("Scheduler", "Partitions"), ("Partition gpu", "Trial job")):
        assert now[place].outcome == "failed"
    # Where no node is to be had, the runtimes are tried where we log in.
    started = [check for (area, _), check in now.items() if area == "On the login node"]
    assert started
    assert all(check.outcome != "failed" for check in started)


def test_the_command_says_it_all_through_a_forced_command_too(
    registered: Cluster, lab: Lab
) -> None:
    assert registered.credential
    registered.credential.private_key = gated(lab, Slurm()).private_key
    registered.credential.save()
    out = io.StringIO()
    with suppress(SystemExit):
        call_command("checkcluster", "lab", stdout=out, no_color=True)
    assert "lab: nothing red of" in out.getvalue(), out.getvalue()
    assert "Forced command: Tare's own" in out.getvalue()
    assert "Start of bare metal" in out.getvalue()
    assert CheckReport.objects.get().outcome == "warning"
