"""A site with servers and processes of its own, all of which can be killed."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from urllib.parse import urlsplit

from bs4 import BeautifulSoup
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from experiments.execution import lifecycle
from experiments.models import Cluster, Experiment, Job
from runners.workloads import WORKLOADS
from standalone.postgres import Postgres
from standalone.valkey import Valkey
from tests.conftest import pause_longer
from tests.factories import EnvironmentFactory, ExperimentFactory, WorkloadFactory
from tests.faults import children
from tests.faults.invariants import Account, make_account

# One line for each execution, by O_APPEND: the run's directory, which names the attempt, the
# scheduler's id, the process, and when.
PROGRAM = """#!/bin/sh
echo "$TARE_RUN $(cat "$TARE_RUN/../../started") $$ $(date +%s.%N)" >>"{counter}"
until [ -e "{gate}" ]; do sleep 0.05; done
sleep {seconds}
"""


TIME_LIMIT = 900
"""Of a run in seconds, its wait at the gate included, which is long on a busy machine."""


@dataclass
class Load:
    """An experiment whose executions are counted on the cluster's disk."""

    experiment: Experiment
    work: Path  # the cluster's work directory, as this process sees it
    counter: Path
    gate: Path  # programs wait for this file

    @property
    def cluster(self) -> Cluster:
        return self.experiment.cluster

    def is_over(self) -> bool:
        """Return whether every job has ended."""
        return not self.experiment.jobs.exclude(state__in=Job.FINAL).exists()

    def make_account(self) -> Account:
        return make_account(self.experiment, self.work, self.counter)


@dataclass
class Site:
    """PostgreSQL and Valkey, whose data survive a killed server or are meant to be lost."""

    folder: Path
    postgres: Postgres
    valkey: Valkey
    family: list[BaseProcess] = field(default_factory=list)

    @property
    def database(self) -> dict[str, object]:
        """Return the settings of its database that differ between sites."""
        return read_database_url(self.postgres.url)

    def start(self, work: Callable[..., None], *args: object) -> BaseProcess:
        """Start a process of the site that does `work(*args)`."""
        process = children.start(self.folder, self.database, self.valkey.url, work, *args)
        self.family.append(process)
        return process

    def end_processes(self) -> None:
        """Kill all processes that are left, and wait for their ends."""
        for process in self.family:
            # One that has ended is not killed: its number may be another process's by now.
            if process.is_alive():
                process.kill()
            process.join()
        self.family.clear()

    def start_servers(self) -> None:
        """Start the servers that do not run."""
        for server in (self.postgres, self.valkey):
            if server.poll() is not None:
                server.start()
                connection.close()

    def kill_valkey(self) -> None:
        """Kill the server; all that it held is lost."""
        _kill(self.valkey.child)

    def kill_postgres(self) -> None:
        """Kill the server's first process; the others end with it."""
        _kill(self.postgres.child)

    def read_log(self) -> str:
        """Return the ends of what the processes have printed."""
        return "\n".join(
            f"== {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log")
        )

    def wait_until(self, done: Callable[[], object], seconds: float = 60) -> None:
        """Wait until `done()`. AssertionError, with what the processes printed, if it does not."""
        pauses, deadline = pause_longer(), time.monotonic() + seconds
        while not done():
            assert time.monotonic() < deadline, self.read_log()
            next(pauses)

    def finish(self, load: Load, seconds: float = 60) -> Account:
        """Open the gate, wait until every job has ended, and return the account.

        AssertionError if anything of what Tare promises was not kept.
        """
        load.gate.touch()
        self.wait_until(load.is_over, seconds)
        account = load.make_account()
        assert account.is_kept, f"{account}\n{self.read_log()}"
        return account


