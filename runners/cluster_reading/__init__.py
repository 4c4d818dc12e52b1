"""Read from a cluster what it offers: scheduler, partitions, accounts, runtimes, free space.

`read_cluster` logs in and asks the login node, with four commands over one connection. It starts
nothing on compute nodes and leaves no file behind: compute nodes are for the check.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from runners.cluster_reading import answers as reader
from runners.cluster_reading import questions
from runners.cluster_reading.found import Found, FoundPartition, FoundRuntime
from runners.errors import Refused, TryAgain
from runners.jobs import Resources
from runners.preflight import (
    Check,
    PartitionSpec,
    Site,
    check_connection,
    limits,
    machine,
)
from runners.probes import Answer, Probe, build_command, compute_time_limit, parse_answers
from runners.schedulers import SCHEDULERS
from runners.transports import SSH, Transport
from runners.untrusted import clean_text

__all__ = ["Found", "FoundPartition", "FoundRuntime", "Reading", "read_cluster"]

LOGIN = "Login node"
QUESTIONS = Check(
    LOGIN,
    "Questions",
    "failed",
    "The login node did not answer the questions.",
    "Is it overloaded, or is bash, timeout or mktemp missing there, or /tmp full? Log in by hand "
    "and look.",
)


@dataclass(frozen=True)
class Reading:
    """The checks of a reading, and what was found; None if nobody could be asked."""

    checks: list[Check]
    found: Found | None = None


def read_cluster(
    transport: Transport,
    *,
    scheduler: str,
    work_directory: str,
    known_partitions: Collection[str] = (),
) -> Reading:
    """Log in, and return what the cluster offers. Never raises TryAgain or Refused.

    `scheduler` is a key of SCHEDULERS; empty: find out. An empty `work_directory` becomes the
    folder `tare` in the account's home directory. Partitions that are known by name are never
    left out, however many others there are.
    """
    checks = check_connection(transport) if isinstance(transport, SSH) else []
    if any(check.outcome == "failed" for check in checks):
        return Reading(checks)
    try:
        return _read(transport, checks, scheduler, work_directory, known_partitions)
    except (TryAgain, Refused) as problem:
        return Reading([*checks, replace(QUESTIONS, words=str(problem)[:1000])])


def _read(
    transport: Transport,
    checks: list[Check],
    scheduler: str,
    directory: str,
    known_partitions: Collection[str],
) -> Reading:
    began = time.time()
    answers, noise = _ask(transport, questions.list_first_probes(scheduler))
    checks += machine.check_login_node(answers, noise, area=LOGIN)
    checks.append(machine.check_clock(answers["clock"].text, began, time.time(), area=LOGIN))
    home = reader.read_path(answers["home"])
    directory = directory or (f"{home.rstrip('/')}/tare" if home else "")
    checks += _check_directory(transport, directory)
    kind = scheduler or reader.choose_scheduler(answers)
    partitions, left_out, version, about = reader.read_scheduler(
        answers, kind, asked=scheduler, known=known_partitions
    )
    checks += about
    runtimes, about = reader.read_runtimes(_ask_for_runtimes(transport, kind))
    checks += about
    found = Found(
        kind,
        version,
        home,
        directory,
        partitions,
        left_out,
        runtimes,
    )
    suggested = _suggest_limits(transport, found)
    if suggested is None:
        return Reading(checks, found)
    live, seconds = (int(number) for number in suggested.limits.split())
    found = replace(found, max_live_jobs=live, poll_seconds=seconds)
    areas = list(dict.fromkeys(check.area for check in checks))
    checks = sorted([*checks, suggested], key=lambda check: areas.index(check.area))
    return Reading(checks, found)


def _check_directory(transport: Transport, directory: str) -> list[Check]:
    if not directory:
        return [
            Check(
                LOGIN,
                "Work directory",
                "failed",
                "The account has no home directory, and no work directory was named.",
                "Name a directory that login and compute nodes share.",
            )
        ]
    answers, _ = _ask(transport, questions.list_directory_probes(directory))
    disk = (answers["space"], answers["inodes"], answers["file system"])
    return [
        machine.check_work_directory(answers["work directory"], directory, area=LOGIN),
        *machine.check_disk(*disk, area=LOGIN),
        machine.check_quota(answers["quota"], area=LOGIN),
    ]


def _ask_for_runtimes(transport: Transport, scheduler: str) -> dict[str, Answer]:
    """Return the answers about runtimes, asked as a job would: after the login profile.

    A key with a forced command gets a login shell only where there is no scheduler.
    """
    is_gated = isinstance(transport, SSH) and transport.address.gated
    shell = "-c" if is_gated and scheduler != "direct" else "-lc"
    return _ask(transport, questions.list_runtime_probes(), shell=shell)[0]


def _ask(
    transport: Transport, probes: list[Probe], *, shell: str = "-c"
) -> tuple[dict[str, Answer], str]:
    """Return the answers by the probe's name, and what login profiles printed before them."""
    argv = ["bash", shell, *build_command(probes)]
    done = transport.run(argv, timeout=compute_time_limit(probes) + 10)
    if done.returncode:
        message = clean_text(done.stderr).strip()
        raise TryAgain(message or f"exit code {done.returncode}", kind="busy")
    return parse_answers(probes, done.stdout)


def _suggest_limits(transport: Transport, found: Found) -> Check | None:
    """Measure how long a status call takes, and suggest limits by it; None if it has no answer."""
    scheduler = SCHEDULERS[found.scheduler]()
    specs = (
        PartitionSpec(row.nodes, Resources(60, gpus_per_node=row.gpus_per_node))
        for row in found.partitions
    )
    site = Site(found.work_directory, partitions=tuple(specs))
    argv = scheduler.build_status_command(["1" if scheduler.has_partitions else "1-1"])
    began = time.monotonic()
    try:
        scheduler.parse_status(transport.run(argv, timeout=10))
    except (TryAgain, Refused):
        return None
    return limits.suggest_limits(time.monotonic() - began, site, scheduler)
