"""The cluster breaks: its login node, its scheduler, its nodes, its disk, its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.utils import timezone

from experiments.models import Cluster, Job
from tests.faults import children
from tests.faults.cluster import NODES, Breakable
from tests.faults.page_texts import PAGE_TEXTS
from tests.faults.points import POINTS
from tests.faults.site import Load, Reader, Site

pytestmark = [pytest.mark.lab, pytest.mark.faults, pytest.mark.timeout(600)]

Make = Callable[..., Load]


@pytest.fixture
def cluster(brought_up: Breakable) -> Iterator[Breakable]:
    yield brought_up
    brought_up.repair()
    brought_up.end_jobs()


@pytest.fixture
def load(site: Site, cluster: Breakable, request: pytest.FixtureRequest) -> Load:
    """Four jobs of two runs each, none of which has been sent; workers and clock run."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return cluster.launch(name[:80], blocks=4)


@pytest.fixture
def running(site: Site, load: Load) -> Load:
    """The same, with both programs of the first jobs waiting for the gate."""
    serve(site)
    site.wait_until(lambda: load.experiment.runs.filter(state="running").count() >= 2)
    return load


def serve(site: Site) -> None:
    for work in (children.run_worker, children.run_clock):
        site.start(work)


def all_executed_once(site: Site, load: Load, seconds: float = 120) -> None:
    """Every run succeeds at its first attempt."""
    account = site.finish(load, seconds)
    assert account.executions == account.runs == 8
    assert set(load.experiment.runs.values_list("state", flat=True)) == {"succeeded"}


def says(site: Site, load: Load, page: str, fault: str, seconds: float = 90) -> None:
    """Wait until a page says what is written down about a fault."""
    reader = Reader(load)
    text = [""]

    def is_shown() -> bool:
        text[0] = reader.read(page)
        return PAGE_TEXTS[fault] in text[0]

    try:
        site.wait_until(is_shown, seconds)
    except AssertionError:
        raise AssertionError(f"{page} says: {text[0]}") from None
    print(f"{fault}: the page {page} says: {text[0]}")


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_that_is_killed(site: Site, load: Load, point: str) -> None:
    if POINTS[point].is_late:
        load.gate.touch()
    first = site.start(children.visit, load.cluster.pk, point, load.work)
    first.join(120)
    assert first.exitcode == -9, f"{point} was not reached\n{site.read_log()}"
    site.start(children.visit, load.cluster.pk)
    all_executed_once(site, load)


def test_sshd_is_frozen(site: Site, cluster: Breakable, running: Load) -> None:
    cluster.freeze_sshd()
    says(site, running, "cluster", "sshd is frozen")
    cluster.thaw_sshd()
    all_executed_once(site, running)


def test_connections_are_cut(site: Site, cluster: Breakable, running: Load) -> None:
    cluster.cut_connections()
    all_executed_once(site, running)


def test_the_connection_is_cut_before_sbatch_has_answered(
    site: Site, cluster: Breakable, load: Load
) -> None:
    with cluster.hold_answers_of_sbatch() as has_submitted:
        serve(site)
        site.wait_until(has_submitted)
        cluster.cut_connections()
    all_executed_once(site, load)
    names = cluster.list_job_names()
    assert sorted(names) == sorted({*names}), "none was submitted twice"


def test_the_network_is_cut_while_the_loop_of_sbatch_runs(
    site: Site, cluster: Breakable, load: Load
) -> None:
    """The login node does not notice, and goes on submitting what another worker has sent again."""
    cluster.drain(*NODES)
    with cluster.hold_first_sbatch() as is_held:
        first = site.start(children.visit, load.cluster.pk)
        site.wait_until(is_held)
        cluster.freeze_sessions()
        first.kill()
        serve(site)
        site.wait_until(lambda: load.experiment.jobs.filter(state="queued").count() == 4, 120)
        assert len(set(cluster.list_queue())) == 4
    site.wait_until(lambda: len(cluster.list_queue()) > 4)
    assert len(set(cluster.list_queue())) == 4, "at least one of them is there twice"
    cluster.resume(*NODES)
    all_executed_once(site, load, 240)
    assert set(load.experiment.jobs.values_list("attempt", flat=True)) == {1}


