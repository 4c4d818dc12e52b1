"""The lab is a real cluster: it comes up, runs jobs in every runtime, and leaves nothing behind."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from lab.client import Lab, ensure_lab, load_lab
from lab.instance import PORTS
from tests.lab.machine import namespace_of

pytestmark = pytest.mark.lab

LISTENS, LOOPBACK = "0A", "0100007F"


@pytest.fixture(scope="module")
def shell(lab: Lab) -> Iterator[Callable[[str], str]]:
    """What a command prints, as the researcher, over SSH with the pinned host key."""
    with connect(lab, lab.private_key) as client:

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


def test_it_has_two_nodes_with_four_gpus_each(lab: Lab) -> None:
    gpu, debug = sorted(lab.partitions, key=lambda partition: -partition.nodes)
    assert (gpu.name, gpu.nodes, gpu.gpus_per_node, gpu.gpu_model) == ("gpu", 2, 4, "h100")
    assert gpu.default
    assert (debug.name, debug.nodes, debug.time_limit_seconds) == ("debug", 1, 120)


def test_its_daemons_listen_on_loopback_alone(lab: Lab) -> None:
    ports = {lab.port + offset for offset in PORTS}
    listening = dict(listeners())
    assert ports & listening.keys() >= {lab.port + offset for offset in (0, 1, 2, 11, 12)}
    reachable = {port for port in ports & listening.keys() if listening[port] != LOOPBACK}
    assert reachable == set()


def listeners() -> Iterator[tuple[int, str]]:
    """Yield the port and the address, as the kernel writes it, of all that listens by TCP."""
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            local, _, state = line.split()[1:4]
            address, _, port = local.partition(":")
            if state == LISTENS:
                yield int(port, 16), address


def test_a_second_up_changes_nothing(lab: Lab) -> None:
    before, namespace = load_lab(lab.directory), namespace_of(lab.directory)
    assert ensure_lab(lab.directory, images=("numpy",)) == before
    assert namespace_of(lab.directory) == namespace


def test_the_key_with_a_passphrase_opens_the_door_and_a_wrong_one_does_not(lab: Lab) -> None:
    connect(lab, lab.passphrase_key, lab.passphrase).close()
    with pytest.raises(paramiko.SSHException):
        connect(lab, lab.passphrase_key, "wrong")


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


@pytest.mark.parametrize("runtime", ["bare metal", "sif", "sandbox", "P1", "R1", "charliecloud"])
def test_every_runtime_imports_the_same_numpy(
    lab: Lab, shell: Callable[[str], str], runtime: str
) -> None:
    numpy = lab.images["numpy"]
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


def test_podman_runs_the_same_archive_by_its_digest(lab: Lab, shell: Callable[[str], str]) -> None:
    numpy = lab.images["numpy"]
    staged = numpy.form("podman").path
    assert staged.endswith(f"@{numpy.image.digest}")
    program = f"{numpy.image.python} -c 'import numpy; print(numpy.__version__)'"
    answer = shell(f"podman run --rm --net=host --pull=never {staged} {program} 2>/dev/null")
    assert answer == numpy.image.packages["numpy"]


def test_a_taken_port_is_refused_in_words(lab: Lab, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=f"port {lab.port} .* is taken"):
        ensure_lab(tmp_path, port=lab.port)


def test_lab_json_is_for_its_owner_only(lab: Lab) -> None:
    described = load_lab(lab.directory)
    assert described.images.items() >= lab.images.items(), "other tests may have asked for more"
    assert replace(described, images=lab.images) == lab
    assert (lab.directory / "lab.json").stat().st_mode & 0o077 == 0
