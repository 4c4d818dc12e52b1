"""Every page of a site with 100,000 runs: server time, statements and bytes, the worst first.

python benchmarks/pages.py [RUNS [WORD]]

With a word, only addresses that contain it. Own processor time and that of the PostgreSQL process
are measured beside the time that passes, which other work on the machine makes longer.
"""

from __future__ import annotations

import gzip
import re
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.large_site import RUNS, fill_large_site
from benchmarks.servers import run_servers
from benchmarks.site_pages import Address, list_addresses

TIMES = 7
KEPT = 100
"""So many of the newest comparisons are kept, as all are on a site that is used."""
SHOWN, MARK = "X-Shown", "X-Mark"
"""What a page sends back of a live part that it shows."""
CHART = re.compile(
    rb'<script id="[^"]*" type="application/json">.*?</script>|"data:image/[^"]*"', re.DOTALL
)
"""Data of charts, and pictures within the one file of a report."""


@dataclass(frozen=True)
class Goal:
    """What an address may take; None where nothing is promised."""

    milliseconds: float | None
    statements: int | None
    kilobytes: float | None
    counts_charts: bool = False


GOALS = {
    "list": Goal(30, 15, 150),
    "page": Goal(100, 15, 150),
    "comparison": Goal(150, 15, 500, counts_charts=True),
    "curves": Goal(150, 15, 500, counts_charts=True),
    "live": Goal(10, None, 10, counts_charts=True),
    "file": Goal(None, None, None),
}


@dataclass(frozen=True)
class Measured:
    """What one address took, medians of several requests in ms."""

    address: Address
    own: float
    database: float
    wall: float
    statements: int
    content: int
    """Bytes before compression, without charts where these do not count."""
    charts: int
    sent: int
    status: int

    @property
    def worst(self) -> float:
        """Return the largest share of a goal that it takes."""
        return max(self._list_shares(), default=0.0)

    @property
    def missed(self) -> str:
        names = ("time", "statements", "bytes")
        shares = zip(names, self._list_shares(), strict=False)
        return ", ".join(f"{name} {share:.1f}x" for name, share in shares if share > 1)

    def _list_shares(self) -> list[float]:
        goal = GOALS[self.address.kind]
        if goal.milliseconds is None:
            return []
        content = self.content + (self.charts if goal.counts_charts else 0)
        return [
            (self.own + self.database) / goal.milliseconds,
            self.statements / goal.statements if goal.statements else 0.0,
            content / 1000 / goal.kilobytes if goal.kilobytes else 0.0,
        ]


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with run_servers():
        measure_pages(runs, sys.argv[2] if len(sys.argv) > 2 else "")


def prepare_site(runs: int) -> tuple[Any, Any]:
    """Fill a migrated database; return a researcher of it, and a site administrator."""
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from experiments.comparisons import keep_comparison
    from experiments.models import Experiment, User

    settings.ALLOWED_HOSTS = ["*"]
    settings.SECURE_SSL_REDIRECT = False
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    call_command("migrate", verbosity=0)
    import_module("dashboard.wsgi")  # which sets how often a web process looks for garbage
    person = fill_large_site(runs)
    for pk in Experiment.objects.order_by("-pk").values_list("pk", flat=True)[:KEPT]:
        keep_comparison(pk)  # as a worker does when the jobs of an experiment end
    return person, User.objects.create(username="administrator", role="site_administrator")


def measure_pages(runs: int, word: str) -> None:
    began = time.perf_counter()
    person, administrator = prepare_site(runs)
    from django.test import Client

    clients = [Client(headers={"accept-encoding": "gzip"}) for _ in range(2)]
    for client, user in zip(clients, (person, administrator), strict=True):
        client.force_login(user)
    addresses = [address for address in list_addresses(person) if word in address.path]
    print(f"{runs:,} runs and what else pages show made in {time.perf_counter() - began:.0f} s")
    all_measured = [row for address in addresses for row in measure_both(address, clients)]
    print(f"{memory():.0f} MB of memory after all of them; medians of {TIMES}, in ms")
    heads = ("own", "database", "wall", "statements", "bytes", "charts", "sent")
    print(f"{'page':86}" + "".join(f"{head:>11}" for head in heads) + "  over its goal")
    for row in sorted(all_measured, key=lambda row: row.worst, reverse=True):
        name = f"{row.address.kind} {row.address.path}"
        status = {200: "", 204: " (no news)"}.get(row.status, f" (status {row.status})")
        numbers = f"{row.own:11.1f}{row.database:11.1f}{row.wall:11.1f}{row.statements:11}"
        sizes = f"{row.content:11,}{row.charts:11,}{row.sent:11,}"
        print(f"{name[:86]:86}{numbers}{sizes}  {row.missed}{status}")
    missed = sum(bool(row.missed) for row in all_measured)
    print(f"{missed} of {len(all_measured)} miss a goal")


def measure_both(address: Address, clients: list[Any]) -> Iterator[Measured]:
    """Yield what an address takes; a live part as it is made, and as it is left without news."""
    yield measure(address, clients)
    if address.kind == "live":
        for client in clients:
            answer = client.get(address.path, headers=address.headers)
            if answer.status_code == 200:
                shown = {name: answer[name] for name in (SHOWN, MARK) if name in answer}
                yield measure(replace(address, headers=address.headers | shown), [client])
                break


def measure(address: Address, clients: list[Any]) -> Measured:
    """Fetch an address several times, as the first of these clients that may."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def fetch(client: Any) -> tuple[Any, bytes]:
        answer = client.get(address.path, headers=address.headers)
        stream = getattr(answer, "streaming_content", None)
        return answer, b"".join(stream) if stream is not None else answer.content

    client = next(
        (client for client in clients if fetch(client)[0].status_code not in (403, 404)), clients[0]
    )
    fetch(client)
    own, database, wall = [], [], []
    for _ in range(1 if address.kind == "file" else TIMES):
        began, own_began, database_began = time.perf_counter(), time.process_time(), read_database()
        fetch(client)
        own.append(1000 * (time.process_time() - own_began))
        wall.append(1000 * (time.perf_counter() - began))
        database.append(1000 * (read_database() - database_began))
    with CaptureQueriesContext(connection) as queries:
        answer, sent = fetch(client)
    page = gzip.decompress(sent) if answer.get("Content-Encoding") == "gzip" else sent
    charts = sum(map(len, CHART.findall(page)))
    return Measured(
        address,
        statistics.median(own),
        statistics.median(database),
        statistics.median(wall),
        len(queries),
        len(page) - charts,
        charts,
        len(sent),
        answer.status_code,
    )


def read_database() -> float:
    """Return the seconds of processor time that the process of this connection has taken.

    Of helpers that PostgreSQL starts for one statement nothing is counted. 0 where no such process
    is seen on this machine.
    """
    from django.db import connection

    connection.ensure_connection()
    try:
        text = Path(f"/proc/{connection.connection.get_backend_pid()}/schedstat").read_text()
    except OSError:
        return 0.0
    return int(text.split()[0]) / 1e9


def memory() -> float:
    """Return the resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1000


if __name__ == "__main__":
    main()
