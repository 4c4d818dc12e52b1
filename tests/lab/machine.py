"""A cluster of the lab as its tests use it: short ways to send jobs there and to wait for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from uuid import uuid4

from lab.client import Lab
from lab.instance import Instance
from runners.job_failures import name_failure
from runners.jobs import EnvironmentSpec, JobSpec, Resources, RunSpec
from runners.records import Record, RunRecord, read_record
from runners.runner import Runner
from runners.schedulers import Scheduler
from runners.transports import SSH
from runners.workloads import WORKLOADS
from tests.conftest import pause_longer
from tests.lab.gated import gated, own
from tests.sending import send_files

BLAS = WORKLOADS["blas"]
PARAMETERS = BLAS.clean({"steps": 5, "burn_in": 1, "matrix_size": 128})
WAITS = "echo waiting; exec sleep 600"


@dataclass
class Machine:
    """A runner on the lab, and short ways to make jobs for it."""

    lab: Lab
    runner: Runner
    numbers: Iterator[int] = field(default_factory=count)
    mark: str = field(default_factory=lambda: uuid4().hex[:8])
    """Of what this one sends: files of tests share a lab, and its work directory."""

    def send(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write files there with the researcher's own key: a forced command would refuse that."""
        with SSH(own(self.lab)) as transport:
            send_files(transport, folder, files)

    def program(self, script: str) -> EnvironmentSpec:
        """A bare-metal environment whose `python` is a shell script."""
        folder = f"{self.lab.work_directory}/program-{self.mark}-{next(self.numbers)}"
        self.send(folder, {"program.sh": f"#!/bin/sh\n{script}\n".encode()})
        return EnvironmentSpec(label=script, runtime="bare_metal", python=f"{folder}/program.sh")

    def job(self, *environments: EnvironmentSpec, **changes: object) -> JobSpec:
        uid = f"u{self.mark}-{next(self.numbers)}"
        runs = [
            RunSpec(f"{uid}-r{position}", position, "blas", PARAMETERS, environment)
            for position, environment in enumerate(environments)
        ]
        wanted = Resources(time_limit_seconds=60, gpus_per_node=1, partition="gpu")
        directory = f'{self.lab.work_directory}/it\'s $(a) "work" directory/jobs/{uid}-1'
        resources = replace(wanted, **changes)  # type: ignore[arg-type]
        return JobSpec(uid, f"tare-{uid}-1", directory, tuple(runs), resources)

    def environments(self) -> list[EnvironmentSpec]:
        """Bare metal, and Apptainer and udocker in two forms each, all with one NumPy."""
        software = self.lab.images["numpy"]
        inside = EnvironmentSpec("", "", python=software.image.python)
        found = [EnvironmentSpec("bare", "bare_metal", python=software.bare_metal.python)]
        for runtime, form, mode in (
            *(("apptainer", "sif", ""), ("apptainer", "sandbox", "")),
            *(("udocker", "udocker", "P1"), ("udocker", "udocker", "R1")),
        ):
            label, path = f"{form} {mode}".strip(), software.form(form, mode).path
            found.append(replace(inside, label=label, runtime=runtime, mode=mode, image_path=path))
        return found

    def measured_alike(self, job: JobSpec, runs: list[RunRecord]) -> None:
        """They computed the same numbers, on the two GPUs that were asked for, at home."""
        results = [BLAS.read(run.files, {}) for run in runs]
        assert len({result.measurements["residual"] for result in results}) == 1
        for run, sent in zip(runs, job.runs, strict=False):
            variables = run.snapshot["variables"]
            assert variables["CUDA_VISIBLE_DEVICES"] == "0,1", run.snapshot
            assert variables["HOME"] == job.locate_run(sent)

    def until(self, condition: Callable[[], object], seconds: float = 60) -> None:
        end, pauses = time.monotonic() + seconds, pause_longer()
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"
            next(pauses)

    def begun(self, job: JobSpec) -> str:
        """Submit a job and wait until its first program runs."""
        job_id = self.runner.submit(job)
        self.until(
            lambda: (
                b"run began"
                in self.runner.read_journals({job.directory: 0}).get(job.directory, b"")
            )
        )
        return job_id

    def finished(self, job: JobSpec, job_id: str, seconds: float = 60) -> Record:
        self.until(lambda: not self.runner.poll([job_id]), seconds)
        return read_record(self.runner.collect(job.directory))

    def failure(self, record: Record, job_id: str) -> tuple[str, str]:
        """Why it failed; the accounting daemon is told of a job's end a moment later."""
        self.until(lambda: job_id in self.runner.read_endings([job_id]))
        return name_failure(record, self.runner.read_endings([job_id])[job_id])


@contextmanager
def connected(lab: Lab, scheduler: Scheduler, *, gate: bool = True) -> Iterator[Runner]:
    """A runner that has logged in to the lab as its researcher, by default with a key that may do
    only what Tare needs."""
    with SSH(gated(lab, scheduler) if gate else own(lab)) as transport:
        yield Runner(transport, scheduler)


def processes(namespace: int) -> list[int]:
    """Every process of a PID namespace, seen from outside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "ns/pid").stat().st_ino == namespace:
                found.append(int(entry.name))
        except OSError:  # it has just ended
            continue
    return found


def namespace_of(directory: Path) -> int:
    return Path(f"/proc/{Instance(directory).find_init()}/ns/pid").stat().st_ino


def until(condition: Callable[[], bool], within_seconds: float = 10) -> bool:
    deadline = time.monotonic() + within_seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
