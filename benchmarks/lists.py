"""The list of runs, of experiments and the overview beside 100,000 runs."""

from __future__ import annotations

import gzip
import statistics
import sys
import time
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.servers import run_servers

EXPERIMENTS, RUNS_EACH = 50, 2000
ADDRESSES = (
    "/runs/",
    "/runs/?sort=node",
    "/runs/?state=failed",
    "/runs/?page=20",
    "/experiments/",
    "/",
)


def main() -> None:
    with run_servers():
        measure()


def measure() -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    settings.ALLOWED_HOSTS = ["*"]
    settings.SECURE_SSL_REDIRECT = False
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    call_command("migrate", verbosity=0)
    client = Client(headers={"accept-encoding": "gzip"})
    client.force_login(fill())
    print(f"{'of 15, in ms':24} {'median':>8} {'longest':>8} {'sent':>10} {'page':>10}")
    for address in ADDRESSES:
        took, answer = [], client.get(address)
        for _ in range(15):
            began = time.perf_counter()
            answer = client.get(address)
            took.append(1000 * (time.perf_counter() - began))
        packed = answer.get("Content-Encoding") == "gzip"
        page = gzip.decompress(answer.content) if packed else answer.content
        print(
            f"{address:24} {statistics.median(took):8.1f} {max(took):8.1f} "
            f"{len(answer.content):10,} {len(page):10,}"
        )


def fill() -> object:
    """Make 100,000 runs that everybody may read; return whose a fifth of them are."""
    from tests.factories import EnvironmentFactory, LaunchedFactory, UserFactory, WorkloadFactory
    from tests.many_runs import add_runs, refresh_statistics

    owner, other = UserFactory(), UserFactory()
    bare, workload = EnvironmentFactory(), WorkloadFactory()
    for number in range(EXPERIMENTS):
        experiment = LaunchedFactory(
            owner=other if number % 5 else owner,
            visibility="members",
            cluster=bare.cluster,
            baseline=bare,
            environments=[bare],
            workloads=[workload],
        )
        add_runs(experiment, RUNS_EACH)
    refresh_statistics()
    return owner


if __name__ == "__main__":
    main()
