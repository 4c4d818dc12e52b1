"""Is a cluster ready for an experiment? Logs in, looks at everything, and says it with the cure.

`connect` says how far the way to it is open; `preflight` asks all the rest, in three commands over
the one connection: a file for the nodes to look for, all questions at once, and the file removed.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from runners import gate
from runners.errors import Refused, TryAgain
from runners.preflight import asking, limits, machine, node, queue
from runners.preflight.checks import (
    Change,
    Check,
    Outcome,
    PartitionSpec,
    RuntimeSpec,
    Site,
    changes,
    worst,
)
from runners.preflight.login import AREA, log_in
from runners.preflight.modes import modes
from runners.preflight.probes import Answer, Probe, answers, command, longest
from runners.schedulers import Scheduler
from runners.transports import SSH, Transport
from runners.untrusted import clean_text

__all__ = [
    "Change",
    "Check",
    "Outcome",
    "PartitionSpec",
    "RuntimeSpec",
    "Site",
    "changes",
    "connect",
    "preflight",
    "worst",
]

LOGIN = "Login node"
SCHEDULER = "Scheduler"


def preflight(transport: Transport, scheduler: Scheduler, site: Site) -> list[Check]:
    """All checks of a cluster, in the order in which one would make them. Never raises TryAgain."""
    checks = connect(transport) if isinstance(transport, SSH) else []
    if any(check.outcome == "failed" for check in checks):
        return checks
    token = ""
    try:
        token = _leave_a_file(transport, site)
        checks += _ask(transport, scheduler, site, token)
    except (TryAgain, Refused) as problem:
        checks.append(
            Check(
                LOGIN,
                "Questions",
                "failed",
                "The login node did not answer the questions.",
                "Is it overloaded, or is bash, timeout or mktemp missing there, or /tmp full? "
                "Log in by hand and look.",
                str(problem),
            )
        )
    finally:
        if token:
            with suppress(TryAgain, Refused):
                transport.run(["rm", "-f", token], timeout=10)
    areas = list(dict.fromkeys(check.area for check in checks))
    return sorted(checks, key=lambda check: areas.index(check.area))


def connect(transport: SSH) -> list[Check]:
    """Log in over every jump host, and ask what the key may do there. Never raises."""
    checks = log_in(transport)
    if not any(check.outcome == "failed" for check in checks):
        checks.append(
            gate.check_forced_command(transport, area=AREA, expected=transport.address.gated)
        )
    return checks


def _leave_a_file(transport: Transport, site: Site) -> str:
    """Write the file that nodes will look for; empty if that is not possible."""
    name = f".tare-check-{uuid.uuid4().hex}"
    try:
        done = transport.run(
            ["sh", "-c", asking.TOKEN, "write", site.work_directory, name], timeout=10
        )
    except TryAgain:
        return ""  # a file system that hangs: the questions themselves will say so
    token = clean_text(done.stdout).rstrip("\n")
    return token if done.returncode == 0 and token.endswith(name) else ""


def _ask(transport: Transport, scheduler: Scheduler, site: Site, token: str) -> Iterator[Check]:
    for partition in site.partitions:
        if problem := asking.unsayable(site, scheduler, partition):
            yield Check(
                f"Partition {partition.name}",
                "Options",
                "failed",
                "Its further options cannot be written into a job's header.",
                "Mend them under Edit: one option each, with quotes that close.",
                problem,
            )
            others = tuple(one for one in site.partitions if one is not partition)
            site = replace(site, partitions=others)
    questions = asking.on_login_node(site, scheduler)
    nodes = asking.on_nodes(site, scheduler, token=token)
    began = time.time()
    said, noise = _answers(transport, [*questions, *(probe for _, _, probe in nodes)])
    yield from machine.login_node(said, noise, area=LOGIN)
    yield machine.clock(said["clock"].text, began, time.time(), area=LOGIN)
    yield machine.work_directory(said["work directory"], site.work_directory, area=LOGIN)
    yield from machine.disk(said["space"], said["inodes"], said["file system"], area=LOGIN)
    yield machine.quota(said["quota"], area=LOGIN)
    yield from _scheduler(said, scheduler, site)
    yield from _limits(transport, scheduler, site)
    came_back = False
    for partition, probes, probe in nodes:
        answer = said[probe.name]
        area = f"Partition {partition.name}"
        try:
            inside, _ = answers(probes, answer.stdout)
        except TryAgain:
            yield queue.no_node(answer, scheduler, area=area, waited=asking.WAIT_SECONDS)
            continue
        came_back = True
        gpus = min(1, partition.resources.gpus_per_node)
        first = "" if partition is nodes[0][0] else nodes[0][0].name
        yield from _node(inside, site, scheduler, area=area, gpus=gpus, first=first)
    if not came_back:
        yield from _here(transport, scheduler, site, token)


def _here(transport: Transport, scheduler: Scheduler, site: Site, token: str) -> Iterator[Check]:
    """The same questions to the machine that we log in to, where no node was to be had."""
    gpus = 0
    if not scheduler.has_partitions:
        gpus = max((one.resources.gpus_per_node for one in site.partitions), default=0)
    probes = asking.where_jobs_run(site, scheduler, gpus=gpus, token=token)
    area = "On the login node" if scheduler.has_partitions else "On this machine"
    argv = ["bash", "-lc", *command(probes, setup_lines=site.setup_lines)]
    try:
        done = transport.run(argv, timeout=longest(probes) + 10)
    except TryAgain as problem:
        if problem.kind != "forced command":
            raise
        found = "No node could be asked, and the key's forced command starts nothing here."
        yield Check(area, "Place", "not applicable", found)
        return
    inside, _ = answers(probes, done.stdout)
    inside.pop("shared", None)  # with itself it shares everything
    if scheduler.has_partitions:
        found = "No node could be asked, so this is where Tare logs in."
        yield Check(area, "Place", "not applicable", found)
    yield from _node(inside, site, scheduler, area=area, gpus=gpus)


def _answers(transport: Transport, probes: list[Probe]) -> tuple[dict[str, Answer], str]:
    argv = ["bash", "-c", *command(probes)]
    done = transport.run(argv, timeout=longest(probes) + 10)
    if done.returncode:
        words = clean_text(done.stderr).strip()
        raise TryAgain(words or f"exit code {done.returncode}", kind="busy")
    return answers(probes, done.stdout)


def _scheduler(said: dict[str, Answer], scheduler: Scheduler, site: Site) -> Iterator[Check]:
    if "version" in said:
        yield queue.version(said["version"], scheduler.label, area=SCHEDULER)
    if "partitions" in said:
        yield from queue.partitions(said["partitions"], scheduler, site.partitions, area=SCHEDULER)
    if scheduler.has_partitions and not site.partitions:
        yield Check(
            SCHEDULER,
            "Catalogue",
            "warning",
            "The catalogue has no partition of this cluster: nothing can be asked for.",
            "Add its partitions under Edit.",
        )
    for partition in site.partitions:
        if answer := said.get(f"trial {partition.name}"):
            yield queue.trial(answer, scheduler, partition.name)


def _limits(transport: Transport, scheduler: Scheduler, site: Site) -> Iterator[Check]:
    """Time one status call, of a job that nobody has, and suggest limits by it."""
    argv = scheduler.status(["1" if scheduler.has_partitions else "1-1"])
    began = time.monotonic()
    with suppress(TryAgain):
        scheduler.parse_status(transport.run(argv, timeout=asking.TRIAL_SECONDS))
        yield limits.suggest(time.monotonic() - began, site, scheduler)


def _node(
    said: dict[str, Answer],
    site: Site,
    scheduler: Scheduler,
    *,
    area: str,
    gpus: int,
    first: str = "",
) -> Iterator[Check]:
    yield from node.node(said, area=area)
    if "shared" in said:
        yield node.shared(said["shared"], site.work_directory, area=area)
    there = 0
    if "gpus" in said:
        check, there = node.gpus(said["gpus"], area=area)
        yield check
    for number, runtime in enumerate(site.runtimes):
        yield node.runtime(said[f"runtime {number}"], runtime, area=area)
        if answer := said.get(f"modes {number}"):
            yield from modes(answer, runtime)
    for number, spec in enumerate(site.environments):
        if answer := said.get(f"environment {number}"):
            yield node.environment(answer, spec, area=area, gpus_asked=gpus, gpus_there=there)
        else:
            why = asking.left_out(site, scheduler, number, first=first)
            yield Check(area, f"Start of {spec.label}", "not applicable", f"Not started: {why}.")
