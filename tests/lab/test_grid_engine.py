"""The runner on a real Grid Engine: SSH, one node, the runtimes, on good days and bad ones."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator

import pytest

from experiments import demo
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.models import Cluster
from lab.client import ensure_lab, stop_lab
from runners.errors import NotNow, Refused, TryAgain
from runners.job_failures import name_failure
from runners.jobs import EnvironmentSpec, JobSpec
from runners.schedulers import GridEngine, Status
from runners.transports import Completed
from tests.conftest import finish
from tests.factories import AdminFactory, ExperimentFactory, WorkloadFactory
from tests.lab.by_forms import Person, measure, with_grid_engine
from tests.lab.machine import PARAMETERS, WAITS, Machine, connected, namespace_of, processes

pytestmark = pytest.mark.lab

# By Grid Engine's own USR2, which may reach the program too, or by the TERM that the script sends.
WARNED = (140, 143)


class Site(Machine):
    """The lab's Grid Engine, whose queue is called main.q."""

    def job(self, *environments: EnvironmentSpec, **changes: object) -> JobSpec:
        return super().job(*environments, **{"partition": "main.q", **changes})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("lab")
    lab = ensure_lab(directory, images=("numpy",), grid_engine=True)
    with connected(lab, GridEngine()) as runner:
        yield Site(lab, runner)
    namespace = namespace_of(directory)
    stop_lab(directory)
    assert processes(namespace) == []
    shutil.rmtree(directory)


@pytest.fixture
def full(site: Site) -> Iterator[str]:
    """A job that holds all four GPUs."""
    job_id = site.begun(site.job(site.program(WAITS), gpus_per_node=4))
    yield job_id
    site.runner.cancel([job_id])
    site.until(lambda: not site.runner.poll([job_id]))


def test_one_block_runs_in_every_environment(site):
    environments = [
        *site.environments(),
        EnvironmentSpec("no SIF", "apptainer", image_path="/none/it's.sif"),
    ]
    job = site.job(*environments, gpus_per_node=2, cpus_per_node=2, directives=("-pe smp {cpus}",))
    assert site.runner.find(job) is None
    job_id = site.runner.submit(job)
    assert site.runner.find(job) == job_id
    record = site.finished(job, job_id)

    assert (record.exit_code, record.started_by, record.bad_checksums) == (0, job_id, [])
    runs = list(record.runs.values())
    assert [run.exit_code for run in runs] == [0, 0, 0, 0, 0, None]
    assert runs[5].failure == "image missing: /none/it's.sif"
    site.measured_alike(job, runs[:5])
    assert re.search(rf"^job_number: +{job_id}$", record.snapshot["scheduler"], re.MULTILINE)
    site.until(lambda: job_id in site.runner.read_endings([job_id]))
    assert site.runner.read_endings([job_id])[job_id].kind == ""
    assert site.runner.find(job) == job_id


def test_a_job_that_is_sent_twice_is_executed_once(site):
    job = site.job(site.program("echo ran"))
    ids = [site.runner.submit(job), site.runner.submit(job)]
    site.until(lambda: not site.runner.poll(ids))
    files = site.runner.collect(job.directory)
    assert files["journal.ndjson"].count(b'"run began"') == 1
    started = files["started"].decode().strip()
    assert started in ids
    other = next(job_id for job_id in ids if job_id != started)
    assert b"steps aside" in files[f"scheduler-{other}.out"]


def test_a_submission_whose_answer_was_lost_is_found_again(site, full, monkeypatch):
    """The connection breaks after qsub: nothing has started, only the name can tell."""
    job = site.job(site.program("echo ran"), gpus_per_node=4)
    run = site.runner.transport.run

    def cut(argv: list[str], **options: object) -> Completed:
        done = run(argv, **options)  # type: ignore[arg-type]
        if "qsub" in argv:
            raise TryAgain("the connection broke", kind="unreachable")
        return done

    with monkeypatch.context() as patch:
        patch.setattr(site.runner.transport, "run", cut)
        with pytest.raises(TryAgain):
            site.runner.submit(job)
    found = site.runner.find(job)
    assert found
    assert site.runner.poll([found])[found].state == "queued"
    site.runner.cancel([full])
    assert site.finished(job, found).started_by == found


def test_a_job_that_waits_says_why_and_can_be_cancelled(site, full):
    job = site.job(site.program("true"), gpus_per_node=4)
    job_id = site.runner.submit(job)
    site.until(lambda: site.runner.poll([job_id])[job_id].reason)
    status = site.runner.poll([full, job_id])
    # "t": on its way to the node, as qmaster sees it for a moment after it has begun.
    assert status[full] in (Status("running", "", "r"), Status("running", "", "t"))
    assert (status[job_id].state, status[job_id].native) == ("queued", "qw")
    assert "-l gpu=4" in status[job_id].reason
    site.runner.cancel([job_id])
    site.until(lambda: not site.runner.poll([job_id]))
    assert site.runner.find(job) is None
    assert site.runner.read_endings([job_id]) == {}  # never ran: Grid Engine remembers nothing
    site.runner.cancel([job_id])


