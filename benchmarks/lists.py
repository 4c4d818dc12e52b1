"""Lists of a site with 100,000 runs: server time, queries and bytes, sorted by a metric or not.

python benchmarks/lists.py [RUNS] [PART]

PART: of all addresses those alone that have it, such as /api/.
"""

from __future__ import annotations

import gzip
import statistics
import sys
import time
from pathlib import Path

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.large_site import RUNS, fill_large_site
from benchmarks.servers import run_servers

TIMES = 25
METRICS = "step_time,step_time_sd,container_start,import_time,time_to_first_step"
"""Of a list of runs by the API."""
ADDRESSES = (
    "/runs/",
    "/runs/?sort=node",
    "/runs/?sort=metric.step_time",
    "/runs/?sort=-metric.step_time",
    "/runs/?sort=-metric.step_time&column=state&column=metric.step_time&column=metric.import_time&column=parameter.steps&column=fact.kernel",
    "/runs/?sort=metric.step_time&where=metric.step_time>=0.19&where=state=succeeded",
    "/runs/?sort=-parameter.seed&column=parameter.seed",
    "/runs/?sort=-fact.kernel&column=fact.kernel",
    "/runs/?where=parameter.seed=7",
    "/runs/?state=failed",
    "/runs/?page=20",
    f"/api/v1/runs?limit=100&metrics={METRICS}",
    f"/api/v1/runs?limit=100&metrics={METRICS}&sort=-metric.step_time",
    f"/api/v1/runs?limit=100&metrics={METRICS}&sort=node&where=metric.step_time>=0.19",
    f"/api/v1/runs?limit=100&metrics={METRICS}&cursor=NTAwMDA=",
    f"/api/v1/runs?limit=100&metrics={METRICS}&sort=-metric.step_time&cursor=NDk5OTc=",
    # Behind a run that has no such metric: at the end of the list.
    f"/api/v1/runs?limit=100&metrics={METRICS}&sort=-metric.step_time&cursor=NTAwMDA=",
    f"/api/v1/runs?limit=100&metrics={METRICS}&column=parameter.steps&column=fact.kernel",
    "/api/v1/experiments",
    "/api/v1/experiments?sort=-launched&state=ended",
    "/experiments/",
    "/experiments/?state=ended",
    "/compare/",
    "/catalogue/?tab=environments",
    "/catalogue/?tab=workloads",
    "/clusters/",
    "/search/results/?q=cost",
    "/search/results/?q=question%200123",
    "/search/results/?q=node",
    "/search/results/?q=abc",
    "/search/results/?q=e",
    "/search/results/?q=zzyzx",
    "/search/?q=cost",
    "/",
)


def main() -> None:
    with run_servers():
        measure(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS)


def measure(runs: int) -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext

    settings.ALLOWED_HOSTS = ["*"]
    settings.SECURE_SSL_REDIRECT = False
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    call_command("migrate", verbosity=0)
    began = time.perf_counter()
    client = Client(headers={"accept-encoding": "gzip"})
    client.force_login(fill_large_site(runs))
    print(f"{runs:,} runs made in {time.perf_counter() - began:.1f} s")
    heads = ("median", "p95", "own CPU", "queries", "sent", "page")
    print(f"{f'of {TIMES}, in ms':58}" + "".join(f"{head:>10}" for head in heads))
    part = sys.argv[2] if len(sys.argv) > 2 else ""
    for address in (address for address in ADDRESSES if part in address):
        answer = client.get(address)  # what is read once a process
        assert answer.status_code == 200, address
        took, own = [], []
        for _ in range(TIMES):
            began, own_began = time.perf_counter(), time.process_time()
            answer = client.get(address)
            took.append(1000 * (time.perf_counter() - began))
            own.append(1000 * (time.process_time() - own_began))
        with CaptureQueriesContext(connection) as queries:
            client.get(address)
        packed = answer.get("Content-Encoding") == "gzip"
        page = gzip.decompress(answer.content) if packed else answer.content
        p95 = statistics.quantiles(took, n=20)[-1]
        print(
            f"{address:58}{statistics.median(took):10.1f}{p95:10.1f}{statistics.median(own):10.1f}"
            f"{len(queries):10}{len(answer.content):10,}{len(page):10,}"
        )


if __name__ == "__main__":
    main()
