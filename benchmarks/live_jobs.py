"""The rows of 250 live jobs of a plan of 4,000 blocks: as a visit reads them, and whole."""

from __future__ import annotations

import os
import secrets
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from cryptography.fernet import Fernet

from standalone.postgres import Postgres

JOBS, BLOCKS, TIMES = 250, 4000, 3


def main() -> None:
    postgres = Postgres(Path(tempfile.mkdtemp(prefix="tare-bench-")) / "postgres")
    postgres.start()
    os.environ |= {
        "DATABASE_URL": postgres.url,
        "REDIS_URL": "redis://localhost:1",  # not used
        "SECRET_KEY": secrets.token_urlsafe(32),
        "CREDENTIAL_KEYS": Fernet.generate_key().decode(),
        "DJANGO_SETTINGS_MODULE": "dashboard.settings",
    }
    try:
        measure()
    finally:
        postgres.stop()


def measure() -> None:
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    from experiments.execution import tick
    from experiments.execution.lease import Lease
    from experiments.models import Job
    from tests.factories import ClusterFactory, ExperimentFactory, JobFactory

    cluster = ClusterFactory()
    block = {"workload": "1", "scale": "1x1", "repeat": 1, "environments": ["1", "2", "3"]}
    experiment = ExperimentFactory(cluster=cluster, plan={"blocks": [block] * BLOCKS})
    for number in range(JOBS):
        JobFactory(
            experiment=experiment,
            cluster=cluster,
            state=Job.State.QUEUED,
            scheduler_id=str(number + 1),
            script="#" * 12_000,
            repeat=number + 1,
        )
    rows = sys.modules[tick.__module__]._jobs(Lease(cluster, ""), *Job.LIVE)
    print(f"{JOBS} live jobs, a plan of {BLOCKS} blocks: median of {TIMES}")
    print(f"{'':24} {'ms':>8} {'MiB':>8}")
    narrow = cost(lambda: list(rows.all()))
    whole = cost(lambda: list(rows.defer(None)))
    for name, (took, most) in (("as a visit reads them", narrow), ("all columns", whole)):
        print(f"{name:24} {took:8.1f} {most:8.1f}")
    print(f"{'ratio':24} {whole[0] / narrow[0]:8.1f} {whole[1] / narrow[1]:8.1f}")


def cost(read: Callable[[], object]) -> tuple[float, float]:
    """Return the milliseconds that reading takes, and the most MiB of Python's at once."""
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        read()
        took.append(1000 * (time.perf_counter() - began))
    tracemalloc.start()
    read()
    most = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return statistics.median(took), most


if __name__ == "__main__":
    main()
