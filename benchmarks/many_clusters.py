"""50 clusters of which 10 hang, visited by the worker and the clock that `make demo` starts.

Those that hang accept a connection and say nothing, as a frozen sshd does; all begin to at once.
The others are this machine without a scheduler, each with a job that stays queued. Printed: the
longest and the median interval between visits to each healthy one, over its setting.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from benchmarks.servers import run_servers

HEALTHY, HANGING, SETTING, SECONDS = 40, 10, 5, 90


def main() -> None:
    processes: list[subprocess.Popen[bytes]] = []
    with run_servers(with_valkey=True) as folder:
        try:
            measure(folder, processes)
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def make_keys() -> tuple[str, str]:
    """Return a private and a public key as OpenSSH writes them."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return private.decode(), public.decode()


def measure(folder: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from experiments.models import Cluster, Job
    from tests.factories import ClusterFactory, CredentialFactory, ExperimentFactory, JobFactory

    silent = socket.create_server(("127.0.0.1", 0), backlog=200)
    port = silent.getsockname()[1]
    for number in range(HEALTHY + HANGING):
        hangs = number < HANGING
        columns = {"transport": "ssh", "host": "127.0.0.1", "port": port} if hangs else {}
        cluster = ClusterFactory(
            work_directory=str(folder / "work"), poll_seconds=SETTING, max_live_jobs=10, **columns
        )
        if hangs:
            private_key, cluster.host_key = make_keys()
            cluster.credential = CredentialFactory(private_key=private_key)
            cluster.save()
        JobFactory(
            experiment=ExperimentFactory(cluster=cluster),
            cluster=cluster,
            state=Job.State.QUEUED,
            scheduler_id=f"{os.getpid()}-1",
            directory=str(folder / "work" / "jobs" / str(number)),
        )
    healthy = Cluster.objects.filter(transport="local")
    for command in ("worker", "clock"):
        processes.append(subprocess.Popen([sys.executable, "manage.py", command], cwd=BASE))
    while healthy.filter(last_tick_at=None).exists():
        time.sleep(0.1)
    visits: dict[int, list[float]] = {}
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for pk, at in healthy.values_list("pk", "last_tick_at"):
            times = visits.setdefault(pk, [])
            if not times or at.timestamp() != times[-1]:
                times.append(at.timestamp())
        Job.objects.filter(cluster__in=healthy).exclude(state="queued").update(state="queued")
        time.sleep(0.2)
    intervals = [[after - before for before, after in pairwise(times)] for times in visits.values()]
    longest = [max(row) / SETTING for row in intervals if row]
    medians = [statistics.median(row) / SETTING for row in intervals if row]
    failures = sum(Cluster.objects.filter(transport="ssh").values_list("failures", flat=True))
    counted = sum(len(row) for row in intervals)
    print(f"{HEALTHY} healthy clusters and {HANGING} that hang, one worker, {SECONDS} s")
    print(f"{'visits to the healthy, of ' + str(HEALTHY * SECONDS // SETTING):44} {counted:8d}")
    print(f"{'failed visits to the others':44} {failures:8d}")
    print(f"{'interval over its setting: median':44} {statistics.median(medians):8.2f}")
    print(f"{'... the longest of the median cluster':44} {statistics.median(longest):8.2f}")
    print(f"{'... the longest of all':44} {max(longest):8.2f}")


if __name__ == "__main__":
    main()