def test_slurmctld_is_killed(site: Site, cluster: Breakable, running: Load) -> None:
    cluster.save_state()
    cluster.kill_slurmctld()
    says(site, running, "cluster", "slurmctld is killed")
    cluster.start_slurmctld()
    all_executed_once(site, running)


def test_slurmctld_is_killed_before_sbatch(site: Site, cluster: Breakable, load: Load) -> None:
    cluster.kill_slurmctld()
    serve(site)
    says(site, load, "cluster", "slurmctld is killed")
    cluster.start_slurmctld()
    all_executed_once(site, load)


def test_slurmd_is_killed(site: Site, cluster: Breakable, running: Load) -> None:
    for node in ("node1", "node2"):
        cluster.kill_slurmd(node)
        cluster.start_slurmd(node)
    all_executed_once(site, running)


def test_all_nodes_are_drained(site: Site, cluster: Breakable, load: Load) -> None:
    cluster.drain("node1", "node2")
    serve(site)
    says(site, load, "experiment", "all nodes are drained")
    cluster.resume("node1", "node2")
    all_executed_once(site, load)


def test_the_power_of_a_node_is_cut(site: Site, cluster: Breakable, running: Load) -> None:
    """Its jobs are tried again by rule: each attempt is executed once."""
    cluster.cut_power("node1")
    cluster.start_slurmd("node1")
    cluster.resume("node1")
    account = site.finish(running, 240)
    assert set(running.experiment.runs.values_list("state", flat=True)) == {"succeeded"}
    assert account.executions >= account.runs
    assert running.experiment.jobs.filter(attempt=2).exists()
    says(site, running, "events", "the power of a node is cut")


def test_a_job_is_cancelled_outside(site: Site, cluster: Breakable, running: Load) -> None:
    job_id = cluster.cancel_one()
    site.finish(running, 180)
    ended = running.experiment.jobs.get(scheduler_id=job_id)
    assert (ended.state, ended.reason) == (Job.State.FAILED, "cancelled outside")
    says(site, running, "experiment", "a job is cancelled outside")
    assert running.experiment.jobs.filter(state=Job.State.DONE).count() == 3


def test_slurm_has_forgotten_all_jobs(site: Site, cluster: Breakable, running: Load) -> None:
    """Neither squeue nor sacct knows them; those that ran are ended by Slurm."""
    cluster.forget_jobs()
    account = site.finish(running, 300)
    assert account.jobs == 4


@pytest.mark.parametrize("but", ["", ", not their accounts"])
def test_slurm_forgets_jobs_that_wait(site: Site, cluster: Breakable, load: Load, but: str) -> None:
    """As slurmctld does that is killed before it could save that it had taken them."""
    cluster.drain(*NODES)
    serve(site)
    site.wait_until(lambda: load.experiment.jobs.filter(state="queued").count() == 4, 120)
    cluster.forget_jobs(accounts_too=not but)
    cluster.drain(*NODES)  # which was forgotten too
    says(site, load, "events", f"Slurm forgets jobs that wait{but}", 180)
    cluster.resume(*NODES)
    all_executed_once(site, load, 240)
    assert set(load.experiment.jobs.values_list("attempt", flat=True)) == {2}


def test_a_job_that_waits_vanishes_from_squeue_and_sacct(
    site: Site, cluster: Breakable, load: Load
) -> None:
    """It is sent again; when its first copy gets a node after all, that one steps aside."""
    cluster.drain(*NODES)
    serve(site)
    site.wait_until(lambda: load.experiment.jobs.filter(state="queued").count() == 4, 120)
    job = load.experiment.jobs.order_by("pk")[0]
    first_copy = job.name
    with cluster.hide_job(job.scheduler_id):
        again = load.experiment.jobs.filter(pk=job.pk, attempt=2, state="queued")
        site.wait_until(again.exists, 180)
        says(site, load, "events", "Slurm forgets jobs that wait")
    assert first_copy in cluster.list_queue()
    cluster.resume(*NODES)
    all_executed_once(site, load, 240)
    cluster.wait_for(lambda: first_copy not in cluster.list_queue())
    account = load.make_account()
    assert (account.executions, account.is_kept) == (8, True)


