"""Streamed exports of a site with 100,000 runs: runs a second, first byte, and memory over time.

python benchmarks/streamed_exports.py [RUNS] [PART]

Each run that succeeded has five metrics and three series of 20 steps. PART: of all files those
alone that have it, such as series. The web server runs as in production; its memory is read after
each megabyte that has come.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import urllib.request
from datetime import timedelta
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.large_site import RUNS, add_series, fill_large_site
from benchmarks.servers import run_servers, run_web

ROUNDS = 3
PIECE = 2**20
FILES = (
    *("runs.parquet", "runs.arrow", "runs.csv", "runs.parquet?metrics=step_time"),
    *("measurements.parquet", "measurements.csv"),
    *("series.parquet", "series.arrow", "series.csv"),
)


def main() -> None:
    with run_servers() as folder:
        os.environ |= {"ALLOWED_HOSTS": "127.0.0.1", "DEBUG": "", "HTTPS": "off"}
        headers = fill(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)
        with run_web(folder) as (address, pid):
            measure(address, pid, headers)


def fill(count: int) -> dict[str, str]:
    """Fill the database; return the headers of a request by a person who may view all runs."""
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection
    from django.utils import timezone

    from experiments.models import Experiment
    from experiments.models.api_token import make_token

    call_command("migrate", verbosity=0)
    person = fill_large_site(count)
    add_series()
    Experiment.objects.update(visibility="members")
    _, text = make_token(person, "benchmark", ["read"], timezone.now() + timedelta(days=1))
    connection.close()
    return {"Authorization": f"Bearer {text}", "X-Forwarded-Proto": "https"}


def measure(address: str, pid: int, headers: dict[str, str]) -> None:
    workers = Path(f"/proc/{pid}/task/{pid}/children").read_text().split() or [str(pid)]
    memory_head = "memory MB: before, quartiles while sent, after"
    print(f"| file | runs/s | s | first byte s | MB | {memory_head} |")
    print("| --- | --- | --- | --- | --- | --- |")
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    for file in (file for file in FILES if part in file):
        fetch(address, file, headers, workers)  # what is imported once a process
        rounds = [fetch(address, file, headers, workers) for _ in range(ROUNDS)]
        took, first, size, memory = sorted(rounds)[ROUNDS // 2]
        inner = statistics.quantiles(memory, n=4)
        shown = ", ".join(f"{value:.0f}" for value in (memory[0], *inner, memory[-1]))
        numbers = f"{RUNS / took:,.0f} | {took:.2f} | {first:.2f} | {size / 1e6:.1f}"
        print(f"| {file} | {numbers} | {shown} |")


def fetch(
    address: str, file: str, headers: dict[str, str], workers: list[str]
) -> tuple[float, float, int, list[float]]:
    """Return seconds in all and to the first byte, bytes, and memory of the server in MB."""

    def read_memory() -> float:
        pages = (Path(f"/proc/{each}/statm").read_text().split()[1] for each in workers)
        return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") / 1e6

    memory, size, first = [read_memory()], 0, 0.0
    request = urllib.request.Request(f"{address}/api/v1/export/{file}", headers=headers)
    began = time.perf_counter()
    with urllib.request.urlopen(request) as answer:
        while piece := answer.read1(PIECE):
            first = first or time.perf_counter() - began
            before, size = size, size + len(piece)
            if size // PIECE > before // PIECE:
                memory.append(read_memory())
    took = time.perf_counter() - began
    memory.append(read_memory())
    return took, first, size, memory


if __name__ == "__main__":
    main()
