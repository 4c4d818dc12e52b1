"""The names of the machines on which an experiment ran, each with its anonymous replacement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from django.db.models import Min, Prefetch, Q, prefetch_related_objects

from experiments.models import Experiment, Partition

NODE_KEYS: tuple[str, ...] = ("hostname", "HOSTNAME", "HOST", "SLURMD_NODENAME", "SLURM_NODELIST")
NODE_KEYS += ("SLURM_JOB_NODELIST", "SLURM_SUBMIT_HOST", "SLURM_TOPOLOGY_ADDR", "SGE_O_HOST")
LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1", "ip6-localhost"}
# Names that many sites give partitions and machines identify none of them, and are plain words.
COMMON_NAMES = {"all", "batch", "cluster", "compute", "cpu", "cpus", "debug", "default", "express"}
COMMON_NAMES |= {
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
COMMON_NAMES |= {"main", "medium", "name", "node", "normal", "parallel", "partition", "production"}
COMMON_NAMES |= {"shared", "short", "single", "small", "standard", "test", "this machine"}


# Where messages about ends name nodes: "sacct: NODE_FAIL 1:0, node2. ...", "gpu7: nvidia-smi ...".
NAMED_IN_ENDS = re.compile(
    r"^\w+: (?:[A-Z_]+|cancelled by )[^,.]*, ([\w.,\[\]-]+?)\.(?: |$)|^([\w.-]{1,100}): nvidia-smi"
)


def number_machines(
    experiment: Experiment, hosts: Iterable[str], *, known: Mapping[str, str]
) -> dict[str, str]:
    """Return `known` and each node, host, partition and cluster of an experiment, numbered.

    A node keeps its number however many come after it; with and without its domain it is one.
    `hosts` are those that snapshots name.
    """
    machines = dict(known)
    nodes_by_first_run = (
        experiment.runs.exclude(node="").order_by().values("node").annotate(first=Min("pk"))
    )
    nodes = [row["node"] for row in nodes_by_first_run.order_by("first")]
    nodes += experiment.jobs.exclude(node="").order_by("pk").values_list("node", flat=True)
    ends = experiment.jobs.exclude(message="", avoided_nodes="").order_by("pk")
    for avoided, message in ends.values_list("avoided_nodes", "message"):
        nodes += [
            *avoided.split(","),
            *(node for names in NAMED_IN_ENDS.findall(message) for node in names),
        ]
    lists = experiment.jobs.filter(Q(excluded_nodes__isnull=False) | ~Q(nodes=[])).order_by("pk")
    for excluded, of_several in lists.values_list("excluded_nodes", "nodes"):
        nodes += [*(excluded or ()), *of_several]
    hops = experiment.cluster.list_hops()
    _number(machines, "node", (name for text in (*nodes, *hosts) for name in _nodes_in(text)))
    _number(machines, "host", [*(cluster.host for cluster in hops), _find_first_site(experiment)])
    prefetch_related_objects(hops, Prefetch("partitions", Partition.objects.order_by("pk")))
    partitions = [row.name for cluster in hops for row in cluster.partitions.all()]
    _number(machines, "partition", partitions)
    # As the plan froze it too: rows may have another name now, and those of a bundle always may.
    planned = (experiment.plan or {}).get("cluster") or {}
    reproduced_on = experiment.reproductions.order_by("pk").values_list("cluster__name", flat=True)
    clusters = [*(row.name for row in hops), planned.get("name", ""), *reproduced_on]
    _number(machines, "cluster", clusters)
    _number(machines, "host", [planned.get("host", "")])
    return machines


def _find_first_site(experiment: Experiment) -> str:
    """Return the host of the other Tare whose bundle an experiment came as; "" for others."""
    site: str = experiment.imported_bundle.site if experiment.is_from_bundle else ""
    try:
        return urlsplit(site).hostname or site
    except ValueError:
        return site


def compile_machine_pattern(spelling: str, replacement: str) -> str:
    """Return a pattern that finds a machine's name where it stands alone, since many are short.

    With a node's name goes its domain. Partitions and clusters may be called like a key of the
    page's own JSON, which stays.
    """
    may_be_a_key = replacement.startswith(("partition", "cluster", "bundle"))
    key = r"(?!\\?(?:\"|&quot;)\s*:)" if may_be_a_key else ""
    domain = r"(?:\.[a-z0-9-]+)*" if replacement.startswith("node") else ""
    return rf"(?<![\w-]){re.escape(spelling)}{domain}(?![\w-]){key}"


def _number(machines: dict[str, str], kind: str, names: Iterable[str]) -> None:
    replacements = {
        text: replacement
        for text, replacement in machines.items()
        if replacement.startswith(f"{kind}-")
    }
    for name in names:
        if not name or name.casefold() in LOCAL_HOSTS | COMMON_NAMES or name.isdecimal():
            continue
        short = name.partition(".")[0] if kind == "node" and not _is_address(name) else name
        replacement = replacements.get(short) or f"{kind}-{len(set(replacements.values())) + 1}"
        for text in filter(None, (short, name)):
            replacements[text] = replacement
            machines.setdefault(text, replacement)


def _nodes_in(text: str) -> list[str]:
    """Return the names in a list of nodes; Slurm's "n[1-2],x" is two, and not expanded."""
    return [name for name in re.split(r",(?![^\[]*\])|\s+", text) if name]


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdecimal()
