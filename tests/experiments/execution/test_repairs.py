"""What never began of a block is run by a second job, and nothing that has begun."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.utils import timezone

from dashboard.comparisons.methods import describe_methods
from experiments import execution
from experiments.comparisons import TRIED_AGAIN, compare_experiment, list_comparison_rows
from experiments.comparisons.run_rows import list_run_rows
from experiments.execution import lifecycle, repairs
from experiments.execution.collect import make_ending
from experiments.execution.further_attempts import NotDone
from experiments.execution.run_ends import Ending, decide_run_end
from experiments.execution.specs import make_job_spec
from experiments.models import Experiment, Job, Run, User
from experiments.statistics import Stamp
from runners.jobs import JobSpec, Resources
from runners.records import read_record
from runners.runner import Runner
from runners.schedulers import SCHEDULERS, Status
from tests.conftest import finish
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db(transaction=True)

Make = Callable[..., Experiment]
# The program is no part of that group: it ends by itself, and with it the job leaves the machine.
KILL_JOB = "kill -s KILL -- -$(cut -d- -f1 <../../started)"


def broken(experiment: Make, tmp_path: Path) -> Job:
    """Return a job that was killed in the first of its two runs; the other one never began."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\n{KILL_JOB}\n")
    program.chmod(0o755)
    made = experiment()
    job = made.jobs.get()
    first = job.runs.get(position=0)
    first.spec["environment"]["python"] = str(program)
    first.save(update_fields=["spec"])
    with mock.patch("experiments.execution.collect.LATE_EXIT_CODE", timedelta(0)):
        finish(made)
    job.refresh_from_db()
    reasons = list(job.runs.order_by("position").values_list("reason", flat=True))
    assert (job.state, reasons) == ("failed", ["lost", "not started"])
    return job


def test_a_second_job_runs_what_never_began_and_the_block_is_whole(
    experiment: Make, tmp_path: Path
) -> None:
    job = broken(experiment, tmp_path)
    with pytest.raises(NotDone):  # files may be late
        repairs.repair(job, job.experiment.owner, same_node=True)
    Job.objects.filter(pk=job.pk).update(collect_tries=2)
    job.refresh_from_db()
    node = repairs.find_node(job)
    assert node, "the journal has named it"
    second = repairs.repair(job, job.experiment.owner, same_node=True)
    assert (second.block, second.repairs, second.node) == (job.block, job, node)
    finish(job.experiment)
    run = second.runs.get()
    assert (run.state, run.position) == ("succeeded", 1)
    first = job.runs.get()
    assert (first.state, first.reason) == ("failed", "lost"), "what has begun is not run again"
    told = job.experiment.events.filter(what=repairs.REPAIRED).get()
    assert told.job == second
    assert f"on {node}, in this order" in told.why
    with pytest.raises(NotDone):  # nothing is missing
        repairs.repair(job, job.experiment.owner, same_node=True)
    said = " ".join(
        describe_methods(compare_experiment(Experiment.objects.get(pk=job.experiment_id)))
    )
    assert "1 block was completed by a second job" in said
    exported = {row["run"]: row["repairs_job"] for row in list_run_rows(job.experiment)}
    assert exported == {first.uid: None, run.uid: job.uid}


@pytest.mark.parametrize(
    ("begun", "when"),
    [(0, "before its first run"), (1, "in its run of {}")],
)
def test_what_never_began_names_the_run_in_which_its_job_ended(
    experiment: Make, begun: int, when: str
) -> None:
    job = experiment().jobs.get()
    runs = list(job.runs.order_by("position"))
    journal = [{"time": 1.0, "event": "job started"}]
    journal += [{"time": 2.0, "event": "run began", "run": run.uid} for run in runs[:begun]]
    lines = "".join(json.dumps(line) + "\n" for line in journal)
    record = read_record({"journal.ndjson": lines.encode()})
    ending = Ending(job, record, "out of memory", "out of memory")
    end = decide_run_end(ending, runs[1], runs)
    when = when.format(runs[begun - 1].environment)
    assert end.why == f"Not started, because its job ended {when}: out of memory"
    assert (end.to, end.columns["reason"]) == ("failed", "not started")


def failed_block(job: Job, *reasons: str) -> None:
    """Write down a failed job whose runs ended so; "" is one that succeeded."""
    now = timezone.now()
    Job.objects.filter(pk=job.pk).update(state="failed", reason="lost", ended_at=now)
    for run, reason in zip(job.runs.order_by("position"), reasons, strict=True):
        state = "failed" if reason else "succeeded"
        Run.objects.filter(pk=run.pk).update(state=state, reason=reason, node="n7")
    job.refresh_from_db()


