"""Labs come up, come up again, stand side by side, and end without leaving a process behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lab import rootfs
from lab.client import SCRIPT, ensure_lab, load_lab, stop_lab
from lab.instance import Instance
from tests.lab.machine import namespace_of, processes, until

pytestmark = pytest.mark.lab


def test_two_labs_at_once_do_not_disturb_each_other_and_leave_no_process(tmp_path: Path) -> None:
    directories = [tmp_path / "one", tmp_path / "two"]
    with ThreadPoolExecutor() as pool:
        one, two = pool.map(ensure_lab, directories)
    assert one.port != two.port
    assert one.host_key != two.host_key
    namespaces = [namespace_of(directory) for directory in directories]
    stop_lab(one.directory)
    assert processes(namespaces[0]) == []
    assert two.execute(["srun", "-N2", "true"], user=two.user).returncode == 0
    stop_lab(two.directory)
    assert processes(namespaces[1]) == []


def test_what_was_there_is_there_after_a_restart(tmp_path: Path) -> None:
    first = ensure_lab(tmp_path)
    first.execute(["touch", f"{first.work_directory}/kept"], user=first.user)
    stop_lab(tmp_path)
    second = ensure_lab(tmp_path)
    try:
        assert (second.port, second.host_key) == (first.port, first.host_key)
        assert second.execute(["test", "-f", f"{first.work_directory}/kept"]).returncode == 0
        jobs = second.execute(["sacct", "-a", "-X", "-n", "-P", "-o", "JobID"]).stdout.split()
        assert jobs == sorted(set(jobs), key=int), "job numbers must never be given twice"
        assert len(jobs) == 4
    finally:
        stop_lab(tmp_path)


def test_jobs_of_the_last_start_fail_at_once_and_those_that_waited_run(tmp_path: Path) -> None:
    """Both nodes were taken for an hour, and more waited: none of it may hold up the next start."""
    first = ensure_lab(tmp_path)
    submit = ["sbatch", "--parsable", "--no-requeue", "--chdir=/", "--output=/dev/null"]
    whole_node = [*submit, "--exclusive", "--time=60", "--wrap=sleep 3600"]
    running = [first.execute(whole_node, user=first.user).stdout.strip() for _ in range(2)]
    waiting = first.execute([*whole_node[:-1], "--wrap=true"], user=first.user).stdout.strip()
    states = ["squeue", "--noheader", "--format=%T"]
    taken = ["PENDING", "RUNNING", "RUNNING"]
    assert until(lambda: sorted(first.execute(states).stdout.split()) == taken)
    stop_lab(tmp_path)
    second = ensure_lab(tmp_path)
    try:

        def ended(job: str) -> str:
            ask = ["sacct", "--noheader", "--parsable2", "--allocations", "--format=State"]
            return second.execute([*ask, f"--jobs={job}"]).stdout.strip()

        assert [ended(job) for job in running] == ["NODE_FAIL", "NODE_FAIL"]
        assert until(lambda: ended(waiting) == "COMPLETED", 60)
        assert "No reservations" in second.execute(["scontrol", "show", "reservation"]).stdout
    finally:
        stop_lab(tmp_path)


def test_a_node_can_be_taken_down_and_brought_back(tmp_path: Path) -> None:
    """In a lab of its own: others need both nodes, and leave states that take long to end."""
    lab = ensure_lab(tmp_path)
    update = ["scontrol", "update", "nodename=node2"]

    def state() -> str:
        show = ["sinfo", "--noheader", "--nodes=node2", "--partition=gpu", "--format=%T"]
        return lab.execute(show, user=lab.user).stdout.strip()

    try:
        assert until(lambda: state() == "idle", 120), state()
        assert lab.execute([*update, "state=down", "reason=test"]).returncode == 0
        assert until(lambda: state() == "down", 120), state()
        resumed = lab.execute([*update, "state=resume"])
        # One that has registered again meanwhile is back already, which Slurm refuses to resume.
        assert resumed.returncode == 0 or state() == "idle", resumed
        assert until(lambda: state() == "idle", 120), state()
    finally:
        stop_lab(tmp_path)


def test_a_second_start_in_the_foreground_takes_up_a_lab_that_runs(tmp_path: Path) -> None:
    running = ensure_lab(tmp_path)
    second = subprocess.Popen(
        [sys.executable, str(SCRIPT), "up", "--foreground", "--dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert second.stdout
        assert f"already running on port {running.port}" in second.stdout.readline()
        assert second.poll() is None, "it stays as long as the lab does"
        stop_lab(tmp_path)
        assert second.wait(30) == 0
    finally:
        second.kill()
        stop_lab(tmp_path)


def test_a_lab_in_the_foreground_ends_with_its_caller(tmp_path: Path) -> None:
    caller = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; subprocess.run(sys.argv[1:])",
            sys.executable,
            str(SCRIPT),
            "up",
            "--foreground",
            "--dir",
            str(tmp_path),
        ],
        stdout=subprocess.DEVNULL,
    )
    # Where nobody has needed a lab before, its root file system is built first.
    assert until(lambda: (tmp_path / "lab.json").exists(), 300)
    namespace = namespace_of(tmp_path)
    assert processes(namespace)
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    assert until(lambda: not processes(namespace))


def test_a_killed_lab_takes_its_cluster_with_it(tmp_path: Path) -> None:
    lab = subprocess.Popen(
        [sys.executable, str(SCRIPT), "up", "--foreground", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    assert until(lambda: (tmp_path / "lab.json").exists(), 60)
    namespace = namespace_of(tmp_path)
    lab.send_signal(signal.SIGKILL)
    lab.wait()
    assert until(lambda: not processes(namespace))


def test_grid_engine_stays_with_a_lab_and_comes_up_again(tmp_path: Path) -> None:
    plain = ensure_lab(tmp_path)
    try:
        assert plain.grid_engine_version == ""
        assert not plain.execute(["pgrep", "-x", "sge_qmaster"]).stdout
        both = ensure_lab(tmp_path, grid_engine=True)
        assert both.grid_engine_version.startswith("8.")
        assert (both.port, both.host_key) == (plain.port, plain.host_key)
        assert ensure_lab(tmp_path, grid_engine=True) == both
        stop_lab(tmp_path)
        assert Instance(tmp_path).find_init() is None
        assert ensure_lab(tmp_path) == load_lab(tmp_path) == both
        assert "main.q" in both.execute(["qstat", "-f"], user=both.user).stdout
    finally:
        stop_lab(tmp_path)


def test_without_root_it_says_so_and_exits_with_3(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            "unshare",
            "--user",
            "--map-user=65534",
            sys.executable,
            str(SCRIPT),
            "up",
            "--dir",
            str(tmp_path),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "the lab needs root" in done.stderr


def test_a_package_that_is_gone_is_named() -> None:
    said = """Reading package lists...
E: Unable to locate package slurm-wlm
E: Package 'runc' has no installation candidate
E: Release 'sid' for 'apptainer' was not found
E: mmdebstrap failed to run"""
    assert rootfs.parse_missing_packages(said) == ["apptainer", "runc", "slurm-wlm"]
