"""Energy of the CPUs of a run's node, from the counters that the job script read. No I/O.

A line of `samples/rapl.txt` is the time and, for each CPU package, its counter in microjoules and
the largest value that it reaches before it begins at zero again: "1795699544.7 8123/262143328850".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from runners.run_measures import Measure, NotMeasured, accept
from runners.untrusted import LATEST
from runners.workloads.run_metrics import HOST_ENERGY

COUNTERS = "energy counters of the node's CPUs (RAPL)"
MOST_LINES = 100_000
MOST_WATTS = 1500.0
"""Of a package. A counter that could have gone round twice at this power says nothing."""
EDGE_SECONDS = 0.5
"""How far from the run's ends the first and the last line may be."""
_LINE = re.compile(r"([0-9]{1,12}\.[0-9]{1,9})((?: [0-9]{1,18}/[0-9]{1,18}){1,64})")

Line = tuple[float, list[tuple[int, int]]]
"""The time, and of each package the counter and its largest value."""


def read_counters(content: bytes) -> list[Line]:
    """Return the lines in the order of time; odd ones and the last, if it is cut off, are left out.

    Ones too many are left out too.
    """
    lines: list[Line] = []
    for text in content[: content.rfind(b"\n") + 1].split(b"\n", MOST_LINES)[:MOST_LINES]:
        match = _LINE.fullmatch(text[:3000].decode("ascii", "replace"))
        if match and float(match[1]) <= LATEST:
            counters = [part.split("/") for part in match[2].split()]
            lines.append((float(match[1]), [(int(count), int(most)) for count, most in counters]))
    return sorted(lines, key=lambda line: line[0])


def measure_host_energy(content: bytes, began: float, ended: float) -> Measure:
    """Return the energy of all CPU packages of the node between two moments."""
    if not content:
        raise NotMeasured("the node does not let users read the energy counters of its CPUs (RAPL)")
    lines = [
        line
        for line in read_counters(content)
        if began - EDGE_SECONDS <= line[0] <= ended + EDGE_SECONDS
    ]
    if len(lines) < 2 or lines[0][0] > began + EDGE_SECONDS or lines[-1][0] < ended - EDGE_SECONDS:
        raise NotMeasured("the energy counters of the CPUs were not read when it began and ended")
    first, last = _choose_edges(lines, began, ended)
    microjoules = sum(
        _subtract(earlier, later) for earlier, later in pairwise(lines[first : last + 1])
    )
    packages = len(lines[0][1])
    detail = f"{packages} package{'s' * (packages != 1)}, of the whole node"
    return accept(HOST_ENERGY, microjoules / 1e6, COUNTERS, detail)


def _choose_edges(lines: Sequence[Line], began: float, ended: float) -> tuple[int, int]:
    """Return the places of the lines that are nearest to the beginning and to the end."""
    places = range(len(lines))
    first = min(places, key=lambda place: abs(lines[place][0] - began))
    return first, min(places, key=lambda place: abs(lines[place][0] - ended))


def _subtract(earlier: Line, later: Line) -> int:
    """Return the microjoules between two lines. Raises NotMeasured if they cannot be known."""
    (before, old), (after, new) = earlier, later
    if len(old) != len(new):
        raise NotMeasured("not all energy counters of the CPUs could be read each time")
    total = 0
    for (start, most), (end, _) in zip(old, new, strict=True):
        if (after - before) * MOST_WATTS * 1e6 > most:
            raise NotMeasured(
                f"for {after - before:,.0f} s the energy counters of the CPUs were not read, and "
                "may have gone round meanwhile"
            )
        total += end - start + (most if end < start else 0)
    return total
