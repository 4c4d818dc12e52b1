"""Many short jobs on the lab, and a random fault every few seconds: `make soak` prints a table."""

from __future__ import annotations

import os
import random
import secrets
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from experiments.execution.attempts_by_rule import TRIED_BY_RULE
from experiments.models import Cluster
from standalone import children as family
from standalone.services import Service, Supervisor
from tests.faults.cluster import Breakable
from tests.faults.invariants import Account, read_counter
from tests.faults.site import Load, Site

pytestmark = [pytest.mark.lab, pytest.mark.soak, pytest.mark.timeout(4 * 3600)]

JOBS = int(os.environ.get("JOBS", "2000"))
SEED = int(os.environ.get("SEED") or secrets.randbelow(10**6))
HOURS = float(os.environ.get("HOURS", "2"))  # after which what has not ended is counted
FAULT_SECONDS = 10.0  # from one fault to the next
LASTS_SECONDS = 4.0  # of a fault that is undone
RUN_SECONDS = 0.5  # of a program; with the job around it a second or more
WORKERS = 3


@dataclass(frozen=True)
class Fault:
    name: str
    cause: Callable[[], object]
    undo: Callable[[], object] = lambda: None


class Group:
    """The services of a site, kept alive as `make demo` keeps them."""

    def __init__(self, site: Site) -> None:
        self.supervisor = Supervisor(site.folder / "services.json", lambda text: None)
        environment = os.environ | {
            "DATABASE_URL": site.postgres.url,
            "REDIS_URL": site.valkey.url,
            "SUPERVISOR_FILE": str(self.supervisor.file),
        }
        now = time.monotonic()
        for server in (site.postgres, site.valkey):
            service = Service(server.name, server.start_again, server.folder / "log")
            service.child, service.started_at = server.child, now
            self.supervisor.services.append(service)
        port = family.find_free_port()
        web = ("-m", "gunicorn", "dashboard.wsgi", "--bind", f"127.0.0.1:{port}")
        commands = {f"worker {number}": ("worker",) for number in range(1, WORKERS + 1)}
        for name, (first, *rest) in {**commands, "clock": ("clock",), "web": web}.items():
            program = ("manage.py",) if name != "web" else ()
            argv = [sys.executable, *program, first, *rest]
            self.supervisor.services.append(self._describe(name, argv, site, environment))
        self.ended, self.is_idle = threading.Event(), threading.Event()

    def _describe(self, name: str, argv: list[str], site: Site, env: dict[str, str]) -> Service:
        log = site.folder / f"{name}.log"
        return Service(name, lambda: family.start(argv, log=log, env=env), log, ends_whole=True)

    def keep_alive(self) -> None:
        """Look after the services until this group is told to end."""
        while not self.ended.wait(0.2):
            self.supervisor.keep_alive()
        self.is_idle.set()
        threading.Event().wait()  # the kernel ends a child with the thread that has started it

    def kill(self, *names: str) -> None:
        """Kill the services of these names that run."""
        for service in self.supervisor.services:
            if service.name in names and service.child and service.child.poll() is None:
                service.child.kill()


@contextmanager
def run_services(site: Site) -> Iterator[Group]:
    """Run the services in the repository's folder, under a thread that keeps them alive."""
    os.chdir(settings.BASE_DIR)
    group = Group(site)
    threading.Thread(target=group.keep_alive, daemon=True).start()
    try:
        yield group
    finally:
        servers = (site.postgres.name, site.valkey.name)
        group.ended.set()
        group.is_idle.wait()
        for service in group.supervisor.services:
            if service.name not in servers and service.child:
                family.terminate(service.child)
                family.wait_or_kill([service.child], seconds=2)
        site.start_servers()


