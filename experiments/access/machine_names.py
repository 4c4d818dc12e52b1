"""Names of machines that would tell where an experiment ran, each with what stands for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from django.db.models import Min

from experiments.models import Experiment

NODE_KEYS: tuple[str, ...] = ("hostname", "HOSTNAME", "HOST", "SLURMD_NODENAME", "SLURM_NODELIST")
NODE_KEYS += ("SLURM_JOB_NODELIST", "SLURM_SUBMIT_HOST", "SLURM_TOPOLOGY_ADDR", "SGE_O_HOST")
NO_HOST = {"localhost", "127.0.0.1", "::1", "ip6-localhost"}
# What many sites call partitions and machines tells of none of them, and is a word besides.
ANY_SITE = {"all", "batch", "cluster", "compute", "cpu", "cpus", "debug", "default", "express"}
ANY_SITE |= {
    "dev",
    "fat",
    "gpu",
    "gpus",
    "here",
    "host",
    "interactive",
    "lab",
    "large",
    "local",
    "long",
}
ANY_SITE |= {"main", "medium", "name", "node", "normal", "parallel", "partition", "production"}
ANY_SITE |= {"shared", "short", "single", "small", "standard", "test", "this machine"}


def machines_of(
    experiment: Experiment, hosts: Iterable[str], *, known: Mapping[str, str]
) -> dict[str, str]:
    """Return `known` and each node, host, partition and cluster of an experiment, numbered.

    A node keeps its number however many come after it; with and without its domain it is one.
    `hosts` are those that snapshots name.
    """
    machines = dict(known)
    ran = experiment.runs.exclude(node="").order_by().values("node").annotate(first=Min("pk"))
    nodes = [row["node"] for row in ran.order_by("first")]
    nodes += experiment.jobs.exclude(node="").order_by("pk").values_list("node", flat=True)
    way = experiment.cluster.way()
    _number(machines, "node", (name for text in (*nodes, *hosts) for name in _nodes_in(text)))
    _number(machines, "host", (cluster.host for cluster in way))
    partitions = [row.name for cluster in way for row in cluster.partitions.order_by("pk")]
    _number(machines, "partition", partitions)
    _number(machines, "cluster", (cluster.name for cluster in way))
    return machines


def machine_pattern(spelling: str, word: str) -> str:
    """Return what finds a machine's name where it stands alone, since many are short.

    With a node's name goes its domain. Partitions and clusters may be called like a key of the
    page's own JSON, which stays.
    """
    is_a_word = word.startswith(("partition", "cluster"))
    key = r"(?!\\?(?:\"|&quot;)\s*:)" if is_a_word else ""
    domain = r"(?:\.[a-z0-9-]+)*" if word.startswith("node") else ""
    return rf"(?<![\w-]){re.escape(spelling)}{domain}(?![\w-]){key}"


def _number(machines: dict[str, str], kind: str, names: Iterable[str]) -> None:
    words = {text: word for text, word in machines.items() if word.startswith(f"{kind}-")}
    for name in names:
        if not name or name.casefold() in NO_HOST | ANY_SITE or name.isdecimal():
            continue
        short = name.partition(".")[0] if kind == "node" and not _is_address(name) else name
        word = words.get(short) or f"{kind}-{len(set(words.values())) + 1}"
        for text in filter(None, (short, name)):
            words[text] = word
            machines.setdefault(text, word)


def _nodes_in(text: str) -> list[str]:
    """Return the names in a list of nodes; Slurm's "n[1-2],x" is two, and not expanded."""
    return [name for name in re.split(r",(?![^\[]*\])|\s+", text) if name]


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdecimal()