@pytest.mark.parametrize(
    ("reasons", "may"),
    [
        (("", "not started"), True),
        (("out of memory", "not started"), True),
        (("not started", "not started"), False),  # the job itself is tried again
        (("", "crashed"), False),
        (("", ""), False),
    ],
)
def test_only_what_never_began_may_be_run(
    experiment: Make, reasons: tuple[str, ...], may: bool
) -> None:
    job = experiment().jobs.get()
    failed_block(job, *reasons)
    before = dict(job.runs.values_list("uid", "state"))
    if may:
        second = repairs.repair(job, job.experiment.owner, same_node=True)
        moved = second.runs.get()
        assert (moved.state, moved.reason, moved.message) == ("planned", "", "")
        assert before[moved.uid] == "failed"
        assert second.node == "n7"
    else:
        with pytest.raises(NotDone):
            repairs.repair(job, job.experiment.owner, same_node=True)
        assert dict(job.runs.values_list("uid", "state")) == before


def test_a_cancelled_experiment_is_not_repaired(experiment: Make) -> None:
    made = experiment()
    failed_block(made.jobs.get(), "", "not started")
    lifecycle.cancel(made, made.owner)
    with pytest.raises(NotDone):
        repairs.repair(made.jobs.get(), made.owner, same_node=True)


def test_a_verdict_that_could_be_read_is_stamped(experiment: Make) -> None:
    def stamped(made: Experiment) -> bool:
        return made.events.filter(what=TRIED_AGAIN).exists()

    early = experiment(repeats=2)
    job, other = early.jobs.order_by("pk")
    failed_block(job, "", "not started")
    repairs.repair(job, early.owner, same_node=False)
    assert not stamped(early), "the other block is still to come"
    failed_block(other, "", "not started")
    Run.objects.filter(experiment=early, state="planned").update(state="succeeded")
    repairs.repair(other, early.owner, same_node=False)
    assert stamped(early)


def test_two_people_at_once_make_one_job(experiment: Make) -> None:
    job = experiment().jobs.get()
    failed_block(job, "", "not started")
    stale = Job.objects.get(pk=job.pk)
    owner: User = job.experiment.owner
    repairs.repair(job, owner, same_node=True)
    with pytest.raises(NotDone, match="every run of it has begun"):
        repairs.repair(stale, owner, same_node=True)
    assert Job.objects.count() == 2


@pytest.mark.parametrize(
    ("scheduler", "line"),
    [("slurm", "#SBATCH --nodelist=n7"), ("grid_engine", "#$ -l hostname=n7")],
)
def test_schedulers_are_asked_for_the_node(scheduler: str, line: str) -> None:
    job = JobSpec("u", "tare-u-1", "/w/jobs/u-1", (), Resources(60, node="n7"))
    assert line in SCHEDULERS[scheduler]().render_header(job)


def test_of_several_nodes_grid_engine_is_asked_for_the_first() -> None:
    resources = Resources(60, nodes=2, node="n7", directives=("-pe mpi {nodes}",))
    job = JobSpec("u", "tare-u-1", "/w/jobs/u-1", (), resources)
    header = SCHEDULERS["grid_engine"]().render_header(job)
    assert "#$ -masterq '*@n7'" in header
    assert "hostname" not in header


def in_two_jobs(made: Experiment, node: str) -> Job:
    """Have a second job run the second run of a block, and return it."""
    first = made.jobs.get()
    columns = {"cluster": first.cluster, "workload": first.workload, "scale": first.scale}
    second = Job.objects.create(
        experiment=made, repairs=first, repeat=1, block=first.block, node=node, **columns
    )
    made.runs.filter(position=1).update(job=second)
    return second


@pytest.mark.parametrize(("node", "words"), [("", "any node was allowed"), ("n7", "In 1 block")])
def test_a_pair_of_two_jobs_is_stamped(experiment: Make, node: str, words: str) -> None:
    made = experiment()
    in_two_jobs(made, node)
    finish(made)
    comparison = compare_experiment(Experiment.objects.get(pk=made.pk))
    (pair,) = comparison.pairs
    why = dict(zip(pair.stamps, pair.reasons, strict=True))[Stamp.ACROSS_JOBS]
    assert words in why
    assert ("any node" in why) == (not node)
    (row,) = list_comparison_rows(comparison)
    assert "PAIRED ACROSS JOBS" in str(row)


def test_a_pair_of_one_job_is_not(experiment: Make) -> None:
    made = experiment()
    finish(made)
    (pair,) = compare_experiment(made).pairs
    assert Stamp.ACROSS_JOBS not in pair.stamps


