"""Connections to a real SSH server, for the transports."""

from collections.abc import Callable, Iterator

import pytest

from runners.transports import SSH, SSHAddress
from tests.runners.sshd import Server, serve


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
