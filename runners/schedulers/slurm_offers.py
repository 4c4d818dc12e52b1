"""What Slurm offers an account: partitions with their nodes, limits, accounts and QOS. No I/O."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from runners.schedulers.base import parse_time_limit
from runners.untrusted import clean_text

SIZES = ("sinfo", "--noheader", "--format=%P|%a|%l|%D|%T|%c|%m|%G")
LIMITS = ("scontrol", "--oneliner", "show", "partition")
ASSOCIATIONS = (
    "exec sacctmgr --noheader --parsable2 show associations"
    ' "user=$(id -un)" format=Account,Partition,QOS'
)

NAME = re.compile(r"[\w.+=:@-]{1,100}")
NUMBER = re.compile(r"[0-9]{1,9}")
GPUS = re.compile(r"(?:^|,)gpu(?::([^,:(]+))?:([0-9]{1,6})(?![0-9])")
FIELD = re.compile(r"(?:^|\s)(\w+)=(\S*)")
LONGEST_SECONDS = 366 * 86400  # a longer limit is none


@dataclass(frozen=True)
class Offer:
    """A partition with its largest nodes, as Slurm describes it."""

    name: str
    state: str  # "up", or why no job starts there
    nodes: int
    gpus_per_node: int = 0
    gpu_model: str = ""
    gres: str = "gpu"  # what `--gres` calls a GPU there
    cpus_per_node: int = 1
    memory_mb: int | None = None  # of a node; None: not known
    time_limit_seconds: int | None = None  # None: no limit
    is_default: bool = False
    accounts: tuple[str, ...] = ()  # that it lets in; empty: all
    qos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Association:
    """An account that a user may name, with its QOS; without a partition: in all of them."""

    account: str
    partition: str = ""
    qos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offers:
    """The partitions in an answer, and the lines of it that are no partition."""

    partitions: tuple[Offer, ...] = ()
    unreadable: tuple[str, ...] = field(default=())


def parse_sizes(printed: bytes) -> Offers:
    """Return the partitions in the output of SIZES. A line that is none loses no other one."""
    partitions: dict[str, Offer] = {}
    models: dict[str, set[str]] = {}
    unreadable = []
    for line in clean_text(printed).splitlines():
        if not line.strip():
            continue
        offer = _parse_line(line.strip())
        if offer is None:
            unreadable.append(line.strip()[:200])
            continue
        models.setdefault(offer.name, set()).update(filter(None, [offer.gpu_model]))
        known = partitions.get(offer.name)
        partitions[offer.name] = _join(known, offer) if known else offer
    return Offers(
        tuple(
            replace(offer, gres=f"gpu:{offer.gpu_model}") if len(models[name]) > 1 else offer
            for name, offer in partitions.items()
        ),
        tuple(unreadable),
    )


def _parse_line(line: str) -> Offer | None:
    row = line.split("|", 7)
    if len(row) != 8:
        return None
    name, state, limit, count, _, cpus, memory, gres = row
    name, is_default = name.removesuffix("*"), name.endswith("*")
    cpus, memory = cpus.removesuffix("+"), memory.removesuffix("+")
    if not NAME.fullmatch(name) or not all(map(NUMBER.fullmatch, (count, cpus, memory))):
        return None
    gpus = GPUS.findall(gres)
    most = max(gpus, key=lambda kind: int(kind[1]), default=("", "0"))
    model = most[0] if NAME.fullmatch(most[0]) and len(most[0]) <= 90 else ""
    seconds = parse_time_limit(limit)
    return Offer(
        name,
        state[:50],
        int(count),
        sum(int(number) for _, number in gpus),
        model,
        cpus_per_node=max(int(cpus), 1),
        memory_mb=int(memory) or None,
        time_limit_seconds=seconds if seconds and seconds <= LONGEST_SECONDS else None,
        is_default=is_default,
    )


def _join(known: Offer, other: Offer) -> Offer:
    """Return a partition with the nodes of two lines, described by those with the most GPUs."""
    larger = max((known, other), key=lambda offer: (offer.gpus_per_node, offer.cpus_per_node))
    return replace(
        larger,
        nodes=known.nodes + other.nodes,
        is_default=known.is_default or other.is_default,
    )


def apply_limits(partitions: Iterable[Offer], printed: bytes) -> tuple[Offer, ...]:
    """Return the partitions with what `scontrol show partition` adds: nodes a job, accounts, QOS.

    What it does not say, or says oddly, changes nothing.
    """
    limits: dict[str, dict[str, str]] = {}
    for line in clean_text(printed).splitlines():
        fields = dict(FIELD.findall(line))
        if "PartitionName" in fields:
            limits[fields["PartitionName"]] = fields
    return tuple(_apply(offer, limits.get(offer.name, {})) for offer in partitions)


def _apply(offer: Offer, fields: dict[str, str]) -> Offer:
    most = fields.get("MaxNodes", "")
    nodes = min(offer.nodes, int(most)) if NUMBER.fullmatch(most) and int(most) else offer.nodes
    return replace(
        offer,
        nodes=nodes,
        accounts=_split_names(fields.get("AllowAccounts", "")),
        qos=_split_names(fields.get("AllowQos", "")),
    )


def _split_names(text: str) -> tuple[str, ...]:
    if text in ("ALL", "N/A", "(null)"):
        return ()
    return tuple(name for name in text.split(",") if NAME.fullmatch(name))


def parse_associations(printed: bytes) -> tuple[Association, ...]:
    """Return the accounts in the output of ASSOCIATIONS; lines that are none are left out."""
    rows = (line.strip().split("|") for line in clean_text(printed).splitlines())
    return tuple(
        Association(account, partition, _split_names(qos))
        for account, partition, qos in (row for row in rows if len(row) == 3)
        if NAME.fullmatch(account)
    )


def list_accounts(offer: Offer, associations: Iterable[Association]) -> tuple[str, ...]:
    """Return the accounts that a user may name in a partition, each once."""
    return tuple(
        dict.fromkeys(
            row.account
            for row in associations
            if row.partition in ("", offer.name)
            and (not offer.accounts or row.account in offer.accounts)
        )
    )


def list_qos(offer: Offer, associations: Iterable[Association]) -> tuple[str, ...]:
    """Return the QOS that a user may name in a partition, each once."""
    names = (name for row in associations if row.partition in ("", offer.name) for name in row.qos)
    return tuple(dict.fromkeys(name for name in names if not offer.qos or name in offer.qos))