@contextmanager
def run_site(folder: Path) -> Iterator[Site]:
    """Run the servers of a site in `folder`, with a migrated database."""
    # Without fsync: a killed process leaves its writes to the kernel. But with every commit in
    # the log before it is answered, as in operation.
    postgres = Postgres(folder / "postgres")
    postgres.options = ("-c", "fsync=off", "-c", "full_page_writes=off")
    valkey = Valkey(folder / "valkey")
    postgres.start()
    valkey.start()
    site = Site(folder, postgres, valkey)
    try:
        with use_site(site):
            call_command("migrate", verbosity=0)
        yield site
    finally:
        site.end_processes()
        valkey.stop()
        postgres.stop()


def read_database_url(text: str) -> dict[str, object]:
    """Return the settings of a database that the URL of one names."""
    url = urlsplit(text)
    return {
        "NAME": url.path.lstrip("/"),
        "USER": url.username,
        "PASSWORD": url.password,
        "HOST": url.hostname,
        "PORT": str(url.port),
    }


def use_site(site: Site) -> AbstractContextManager[None]:
    """Have this process use the servers of a site in the block, and its own ones after it."""
    return use_servers(site.postgres.url, site.valkey.url)


@contextmanager
def use_servers(database_url: str, valkey_url: str) -> Iterator[None]:
    """Have this process use these servers in the block, and its own ones after it."""
    before, valkey_before = dict(connection.settings_dict), settings.REDIS_URL
    connection.close()
    children.point_to(read_database_url(database_url), valkey_url)
    try:
        yield
    finally:
        connection.close()
        children.point_to(before, valkey_before)


def launch(
    cluster: Cluster,
    folder: Path,
    seen_as: str,
    *,
    blocks: int,
    paired: bool = True,
    seconds: float = 0,
) -> Load:
    """Launch an experiment of so many blocks of two runs each, and return it.

    A block is one job if it is paired, else a job for each run. `folder` is a folder on the
    cluster's disk as this process sees it, which jobs know by the path `seen_as`. Each program ends
    so many seconds after the gate was opened.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    counter, gate, program = (folder / name for name in ("counter", "gate", "program"))
    counter.touch()
    counter.chmod(0o666)
    program.write_text(
        PROGRAM.format(counter=f"{seen_as}/counter", gate=f"{seen_as}/gate", seconds=seconds)
    )
    program.chmod(0o755)
    owner = cluster.owner
    rows = [
        EnvironmentFactory(name=name, cluster=cluster, owner=owner, python="/usr/bin/python3")
        for name in ("one", "two")
    ]
    parameters = WORKLOADS["command"].clean(
        {"argv": [f"{seen_as}/program"], "read": "nothing", "primary": "wall_time"}
    )
    experiment: Experiment = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.order_by("pk").first(),
        owner=owner,
        baseline=rows[0],
        environments=rows,
        workloads=[
            WorkloadFactory(
                kind="command", parameters=parameters, owner=owner, time_limit_seconds=TIME_LIMIT
            )
        ],
        scales=["1x0"],
        repeats=blocks,
        design="paired" if paired else "independent",
    )
    lifecycle.launch(experiment, owner)
    return Load(experiment, folder / "work", counter, gate)


class Reader:
    """An administrator who reads the pages about an experiment."""

    def __init__(self, load: Load) -> None:
        self.addresses = {
            "cluster": reverse("cluster", args=[load.cluster.pk]),
            "experiment": reverse("experiment", args=[load.experiment.pk]),
            "events": reverse("experiment", args=[load.experiment.pk]) + "?tab=events",
            "operations": reverse("operations"),
        }
        self.client = Client(raise_request_exception=False)
        self.client.force_login(load.experiment.owner, "dashboard.access.logged_in.Backend")

    def read(self, page: str) -> str:
        """Return the text of a page's notes, or of the whole of one that says less."""
        soup = BeautifulSoup(self.client.get(self.addresses[page]).content, "html.parser")
        parts = soup.select(".note, .alive") or soup.select("main") or [soup]
        texts = (" ".join(part.get_text(" ").split()) for part in parts)
        return "\n".join(re.sub(r" (?=[.,;:])", "", text) for text in texts)


def _kill(server: subprocess.Popen[bytes] | None) -> None:
    assert server
    server.kill()
    server.wait()
