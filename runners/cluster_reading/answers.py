"""Read the answers of a cluster's probes: scheduler, partitions and runtimes. No I/O."""

import re
from collections.abc import Collection, Iterable, Mapping

from runners.cluster_reading.found import (
    LARGEST,
    MOST_NAMES,
    MOST_PARTITIONS,
    FoundPartition,
    FoundRuntime,
)
from runners.errors import Refused, TryAgain
from runners.preflight.checks import MESSAGE_LIMIT, Check
from runners.preflight.machine import check_for_silence
from runners.preflight.queue import check_version
from runners.probes import Answer
from runners.runtimes import RUNTIMES
from runners.schedulers import SCHEDULERS, slurm_offers

SCHEDULER = "Scheduler"
RUNTIME_AREA = "Runtimes"
THIS_MACHINE = "machine"  # the name of the partition where there is no scheduler
VERSION = re.compile(r"\d+(\.\d+)+\S*")
PATH = re.compile(r"/[^:,\0\n]{0,400}")
NO_SCHEDULER = (
    "No Slurm and no Grid Engine answers: Tare would start jobs on this machine itself, one at a "
    "time."
)
SCHEDULER_CURE = (
    "If it has a scheduler, its client has to be on the PATH of a log-in without a terminal: look "
    "with ssh HOST sinfo. Then read again."
)
Read = tuple[tuple[FoundPartition, ...], int, str, list[Check]]


def read_path(answer: Answer) -> str:
    """Return the absolute path that was printed last, or ""."""
    lines = answer.text.splitlines()
    is_path = answer.code == 0 and lines and PATH.fullmatch(lines[-1])
    return lines[-1] if is_path else ""


def choose_scheduler(answers: Mapping[str, Answer]) -> str:
    """Return the scheduler whose client prints a version: Slurm before others, else "direct"."""
    for kind in SCHEDULERS:
        answer = answers.get(f"version {kind}")
        if answer and not answer.code and not answer.why_no_answer and VERSION.search(answer.text):
            return kind
    return "direct"


def read_scheduler(
    answers: Mapping[str, Answer], kind: str, *, asked: str, known: Collection[str] = ()
) -> Read:
    """Return the partitions to choose from, how many were left out, the version, and the checks.

    `asked` is the scheduler that a person named; empty: it was found out. Partitions whose names
    are `known` are kept in any case.
    """
    if kind == "direct":
        check = Check(SCHEDULER, "Kind", "warning", NO_SCHEDULER, SCHEDULER_CURE)
        if asked:
            text = "None: Tare starts jobs on this machine itself, one at a time."
            check = Check(SCHEDULER, "Kind", "ok", text)
        return (read_machine(answers),), 0, "", [check]
    label = SCHEDULERS[kind].label
    about_version = check_version(answers[f"version {kind}"], label, area=SCHEDULER)
    checks = [about_version]
    if kind == "slurm":
        partitions, about = _read_slurm(answers)
    else:
        partitions, about = _read_queues(answers, kind)
    checks += about
    ranked = sorted(partitions, key=lambda row: (row.name not in known, *_best_first(row)))
    chosen = ranked[: max(MOST_PARTITIONS, sum(row.name in known for row in partitions))]
    chosen.sort(key=_best_first)
    return tuple(chosen), len(partitions) - len(chosen), about_version.value[:100], checks


def _best_first(partition: FoundPartition) -> tuple[object, ...]:
    """Sort by whether jobs start there, the default first, then by GPUs and name."""
    gpus = partition.gpus_per_node * partition.nodes
    return not partition.is_up, not partition.is_default, -gpus, partition.name


