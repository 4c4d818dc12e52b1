"""Check whether a cluster is ready for an experiment, and suggest a cure for what is not.

`check_connection` logs in over all jump hosts; `check_cluster` checks all the rest, with three
commands over that connection: write a file for the nodes to find, run all probes, remove the file.
"""

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from runners.errors import Refused, TryAgain
from runners.preflight import asking, limits, machine, node, queue
from runners.preflight.checks import (
    MACHINE,
    PARTITION,
    Change,
    Check,
    Outcome,
    PartitionSpec,
    RuntimeSpec,
    Site,
    find_changes,
    find_worst_outcome,
)
from runners.preflight.forced_command import check_forced_command
from runners.preflight.login import AREA, log_in
from runners.preflight.modes import check_modes
from runners.probes import (
    Answer,
    Probe,
    build_command,
    compute_time_limit,
    login_node,
    parse_answers,
)
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
    "check_cluster",
    "check_connection",
    "find_changes",
    "find_worst_outcome",
]

LOGIN = "Login node"
SCHEDULER = "Scheduler"


def check_cluster(transport: Transport, scheduler: Scheduler, site: Site) -> list[Check]:
    """Run all checks of a cluster and return them by area. Never raises TryAgain."""
    checks = check_connection(transport) if isinstance(transport, SSH) else []
    if any(check.outcome == "failed" for check in checks):
        return checks
    token = ""
    try:
        token = _write_token_file(transport, site)
        checks += _check_everything(transport, scheduler, site, token)
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


def check_connection(transport: SSH) -> list[Check]:
    """Log in over all jump hosts and check what the key may do there. Never raises."""
    checks = log_in(transport)
    if not any(check.outcome == "failed" for check in checks):
        checks.append(check_forced_command(transport, area=AREA, expected=transport.address.gated))
    return checks


def _write_token_file(transport: Transport, site: Site) -> str:
    """Write a file for the nodes to find and return its path, or "" if that is not possible."""
    name = f".tare-check-{uuid.uuid4().hex}"
    try:
        done = transport.run(
            ["sh", "-c", login_node.TOKEN, "write", site.work_directory, name], timeout=10
        )
    except TryAgain:
        return ""  # the file system hangs: the check of the work directory will say so
    token = clean_text(done.stdout).rstrip("\n")
    return token if done.returncode == 0 and token.endswith(name) else ""


def _check_everything(
    transport: Transport, scheduler: Scheduler, site: Site, token: str
) -> Iterator[Check]:
    """Check the login node, the scheduler and each partition; `token` is the file to find."""
    for partition in site.partitions:
        if problem := asking.why_options_are_wrong(site, scheduler, partition):
            yield Check(
                f"Partition {partition.name}",
                "Options",
                "failed",
                "Its further options cannot be written into a job's header.",
                "Mend them under Edit: one option each, with quotes that close.",
                problem,
            )
            others = tuple(other for other in site.partitions if other is not partition)
            site = replace(site, partitions=others)
    questions = asking.list_login_node_probes(site, scheduler)
    nodes = asking.plan_node_probes(site, scheduler, token=token)
    began = time.time()
    answers, noise = _run_probes(transport, [*questions, *(probe for _, _, probe in nodes)])
    yield from machine.check_login_node(answers, noise, area=LOGIN)
    yield machine.check_clock(answers["clock"].text, began, time.time(), area=LOGIN)
    yield machine.check_work_directory(answers["work directory"], site.work_directory, area=LOGIN)
    yield from machine.check_disk(
        answers["space"], answers["inodes"], answers["file system"], area=LOGIN
    )
    yield machine.check_quota(answers["quota"], area=LOGIN)
    yield from _check_scheduler(answers, scheduler, site)
    yield from _suggest_limits(transport, scheduler, site)
    came_back = False
    for partition, probes, probe in nodes:
        answer = answers[probe.name]
        area = f"{PARTITION}{partition.name}"
        try:
            inside, _ = parse_answers(probes, answer.stdout)
        except TryAgain:
            yield queue.explain_no_node(answer, scheduler, area=area, waited=asking.WAIT_SECONDS)
            continue
        came_back = True
        gpus = min(1, partition.resources.gpus_per_node)
        first = "" if partition is nodes[0][0] else nodes[0][0].name
        yield from _check_node(inside, site, scheduler, area=area, gpus=gpus, first=first)
    if not came_back:
        yield from _check_login_machine(transport, scheduler, site, token)


