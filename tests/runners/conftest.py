"""Connections to a real SSH server, for the transports; jobs for this machine, for the scripts."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runners.jobs import EnvironmentSpec, JobSpec, Resources, RunSpec
from runners.runner import Runner
from runners.schedulers import Direct
from runners.transports import SSH, Local, SSHAddress
from runners.workloads import WORKLOADS
from tests.runners.sshd import Server, serve

PARAMETERS = WORKLOADS["blas"].clean({"steps": 3, "burn_in": 1, "matrix_size": 64})


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Callable[[SSHAddress], SSH]]:
    """Makes transports and closes them."""
    made: list[SSH] = []

    def make(address: SSHAddress, *, connect_timeout: float = 5) -> SSH:
        made.append(SSH(address, connect_timeout=connect_timeout))
        return made[-1]

    yield make
    for transport in made:
        transport.close()


@pytest.fixture
def ssh(server: Server, connect: Callable[[SSHAddress], SSH]) -> SSH:
    return connect(server.address)


@pytest.fixture
def runner(home: Path) -> Runner:
    return Runner(Local(), Direct())


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., EnvironmentSpec]:
    """Makes environments whose `python` is a shell script."""

    def make(script: str, **changes: object) -> EnvironmentSpec:
        path = tmp_path / f"program {len(list(tmp_path.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        defaults = {"label": 'it\'s "bare" $(metal)\n', "runtime": "bare_metal"}
        return EnvironmentSpec(**{**defaults, "python": str(path), **changes})  # type: ignore[arg-type]

    return make


@pytest.fixture
def block(tmp_path: Path) -> Callable[..., JobSpec]:
    """Makes jobs below a work directory with an awkward name."""

    def make(*environments: EnvironmentSpec, uid: str = "u1", **changes: int) -> JobSpec:
        runs = [
            RunSpec(f"r{position}", position, "blas", PARAMETERS, environment)
            for position, environment in enumerate(environments)
        ]
        cooldown = changes.pop("cooldown_seconds", 0)
        resources = Resources(**{"time_limit_seconds": 60, **changes})  # type: ignore[arg-type]
        return JobSpec(
            uid=uid,
            name=f"tare-{uid}-1",
            directory=str(tmp_path / "work $(x) 'dir' ü" / "jobs" / f"{uid}-1"),
            runs=tuple(runs),
            resources=resources,
            cooldown_seconds=cooldown,
        )

    return make
