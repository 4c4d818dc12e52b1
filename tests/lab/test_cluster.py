"""The lab is a real cluster: it comes up, runs jobs in every runtime, and leaves nothing behind."""

from __future__ import annotations

import base64
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko
import pytest

from lab import oci, rootfs
from lab.client import SCRIPT, Lab, ensure_lab, load, stop_lab
from lab.instance import Instance

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    directory = tmp_path_factory.mktemp("lab")
    yield ensure_lab(directory, images=("numpy",))
    stop_lab(directory)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def shell(cluster: Lab) -> Iterator[Callable[[str], str]]:
    """What a command prints, as the researcher, over SSH with the pinned host key."""
    with connect(cluster, cluster.private_key) as client:

        def run(command: str) -> str:
            _, output, errors = client.exec_command(command, timeout=60)
            text = output.read().decode()
            assert output.channel.recv_exit_status() == 0, text + errors.read().decode()
            return text.strip()

        yield run


def connect(lab: Lab, key: Path, passphrase: str | None = None) -> paramiko.SSHClient:
    client = paramiko.SSHClient()
    kind, text = lab.host_key.split()
    pinned = paramiko.PKey.from_type_string(kind, base64.b64decode(text))
    client.get_host_keys().add(f"[{lab.host}]:{lab.port}", kind, pinned)
    client.connect(
        lab.host,
        lab.port,
        lab.user,
        key_filename=str(key),
        passphrase=passphrase,
        allow_agent=False,
        look_for_keys=False,
        timeout=10,
    )
    return client


