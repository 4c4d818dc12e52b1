"""A real SSH server of our own, and keys for it."""

import os
import pwd
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from runners.transports import SSHAddress

SSHD = Path("/usr/sbin/sshd")

# A home of its own: this account's .bashrc and .profile may be slow or print things.
CONFIGURATION = """
Port {port}
ListenAddress 127.0.0.1
HostKey {directory}/host_key
PidFile none
AuthorizedKeysFile {directory}/authorized_keys
SetEnv HOME={directory} PATH={directory}/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PasswordAuthentication no
MaxSessions 3
MaxStartups 100
UseDNS no
Subsystem sftp internal-sftp
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def make_key(path: Path, *options: str, passphrase: str = "") -> str:
    """A private key file with its .pub beside it; returns the private text."""
    command = ["ssh-keygen", "-q", *(options or ("-t", "ed25519")), "-N", passphrase, "-f", path]
    subprocess.run(command, check=True)
    return path.read_text()


def sign(authority: Path, key: Path, *options: str) -> str:
    """The certificate of a key by an authority, both files of `make_key`."""
    command = ["ssh-keygen", "-q", "-s", authority, "-I", "Tare's test", *options, f"{key}.pub"]
    subprocess.run(command, check=True)
    return key.with_name(f"{key.name}-cert.pub").read_text()


@dataclass(frozen=True)
class Server:
    """An sshd of our own, and how to log in to it as whoever runs the tests."""

    directory: Path
    address: SSHAddress

    def authorize(self, public_key: str) -> None:
        with (self.directory / "authorized_keys").open("a") as file:
            file.write(public_key)

    def trust(self, authority: str) -> None:
        """Let in whoever has a certificate of this authority, given as its public key."""
        with (self.directory / "authorized_keys").open("a") as file:
            file.write(f"cert-authority {authority}")

    def but(self, **changes: object) -> SSHAddress:
        return replace(self.address, **changes)  # type: ignore[arg-type]


@contextmanager
def serve(directory: Path) -> Iterator[Server]:
    """Run an sshd that keeps its files in this directory."""
    if not SSHD.exists():
        pytest.fail(f"{SSHD} is missing: apt-get install openssh-server")
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists, Debian makes it at boot
    make_key(directory / "host_key")
    private_key = make_key(directory / "user_key")
    (directory / "authorized_keys").write_text((directory / "user_key.pub").read_text())
    port = free_port()
    configuration = directory / "sshd_config"
    configuration.write_text(CONFIGURATION.format(port=port, directory=directory))
    with subprocess.Popen(
        [SSHD, "-D", "-e", "-f", configuration], stderr=(directory / "log").open("wb")
    ) as process:
        wait_until_open(port, process, directory / "log")
        try:
            yield Server(
                directory,
                SSHAddress(
                    host="127.0.0.1",
                    port=port,
                    user=pwd.getpwuid(os.getuid()).pw_name,
                    host_key=(directory / "host_key.pub").read_text(),
                    private_key=private_key,
                ),
            )
        finally:
            process.terminate()


def wait_until_open(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            signal.sigtimedwait([], 0.01)
    pytest.fail(f"sshd does not start: {log.read_text()}")
