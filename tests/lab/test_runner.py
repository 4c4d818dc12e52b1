"""The runner on a real cluster: SSH, Slurm and every runtime, on good days and bad ones."""

import re
from collections.abc import Iterator

import pytest

from lab.client import Lab
from runners.errors import NotNow, Refused, TryAgain
from runners.jobs import EnvironmentSpec
from runners.journals import parse_journal
from runners.records import read_record
from runners.schedulers import Slurm
from runners.schedulers.waiting_reasons import explain_reason
from tests.lab.machine import WAITS, Machine, connected

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cluster(lab: Lab) -> Iterator[Machine]:
    with connected(lab, Slurm()) as runner:
        yield Machine(lab, runner)


def test_one_block_runs_in_every_environment(cluster):
    environments = [
        *cluster.environments(),
        EnvironmentSpec("no SIF", "apptainer", image_path="/none/it's.sif"),
        EnvironmentSpec("no container", "udocker", image_path="none"),
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
    cluster.measured_alike(job, runs[:5])
    assert f"JobId={job_id} " in record.snapshot["scheduler"]
    assert "1.4" in runs[1].runtime_version
    cluster.until(lambda: job_id in cluster.runner.read_endings([job_id]))
    assert cluster.runner.read_endings([job_id])[job_id].kind == ""
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
        content = cluster.runner.read_journals({job.directory: offset}).get(job.directory, b"")
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
    with connected(cluster.lab, Slurm(), gate=False) as runner:
        run = runner.transport.run
        assert run(["bash", "-c", shell]).returncode == 0
        monkeypatch.setattr(
            runner.transport,
            "run",
            lambda argv, **kw: run(["env", f"SLURM_CONF={folder}/slurm.conf", *argv], **kw),
        )
        cluster.until(lambda: runner.read_endings([job_id]))
        told = runner.read_endings([job_id, "999999"])
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
    ("wanted", "no", "words"),
    [
        ({"partition": "nope"}, NotNow, "Invalid partition name specified"),
        ({"gpus_per_node": 9}, NotNow, "Requested node configuration is not available"),
        ({"memory_mb": 999_999}, Refused, "Memory specification can not be satisfied"),
        ({"directives": ("--bogus",)}, Refused, "unrecognized option '--bogus'"),
    ],
)
def test_a_refusal_is_told_in_sbatchs_words(cluster, wanted, no, words):
    with pytest.raises(no, match=words):
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
    try:
        record = cluster.finished(job, job_id)
    finally:
        cluster.lab.execute([*update, "state=resume"])
    kind, words = cluster.failure(record, job_id)
    assert kind == "node failure"
    assert words.startswith("sacct: NODE_FAIL")
    assert words.endswith(", node1")


def test_a_prolog_that_fails_is_the_nodes_failure(cluster):
    prolog, conf = "/usr/local/sbin/prolog", "/etc/slurm/slurm.conf"
    fails = f"install -m 755 /bin/false {prolog}; echo Prolog={prolog} >>{conf}"
    cluster.lab.execute(["sh", "-c", f"{fails}; scontrol reconfigure"])
    job = cluster.job(cluster.program("true"), directives=("--nodelist=node1",))
    try:
        job_id = cluster.runner.submit(job)
        record = cluster.finished(job, job_id)
    finally:
        cluster.lab.execute(["sh", "-c", f"sed -i /^Prolog=/d {conf}; scontrol reconfigure"])
        cluster.lab.execute(["scontrol", "update", "nodename=node1", "state=resume"])
    kind, words = cluster.failure(record, job_id)
    assert kind == "node failure"
    assert re.match("sacct: CANCELLED.*, node1: its script never began", words)


def test_what_waits_for_ever_is_said_with_what_to_do(cluster):
    first = cluster.runner.submit(cluster.job(cluster.program(WAITS)))
    job = cluster.job(cluster.program("true"), directives=(f"--dependency=afterok:{first}",))
    job_id = cluster.runner.submit(job)
    cluster.runner.cancel([first])
    never = "DependencyNeverSatisfied"
    cluster.until(lambda: cluster.runner.poll([job_id])[job_id].reason == never)
    status = cluster.runner.poll([job_id])[job_id]
    said = explain_reason(f"{status.native} {status.reason}")
    assert f"({never}); it will not start by itself: cancel the experiment" in said
    cluster.runner.cancel([job_id])


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


def test_the_time_limit_is_named(cluster):
    """The administrator brings its end forward: limits are whole minutes, looked at every 30 s."""
    job = cluster.job(cluster.program(WAITS), cluster.program(WAITS))
    job_id = cluster.begun(job)
    cluster.lab.execute(["scontrol", "update", f"jobid={job_id}", "endtime=now+1"])
    record = cluster.finished(job, job_id)
    assert cluster.failure(record, job_id) == (
        "time-out",
        f"sacct: TIMEOUT 0:0, {record.journal[0]['node']}",
    )
    assert "terminated" in [line["event"] for line in record.journal]
    first, second = (run.exit_code for run in record.runs.values())
    assert first == 143
    # Slurm signals one process after another: the next program may begin before the script's turn.
    assert second in (None, 143)