def list_faults(group: Group, cluster: Breakable, draw: random.Random) -> list[Fault]:
    node = draw.choice(("node1", "node2"))
    worker = f"worker {draw.randint(1, WORKERS)}"
    return [
        Fault("a worker is killed", lambda: group.kill(worker)),
        Fault(
            "all workers are killed",
            lambda: group.kill(*(f"worker {number}" for number in range(1, WORKERS + 1))),
        ),
        Fault("the clock is killed", lambda: group.kill("clock")),
        Fault("the web server is killed", lambda: group.kill("web")),
        Fault("Valkey is killed", lambda: group.kill("Valkey")),
        Fault("PostgreSQL is killed", lambda: group.kill("PostgreSQL")),
        Fault("connections are cut", cluster.cut_connections),
        Fault("sshd is frozen", cluster.freeze_sshd, cluster.thaw_sshd),
        Fault("slurmctld is killed", cluster.kill_slurmctld, cluster.start_slurmctld),
        Fault(
            "slurmd is killed",
            lambda: cluster.kill_slurmd(node),
            lambda: cluster.start_slurmd(node),
        ),
        Fault("a node is drained", lambda: cluster.drain(node), lambda: cluster.resume(node)),
        Fault(
            "the power of a node is cut",
            lambda: cluster.cut_power(node),
            lambda: cluster.resume(node),
        ),
        Fault("a job is cancelled outside", cluster.cancel_one),
    ]


def test_the_soak(site: Site, brought_up: Breakable, capsys: pytest.CaptureFixture[str]) -> None:
    load = brought_up.launch("soak", blocks=JOBS // 2, paired=False, seconds=RUN_SECONDS)
    Cluster.objects.filter(pk=load.cluster.pk).update(max_live_jobs=200)
    load.gate.touch()
    draw, injected, began = random.Random(SEED), Counter[str](), time.monotonic()
    with run_services(site) as group:
        while not is_over(load) and time.monotonic() - began < HOURS * 3600:
            fault = draw.choice(list_faults(group, brought_up, draw))
            next_at = time.monotonic() + FAULT_SECONDS
            fault.cause()
            injected[fault.name] += 1
            time.sleep(LASTS_SECONDS)
            fault.undo()
            while time.monotonic() < next_at and not is_over(load):
                time.sleep(0.2)
            if time.monotonic() - began > 60 and not injected.total() % 6:
                brought_up.repair()  # as an administrator does: a node may have been left down
        took = time.monotonic() - began
    account = load.make_account()
    with capsys.disabled():
        print_table(load, account, injected, took)
    assert account.is_kept
    assert list_unexecuted(load) == [], "nobody wanted them to end without being executed"


def list_unexecuted(load: Load) -> list[str]:
    """Return how each job has ended of which nothing was executed, though nobody wanted that."""
    executed = read_counter(load.counter)
    jobs = load.experiment.jobs.filter(state="failed").exclude(reason="cancelled outside")
    uids = {directory.partition("-")[0] for directory in executed}
    return [f"{job.reason}: {job.message}" for job in jobs if job.uid not in uids]


def is_over(load: Load) -> bool:
    """Return whether every job has ended; not while the database is away."""
    try:
        return load.is_over()
    except (OperationalError, InterfaceError):
        connection.close()
        return False


def print_table(load: Load, account: Account, injected: Counter[str], took: float) -> None:
    runs, jobs = load.experiment.runs, load.experiment.jobs
    reasons = Counter(jobs.filter(state="failed").values_list("reason", flat=True))
    by_rule = load.experiment.events.filter(what=TRIED_BY_RULE)
    again = Counter(why.partition(" (")[0] for why in by_rule.values_list("why", flat=True))
    rows: list[tuple[str, object]] = [
        ("seed", SEED),
        ("jobs", account.jobs),
        ("runs that succeeded", runs.filter(state="succeeded").count()),
        ("jobs that failed", ", ".join(f"{n} {reason}" for reason, n in reasons.items()) or 0),
        (
            "attempts planned by rule",
            ", ".join(f"{n} {reason}" for reason, n in again.items()) or 0,
        ),
        ("executions counted", account.executions),
        ("attempts executed twice", len(account.executed_twice)),
        ("succeeded without an execution", len(account.not_executed)),
        ("results lost", len(account.lost)),
        ("jobs that were never executed", len(list_unexecuted(load))),
        ("forbidden events", len(account.forbidden)),
        ("jobs or runs not in a final state", len(account.unfinished)),
        ("faults", injected.total()),
        *((f"... {name}", count) for name, count in sorted(injected.items())),
        ("duration", f"{took:.0f} s"),
    ]
    print()
    for name, value in rows:
        print(f"| {name} | {value} |")
    if not account.is_kept:
        print(account)
