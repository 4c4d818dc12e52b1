"""The runner on a real cluster: SSH, Slurm and every runtime, on good days and bad ones."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from lab.client import Lab
from runners.errors import Refused, TryAgain
from runners.jobs import EnvironmentSpec, JobSpec, Resources, RunSpec
from runners.records import Record, name_failure, parse_journal, read_record
from runners.runner import Runner
from runners.schedulers import Slurm
from runners.transports import SSH, SSHAddress
from runners.workloads import WORKLOADS

pytestmark = pytest.mark.lab

BLAS = WORKLOADS["blas"]
PARAMETERS = BLAS.clean({"steps": 5, "burn_in": 1, "matrix_size": 128})
WAITS = "echo waiting; exec sleep 600"


@dataclass
class Cluster:
    """A runner on the lab, and short ways to make jobs for it."""

    lab: Lab
    runner: Runner
    numbers: Iterator[int] = field(default_factory=count)

    def program(self, script: str) -> EnvironmentSpec:
        """A bare-metal environment whose `python` is a shell script."""
        path = f"{self.lab.work_directory}/program-{next(self.numbers)}"
        self.runner.transport.write(path, f"#!/bin/sh\n{script}\n".encode())
        self.runner.transport.run(["chmod", "+x", path])
        return EnvironmentSpec(label=script, runtime="bare_metal", python=path)

    def job(self, *environments: EnvironmentSpec, **changes: object) -> JobSpec:
        uid = f"u{next(self.numbers)}"
        runs = [
            RunSpec(f"{uid}-r{position}", position, "blas", PARAMETERS, environment)
            for position, environment in enumerate(environments)
        ]
        wanted = Resources(time_limit_seconds=60, gpus_per_node=1, partition="gpu")
        directory = f'{self.lab.work_directory}/it\'s $(a) "work" directory/jobs/{uid}-1'
        resources = replace(wanted, **changes)  # type: ignore[arg-type]
        return JobSpec(uid, f"tare-{uid}-1", directory, tuple(runs), resources)

    def until(self, condition: Callable[[], object], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "it did not happen in time"

    def begun(self, job: JobSpec) -> str:
        """Submit a job and wait until its first program runs."""
        job_id = self.runner.submit(job)
        self.until(
            lambda: b"run began" in self.runner.journals({job.directory: 0}).get(job.directory, b"")
        )
        return job_id

    def finished(self, job: JobSpec, job_id: str, seconds: float = 60) -> Record:
        self.until(lambda: not self.runner.poll([job_id]), seconds)
        return read_record(self.runner.collect(job.directory))

    def failure(self, record: Record, job_id: str) -> tuple[str, str]:
        """Why it failed; the accounting daemon is told of a job's end a moment later."""
        self.until(lambda: job_id in self.runner.last_words([job_id]))
        return name_failure(record, self.runner.last_words([job_id])[job_id])


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Cluster]:
    address = SSHAddress(
        lab.host, lab.port, lab.user, lab.host_key, Path(lab.private_key).read_text()
    )
    with SSH(address) as transport:
        yield Cluster(lab, Runner(transport, Slurm()))


@pytest.fixture(scope="module", autouse=True)
def overdue(cluster: Cluster) -> tuple[JobSpec, str]:
    """A job that will run into its time limit while other tests run."""
    job = cluster.job(
        cluster.program(WAITS), cluster.program("true"), directives=("--nodelist=node2",)
    )
    return job, cluster.runner.submit(job)


