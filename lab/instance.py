"""One running lab: its folder, its processes, its ports, and commands inside it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab import host, rootfs

USER = "researcher"
PASSPHRASE = "pass phrase"
WORK = f"/scratch/{USER}"
SOFTWARE = "/scratch/software"
DEFAULT_PORT = 27000
# sshd, slurmctld, slurmdbd, qmaster, execd, node1, node2, from the base port
PORTS = (0, 1, 2, 3, 4, 11, 12)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Instance:
    """The lab in `directory`, which keeps keys, users' files and Slurm's state between starts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()
        self.facts_path = self.directory / "lab.json"
        self.log = self.directory / "log" / "start.log"
        self.pid_path = self.directory / "pid"
        self.port: int = self.read_facts().get("port", 0)
        self.grid_engine = "grid_engine" in self.read_facts()

    def hold_lock(self) -> contextlib.AbstractContextManager[None]:
        return host.hold_lock(self.directory / "lock")

    # --- processes

    def find_supervisor(self) -> int | None:
        """Return the process id of the running `unshare`, whose end ends the whole cluster."""
        try:
            pid, started = map(int, self.pid_path.read_text().split())
        except (OSError, ValueError):
            return None
        return pid if read_start_time(pid) == started else None

    def find_init(self) -> int | None:
        """Return the process id, outside of the namespace, of the cluster's first process."""
        pid = self.find_supervisor()
        try:
            return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        except (OSError, IndexError):
            return None

    def is_started(self) -> bool:
        init = self.find_init()
        return bool(init) and os.path.exists(f"/proc/{init}/root/run/tare-lab.started")

    def start(self, port: int | None, *, with_caller: bool) -> subprocess.Popen[bytes]:
        """Start every daemon and wait for the last one.

        `with_caller`: the cluster ends with the process that called.
        """
        root = rootfs.ensure_cluster_root(grid_engine=self.grid_engine)
        for name in ("log", "home", "scratch", "keys"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        software = host.cache_folder() / "software"
        software.mkdir(exist_ok=True)
        self.port, port_lock = claim_ports(port, self.port)
        binds = {
            host.CLUSTER: "/opt/tare-lab",
            self.directory / "log": "/var/log/lab",
            self.directory / "home": "/home",
            self.directory / "scratch": "/scratch",
            software: SOFTWARE,
            self.directory / "keys": "/var/lib/tare-lab/keys",
        }
        unshare, enter = rootfs.ENTER[:-1], rootfs.ENTER[-1]
        argv = [*unshare, enter, "--overlay", str(self.directory), str(root)]
        for source, target in binds.items():
            argv += ["--bind", str(source), target]
        argv += ["--", "/opt/tare-lab/start.sh"]

        with self.log.open("wb") as log:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": PATH, "LANG": "C.UTF-8", "LAB_PORT": str(self.port)},
                pass_fds=[port_lock],
                start_new_session=True,
                preexec_fn=host.end_with_parent if with_caller else None,
            )
        os.close(port_lock)  # the cluster holds it now, for as long as any of it lives
        host.write_atomically(self.pid_path, f"{process.pid} {read_start_time(process.pid)}\n")
        while not self.is_started():
            if process.poll() is not None:
                last_lines = host.read_last_lines(self.log)
                raise host.LabError(
                    f"the cluster did not start; {self.log} ends with:\n{last_lines}"
                )
            time.sleep(0.02)
        return process

    def wait(self) -> None:
        """Wait until the cluster has ended."""
        while self.find_supervisor() is not None:
            time.sleep(0.5)

    def stop(self) -> bool:
        """End the cluster, cleanly if it can be. Return whether it was running."""
        supervisor, init = self.find_supervisor(), self.find_init()
        if supervisor is None:
            return False
        with contextlib.suppress(ProcessLookupError):
            if init:
                os.kill(init, signal.SIGTERM)
            if not wait_for_end(supervisor, 6):
                os.kill(supervisor, signal.SIGKILL)  # and the kernel kills the rest
                wait_for_end(supervisor, 5)
        self.pid_path.unlink(missing_ok=True)
        return True

    # --- commands inside

    def wrap_command(self, argv: Sequence[str], user: str = "root") -> list[str]:
        """Return the command that runs `argv` inside the cluster as `user`, without SSH."""
        init = self.find_init()
        if init is None:
            raise host.LabError(f"no lab is running in {self.directory}")
        home = "/root" if user == "root" else f"/home/{user}"
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]
        return [
            *("nsenter", f"--target={init}", "--mount", "--pid", "--uts", "--ipc", "--"),
            *as_user,
            *("/usr/bin/env", "-i", f"PATH={PATH}", f"HOME={home}", f"USER={user}", "LANG=C.UTF-8"),
            *argv,
        ]

    def run_inside(self, argv: Sequence[str], user: str = "root", timeout: float = 60) -> str:
        """Return what `argv` prints inside the cluster. Raises LabError with its errors."""
        done = subprocess.run(
            self.wrap_command(argv, user),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise host.LabError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def run_readiness_test(self) -> None:
        """Run the readiness test through the real sshd, with the researcher's own key."""
        self.run_inside(
            [
                *("timeout", "60", "ssh", "-F", "none", "-i", "/var/lib/tare-lab/keys/id_ed25519"),
                *("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "LogLevel=ERROR"),
                *("-o", "UserKnownHostsFile=/dev/null", "-p", str(self.port), f"{USER}@127.0.0.1"),
                "/opt/tare-lab/ready.sh",
            ],
            timeout=70,
        )
        self._end_reservation()

    def _end_reservation(self) -> None:
        """Give the nodes that start.sh reserved for the test to the jobs that wait for them."""
        deadline = time.monotonic() + 20
        while self.run_inside(["scontrol", "-o", "show", "reservation"]).startswith(
            "ReservationName="
        ):
            with contextlib.suppress(host.LabError):  # refused while the test's job still ends
                self.run_inside(["scontrol", "delete", "reservation=ready"])
                return
            if time.monotonic() > deadline:
                raise host.LabError("the reservation of the self-test cannot be deleted")
            time.sleep(0.05)

    # --- lab.json

    def read_facts(self) -> dict[str, Any]:
        try:
            facts: dict[str, Any] = json.loads(self.facts_path.read_text())
        except FileNotFoundError:
            return {}
        return facts

    def describe(self) -> dict[str, Any]:
        """Return the contents of lab.json: how to reach the cluster, and what it offers."""
        init = self.find_init()
        inside = Path(f"/proc/{init}/root")
        versions = dict(
            line.split(" ", 1)
            for line in (inside / "etc/tare-lab/versions").read_text().splitlines()
        )
        executables = {
            "apptainer": "/usr/bin/apptainer",
            "udocker": "/usr/local/bin/udocker",
            "podman": "/usr/bin/podman",
            "charliecloud": "/usr/bin/ch-run",
        }
        host_key = (inside / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
        grid_engine = (
            {"grid_engine": {"version": versions["grid_engine"]}} if self.grid_engine else {}
        )
        return {
            "schema": 1,
            "host": "127.0.0.1",
            "port": self.port,
            "user": USER,
            "host_key": " ".join(host_key),
            "private_key": str(self.directory / "keys" / "id_ed25519"),
            "passphrase_key": {
                "private_key": str(self.directory / "keys" / "id_passphrase"),
                "passphrase": PASSPHRASE,
            },
            "home": f"/home/{USER}",
            "work_directory": WORK,
            "os": versions["os"],
            "python": {"executable": "/usr/bin/python3", "version": versions["python"]},
            "scheduler": {"kind": "slurm", "version": versions["slurm"]},
            **grid_engine,
            "partitions": self.list_partitions(),
            "runtimes": {
                kind: {"executable": path, "version": versions[kind]}
                for kind, path in executables.items()
            },
        }

    def list_partitions(self) -> list[dict[str, Any]]:
        rows = self.run_inside(["sinfo", "-h", "-o", "%P|%D|%G|%c|%m|%l|%R"]).splitlines()
        partitions = []
        for row in rows:
            name_and_mark, nodes, gres, cpus, memory, limit, name = row.split("|")
            _, model, gpus = gres.partition("(")[0].split(":")
            partitions.append(
                {
                    "name": name,
                    "default": name_and_mark.endswith("*"),
                    "nodes": int(nodes),
                    "cpus_per_node": int(cpus),
                    "memory_mb_per_node": int(memory),
                    "gpus_per_node": int(gpus),
                    "gpu_model": model,
                    "time_limit_seconds": parse_seconds(limit),
                }
            )
        return partitions

    def write_facts(self, facts: dict[str, Any]) -> None:
        host.write_atomically(self.facts_path, json.dumps(facts, indent=2) + "\n", 0o600)


def parse_seconds(limit: str) -> int:
    """Return the seconds of Slurm's [days-][[hours:]minutes:]seconds."""
    days, _, clock = limit.rpartition("-")
    total = 0
    for part in clock.split(":"):
        total = total * 60 + int(part)
    return int(days or 0) * 86400 + total


def read_start_time(pid: int) -> int | None:
    """Return when a process began, in ticks since boot; a later one of its number differs."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def wait_for_end(pid: int, within_seconds: float) -> bool:
    """Wait for a process to end; return whether it has."""
    began, deadline = read_start_time(pid), time.monotonic() + within_seconds
    while (now := read_start_time(pid)) is not None and now == began:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def claim_ports(requested: int | None, last: int) -> tuple[int, int]:
    """Return a base port whose block is free, and a lock on it that other labs respect.

    Raises LabError if the requested block is taken.
    """
    candidates = (
        [requested] if requested else [last or DEFAULT_PORT, *range(DEFAULT_PORT, 32000, 20)]
    )
    folder = host.cache_folder() / "ports"
    folder.mkdir(exist_ok=True)
    for base in candidates:
        lock = os.open(folder / str(base), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if all(is_port_free(base + offset) for offset in PORTS):
                return base, lock
        except BlockingIOError:
            pass
        os.close(lock)
    raise host.LabError(
        f"port {requested} or one of those after it is taken: give another --port, or none"
    )


def is_port_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
