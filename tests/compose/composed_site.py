"""A site that docker-compose.yml brings up, and what its containers do."""

from __future__ import annotations

import base64
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab import host
from tests.compose.engine import docker, inspect

PROJECT = "tare-proof"
SERVICES = {"postgres": 1, "valkey": 1, "web": 1, "worker": 3, "bulk": 1, "clock": 1, "lab": 1}
INSIDE = Path(__file__).with_name("inside.py")
ANSWER = "ANSWER:"


def find_compose() -> list[str]:
    """Return the command of docker compose, of version 2 where there is one."""
    is_plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return ["docker-compose"] if is_plugin.returncode else ["docker", "compose"]


def choose_settings() -> dict[str, str]:
    """Return what somebody would write into .env."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return {
        "SECRET_KEY": secrets.token_hex(32),
        "CREDENTIAL_KEYS": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "POSTGRES_PASSWORD": secrets.token_hex(32),
        "VALKEY_PASSWORD": secrets.token_hex(32),
        "TARE_PORT": str(port),
        "COMPOSE_PROFILES": "lab",
        "COMPOSE_PROJECT_NAME": PROJECT,
    }


class Site:
    """The project that all commands of the proof are about, of one checkout at a time."""

    def __init__(self, checkout: Path, log: Path) -> None:
        self.checkout, self.log = checkout, log
        self.settings = choose_settings()
        self.command = find_compose()

    def compose(self, *arguments: str) -> None:
        """Run a command of docker compose. Raises LabError with the last lines of its output."""
        where = ["--file", str(self.checkout / "docker-compose.yml")]
        where += ["--project-directory", str(self.checkout)]
        environment = os.environ | self.settings
        host.run([*self.command, *where, *arguments], self.log, env=environment)

    def list_containers(self, service: str = "") -> list[str]:
        """Return the names of the containers, of one service if it is named."""
        label = f"label=com.docker.compose.project={PROJECT}"
        more = ["--filter", f"label=com.docker.compose.service={service}"] if service else []
        return docker("ps", "-a", "--filter", label, *more, "--format", "{{.Names}}").split()

    def find_container(self, service: str) -> str:
        return sorted(self.list_containers(service))[0]

    def list_unhealthy(self, *, but: str = "") -> list[str]:
        """Return the services, apart from `but`, that are not all there and healthy."""
        wrong = []
        for service, number in SERVICES.items():
            states = [inspect(name)["State"] for name in self.list_containers(service)]
            healthy = [state.get("Health", {}).get("Status") == "healthy" for state in states]
            running = [state["Running"] for state in states]
            if service != but and (len(states) != number or not all(healthy + running)):
                wrong.append(service)
        return wrong

    def wait_until_healthy(self, seconds: float = 300) -> None:
        """Wait until each service has all its containers and they are healthy."""
        wait_until(lambda: not self.list_unhealthy(), f"{SERVICES} to be healthy", seconds)

    def wait_until_serving(self) -> None:
        """Wait until the web server answers, as sites do that have no health checks yet."""
        wait_until(self.is_serving, "the web server to answer", 120)

    def is_serving(self) -> bool:
        return self.read_health().startswith("200")

    def read_health(self) -> str:
        """Return the status and the text of /healthz/, in one line; "" for no answer."""
        address = f"http://127.0.0.1:{self.settings['TARE_PORT']}/healthz/"
        try:
            with urllib.request.urlopen(address, timeout=20) as answer:
                return f"{answer.status} {', '.join(answer.read().decode().splitlines())}"
        except urllib.error.HTTPError as error:
            return f"{error.code} {', '.join(error.read().decode().splitlines())}"
        except OSError:
            return ""

    def call(self, function: str, **arguments: Any) -> Any:
        """Return what a function of inside.py returns when it is called inside the site."""
        call = f"{function}(**json.loads({json.dumps(arguments)!r}))"
        code = f"import json\n{INSIDE.read_text()}\nprint({ANSWER!r}, json.dumps({call}))\n"
        web = self.find_container("web")
        printed = docker("exec", "-i", web, "python", "manage.py", "shell", input=code.encode())
        return json.loads(printed.rpartition(ANSWER)[2])

    def run_on_the_lab(self, *argv: str) -> str:
        return docker("exec", self.find_container("lab"), *argv)

    def end(self) -> None:
        """Remove all of it, volumes and images of its own included."""
        self.compose("down", "--volumes", "--rmi", "local", "--remove-orphans", "--timeout", "5")


def crash(container: str) -> None:
    """Kill a container's own process, as a crash would; its init, where it has one, lives."""
    before = inspect(container)["State"]
    pid = before["Pid"]
    if inspect(container)["HostConfig"].get("Init"):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        pid = int(children[0])
    os.kill(pid, signal.SIGKILL)
    wait_until(
        lambda: inspect(container)["State"]["StartedAt"] > before["StartedAt"],
        f"{container} to be started again",
        60,
    )


def wait_until(is_true: Callable[[], bool], what: str, seconds: float) -> None:
    """Wait for a condition. Raises LabError when the time is over."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            states = docker("ps", "-a", "--format", "{{.Names}}: {{.Status}}")
            raise host.LabError(f"waited {seconds:.0f} s for {what}:\n{states}")
        time.sleep(0.5)


def copy_commit(commit: str, folder: Path) -> None:
    """Write the files of a commit of this repository into a new folder."""
    archive = subprocess.run(["git", "archive", commit], capture_output=True, check=True).stdout
    unpack(archive, folder)


def copy_checkout(checkout: Path, folder: Path) -> None:
    """Copy what is in a checkout now, new files too, but for those that git ignores."""
    listed = [
        "git",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--deduplicate",
    ]
    options: dict[str, Any] = {"cwd": checkout, "capture_output": True, "check": True}
    names = subprocess.run(listed, **options).stdout
    pack = ["tar", "--create", "--null", "--files-from=-", "--ignore-failed-read"]
    unpack(subprocess.run(pack, input=names, **options).stdout, folder)


def unpack(archive: bytes, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)
