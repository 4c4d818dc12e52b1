"""Parses Grid Engine's queues from the list of `qstat -f`: one row for each host of a queue."""

import re
from collections import Counter, defaultdict

from runners.schedulers.base import PartitionFacts, parse_time_limit

# Whole names, and how long a job may run there.
QUEUES = "SGE_LONG_QNAMES=-1 exec timeout 15 qstat -f -F h_rt"

# queue@host type [reserved/]used/slots load system states
ROW = re.compile(r"(\S+)@\S+\s+\S+\s+(?:\d+/)?(\d+)/(\d+)\s+\S+\s+\S+(?:\s+(\S+))?\s*$")
LIMIT = re.compile(r"\s+\w+:h_rt=(\S+)")
# Letters of a queue on a host, the gravest first. In any other state jobs begin there.
CLOSED = {
    "u": "unreachable",
    "E": "in error",
    "d": "disabled",
    "D": "closed by calendar",
    "s": "suspended",
    "S": "suspended",
    "A": "suspended",
    "C": "suspended by calendar",
    "a": "overloaded",
    "c": "ambiguous",
    "o": "orphaned",
}


def parse_queues(printed: str) -> list[PartitionFacts]:
    """Return the queues in that list, each with the longest time limit among its hosts.

    GPUs are left to a trial: qstat only counts those that are free at the moment.
    """
    states: dict[str, Counter[str]] = defaultdict(Counter)
    limits: dict[str, list[int | None]] = defaultdict(list)
    name = ""
    for line in printed.splitlines():
        if row := ROW.match(line):
            name = row[1]
            states[name][_describe_state(row[4] or "", used=int(row[2]), slots=int(row[3]))] += 1
        elif name and (limit := LIMIT.match(line)):
            limits[name].append(parse_time_limit(limit[1]))
    return [
        PartitionFacts(name, "up", _find_longest(limits[name]), dict(count), None, ())
        for name, count in states.items()
    ]


def _describe_state(letters: str, *, used: int, slots: int) -> str:
    """Return a queue's state on one host; where jobs can begin, by Slurm's name for it."""
    for letter, meaning in CLOSED.items():
        if letter in letters:
            return meaning
    return "idle" if not used else "mixed" if used < slots else "allocated"


def _find_longest(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None
