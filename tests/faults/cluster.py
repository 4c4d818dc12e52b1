"""The lab as something that breaks: its daemons, nodes, jobs, connections and disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.models import Cluster
from lab.client import Lab
from lab.instance import Instance
from tests.conftest import pause_longer
from tests.factories import (
    AdminFactory,
    ClusterFactory,
    CredentialFactory,
    PartitionFactory,
)
from tests.faults.site import Load, launch

NODES = ("node1", "node2")
SBATCH, SUBMITTED, GOES_ON = "/usr/local/bin/sbatch", "/tmp/submitted", "/tmp/goes-on"
SESSIONS = ["pgrep", "-f", "^sshd(-session)?: researcher"]


@dataclass
class Breakable:
    """A running lab, and the ways to break it. Each is undone by another method."""

    lab: Lab

    @property
    def root(self) -> Path:
        """Return the root of the cluster's files as this process sees it, mounts included."""
        return Path(f"/proc/{Instance(self.lab.directory).find_init()}/root")

    def do(self, *argv: str, user: str = "root", may_fail: bool = False) -> str:
        """Run a command on the cluster and return what it prints."""
        done = self.lab.execute(argv, user=user)
        assert may_fail or done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def find(self, *argv: str) -> list[str]:
        """Return process ids that a command like pgrep prints."""
        return self.do(*argv, may_fail=True).split()

    def signal(self, name: str, processes: Sequence[str]) -> None:
        if processes:
            self.do("kill", "-s", name, *processes, may_fail=True)

    # --- connections

    def freeze_sshd(self) -> None:
        self.signal("STOP", self.find("pgrep", "sshd"))

    def thaw_sshd(self) -> None:
        self.signal("CONT", self.find("pgrep", "sshd"))

    def freeze_sessions(self) -> None:
        """Freeze the processes that serve the researcher, as a network does that is cut.

        The login node does not notice it; new connections are served.
        """
        self.signal("STOP", self.find(*SESSIONS))

    def cut_connections(self) -> None:
        """Kill the processes of sshd that serve the researcher; it takes new connections."""
        self.signal("KILL", self.find(*SESSIONS))

    @contextmanager
    def hold_answers_of_sbatch(self) -> Iterator[Callable[[], bool]]:
        """Have sbatch submit and then keep its answer for itself; yield whether it has submitted.

        In the end the next sbatch is the real one again, and what waits goes on.
        """
        self.do("rm", "-f", SUBMITTED, GOES_ON)
        place = self.root / SBATCH.lstrip("/")
        place.write_text(
            f'#!/bin/sh\n/usr/bin/sbatch "$@"\ncode=$?\ntouch {SUBMITTED}\n'
            f"until [ -e {GOES_ON} ]; do sleep 0.05; done\nexit $code\n"
        )
        place.chmod(0o755)
        try:
            yield (self.root / SUBMITTED.lstrip("/")).exists
        finally:
            place.unlink()
            self.do("touch", GOES_ON)

    @contextmanager
    def hold_first_sbatch(self) -> Iterator[Callable[[], bool]]:
        """Have the first sbatch wait before it submits anything; yield whether it does.

        Others go on at once, and it does in the end.
        """
        self.do("rm", "-rf", SUBMITTED, GOES_ON)
        place = self.root / SBATCH.lstrip("/")
        place.write_text(
            f"#!/bin/sh\nif mkdir {SUBMITTED} 2>/dev/null; then\n"
            f"    until [ -e {GOES_ON} ]; do sleep 0.05; done\nfi\n"
            'exec /usr/bin/sbatch "$@"\n'
        )
        place.chmod(0o755)
        try:
            yield (self.root / SUBMITTED.lstrip("/")).exists
        finally:
            self.do("touch", GOES_ON)
            place.unlink()

    # --- Slurm

    @contextmanager
    def hide_job(self, job_id: str) -> Iterator[None]:
        """Have squeue and sacct leave a job out, as if they had never known it."""
        places = [self.root / f"usr/local/bin/{name}" for name in ("squeue", "sacct")]
        for place in places:
            place.write_text(
                f'#!/bin/bash\nset -o pipefail\n/usr/bin/{place.name} "$@" | '
                f"sed '/^{job_id}[.|]/d'\n"
            )
            place.chmod(0o755)
        try:
            yield
        finally:
            for place in places:
                place.unlink()

    def list_queue(self) -> list[str]:
        """Return the names of all jobs that wait or run."""
        return self.do("/usr/bin/squeue", "--noheader", "--format=%j").split()

    def kill_slurmctld(self) -> None:
        self.signal("KILL", self.find("pgrep", "-x", "slurmctld"))

    def save_state(self) -> None:
        """Wait until slurmctld has written its state, which it does every few seconds.

        Killed before, it would know running jobs as waiting ones, and have their nodes kill them.
        """
        state = self.root / "var/lib/slurm/slurmctld/job_state"
        before = time.time()
        for job_id in self.do("squeue", "--noheader", "--format=%A").split():
            self.do("scontrol", "update", f"jobid={job_id}", "admincomment=saved")
        self.wait_for(lambda: state.exists() and state.stat().st_mtime > before)

    def start_slurmctld(self, *options: str) -> None:
        self.do("/usr/sbin/slurmctld", *options, user="slurm")
        self.wait_for(lambda: "is UP" in self.do("timeout", "2", "scontrol", "ping", may_fail=True))

    def find_slurmd(self, node: str) -> list[str]:
        return self.find("pgrep", "-f", f"^/usr/sbin/slurmd -N {node}")

    def kill_slurmd(self, node: str) -> None:
        self.signal("KILL", self.find_slurmd(node))

    def start_slurmd(self, node: str, *options: str) -> None:
        self.do("/usr/sbin/slurmd", "-N", node, *options)

    def drain(self, *nodes: str) -> None:
        self.do("scontrol", "update", f"nodename={','.join(nodes)}", "state=drain", "reason=fault")

    def resume(self, *nodes: str) -> None:
        for node in nodes:
            if not self.find_slurmd(node):
                self.start_slurmd(node)
        for node in nodes:
            self.do("scontrol", "update", f"nodename={node}", "state=resume", may_fail=True)

    def cut_power(self, node: str) -> None:
        """Kill all processes of a node, as a power cut does: slurmd, its steps, and the jobs."""
        self.kill_slurmd(node)
        listing = self.do("squeue", "--noheader", "--states=running", "-w", node, "--format=%A")
        steps = "|".join(rf"slurmstepd: \[{job}\." for job in listing.split())

        def find_processes() -> set[str]:
            of_steps = self.find("pgrep", "-f", steps) if steps else []
            return {*of_steps, *self._find_processes_of_jobs(node)}

        # All stop before any is killed: a job's script that sees its program die would begin the
        # next run, which is none of those that were found.
        stopped: set[str] = set()
        while new := find_processes() - stopped:
            self.signal("STOP", list(new))
            stopped |= new
        self.signal("KILL", list(stopped))

    def _find_processes_of_jobs(self, node: str) -> list[str]:
        find = f"grep -lzx SLURMD_NODENAME={node} /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3"
        return self.find("sh", "-c", find)

    def end_jobs(self) -> None:
        """End all jobs, those too whose numbers slurmctld has lost.

        It gives these numbers again; and as it ends what runs under one that it does not know, it
        would end the new job with the old one.
        """
        # By their names, which no other job has: a busy slurmctld may do it when the next test's
        # jobs are there.
        for name in self.list_queue():
            self.do("scancel", f"--name={name}", may_fail=True)
        self.wait_for(lambda: not self.list_queue())
        steps = ("pgrep", "-f", "^slurmstepd: ")
        processes = (process for node in NODES for process in self._find_processes_of_jobs(node))
        self.signal("KILL", [*self.find(*steps), *processes])
        self.wait_for(lambda: not self.find(*steps))
        self.clean_nodes()

    def clean_nodes(self) -> None:
        """Have each slurmd forget the numbers of ended jobs.

        It refuses a new job of such a number, has it cancelled as root and drains the node: after
        slurmctld has lost its state, that would be jobs of the next test.
        """
        for node in NODES:
            self.kill_slurmd(node)
            self.wait_for(lambda node=node: not self.find_slurmd(node))
            self.start_slurmd(node, "-c")
        self.wait_for(self.is_well)

    def cancel_one(self, *, states: str = "running") -> str:
        """Cancel a job behind Tare's back; return its id, or nothing where there is none."""
        ids = self.do("squeue", "--noheader", f"--states={states}", "--format=%A").split()
        if ids:
            self.do("scancel", ids[0], may_fail=True)
        return ids[0] if ids else ""

    def forget_jobs(self, *, accounts_too: bool = True) -> None:
        """Have slurmctld start without its state, and accounting without a job."""
        self.kill_slurmctld()
        if accounts_too:
            for table in ("job", "step"):
                self.do("mariadb", "slurm_acct", "-e", f"DELETE FROM lab_{table}_table")
        self.start_slurmctld("-c")

    def wait_for(self, done: Callable[[], object], seconds: float = 60) -> None:
        deadline, pauses = time.monotonic() + seconds, pause_longer()
        while not done():
            assert time.monotonic() < deadline, "it did not happen in time"
            next(pauses)

    def list_job_names(self) -> list[str]:
        """Return the names of all jobs that Tare has ever submitted here."""
        listing = self.do("sacct", "-a", "-X", "-n", "-P", "-o", "JobName")
        return [name for name in listing.split() if name.startswith("tare-")]

    def is_well(self) -> bool:
        """Return whether both nodes take jobs."""
        states = self.do("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%T")
        return set(states.split()) <= {"idle", "mixed", "allocated", "completing"}

    def repair(self) -> None:
        """Undo whatever was done."""
        self.thaw_sshd()
        if not self.find("pgrep", "-x", "slurmctld"):
            self.start_slurmctld()
        self.resume(*NODES)
        self.wait_for(self.is_well)

    def register(self, name: str) -> Cluster:
        """Return the lab as a cluster of the site, with a work directory of its own."""
        facts = self.lab
        credential = CredentialFactory(
            user_name=facts.user, private_key=facts.private_key.read_text()
        )
        cluster: Cluster = ClusterFactory(
            owner=AdminFactory(),
            transport="ssh",
            scheduler="slurm",
            host=facts.host,
            port=facts.port,
            host_key=facts.host_key,
            credential=credential,
            work_directory=f"{facts.work_directory}/{name}/work",
            poll_seconds=1,
            max_live_jobs=100,
        )
        PartitionFactory(
            cluster=cluster, name="gpu", cpus_per_node=8, cpus_per_run=1, memory_mb=200
        )
        return cluster

    def launch(self, name: str, **options: int | float) -> Load:
        """Launch a load that works in a folder of this name."""
        seen_as = f"{self.lab.work_directory}/{name}"
        folder = self.root / seen_as.lstrip("/")
        return launch(self.register(name), folder, seen_as, **options)  # type: ignore[arg-type]
