"""Grid Engine's queues, as `qstat -f` lists them: one row for each host of each queue."""

import re
from collections import Counter, defaultdict

from runners.schedulers.base import PartitionFacts, limit_seconds

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
    """The queues in that list, each with the limit of its most generous host.

    GPUs are left to a trial: what qstat counts of them is what is free just now.
    """
    states: dict[str, Counter[str]] = defaultdict(Counter)
    limits: dict[str, list[int | None]] = defaultdict(list)
    name = ""
    for line in printed.splitlines():
        if row := ROW.match(line):
            name = row[1]
            states[name][_state(row[4] or "", used=int(row[2]), slots=int(row[3]))] += 1
        elif name and (limit := LIMIT.match(line)):
            limits[name].append(limit_seconds(limit[1]))
    return [
        PartitionFacts(name, "up", _most(limits[name]), dict(count), None, ())
        for name, count in states.items()
    ]


def _state(letters: str, *, used: int, slots: int) -> str:
    """Of a queue on one host; where jobs can begin, in the words that Slurm has for it."""
    for letter, word in CLOSED.items():
        if letter in letters:
            return word
    return "idle" if not used else "mixed" if used < slots else "allocated"


def _most(limits: list[int | None]) -> int | None:
    known = [limit for limit in limits if limit is not None]
    return max(known) if known and len(known) == len(limits) else None