def test_a_job_that_runs_vanishes_from_squeue_and_sacct(
    site: Site, cluster: Breakable, running: Load
) -> None:
    """Its claim says that it has begun: it is not sent again, and its results come late."""
    job = running.experiment.jobs.filter(state="running").order_by("pk")[0]
    with cluster.hide_job(job.scheduler_id):
        site.wait_until(running.experiment.jobs.filter(pk=job.pk, state="failed").exists, 180)
        says(site, running, "experiment", "a running job vanishes")
    running.gate.touch()
    site.wait_until(lambda: running.experiment.runs.filter(state="succeeded").count() == 8, 300)
    all_executed_once(site, running)
    assert set(running.experiment.jobs.values_list("state", "attempt")) == {("done", 1)}


def test_directories_are_deleted(site: Site, cluster: Breakable, running: Load) -> None:
    """That of a job whose first program waits: its script has begun."""
    job = running.experiment.jobs.filter(runs__state="running").first()
    assert job
    cluster.do("rm", "-rf", job.directory)
    site.finish(running, 240)
    job.refresh_from_db()
    assert job.state == Job.State.FAILED
    says(site, running, "experiment", "a directory is deleted")
    assert running.experiment.jobs.filter(state=Job.State.DONE).count() == 3


def test_the_directory_of_a_job_that_waits_is_deleted(
    site: Site, cluster: Breakable, load: Load
) -> None:
    """Slurm makes the directory anew when it starts the script, which finds none of its files."""
    cluster.drain(*NODES)
    serve(site)
    site.wait_until(lambda: load.experiment.jobs.filter(state="queued").count() == 4, 120)
    job = load.experiment.jobs.order_by("pk")[0]
    cluster.do("rm", "-rf", job.directory)
    cluster.resume(*NODES)
    account = site.finish(load, 240)
    job.refresh_from_db()
    assert (job.state, job.reason) == (Job.State.FAILED, "files deleted")
    assert account.executions == 6
    assert load.experiment.jobs.filter(state=Job.State.DONE).count() == 3
    says(site, load, "experiment", "the directory of a waiting job is deleted")


def test_the_disk_is_full(site: Site, cluster: Breakable, load: Load) -> None:
    work = load.cluster.work_directory
    cluster.do("mkdir", "-p", work)
    cluster.do("mount", "-t", "tmpfs", "-o", "size=20m,mode=777", "tmpfs", work)
    try:
        cluster.do("sh", "-c", f"head -c 20M /dev/zero >{work}/fills 2>/dev/null", may_fail=True)
        serve(site)
        says(site, load, "cluster", "the disk is full")
        cluster.do("rm", f"{work}/fills")
        Cluster.objects.get(pk=load.cluster.pk).pauses.update(retry_at=timezone.now())
        all_executed_once(site, load)
    finally:
        cluster.do("umount", "-l", work)


def test_the_disk_is_full_while_jobs_run(site: Site, cluster: Breakable, load: Load) -> None:
    """What could not be written is gone; everything else goes on as soon as there is room."""
    work = load.cluster.work_directory
    cluster.do("mkdir", "-p", work)
    cluster.do("mount", "-t", "tmpfs", "-o", "size=20m,mode=777", "tmpfs", work)
    try:
        serve(site)
        begun = load.experiment.jobs.filter(runs__state="running").distinct()
        # Those that find no room when they begin say something else, and stand before the others.
        site.wait_until(lambda: begun.count() == load.experiment.jobs.count(), 120)
        cluster.do("sh", "-c", f"head -c 20M /dev/zero >{work}/fills 2>/dev/null", may_fail=True)
        load.gate.touch()
        ended = load.experiment.jobs.filter(state="failed")
        site.wait_until(ended.exists, 180)
        says(site, load, "experiment", "the disk is full while jobs run")
        cluster.do("rm", f"{work}/fills")
        Cluster.objects.get(pk=load.cluster.pk).pauses.update(retry_at=timezone.now())
        account = site.finish(load, 240)
        assert set(ended.values_list("reason", flat=True)) == {"disk full"}
        assert not account.executed_twice
    finally:
        cluster.do("umount", "-l", work)