def test_a_cancelled_job_says_so_and_its_next_runs_do_not_begin(site):
    job = site.job(site.program(WAITS), site.program("true"))
    job_id = site.begun(job)
    site.runner.cancel([job_id])
    record = site.finished(job, job_id)
    assert record.exit_code == 143
    assert record.runs[f"{job.uid}-r0"].exit_code in WARNED
    assert record.runs[f"{job.uid}-r1"].exit_code is None
    assert record.bad_checksums == []
    assert "terminated" in [line["event"] for line in record.journal]
    assert site.failure(record, job_id)[0] == "cancelled outside"
    site.runner.cancel([job_id])


def test_the_time_limit_is_named(site):
    job = site.job(site.program(WAITS), site.program("true"), time_limit_seconds=5)
    job_id = site.runner.submit(job)
    record = site.finished(job, job_id)
    assert record.runs[f"{job.uid}-r0"].exit_code in WARNED
    assert record.runs[f"{job.uid}-r1"].exit_code is None
    kind, words = site.failure(record, job_id)
    assert kind == "time-out"
    assert "enforced h_rt" in words


def test_a_job_that_is_killed_leaves_what_it_had(site):
    job = site.job(site.program(f"pkill -KILL -f '^-?bash.*/job_scripts/' ; {WAITS}"))
    job_id = site.runner.submit(job)
    record = site.finished(job, job_id)
    assert record.exit_code is None
    assert name_failure(record, None)[0] == "lost"
    kind, words = site.failure(record, job_id)
    assert (kind, words.split()[:4]) == ("failed", ["qacct:", "failed", "100", "137"])


@pytest.mark.parametrize(
    ("wanted", "no", "words"),
    [
        ({"partition": "nope.q"}, NotNow, 'unknown queue "nope.q"'),
        ({"directives": ("-pe nope {cpus}",)}, NotNow, 'environment "nope" does not exist'),
        ({"directives": ("-l nope=1",)}, NotNow, 'unknown resource "nope"'),
        ({"account": "nope"}, NotNow, 'project "nope" does not exist'),
        ({"directives": ("-bogus",)}, Refused, 'invalid option argument "-bogus"'),
    ],
)
def test_a_refusal_is_told_in_qsubs_words(site, wanted, no, words):
    with pytest.raises(no, match=words):
        site.runner.submit(site.job(site.program("true"), **wanted))


def test_a_trial_says_whether_a_job_could_run_and_submits_nothing(site):
    scheduler, run = site.runner.scheduler, site.runner.transport.run
    assert b"8.1" in run(scheduler.build_version_command()).stdout
    job = site.job(site.program("true"))
    said = scheduler.parse_trial(run(scheduler.build_trial_command(job)))
    assert said == "verification: found suitable queue(s)"
    assert site.runner.find(job) is None
    with pytest.raises(Refused, match="it offers only hc:gpu=4"):
        scheduler.parse_trial(run(scheduler.build_trial_command(site.job(gpus_per_node=5))))


def test_its_queues_are_listed_with_their_limits_and_states(site):
    scheduler, run = site.runner.scheduler, site.runner.transport.run
    site.lab.execute(["qmod", "-d", "short.q"])
    try:
        rows = scheduler.parse_partitions(run(scheduler.build_partitions_command()))
    finally:
        site.lab.execute(["qmod", "-e", "short.q"])
    queues = {row.name: row for row in rows}
    assert set(queues) == {"main.q", "short.q"}
    assert [queues[name].time_limit_seconds for name in sorted(queues)] == [None, 120]
    assert queues["short.q"].nodes == {"disabled": 1}


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["grid_engine", "direct"])
def test_an_experiment_comes_from_launch_to_its_comparison(site, kind):
    """Through Tare itself: on Grid Engine, and on the same host as if it had no scheduler."""
    owner = AdminFactory()
    facts = json.loads((site.lab.directory / "lab.json").read_text())
    cluster = demo.register_lab(facts, owner)
    environments = demo.register_image(cluster, facts["images"]["numpy"], owner)
    Cluster.objects.update(poll_seconds=0, scheduler=kind)
    cluster.partitions.filter(name="gpu").update(
        name="main.q",
        memory_mb=None,
        directives=["-pe smp {cpus}"] if kind == "grid_engine" else [],
    )
    made = ExperimentFactory(
        cluster=cluster,
        partition=cluster.partitions.get(name="main.q"),
        baseline=environments[0],
        environments=environments,
        workloads=[WorkloadFactory(kind="blas", parameters=PARAMETERS, time_limit_seconds=120)],
        repeats=2,
    )
    lifecycle.launch(made, owner)
    finish(made)
    for run in made.runs.all():
        assert run.state == "succeeded", f"{run.spec['environment']['label']}: {run.message}"
        seen = run.snapshot.content["inside"]["variables"]["CUDA_VISIBLE_DEVICES"]
        assert seen == "0"
    assert made.runs.count() == 2 * len(environments) >= 8
    assert len(compare_experiment(made).pairs) == len(environments) - 1


@pytest.mark.django_db(transaction=True)
def test_an_experiment_by_forms_alone(site: Site, person: Person) -> None:
    assert measure(person, with_grid_engine(site.lab)).environments.count() == 3
