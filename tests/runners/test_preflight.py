"""A whole preflight on this machine, with a scheduler whose tools do whatever they like."""

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from runners.errors import TryAgain
from runners.jobs import EnvironmentSpec, Resources
from runners.preflight import (
    PartitionSpec,
    RuntimeSpec,
    Site,
    asking,
    check_cluster,
    find_worst_outcome,
)
from runners.schedulers import Direct, Slurm
from runners.transports import Local

GPU = PartitionSpec(2, Resources(3600, partition="gpu"))
BARE = EnvironmentSpec("bare metal", "bare_metal")
SBATCH = 'if [ "$1" = --version ]; then echo slurm 24.11.5; else echo "Job 1 to start" >&2; fi'
SINFO = 'echo "gpu|up|1:00:00|2|idle|(null)"'
SRUN = 'while [ "${1#-}" != "$1" ]; do shift; done; exec "$@"'


@pytest.fixture
def tools(tmp_path: Path, home: Path, monkeypatch) -> Callable[..., None]:
    """Put scripts of these names first on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    def make(**scripts: str) -> None:
        for name, script in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)

    make(sbatch=SBATCH, sinfo=SINFO, srun=SRUN)
    return make


@pytest.fixture
def home(tmp_path: Path, monkeypatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Site:
    work = tmp_path / 'it\'s $(a) "work" directory'
    work.mkdir()
    return Site(str(work), partitions=(GPU,), environments=(BARE,))


def look(site, scheduler=None):
    checks = check_cluster(Local(), scheduler or Slurm(), site)
    assert all(check.cure for check in checks if check.outcome == "failed")
    return {(check.area, check.name): check for check in checks}


def red(checks):
    return {place: check for place, check in checks.items() if check.outcome == "failed"}


def test_a_machine_that_is_well_is_not_red_and_nothing_stays_behind(tools, site):
    checks = look(site)
    assert red(checks) == {}
    assert checks["Partition gpu", "Start of bare metal"].outcome == "ok"
    assert checks["Partition gpu", "Work directory"].value == "shared"
    assert checks["Partition gpu", "Trial job"].words == "Job 1 to start"
    assert list(Path(site.work_directory).iterdir()) == []


@pytest.mark.parametrize(
    "script",
    ["echo '<html>Log in again</html>'", "exec yes", "exit 1", "kill -9 $$", "printf '\\377\\0|'"],
)
def test_whatever_the_schedulers_tools_do_it_ends_as_checks(tools, site, script):
    tools(sbatch=script, sinfo=script, srun=script)
    checks = look(site)
    for place in (("Scheduler", "Version"), ("Scheduler", "Partitions"), ("Partition gpu", "Node")):
        assert checks[place].outcome == "failed", place
    # What could not be asked of a node is asked of the machine that we log in to.
    assert checks["On the login node", "Start of bare metal"].outcome == "ok"


def test_tools_that_hang_cost_their_own_time_alone(tools, site, monkeypatch):
    for name in ("TRIAL_SECONDS", "WAIT_SECONDS", "START_SECONDS", "GRACE_SECONDS"):
        monkeypatch.setattr(asking, name, 1)
    tools(sbatch="sleep 100", sinfo="sleep 100", srun="sleep 100")
    began = time.monotonic()
    checks = look(site)
    assert time.monotonic() - began < 40
    assert "did not end in 1 s" in checks["Scheduler", "Version"].found
    assert "did not end" in checks["Partition gpu", "Node"].found


def test_a_partition_without_a_free_node_is_no_failure(tools, site):
    message = "srun: error: Unable to allocate resources: Requested nodes are busy"
    tools(srun=f'echo "{message}" >&2; exit 1')
    checks = look(site)
    assert checks["Partition gpu", "Node"].outcome == "warning"
    assert red(checks) == {}


def test_what_does_not_start_is_red(tools, site):
    spec = EnvironmentSpec("SIF", "apptainer", executable="/no/apptainer", image_path="/x.sif")
    runtime = RuntimeSpec("Apptainer", "apptainer", "/no/apptainer")
    wrong = replace(BARE, label="no Python", python="/no/python")
    checks = look(replace(site, environments=(BARE, spec, wrong), runtimes=(runtime,)))
    assert {name for _, name in red(checks)} == {
        "Start of SIF",
        "Start of no Python",
        "Apptainer at /no/apptainer",
    }


def test_set_up_lines_come_first_and_an_error_in_one_is_its_own(tools, site, tmp_path):
    python = tmp_path / "python-of-a-module"
    python.symlink_to("/usr/bin/python3")
    by_module = replace(
        BARE,
        label="module",
        python="modular",
        setup_lines=(f"modular() {{ :; }}; export M={python}",),
    )
    by_path = replace(
        BARE,
        label="path",
        python=python.name,
        setup_lines=(f'export PATH="{tmp_path}:$PATH"', "echo set up"),
    )
    checks = look(
        replace(site, environments=(BARE, by_path, by_module), setup_lines=("echo hello",))
    )
    assert checks["Partition gpu", "Start of path"].outcome == "ok"
    assert {name for _, name in red(checks)} == {"Start of module"}


def test_a_work_directory_that_is_not_there_yet_is_told_and_not_made(tools, site, tmp_path):
    missing = tmp_path / "not" / "yet"
    checks = look(replace(site, work_directory=str(missing)))
    assert "is not there yet" in checks["Login node", "Work directory"].found
    assert red(checks) == {}
    assert not missing.parent.exists()


def test_a_work_directory_that_is_a_file_is_red(tools, site, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    checks = look(replace(site, work_directory=str(file / "below")))
    assert ("Login node", "Work directory") not in red(checks)  # the folder above can be written
    checks = look(replace(site, work_directory="/proc/tare"))
    assert ("Login node", "Work directory") in red(checks)


def test_what_a_nodes_start_up_files_print_does_no_harm(tools, site, home):
    tools(srun=f"echo Welcome; {SRUN}")
    assert red(look(site)) == {}


def test_without_a_scheduler_this_machine_is_where_jobs_run(home, site):
    checks = look(replace(site, partitions=()), Direct())
    assert checks["On this machine", "Start of bare metal"].outcome == "ok"
    assert red(checks) == {}


def test_a_run_that_is_being_measured_is_left_alone(home, site):
    checks = look(replace(site, partitions=(), is_measuring=True), Direct())
    check = checks["On this machine", "Start of bare metal"]
    assert check.outcome == "not applicable"
    assert "could disturb a run" in check.found


def test_what_cannot_be_started_twice_at_a_time_is_started_once(tools, site, tmp_path):
    """udocker writes into its container's folder: a start elsewhere would break this one."""
    udocker = tmp_path / "udocker"
    udocker.write_text('#!/bin/sh\nwhile [ "$1" != c ]; do shift; done; shift; exec "$@"\n')
    udocker.chmod(0o755)
    spec = EnvironmentSpec("P1", "udocker", executable=str(udocker), image_path="c")
    other = PartitionSpec(1, replace(GPU.resources, partition="other"))
    again = replace(spec, label="S1", mode="S1")
    two = replace(site, environments=(BARE, spec, again), partitions=(GPU, other))
    checks = look(two)
    assert checks["Partition gpu", "Start of P1"].outcome == "ok"
    assert checks["Partition other", "Start of P1"].outcome == "not applicable"
    assert "in another mode" in checks["Partition gpu", "Start of S1"].found
    assert "two starts at a time" in checks["Partition other", "Start of P1"].found
    assert checks["Partition other", "Start of bare metal"].outcome == "ok"
    checks = look(replace(two, is_measuring=True))
    assert checks["Partition gpu", "Start of P1"].outcome == "not applicable"
    assert checks["Partition gpu", "Start of bare metal"].outcome == "ok"


