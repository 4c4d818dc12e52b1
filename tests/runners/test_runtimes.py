"""Each runtime's command lines, as a table."""

from dataclasses import replace

import pytest

from runners.jobs import EnvironmentSpec
from runners.runtimes import RUNTIMES

PLAIN = EnvironmentSpec(label="x", runtime="", image_path="IMAGE")
FULL = replace(PLAIN, executable="/opt/bin/it", options=("--option",), binds=("/data:/in",))


def wrapped(kind: str, environment: EnvironmentSpec, *, gpus: bool = False) -> str:
    runtime = RUNTIMES[kind]()
    command = runtime.wrap(
        ["python3", "main.py"], environment, directory="/job/run", binds=["/job"], gpus=gpus
    )
    return " ".join(command)


@pytest.mark.parametrize(
    ("kind", "environment", "gpus", "command"),
    [
        ("bare_metal", FULL, True, "python3 main.py"),
        (
            "apptainer",
            PLAIN,
            False,
            "apptainer --silent exec --cleanenv --no-home --pwd /job/run --bind /job "
            "IMAGE python3 main.py",
        ),
        (
            "apptainer",
            FULL,
            True,
            "/opt/bin/it --silent exec --cleanenv --no-home --pwd /job/run --nv --bind /job "
            "--bind /data:/in --option IMAGE python3 main.py",
        ),
        (
            "udocker",
            PLAIN,
            True,
            "udocker --quiet run --nobanner --workdir=/job/run --volume=/job IMAGE python3 main.py",
        ),
        (
            "udocker",
            replace(FULL, mode="P2"),
            False,
            "/usr/bin/env UDOCKER_DEFAULT_EXECUTION_MODE=P2 /opt/bin/it --quiet run --nobanner "
            "--workdir=/job/run --volume=/job --volume=/data:/in --option IMAGE python3 main.py",
        ),
    ],
)
def test_the_command_line(kind, environment, gpus, command):
    assert wrapped(kind, environment, gpus=gpus) == command


def test_udockers_r_modes_get_a_terminal():
    command = wrapped("udocker", replace(PLAIN, mode="R1"))
    assert command.startswith("python3 -c import pty")
    assert command.endswith("=R1 " + wrapped("udocker", PLAIN))


@pytest.mark.parametrize("kind", RUNTIMES)
def test_a_runtime_only_puts_something_before_the_program(kind):
    before = RUNTIMES[kind]().wrap([], FULL, directory="/r", binds=["/j"], gpus=True)
    typed = ["--name=$(x)", "", "a b", "--"]
    wall = RUNTIMES[kind]().wrap(typed, FULL, directory="/r", binds=["/j"], gpus=True)
    assert wall == [*before, *typed]


@pytest.mark.parametrize(
    ("kind", "present", "version"),
    [
        ("bare_metal", "true", "true"),
        ("apptainer", "test -e IMAGE", "apptainer --version"),
        ("udocker", "udocker inspect -p IMAGE", "udocker version"),
    ],
)
def test_what_is_asked_before_a_run(kind, present, version):
    runtime = RUNTIMES[kind]()
    assert " ".join(runtime.present(PLAIN)) == present
    assert " ".join(runtime.version("")) == version


@pytest.mark.parametrize(
    ("kind", "printed", "version"),
    [
        ("apptainer", "apptainer version 1.4.5\n", "1.4.5"),
        ("apptainer", "singularity-ce version 3.11.0-rc.1+12\n", "3.11.0-rc.1+12"),
        (
            "udocker",
            "version: 1.3.17\ntarball: https://host/udocker-englib-1.2.11.tar.gz",
            "1.3.17",
        ),
        ("udocker", "udocker: command not found", ""),
        ("bare_metal", "", ""),
    ],
)
def test_the_version_is_read(kind, printed, version):
    assert RUNTIMES[kind]().parse_version(printed) == version