def test_one_block_runs_in_every_environment(cluster, overdue):
    software = cluster.lab.images["numpy"]
    inside = EnvironmentSpec(label="", runtime="", python=software.image.python)
    environments = [
        EnvironmentSpec("bare", "bare_metal", python=software.bare_metal.python),
        *(
            replace(inside, label=form, runtime="apptainer", image_path=software.form(form).path)
            for form in ("sif", "sandbox")
        ),
        *(
            replace(
                inside,
                label=f"udocker {mode}",
                runtime="udocker",
                mode=mode,
                image_path=software.form("udocker", mode).path,
            )
            for mode in ("P1", "R1")
        ),
        replace(inside, label="no SIF", runtime="apptainer", image_path="/none/it's.sif"),
        replace(inside, label="no container", runtime="udocker", image_path="none"),
    ]
    job = cluster.job(*environments, gpus_per_node=2)
    assert cluster.runner.find(job) is None
    job_id = cluster.runner.submit(job)
    assert cluster.runner.find(job) == job_id
    record = cluster.finished(job, job_id)

    assert (record.exit_code, record.started_by, record.bad_checksums) == (0, job_id, [])
    runs = list(record.runs.values())
    assert [run.exit_code for run in runs] == [0, 0, 0, 0, 0, None, None]
    assert [run.failure for run in runs[5:]] == [
        *("image missing: /none/it's.sif", "image missing: none")
    ]
    results = [BLAS.read(run.result) for run in runs[:5]]
    assert len({result.measurements["residual"] for result in results}) == 1
    for run, environment in zip(runs[:5], job.runs, strict=False):
        variables = run.snapshot["variables"]
        assert variables["CUDA_VISIBLE_DEVICES"] == "0,1", run.snapshot
        assert variables["HOME"] == job.run_directory(environment)
    assert f"JobId={job_id} " in record.snapshot["scheduler"]
    assert "1.4" in runs[1].runtime_version
    assert cluster.runner.last_words([job_id])[job_id].kind == ""
    assert cluster.runner.find(job) == job_id


def test_a_job_that_is_sent_twice_is_executed_once(cluster):
    job = cluster.job(cluster.program("echo ran"))
    ids = [cluster.runner.submit(job), cluster.runner.submit(job)]
    cluster.until(lambda: not cluster.runner.poll(ids))
    files = cluster.runner.collect(job.directory)
    record = read_record(files)
    assert record.started_by in ids
    assert record.bad_checksums == []
    assert [line["event"] for line in record.journal].count("run began") == 1
    other = next(job_id for job_id in ids if job_id != record.started_by)
    assert b"steps aside" in files[f"scheduler-{other}.out"]


def test_a_running_job_tells_how_far_it_is(cluster):
    job = cluster.job(cluster.program("true"), cluster.program(WAITS))
    job_id = cluster.begun(job)
    seen, offset = [], 0
    while f"{job.uid}-r1" not in str(seen):
        content = cluster.runner.journals({job.directory: offset}).get(job.directory, b"")
        lines, consumed = parse_journal(content)
        seen, offset = seen + lines, offset + consumed
    assert (
        seen == parse_journal(cluster.runner.transport.read(f"{job.directory}/journal.ndjson"))[0]
    )
    cluster.runner.cancel([job_id])


def test_a_cancelled_job_says_so_and_its_next_runs_do_not_begin(cluster):
    job = cluster.job(cluster.program(WAITS), cluster.program("true"))
    job_id = cluster.begun(job)
    cluster.runner.cancel([job_id])
    record = cluster.finished(job, job_id)
    assert record.exit_code == 143
    assert [run.exit_code for run in record.runs.values()] == [143, None]
    assert "terminated" in [line["event"] for line in record.journal]
    assert cluster.failure(record, job_id)[0] == "cancelled outside"
    cluster.runner.cancel([job_id])  # again, and of a job that has ended


def test_any_number_of_jobs_is_one_status_call(cluster, monkeypatch):
    waits = cluster.program(WAITS)
    ids = [cluster.runner.submit(cluster.job(waits, gpus_per_node=4)) for _ in range(6)]
    commands = []
    run = cluster.runner.transport.run
    monkeypatch.setattr(
        cluster.runner.transport, "run", lambda argv, **kw: commands.append(argv) or run(argv, **kw)
    )
    live = cluster.runner.poll(ids)
    assert set(live) == set(ids)
    assert "queued" in {status.state for status in live.values()}
    assert len(commands) == 1
    cluster.runner.cancel(ids)
    cluster.until(lambda: not cluster.runner.poll(ids))