def processes(namespace: int) -> list[int]:
    """Every process of a PID namespace, seen from outside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "ns/pid").stat().st_ino == namespace:
                found.append(int(entry.name))
        except OSError:  # it has just ended
            continue
    return found


def namespace_of(directory: Path) -> int:
    return Path(f"/proc/{Instance(directory).init()}/ns/pid").stat().st_ino


def until(condition: Callable[[], bool], within_seconds: float = 10) -> bool:
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_it_has_two_nodes_with_four_gpus_each(cluster: Lab) -> None:
    gpu, debug = sorted(cluster.partitions, key=lambda partition: -partition.nodes)
    assert (gpu.name, gpu.nodes, gpu.gpus_per_node, gpu.gpu_model) == ("gpu", 2, 4, "h100")
    assert gpu.default
    assert (debug.name, debug.nodes, debug.time_limit_seconds) == ("debug", 1, 120)


def test_a_second_up_changes_nothing(cluster: Lab) -> None:
    before = namespace_of(cluster.directory)
    assert ensure_lab(cluster.directory, images=("numpy",)) == cluster
    assert namespace_of(cluster.directory) == before


def test_the_key_with_a_passphrase_opens_the_door_and_a_wrong_one_does_not(cluster: Lab) -> None:
    connect(cluster, cluster.passphrase_key, cluster.passphrase).close()
    with pytest.raises(paramiko.SSHException):
        connect(cluster, cluster.passphrase_key, "wrong")


def test_a_job_gets_its_gpus_and_accounting_knows_it(shell: Callable[[str], str]) -> None:
    job = shell(
        "cd /scratch/researcher && sbatch --parsable --wait --gres=gpu:2 --nodelist=node1 "
        "--output=gpus.txt --wrap 'echo $CUDA_VISIBLE_DEVICES $SLURMD_NODENAME'"
    )
    assert shell("cat /scratch/researcher/gpus.txt") == "0,1 node1"
    known = shell(f"sacct -n -P -X -j {job} -o State,ExitCode,NodeList")
    assert known == "COMPLETED|0:0|node1"


def test_sbatch_refuses_more_time_than_the_partition_has(shell: Callable[[str], str]) -> None:
    refusal = shell("sbatch --partition=debug --time=10 --wrap true 2>&1 || true")
    assert "Requested time limit is invalid" in refusal


def test_a_node_can_be_taken_down_and_brought_back(
    cluster: Lab, shell: Callable[[str], str]
) -> None:
    down = cluster.execute(["scontrol", "update", "nodename=node2", "state=down", "reason=test"])
    assert down.returncode == 0
    assert shell("sinfo -h -n node2 -p gpu -o %T") == "down"
    cluster.execute(["scontrol", "update", "nodename=node2", "state=resume"])
    assert until(lambda: shell("sinfo -h -n node2 -p gpu -o %T") == "idle")


@pytest.mark.parametrize("runtime", ["bare metal", "sif", "sandbox", "P1", "R1", "charliecloud"])
def test_every_runtime_imports_the_same_numpy(
    cluster: Lab, shell: Callable[[str], str], runtime: str
) -> None:
    numpy = cluster.images["numpy"]
    sandbox = numpy.form("sandbox").path
    apptainer = "apptainer -s exec --cleanenv --no-home --pwd /scratch -B /scratch"
    udocker = "udocker -q run --nobanner"
    start = {
        "bare metal": numpy.bare_metal.python,
        "sif": f"{apptainer} {numpy.form('sif').path} {numpy.image.python}",
        "sandbox": f"{apptainer} {sandbox} {numpy.image.python}",
        "P1": f"{udocker} {numpy.form('udocker', 'P1').path} {numpy.image.python}",
        "R1": f"{udocker} {numpy.form('udocker', 'R1').path} {numpy.image.python}",
        "charliecloud": f"ch-run {sandbox} -- {numpy.image.python}",
    }[runtime]
    program = "import numpy, platform; print(numpy.__version__, platform.python_version())"
    command = f"{start} -c {shlex.quote(program)}"
    if runtime == "R1":  # without a terminal udocker loses runc's exit code
        command = f"script -qec {shlex.quote(command)} /dev/null"
    answer = shell(f"srun --quiet --gres=gpu:1 --nodelist=node1 {command}")
    expected = f"{numpy.image.packages['numpy']} {numpy.image.python_version}"
    assert answer.strip("\0\r\n") == expected
    assert numpy.bare_metal.packages == numpy.image.packages


def test_podman_runs_the_same_archive_by_its_digest(
    cluster: Lab, shell: Callable[[str], str]
) -> None:
    numpy = cluster.images["numpy"]
    staged = numpy.form("podman").path
    assert staged.endswith(f"@{numpy.image.digest}")
    program = f"{numpy.image.python} -c 'import numpy; print(numpy.__version__)'"
    answer = shell(f"podman run --rm --net=host --pull=never {staged} {program} 2>/dev/null")
    assert answer == numpy.image.packages["numpy"]


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
    assert until(lambda: (tmp_path / "lab.json").exists(), 60)
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


def test_a_taken_port_is_refused_in_words(cluster: Lab, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=f"port {cluster.port} .* is taken"):
        ensure_lab(tmp_path, port=cluster.port)


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
    assert rootfs.missing_packages(said) == ["apptainer", "runc", "slurm-wlm"]


def test_the_same_folder_gives_the_same_digest(tmp_path: Path) -> None:
    digests = []
    for age in (1, 2):
        folder = tmp_path / str(age)
        folder.mkdir()
        (folder / "b.py").write_text("text")
        os.utime(folder / "b.py", (age, age))
        os.symlink("b.py", folder / "a")
        trees = [oci.Tree(folder), oci.Tree(folder, "opt/tare")]
        digests.append(oci.write(tmp_path / f"{age}.tar", trees, "tare/x:1", {}, {}))
    assert digests[0] == digests[1]
    other = oci.write(tmp_path / "x.tar", [oci.Tree(tmp_path / "1")], "tare/x:1", {}, {})
    assert other != digests[0]


def test_lab_json_is_for_its_owner_only(cluster: Lab) -> None:
    assert load(cluster.directory) == cluster
    assert (cluster.directory / "lab.json").stat().st_mode & 0o077 == 0