def _check_login_machine(
    transport: Transport, scheduler: Scheduler, site: Site, token: str
) -> Iterator[Check]:
    """Make the checks of a node on the machine that Tare logs in to: no node could be had."""
    gpus = 0
    if not scheduler.has_partitions:
        gpus = max((partition.resources.gpus_per_node for partition in site.partitions), default=0)
    probes = asking.list_node_probes(site, scheduler, gpus=gpus, token=token)
    area = "On the login node" if scheduler.has_partitions else MACHINE
    argv = ["bash", "-lc", *build_command(probes, setup_lines=site.setup_lines)]
    try:
        done = transport.run(argv, timeout=compute_time_limit(probes) + 10)
    except TryAgain as problem:
        if problem.kind != "forced command":
            raise
        message = "No node could be asked, and the key's forced command starts nothing here."
        yield Check(area, "Place", "not applicable", message)
        return
    inside, _ = parse_answers(probes, done.stdout)
    inside.pop("shared", None)  # it would only find its own file
    if scheduler.has_partitions:
        message = "No node could be asked, so this is where Tare logs in."
        yield Check(area, "Place", "not applicable", message)
    yield from _check_node(inside, site, scheduler, area=area, gpus=gpus)


def _run_probes(transport: Transport, probes: list[Probe]) -> tuple[dict[str, Answer], str]:
    """Return the answers by the probe's name, and what login profiles printed before them."""
    argv = ["bash", "-c", *build_command(probes)]
    done = transport.run(argv, timeout=compute_time_limit(probes) + 10)
    if done.returncode:
        message = clean_text(done.stderr).strip()
        raise TryAgain(message or f"exit code {done.returncode}", kind="busy")
    return parse_answers(probes, done.stdout)


def _check_scheduler(
    answers: dict[str, Answer], scheduler: Scheduler, site: Site
) -> Iterator[Check]:
    if "version" in answers:
        yield queue.check_version(answers["version"], scheduler.label, area=SCHEDULER)
    if "partitions" in answers:
        yield from queue.check_partitions(
            answers["partitions"], scheduler, site.partitions, area=SCHEDULER
        )
    if scheduler.has_partitions and not site.partitions:
        yield Check(
            SCHEDULER,
            "Catalogue",
            "warning",
            "The catalogue has no partition of this cluster: nothing can be asked for.",
            "Add its partitions under Edit.",
        )
    for partition in site.partitions:
        if answer := answers.get(f"trial {partition.name}"):
            yield queue.check_trial(answer, scheduler, partition.name)


def _suggest_limits(transport: Transport, scheduler: Scheduler, site: Site) -> Iterator[Check]:
    """Measure how long a status call takes, and suggest limits by it."""
    argv = scheduler.build_status_command(["1" if scheduler.has_partitions else "1-1"])
    began = time.monotonic()
    with suppress(TryAgain):
        scheduler.parse_status(transport.run(argv, timeout=asking.TRIAL_SECONDS))
        yield limits.suggest_limits(time.monotonic() - began, site, scheduler)


def _check_node(
    answers: dict[str, Answer],
    site: Site,
    scheduler: Scheduler,
    *,
    area: str,
    gpus: int,
    first: str = "",
) -> Iterator[Check]:
    yield from node.check_node(answers, area=area)
    if "shared" in answers:
        yield node.check_shared_directory(answers["shared"], site.work_directory, area=area)
    node_gpus = 0
    if "gpus" in answers:
        check, node_gpus = node.check_gpus(answers["gpus"], area=area)
        yield check
    for number, runtime in enumerate(site.runtimes):
        yield node.check_runtime(answers[f"runtime {number}"], runtime, area=area)
        if answer := answers.get(f"modes {number}"):
            yield from check_modes(answer, runtime)
    for number, spec in enumerate(site.environments):
        if answer := answers.get(f"environment {number}"):
            yield node.check_environment(
                answer, spec, area=area, gpus_asked=gpus, gpus_there=node_gpus
            )
        else:
            why = asking.why_not_started(site, scheduler, number, first=first)
            yield Check(area, f"Start of {spec.label}", "not applicable", f"Not started: {why}.")