class TestAnyNode:
    def test_lets_a_planned_job_run_anywhere(self, experiment: Make, client: Any) -> None:
        made = experiment()
        second = in_two_jobs(made, "gone")
        client.force_login(made.owner)
        tab = f"/experiments/{made.pk}/?tab=jobs"
        assert ">Any node</button>" in client.get(tab).content.decode()
        page = client.post(f"/jobs/{second.uid}/any-node/", follow=True).content.decode()
        assert "The rest of block 1 may run on any node." in page
        assert ">Any node</button>" not in page
        second.refresh_from_db()
        assert (second.node, second.state) == ("", "planned")
        assert made.events.get(what=repairs.ANY_NODE).actor == made.owner
        with pytest.raises(NotDone, match="does not wait for a node any more"):
            repairs.allow_any_node(second, made.owner)

    def test_takes_back_what_waits_in_the_queue(self, experiment: Make) -> None:
        made = experiment()
        second = in_two_jobs(made, "gone")
        columns = {"state": "queued", "scheduler_id": "1-1", "directory": "/tmp/none"}
        Job.objects.filter(pk=second.pk).update(**columns, submitted_at=timezone.now())
        second.refresh_from_db()
        repairs.allow_any_node(second, made.owner)
        finish(made)
        second.refresh_from_db()
        assert (second.state, second.attempt, second.node) == ("done", 2, "")
        assert second.runs.get().state == "succeeded"
        events = second.events.filter(
            run=None, what__in=("collecting → failed", "failed → planned")
        )
        why = "taken back from the queue before it began, to run on any node"
        assert [event.why for event in events] == [why] * 2

    def test_leaves_alone_what_started_just_before_it_could_be_taken_back(
        self, experiment: Make
    ) -> None:
        """Nobody has wanted it to end, and it could not be tried again."""
        made = experiment()
        second = in_two_jobs(made, "")
        columns = {"state": "queued", "scheduler_id": "1-7", "directory": "/tmp/none"}
        Job.objects.filter(pk=second.pk).update(**columns, cancel_requested_at=timezone.now())
        running = {"1-7": Status("running", "RUNNING", "")}
        with (
            mock.patch.object(Runner, "poll", return_value=running),
            mock.patch.object(Runner, "cancel") as cancel,
        ):
            execution.tick(made.cluster_id)
        assert not any(call.args[0] for call in cancel.call_args_list)
        second.refresh_from_db()
        assert (second.attempt, second.state, second.cancel_requested_at) == (1, "running", None)
        assert made.events.get(what=repairs.LEFT_RUNNING).job == second

    def test_does_not_keep_a_cancelled_experiment_from_ending(self, experiment: Make) -> None:
        made = experiment()
        second = in_two_jobs(made, "")
        second.state, second.cancel_requested_at = "running", timezone.now()
        lifecycle.cancel(made, made.owner)
        repairs.release_started([second])
        assert second.cancel_requested_at, "somebody wants it to end"

    def test_what_ends_as_it_is_taken_back_can_be_tried_again(self, experiment: Make) -> None:
        """It started between the answer of the queue and the command that cancelled it."""
        made = experiment()
        second = in_two_jobs(made, "")
        second.cancel_requested_at = timezone.now()
        ending = make_ending(second, read_record({}), "cancelled outside", "by itself")
        assert (ending.reason, ending.cancelled) == ("cancelled outside", False)
        columns = {"state": "failed", "reason": "cancelled outside", "scheduler_id": "1-1"}
        Job.objects.filter(pk=second.pk).update(**columns, cancel_requested_at=timezone.now())
        second.runs.update(state="failed", reason="cancelled outside")
        second.refresh_from_db()
        lifecycle.retry(second, made.owner)
        second.refresh_from_db()
        assert (second.state, second.cancel_requested_at) == ("planned", None)

    def test_is_not_for_others(self, experiment: Make) -> None:
        made = experiment()
        second = in_two_jobs(made, "gone")
        other = UserFactory()
        made.cluster.users.remove(other)
        with pytest.raises(NotDone):
            repairs.allow_any_node(second, other)
        with pytest.raises(NotDone):
            repairs.allow_any_node(made.jobs.get(repairs=None), made.owner)


def test_the_second_job_asks_for_the_node_of_the_first(experiment: Make) -> None:
    job = experiment().jobs.get()
    failed_block(job, "", "not started")
    second = repairs.repair(job, job.experiment.owner, same_node=True)
    assert make_job_spec(second).resources.node == "n7"
    assert [run.position for run in make_job_spec(second).runs] == [1]


def test_the_page_offers_it_and_says_what_came_of_it(experiment: Make, client: Any) -> None:
    job = experiment().jobs.get()
    failed_block(job, "", "not started")
    client.force_login(job.experiment.owner)
    page = client.get(f"/experiments/{job.experiment_id}/?tab=jobs").content.decode()
    assert "Run the 1 that never began" in page
    answer = client.post(f"/jobs/{job.uid}/repair/", {"any_node": "on"}, follow=True)
    page = answer.content.decode()
    assert "The rest of block 1 is planned." in page
    assert "the rest of it" in page
    assert Job.objects.get(repairs=job).node == ""
    again = client.post(f"/jobs/{job.uid}/repair/", follow=True).content.decode()
    assert "every run of it has begun" in again