def test_without_a_database_the_controller_remembers(cluster, monkeypatch):
    """As a site without slurmdbd answers: its clients are told so, the controller is the lab's."""
    job = cluster.job(cluster.program(WAITS))
    job_id = cluster.begun(job)
    cluster.runner.cancel([job_id])
    cluster.finished(job, job_id)
    folder = f"{cluster.lab.work_directory}/no-database"
    shell = (
        f"mkdir -p {folder} && cp /etc/slurm/gres.conf /etc/slurm/cgroup.conf {folder} && "
        f"sed '/^Accounting/d' /etc/slurm/slurm.conf >{folder}/slurm.conf && "
        f"echo AccountingStorageType=accounting_storage/none >>{folder}/slurm.conf"
    )
    assert cluster.runner.transport.run(["bash", "-c", shell]).returncode == 0
    run = cluster.runner.transport.run
    monkeypatch.setattr(
        cluster.runner.transport,
        "run",
        lambda argv, **kw: run(["env", f"SLURM_CONF={folder}/slurm.conf", *argv], **kw),
    )
    cluster.until(lambda: cluster.runner.last_words([job_id]))
    told = cluster.runner.last_words([job_id, "999999"])
    assert set(told) == {job_id}
    assert (told[job_id].kind, told[job_id].node[:4]) == ("cancelled outside", "node")


def test_a_site_asks_in_its_own_spelling(cluster):
    shows = cluster.program('echo "$CUDA_VISIBLE_DEVICES $SLURM_CPUS_PER_TASK"')
    site = ("--gpus-per-node=h100:{gpus}", "-c {cpus}", "--mem-per-cpu={memory_per_cpu}M")
    site += ("--exclusive",)
    job = cluster.job(
        shows, gpus_per_node=2, cpus_per_node=2, memory_mb=600, directives=site, gres="nothing"
    )
    job_id = cluster.runner.submit(job)
    record = cluster.finished(job, job_id)
    assert record.runs[f"{job.uid}-r0"].output_tail == "0,1 2"
    assert "MinMemoryCPU=300M" in record.snapshot["scheduler"]
    assert "OverSubscribe=NO" in record.snapshot["scheduler"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"partition": "nope"}, "Invalid partition name specified"),
        ({"gpus_per_node": 9}, "Requested node configuration is not available"),
        ({"memory_mb": 999_999}, "Memory specification can not be satisfied"),
        ({"directives": ("--bogus",)}, "unrecognized option '--bogus'"),
    ],
)
def test_a_refusal_is_told_in_sbatchs_words(cluster, wanted, words):
    with pytest.raises(Refused, match=words):
        cluster.runner.submit(cluster.job(cluster.program("true"), **wanted))


def test_a_job_that_takes_too_much_memory_is_named(cluster):
    greedy = "exec python3 -c 'x = [bytes([1]) * 50_000_000 for _ in range(1000)]'"
    job = cluster.job(cluster.program(greedy), memory_mb=300)
    job_id = cluster.runner.submit(job)
    record = cluster.finished(job, job_id)
    assert cluster.failure(record, job_id)[0] == "out of memory"


def test_a_node_that_fails_is_named(cluster):
    job = cluster.job(cluster.program(WAITS), directives=("--nodelist=node1",))
    job_id = cluster.begun(job)
    update = ["scontrol", "update", "nodename=node1"]
    cluster.lab.execute([*update, "state=down", "reason=test"])
    record = cluster.finished(job, job_id)
    cluster.lab.execute([*update, "state=resume"])
    kind, words = cluster.failure(record, job_id)
    assert kind == "node failure"
    assert words.startswith("NODE_FAIL")


def test_a_scheduler_that_does_not_answer_changes_nothing(cluster):
    job = cluster.job(cluster.program(WAITS))
    job_id = cluster.begun(job)
    cluster.lab.execute(["pkill", "-STOP", "-x", "slurmctld"])
    try:
        with pytest.raises(TryAgain, match="Socket timed out") as caught:
            cluster.runner.poll([job_id])
    finally:
        cluster.lab.execute(["pkill", "-CONT", "-x", "slurmctld"])
    assert caught.value.kind == "busy"
    cluster.until(lambda: cluster.runner.poll([job_id])[job_id].state == "running")
    cluster.runner.cancel([job_id])


def test_the_time_limit_is_named(cluster, overdue):
    job, job_id = overdue
    record = cluster.finished(job, job_id, seconds=180)
    assert cluster.failure(record, job_id) == ("time-out", "TIMEOUT 0:0")
    assert "terminated" in [line["event"] for line in record.journal]
    assert [run.exit_code for run in record.runs.values()] == [143, None]
