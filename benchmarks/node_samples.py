"""What sampling a node costs: CPU time a sample, and the rate of a CPU-bound loop beside it.

The sampler is that of the job script, which takes a sample every 5 s. Here it takes one every
20 ms, so that 30 s are worth two hours of a job; what it costs is given for every 5 s.

    python -m benchmarks.node_samples [SECONDS]
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runners.node_samples import LEAST_INTERVAL_SECONDS
from runners.scripts import TEMPLATE

FAST = 0.02
"""Seconds between samples here."""
TURN = 1.5
TICK = os.sysconf("SC_CLK_TCK")


@contextmanager
def sampling(folder: Path) -> Iterator[int]:
    """Sample this machine while the block runs; the process that does it."""
    functions = r"^powercap=.*?(?=^# Set .index. )"
    text = re.search(functions, TEMPLATE.read_text(), re.DOTALL | re.MULTILINE)
    assert text
    begun = f"choose_cpu_counters\nsample_node {FAST} & echo $!; read -r _; kill -KILL $!\n"
    script = f"job='{folder}'\nnow() {{ moment=$EPOCHREALTIME; }}\n{text[0]}{begun}"
    with subprocess.Popen(
        ["bash", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdin
        assert shell.stdout
        yield int(shell.stdout.readline())
        shell.stdin.write("\n")
        shell.stdin.close()


def measure_cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def count_loops(seconds: float) -> float:
    """Return how many turns of a loop this process does in a second of wall time."""
    end, count = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        sum(range(2000))
        count += 1
    return count / seconds


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "samples").mkdir()
        path = folder / "samples" / "node.txt"
        with sampling(folder) as pid:
            time.sleep(seconds)
            used, lines = measure_cpu_seconds(pid), path.read_bytes().count(b"\n")
        size = path.stat().st_size / lines
        ratios = []
        for turn in range(max(4, int(seconds / TURN / 2))):
            rates = {}
            for beside in (True, False) if turn % 2 else (False, True):
                if beside:
                    with sampling(folder):
                        rates[beside] = count_loops(TURN)
                else:
                    rates[beside] = count_loops(TURN)
            ratios.append(rates[True] / rates[False])
    each = used / lines
    hour = each * 3600 / LEAST_INTERVAL_SECONDS
    middle = statistics.median(ratios)
    # The loop has lost this share of its time to samples that came so many times as often.
    lost = (1 - middle) * FAST / LEAST_INTERVAL_SECONDS
    print(f"| CPU time a sample ({lines} samples, {os.cpu_count()} CPUs) | {1000 * each:.2f} ms |")
    print(f"| CPU time an hour of job, every {LEAST_INTERVAL_SECONDS} s | {hour:.2f} s |")
    print(f"| of one core | {100 * hour / 3600:.4f} % |")
    print(f"| bytes a sample; an hour | {size:.0f}; {size * 3600 / LEAST_INTERVAL_SECONDS:.0f} |")
    print(
        f"| rate of a loop beside it, every {1000 * FAST:.0f} ms, over alone: median, smallest, "
        f"largest of {len(ratios)} turns | {middle:.4f}, {min(ratios):.4f}, {max(ratios):.4f} |"
    )
    print(f"| the same, every {LEAST_INTERVAL_SECONDS} s | {1 - lost:.6f} |")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 30.0)