def read_machine(answers: Mapping[str, Answer]) -> FoundPartition:
    """Return the machine itself as a partition: all there is where no scheduler is."""
    numbers = re.findall(r"^[0-9]{1,12}$", answers["machine"].text, re.MULTILINE)
    cpus, kilobytes = (*map(int, numbers[:2]), *(0, 0))[:2]
    lines = answers["gpus"].text.splitlines() if answers["gpus"].code == 0 else []
    gpus = [line.strip() for line in lines if re.match(r"\s*GPU \d+:", line)]
    models = [re.sub(r"^GPU \d+:\s*|\s*\(UUID.*$", "", line)[:100] for line in gpus]
    return FoundPartition(
        THIS_MACHINE,
        "up",
        1,
        min(len(gpus), 1000),
        models[0] if models else "",
        cpus_per_node=max(1, min(cpus, LARGEST)),
        memory_mb=min(kilobytes // 1024, LARGEST),
        is_default=True,
    )


def _read_slurm(answers: Mapping[str, Answer]) -> tuple[list[FoundPartition], list[Check]]:
    name, answer = "Partitions", answers["sizes"]
    if silent := check_for_silence(SCHEDULER, name, "sinfo", answer):
        return [], [silent]
    offers = slurm_offers.parse_sizes(answer.stdout) if answer.code == 0 else slurm_offers.Offers()
    if not offers.partitions:
        return [], [
            Check(
                SCHEDULER,
                name,
                "failed",
                "Slurm does not say which partitions there are.",
                "Does its controller run, and may the account use a partition? Try again; if it "
                "stays so, ask the centre.",
                answer.message[:MESSAGE_LIMIT],
            )
        ]
    partitions = offers.partitions
    if answers["limits"].code == 0:
        partitions = slurm_offers.apply_limits(partitions, answers["limits"].stdout)
    accounts = answers["accounts"]
    associations = slurm_offers.parse_associations(accounts.stdout) if not accounts.code else ()
    found = [_make_partition(offer, associations) for offer in partitions]
    checks = [_describe_partitions([row.name for row in found])]
    if offers.unreadable:
        checks.append(
            Check(
                SCHEDULER,
                "Other lines",
                "warning",
                f"{_count(len(offers.unreadable), 'line')} of sinfo could not be read and "
                f"{'is' if len(offers.unreadable) == 1 else 'are'} left out.",
                "A partition that is missing here can be added under Edit, once the cluster is "
                "there.",
                "\n".join(offers.unreadable[:5])[:MESSAGE_LIMIT],
            )
        )
    checks.append(_describe_accounts(associations, accounts))
    return found, checks


def _make_partition(
    offer: slurm_offers.Offer, associations: Iterable[slurm_offers.Association]
) -> FoundPartition:
    associations = tuple(associations)
    return FoundPartition(
        offer.name,
        offer.state,
        min(offer.nodes, LARGEST),
        min(offer.gpus_per_node, LARGEST),
        offer.gpu_model,
        offer.gres,
        offer.cpus_per_node,
        offer.memory_mb or 0,
        -(-(offer.time_limit_seconds or 0) // 60),
        offer.is_default,
        slurm_offers.list_accounts(offer, associations)[:MOST_NAMES],
        slurm_offers.list_qos(offer, associations)[:MOST_NAMES],
    )


def _describe_accounts(associations: tuple[slurm_offers.Association, ...], answer: Answer) -> Check:
    names = list(dict.fromkeys(row.account for row in associations))
    if names:
        listed = ", ".join(names[:MOST_NAMES])
        return Check(SCHEDULER, "Accounts", "ok", f"The account may use {listed}.", value=listed)
    return Check(
        SCHEDULER,
        "Accounts",
        "not applicable",
        "Slurm shows no accounts of this user: type one in the last step, if the centre wants it.",
        words=answer.message[:MESSAGE_LIMIT],
    )


def _read_queues(
    answers: Mapping[str, Answer], kind: str
) -> tuple[list[FoundPartition], list[Check]]:
    """Return the queues of a scheduler that says nothing of GPUs and cores."""
    scheduler, answer = SCHEDULERS[kind](), answers[f"partitions {kind}"]
    if silent := check_for_silence(SCHEDULER, "Partitions", scheduler.label, answer):
        return [], [silent]
    try:
        facts = scheduler.parse_partitions(answer.completed)
    except (Refused, TryAgain) as problem:
        facts, words = [], str(problem)
    else:
        words = answer.message
    found = [
        FoundPartition(
            row.name,
            row.state[:50],
            min(sum(row.nodes.values()), LARGEST),
            time_limit_minutes=min(-(-(row.time_limit_seconds or 0) // 60), LARGEST),
        )
        for row in facts
        if slurm_offers.NAME.fullmatch(row.name)
    ]
    if found:
        return found, [_describe_partitions([row.name for row in found])]
    return [], [
        Check(
            SCHEDULER,
            "Partitions",
            "failed",
            f"{scheduler.label} does not say which queues there are.",
            "Does its master run? Try again; if it stays so, ask the centre.",
            words[:MESSAGE_LIMIT],
        )
    ]


def _describe_partitions(names: list[str]) -> Check:
    listed = ", ".join(names[:20])
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return Check(
        SCHEDULER,
        "Partitions",
        "ok",
        f"{_count(len(names), 'partition')}: {listed}{more}.",
        value=", ".join(sorted(names))[:MESSAGE_LIMIT],
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}".replace(",", " ")


def read_runtimes(
    answers: Mapping[str, Answer],
) -> tuple[tuple[FoundRuntime, ...], list[Check]]:
    """Return the runtimes that answer on the login node, and a check of each that is there."""
    found, checks = [], []
    for kind, runtime in RUNTIMES.items():
        answer = answers.get(f"runtime {kind}")
        if answer is None or answer.code == 127:
            continue
        version = runtime().parse_version(answer.text or answer.message)[:100]
        if answer.why_no_answer:
            checks.append(_describe_silence(runtime.label, answer))
        elif answer.code == 0 and (version or kind == "pyxis"):
            found.append(FoundRuntime(kind, runtime.label, runtime.command, version))
            text = f"{runtime.command} is version {version}." if version else "It is installed."
            checks.append(Check(RUNTIME_AREA, runtime.label, "ok", text, value=version))
    if not checks:
        checks.append(
            Check(
                RUNTIME_AREA,
                "None",
                "warning",
                "No runtime answers on the login node by its usual name.",
                "If one needs a module, or is on the nodes only, add it under Edit, once the "
                "cluster is there. Bare metal needs none.",
            )
        )
    return tuple(found), checks


def _describe_silence(label: str, answer: Answer) -> Check:
    cure = f"Log in as Tare's user and try {label} by hand; it is left out until it answers."
    text = f"{label} {answer.why_no_answer}."
    return Check(RUNTIME_AREA, label, "warning", text, cure, answer.message[:MESSAGE_LIMIT])
