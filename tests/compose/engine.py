"""A Docker engine of its own for the proof: Debian's dockerd, started and ended here.

Where DOCKER_HOST is set, that engine is used and left as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab import host
from tests.compose import runc_here

PACKAGES = {
    "dockerd": "docker.io",
    "docker-compose": "docker-compose",
    "iptables": "iptables",
}
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")


@contextlib.contextmanager
def run_engine(folder: Path) -> Iterator[None]:
    """Have DOCKER_HOST name an engine within the block. Raises LabError if none starts."""
    os.environ["DOCKER_BUILDKIT"] = "0"  # Debian's docker.io comes without buildx
    os.environ["COMPOSE_DOCKER_CLI_BUILD"] = "0"
    if os.environ.get("DOCKER_HOST"):
        yield
        return
    host.require_root()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "dockerd.log"
    host.install_packages(PACKAGES, log)
    socket = f"unix://{folder}/docker.sock"
    argv = ["dockerd", "--host", socket, "--data-root", str(folder / "data")]
    argv += ["--exec-root", str(folder / "exec"), "--pidfile", str(folder / "dockerd.pid")]
    argv += ["--exec-opt", "native.cgroupdriver=cgroupfs"]  # no systemd needed
    if runc_here.list_missing_capabilities():
        argv += ["--add-runtime", f"here={runc_here.__file__}", "--default-runtime", "here"]
    forwarding = FORWARDING.read_text()
    with log.open("wb") as file:
        engine = subprocess.Popen(argv, stdout=file, stderr=file, start_new_session=True)
    os.environ["DOCKER_HOST"] = socket
    try:
        wait_for_engine(engine, log)
        yield
    finally:
        del os.environ["DOCKER_HOST"]
        engine.terminate()
        engine.wait(60)
        FORWARDING.write_text(forwarding)
        remove_network_rules()
        for name in ("data", "exec"):
            shutil.rmtree(folder / name, ignore_errors=True)


def wait_for_engine(engine: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the engine answers. Raises LabError if it ends first or takes a minute."""
    deadline = time.monotonic() + 60
    while subprocess.run(["docker", "info"], capture_output=True, check=False).returncode:
        if engine.poll() is not None or time.monotonic() > deadline:
            raise host.LabError(f"dockerd did not start:\n{host.read_last_lines(log)}")
        time.sleep(0.2)


def remove_network_rules() -> None:
    """Remove what the ended engine has left: its bridge, and its rules for packets."""
    quiet: dict[str, Any] = {"capture_output": True, "check": False}
    subprocess.run(["ip", "link", "delete", "docker0"], **quiet)
    for table in ("filter", "nat"):
        rules = subprocess.run(["iptables", "-t", table, "-S"], text=True, **quiet).stdout
        lines = [line.split() for line in rules.splitlines() if "docker" in line.lower()]
        for line in (line for line in lines if line[0] == "-A"):
            subprocess.run(["iptables", "-t", table, "-D", *line[1:]], **quiet)
        for line in (line for line in lines if line[0] == "-N"):
            subprocess.run(["iptables", "-t", table, "-X", line[1]], **quiet)
    subprocess.run(["iptables", "-P", "FORWARD", "ACCEPT"], **quiet)


def docker(*arguments: str, input: bytes | None = None) -> str:  # noqa: A002
    """Return what a command of docker prints. Raises LabError with its errors."""
    done = subprocess.run(["docker", *arguments], input=input, capture_output=True, check=False)
    if done.returncode:
        errors = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
        raise host.LabError(f"docker {' '.join(arguments)} ended with {done.returncode}: {errors}")
    return done.stdout.decode()


def inspect(container: str) -> dict[str, Any]:
    """Return all that the engine knows of a container."""
    answer: dict[str, Any] = json.loads(docker("inspect", container))[0]
    return answer