def test_a_connection_that_breaks_is_a_red_check(site):
    class Broken(Local):
        def run(self, argv, **options):
            raise TryAgain("The connection broke.", kind="unreachable")

    checks = check_cluster(Broken(), Slurm(), site)
    assert find_worst_outcome(checks) == "failed"
    assert checks[-1].words == "The connection broke."


def test_the_largest_check_fits_into_one_command(site):
    """sshd hands the command over as one argument, of which Linux takes 128 KiB."""
    spec = EnvironmentSpec("x", "udocker", "/opt/site/udocker/bin/udocker", image_path="c" * 64)
    crowd = replace(
        site,
        environments=(replace(spec, binds=("/data:/data",) * 4),) * 30,
        partitions=tuple(
            replace(GPU, resources=replace(GPU.resources, partition=f"p{number}"))
            for number in range(20)
        ),
    )
    nodes = asking.plan_node_probes(crowd, Slurm(), token="/scratch/token")
    arguments = [word for _, _, probe in nodes for word in probe.argv]
    assert len(nodes) == asking.MOST_PARTITIONS
    assert sum(len(word) + 8 for word in arguments) < 100_000


@pytest.mark.parametrize("directive", ["--comment='x", "--a\n#SBATCH --b"])
def test_options_that_cannot_be_said_are_red_and_hide_nothing_else(tools, site, directive):
    wrong = replace(GPU.resources, partition="wrong", directives=(directive,))
    checks = look(replace(site, partitions=(PartitionSpec(1, wrong), GPU)))
    assert set(red(checks)) == {("Partition wrong", "Options")}
    assert checks["Partition gpu", "Start of bare metal"].outcome == "ok"
