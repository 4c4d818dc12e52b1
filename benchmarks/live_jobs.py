"""A visit to a cluster with 5,000 live jobs: our own time, memory, statements and commands.

Slurm is played by a table in this process, so that only Tare's own work is measured: in a steady
visit nothing has changed; in another all jobs start at once, and their journals say so.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

BASE = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BASE))

from benchmarks.servers import run_servers
from runners.transports import Completed, Transport

JOBS = 5000


class Cluster(Transport):
    """Answers the commands of a visit from memory."""

    label = "played"
    is_open = True

    def __init__(self) -> None:
        self.states: dict[str, str] = {}  # by id
        self.journals: dict[str, bytes] = {}  # by name of the job's directory
        self.commands: list[str] = []

    def run(self, argv: Sequence[str], **options: Any) -> Completed:
        name = argv[3] if argv[0] == "sh" else argv[0]
        self.commands.append(name)
        if name == "squeue":
            rows = [f"{job_id}|{state}||None" for job_id, state in self.states.items()]
            return Completed(0, "\n".join(rows).encode(), b"")
        if name == "journals":
            return Completed(0, self.read_journals(options["stdin"]), b"")
        return Completed(0, b"", b"")

    def read_journals(self, asked: bytes) -> bytes:
        answer = []
        for number, line in enumerate(asked.decode().splitlines(), start=1):
            offset, name = line.split()
            if news := self.journals.get(name, b"")[int(offset) :]:
                answer.append(b"%d %d\n%s" % (number, len(news), news))
        return b"".join([*answer, b"archive\n", bytes(10240)])

    def close(self) -> None:
        pass


def main() -> None:
    with run_servers():
        measure()


def measure() -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    call_command("migrate", verbosity=0)
    from experiments import execution
    from experiments.models import Cluster as Row
    from experiments.models import Event, Job, Run
    from tests.factories import ClusterFactory, ExperimentFactory, JobFactory, RunFactory

    row = ClusterFactory(scheduler="slurm", max_live_jobs=JOBS, poll_seconds=0)
    experiment = ExperimentFactory(cluster=row, plan={"blocks": []})
    played = Cluster()
    first = RunFactory(job=JobFactory(experiment=experiment, cluster=row), state="planned")
    common = {"experiment": experiment, "workload": first.workload, "scale": first.scale}
    jobs = Job.objects.bulk_create(
        Job(
            **common,
            cluster=row,
            repeat=number,
            block=number,
            state=Job.State.QUEUED,
            scheduler_id=str(number),
            directory=f"/scratch/jobs/{number:032x}-1",
            script="#" * 12_000,
        )
        for number in range(2, JOBS + 2)
    )
    Run.objects.bulk_create(
        Run(**common, job=job, environment=first.environment, repeat=job.repeat, position=0)
        for job in jobs
    )
    played.states = dict.fromkeys((job.scheduler_id for job in jobs), "PENDING")
    profile = "--profile" in sys.argv

    def visit() -> None:
        Row.objects.update(last_tick_at=None)
        connect = "experiments.execution.connections._transport_to"
        with mock.patch(connect, return_value=played):
            assert execution.tick(row.pk) == "done"

    print(f"{JOBS} live jobs of one cluster")
    print(f"{'':28} {'own s':>8} {'wall s':>8} {'MiB':>8} {'queries':>8} {'commands':>9}")

    def show(name: str, before: Callable[[], object] = lambda: None) -> None:
        before()
        played.commands.clear()
        own, wall = time.process_time(), time.perf_counter()
        with CaptureQueriesContext(connection) as queries:
            visit()
        own, wall = time.process_time() - own, time.perf_counter() - wall
        if profile:
            for query in queries:
                print("   ", query["time"], query["sql"][:150])
        print(f"{name:28} {own:8.2f} {wall:8.2f} {'':8} {len(queries):8} {len(played.commands):9}")

    show("steady, all queued")
    tracemalloc.start()
    visit()
    most = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    print(f"{'':28} {'':8} {'':8} {most:8.0f}")

    def start_all() -> None:
        played.states = dict.fromkeys(played.states, "RUNNING")
        for directory, run in Job.objects.values_list("directory", "runs__uid"):
            lines = [{"time": 1.0, "event": "job started"}]
            lines += [{"time": 2.0, "event": "run began", "run": run, "node": "node1"}]
            played.journals[Path(directory).name] = "".join(
                json.dumps(x) + "\n" for x in lines
            ).encode()

    show("all start", start_all)
    assert Job.objects.filter(state="running").count() == JOBS
    show("steady, all running")
    print(f"{Event.objects.count()} events; {shlex.join(dict.fromkeys(played.commands))}")


if __name__ == "__main__":
    main()
