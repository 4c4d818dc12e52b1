"""The life of an experiment, its jobs and its runs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from experiments.comparisons import TRIED_AGAIN
from experiments.design import compute_hash
from experiments.execution import excluded_runs, lifecycle, moves
from experiments.execution.further_attempts import NotDone
from experiments.execution.lifecycle import NotLaunchable
from experiments.models import Event, Experiment, Job, Run, StagedImage
from experiments.planning.freeze import freeze_definition
from runners.workloads import OTHER_SEEDS
from tests.factories import (
    NOON,
    ContainerFactory,
    CredentialFactory,
    ExperimentFactory,
    JobFactory,
    RunFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def launched() -> Experiment:
    experiment = ExperimentFactory()
    lifecycle.launch(experiment, experiment.owner)
    return experiment


def states_of(experiment: Experiment) -> list[Any]:
    jobs = experiment.jobs.order_by("pk").values_list("pk", "state", "cancel_requested_at")
    runs = experiment.runs.order_by("pk").values_list("pk", "state")
    experiment.refresh_from_db()
    return [*jobs, *runs, experiment.cancelled_at, experiment.events.count()]


def killed_after(statements: int) -> Callable[..., Any]:
    """Return what lets so many statements through and ends the process instead of the next one."""
    counted = itertools.count()

    def execute_or_end(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "SAVEPOINT" not in sql and next(counted) == statements:
            raise SystemExit
        return execute(sql, *rest)

    return execute_or_end


class TestLaunch:
    def test_plans_one_job_a_block_and_one_run_a_cell(self, launched: Experiment) -> None:
        assert launched.jobs.count() == 5
        assert launched.runs.count() == 10
        assert {job.runs.count() for job in launched.jobs.all()} == {2}
        assert set(launched.jobs.values_list("state", flat=True)) == {"planned"}

    def test_independent_design_gives_every_run_a_job_of_its_own(self) -> None:
        experiment = ExperimentFactory(design=Experiment.Design.INDEPENDENT)
        lifecycle.launch(experiment, experiment.owner)
        assert experiment.jobs.count() == experiment.runs.count() == 10

    def test_freezes_a_plan_whose_hash_anybody_can_recompute(self, launched: Experiment) -> None:
        launched.refresh_from_db()
        assert compute_hash(launched.plan) == launched.plan_hash
        planned = freeze_definition(launched, launched.order_seed)
        parity = {"parity": launched.plan["parity"]}
        assert compute_hash(planned | parity) == launched.plan_hash

    def test_runs_keep_what_was_planned_when_the_catalogue_changes(
        self, launched: Experiment
    ) -> None:
        launched.workloads.update(time_limit_seconds=9999)
        launched.baseline.variables = {"OMP_NUM_THREADS": "64"}
        launched.baseline.save(update_fields=["variables"])
        run = launched.runs.filter(environment=launched.baseline).first()
        assert run
        assert run.spec["workload"]["time_limit_seconds"] == 60
        assert run.spec["environment"]["variables"] == []

    def test_the_seed_may_be_another_in_each_repeat_but_never_in_another_environment(self) -> None:
        varied = WorkloadFactory(name="many", parameters={"seed": 7, "seeds": OTHER_SEEDS})
        alike = WorkloadFactory(name="one", parameters={"seed": 7})
        experiment = ExperimentFactory(workloads=[varied, alike], repeats=3)
        lifecycle.launch(experiment, experiment.owner)
        seeds = {
            (run.workload.name, run.repeat, run.spec["workload"]["parameters"]["seed"])
            for run in experiment.runs.select_related("workload")
        }
        assert seeds == {("many", k, 6 + k) for k in (1, 2, 3)} | {("one", k, 7) for k in (1, 2, 3)}
        assert experiment.plan["workloads"][str(varied.pk)]["parameters"]["seed"] == 7
        assert experiment.varied_seeds == ["many: seeds 7 to 9"]

    def test_the_order_is_the_one_that_the_seed_gives(self, launched: Experiment) -> None:
        planned = freeze_definition(launched, launched.order_seed)["blocks"]
        realised = [
            [str(run.environment_id) for run in job.runs.order_by("position")]
            for job in launched.jobs.order_by("block")
        ]
        assert realised == [block["environments"] for block in planned]

    def test_is_refused_twice(self, launched: Experiment) -> None:
        with pytest.raises(NotLaunchable, match="already"):
            lifecycle.launch(launched, launched.owner)
        assert launched.runs.count() == 10

    def test_is_refused_while_an_image_is_being_staged(self) -> None:
        experiment = ExperimentFactory()
        StagedImage.objects.update(state=StagedImage.State.STAGING)
        with pytest.raises(NotLaunchable) as refusal:
            lifecycle.launch(experiment, experiment.owner)
        assert "staging" in refusal.value.messages["environments"][0]
        assert not experiment.jobs.exists()

    def test_is_refused_in_words_when_the_partition_is_too_small(self) -> None:
        experiment = ExperimentFactory(scales=["1x8"])
        with pytest.raises(NotLaunchable) as refusal:
            lifecycle.launch(experiment, experiment.owner)
        assert any("8 GPUs a node asked for" in text for text in refusal.value.messages["scales"])

    def test_is_refused_to_who_may_not_use_the_clusters_key(self) -> None:
        key = CredentialFactory()
        experiment = ExperimentFactory(cluster__credential=key, cluster__transport="ssh")
        with pytest.raises(NotLaunchable, match="not yours to use") as refusal:
            lifecycle.launch(experiment, experiment.owner)
        assert list(refusal.value.messages) == ["cluster"], "the form says so at this field"
        key.users.add(experiment.owner)
        lifecycle.launch(experiment, experiment.owner)
        assert experiment.jobs.exists()

    def test_a_launched_experiment_without_a_hash_cannot_be_stored(self) -> None:
        experiment = ExperimentFactory()
        with pytest.raises(IntegrityError), transaction.atomic():
            Experiment.objects.filter(pk=experiment.pk).update(launched_at=timezone.now())


class TestMove:
    def test_writes_the_event_with_who_and_why(self) -> None:
        person, job = UserFactory(), JobFactory(state=Job.State.PLANNED)
        assert moves.move(job, Job.State.SUBMITTING, why="its turn", by=person)
        event = Event.objects.get(job=job)
        assert (event.what, event.why, event.actor) == ("planned → submitting", "its turn", person)

    def test_is_refused_when_somebody_was_faster(self) -> None:
        job = JobFactory(state=Job.State.PLANNED)
        twin = Job.objects.get(pk=job.pk)
        assert moves.move(twin, Job.State.SUBMITTING)
        assert not moves.move(job, Job.State.SUBMITTING)
        assert Event.objects.count() == 1

    @pytest.mark.parametrize("state", Job.FINAL)
    def test_there_is_no_way_back_from_the_end(self, state: str) -> None:
        """But the next attempt of a failed job, and files that say late that it was done."""
        job = JobFactory(state=state)
        ways = {Job.State.FAILED: {Job.State.PLANNED, Job.State.DONE}}
        for to in set(Job.State) - ways.get(Job.State(state), set()):
            with pytest.raises(ValueError, match="cannot go"):
                moves.move(job, to)

    def test_every_state_has_its_ways(self) -> None:
        for model in (Job, Run):
            assert set(model.NEXT) == set(model.State)


@pytest.mark.django_db(transaction=True)
def test_of_ten_workers_exactly_one_moves_a_job() -> None:
    job = JobFactory(state=Job.State.PLANNED)
    barrier, won = threading.Barrier(10), []

    def claim() -> None:
        mine = Job.objects.get(pk=job.pk)
        barrier.wait()
        won.append(moves.move(mine, Job.State.SUBMITTING))
        connection.close()

    threads = [threading.Thread(target=claim) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 9 + [True]
    assert Event.objects.filter(job=job).count() == 1


class TestCancel:
    def test_ends_planned_jobs_at_once_and_marks_sent_ones(self, launched: Experiment) -> None:
        sent = launched.jobs.order_by("block")[0]
        Job.objects.filter(pk=sent.pk).update(state=Job.State.QUEUED, scheduler_id="7")
        assert lifecycle.cancel(launched, launched.owner) == (4, 1)
        assert launched.jobs.filter(state=Job.State.CANCELLED).count() == 4
        assert launched.runs.filter(state=Run.State.CANCELLED).count() == 8
        sent.refresh_from_db()
        assert sent.cancel_requested_at
        assert sent.state == Job.State.QUEUED

    def test_of_a_draft_or_a_second_time_does_nothing(self, launched: Experiment) -> None:
        draft = ExperimentFactory()
        assert lifecycle.cancel(draft, draft.owner) == (0, 0)
        assert not draft.events.exists()
        lifecycle.cancel(launched, launched.owner)
        assert lifecycle.cancel(launched, launched.owner) == (0, 0)
        assert launched.events.filter(what="cancelled").count() == 1

    def test_cancelling_is_whole_or_not_at_all(self, launched: Experiment) -> None:
        """A worker of the web server is killed after some statements: the button still works."""
        sent = launched.jobs.order_by("pk")[1]
        Job.objects.filter(pk=sent.pk).update(state=Job.State.RUNNING, scheduler_id="7")

        for statements in itertools.count():
            before = states_of(launched)
            with connection.execute_wrapper(killed_after(statements)), suppress(SystemExit):
                assert lifecycle.cancel(launched, launched.owner) == (4, 1)
                break
            assert states_of(launched) == before
        sent.refresh_from_db()
        assert sent.cancel_requested_at
        assert launched.jobs.filter(state=Job.State.CANCELLED).count() == 4

    def test_cancelling_takes_as_many_statements_for_many_jobs(self) -> None:
        counts = []
        for repeats in (2, 40):
            made = ExperimentFactory(repeats=repeats)
            lifecycle.launch(made, made.owner)
            with CaptureQueriesContext(connection) as statements:
                assert lifecycle.cancel(made, made.owner) == (repeats, 0)
            counts.append(len(statements))
            assert set(made.runs.values_list("state", "reason")) == {("cancelled", "cancelled")}
            ends = made.events.filter(what="planned → cancelled")
            assert ends.filter(run=None).count() == repeats
            assert ends.exclude(run=None).count() == 2 * repeats
        assert counts[0] == counts[1]


class TestRetry:
    def test_is_the_next_attempt_in_a_new_directory(self) -> None:
        job = JobFactory(state=Job.State.FAILED, reason="node failure", directory="/old")
        run = RunFactory(job=job, state=Run.State.FAILED, reason="node failure")
        lifecycle.retry(job, job.experiment.owner)
        job.refresh_from_db()
        run.refresh_from_db()
        assert (job.state, job.attempt, job.directory) == ("planned", 2, "")
        assert (run.state, run.reason) == ("planned", "")
        assert "node failure" in Event.objects.get(job=job, run=None).why

    def test_never_replaces_a_number(self) -> None:
        job = JobFactory(state=Job.State.FAILED)
        RunFactory(job=job, state=Run.State.FAILED)
        RunFactory(
            job=job, environment=ContainerFactory(cluster=job.cluster), state=Run.State.SUCCEEDED
        )
        with pytest.raises(NotDone, match="one of its runs has ended well"):
            lifecycle.retry(job, job.experiment.owner)
        job.refresh_from_db()
        assert job.state == Job.State.FAILED


class TestExclude:
    def test_keeps_the_run_and_says_by_whom_and_why(self) -> None:
        run, person = RunFactory(), UserFactory(username="ada")
        assert excluded_runs.exclude(run, person, "GPU fell off the bus (Xid 79)")
        run.refresh_from_db()
        assert (run.state, run.reason) == ("excluded", "excluded by ada")
        assert "Xid 79" in run.message

    def test_needs_a_written_cause(self) -> None:
        assert not excluded_runs.exclude(RunFactory(), UserFactory(), "  ")


def test_a_cell_cannot_be_run_twice_in_one_repeat() -> None:
    run = RunFactory()
    with pytest.raises(IntegrityError), transaction.atomic():
        RunFactory(job=run.job, environment=run.environment, position=9)


def test_a_catalogue_row_that_an_experiment_uses_cannot_be_deleted() -> None:
    run = RunFactory()
    for row in (run.environment, run.workload, run.job.cluster):
        with pytest.raises(ProtectedError):
            row.delete()


def test_a_click_that_was_delayed_for_a_whole_attempt_plans_none_in_its_directory() -> None:
    job = JobFactory(state="failed", reason="lost", attempt=2)
    RunFactory(job=job, state="failed")
    as_it_was = Job.objects.get(pk=job.pk)
    as_it_was.attempt = 1
    assert not lifecycle.plan_next_attempt(as_it_was, why="", avoided_nodes="")
    assert Job.objects.get(pk=job.pk).state == "failed"
    assert lifecycle.plan_next_attempt(job, why="", avoided_nodes="")
    assert Job.objects.get(pk=job.pk).attempt == 3


@pytest.mark.parametrize(
    ("unsent", "sent", "text"),
    [
        (0, 0, "No job was left to cancel."),
        (1, 0, "1 job will not be sent."),
        (2, 0, "2 jobs will not be sent."),
        (0, 1, "1 job is ended at the next visit to far."),
        (0, 2, "2 jobs are ended at the next visit to far."),
        (2, 1, "2 jobs will not be sent, 1 is ended at the next visit to far."),
        (1, 3, "1 job will not be sent, 3 are ended at the next visit to far."),
    ],
)
def test_what_was_cancelled_is_told_in_words(unsent: int, sent: int, text: str) -> None:
    assert lifecycle.Cancelled(unsent, sent).describe("far") == text


class TestWords:
    """What events and messages say of what people do."""

    def test_a_launch_is_told_with_its_plan_and_seed(self, launched: Experiment) -> None:
        event = launched.events.get()
        assert (event.what, event.actor, event.job, event.run) == (
            "launched",
            launched.owner,
            None,
            None,
        )
        assert event.why == f"plan {launched.plan_hash}, seed {launched.order_seed}"

    def test_a_cancellation_is_told_of_the_experiment_its_jobs_and_runs(
        self, launched: Experiment
    ) -> None:
        person = UserFactory()
        Experiment.objects.update(paused_at=timezone.now())
        lifecycle.cancel(launched, person)
        launched.refresh_from_db()
        assert launched.paused_at is None
        assert launched.cancelled_at
        told = launched.events.exclude(what="launched")
        assert {event.actor for event in told} == {person}
        whole = told.get(what="cancelled")
        assert (whole.why, whole.job) == ("", None)
        jobs = told.filter(run=None, what="planned → cancelled")
        assert set(jobs.values_list("why", flat=True)) == {"cancelled by a person"}
        runs = told.exclude(run=None)
        assert set(runs.values_list("what", "why")) == {("planned → cancelled", "cancelled")}
        assert set(launched.jobs.values_list("ended_at", flat=True)) == {launched.cancelled_at}

    def test_what_was_asked_to_end_before_is_not_asked_again(self, launched: Experiment) -> None:
        before = timezone.now()
        launched.jobs.update(state="running", scheduler_id="7", cancel_requested_at=before)
        assert lifecycle.cancel(launched, launched.owner) == (0, 0)
        assert set(launched.jobs.values_list("cancel_requested_at", flat=True)) == {before}

    def test_a_further_attempt_is_told_of_the_job_and_its_runs(self) -> None:
        job = JobFactory(
            state="failed", reason="lost", avoided_nodes="n1", node="n2", verified_at=NOON
        )
        run = RunFactory(
            job=job, state="failed", reason="lost", message="m", phases={"a": 1}, command="c"
        )
        person = UserFactory()
        job.cluster.users.add(person)
        lifecycle.retry(job, person)
        job.refresh_from_db()
        run.refresh_from_db()
        (of_job, of_run) = job.events.order_by("run")
        if of_job.run_id:
            of_job, of_run = of_run, of_job
        assert (of_job.what, of_job.why) == ("failed → planned", "attempt 1 failed: lost")
        assert (of_run.what, of_run.run, of_run.why) == ("failed → planned", run, "")
        assert {of_job.actor, of_run.actor} == {person}
        assert (job.attempt, job.avoided_nodes, job.node) == (2, "", "n2")
        for column in ("reason", "message", "scheduler_id", "directory"):
            assert getattr(job, column) == ""
        for column in ("submitted_at", "started_at", "ended_at", "verified_at", "collect_at"):
            assert getattr(job, column) is None
        assert (run.reason, run.message, run.node, run.command) == ("", "", "", "")
        assert (run.exit_code, run.began_at, run.ended_at, run.phases) == (None, None, None, {})

    def test_a_job_that_cannot_be_tried_again_says_why(self) -> None:
        job = JobFactory(state="done")
        RunFactory(job=job)
        with pytest.raises(NotDone) as caught:
            lifecycle.retry(job, job.experiment.owner)
        assert str(caught.value) == (
            "This job cannot be tried again: one of its runs has ended well, or a planned analysis "
            "has judged without it."
        )

    @pytest.mark.parametrize(
        ("reason", "started", "stamped"),
        [
            ("lost", None, True),
            ("refused", None, False),
            ("cancelled outside", None, False),
            ("node failure", None, False),
            ("node failure", NOON, True),
        ],
    )
    def test_trying_again_after_a_verdict_is_stamped_unless_no_outcome_can_be_known(
        self, reason: str, started: Any, stamped: bool
    ) -> None:
        done = JobFactory()
        RunFactory(job=done)
        job = JobFactory(
            experiment=done.experiment, state="failed", reason=reason, started_at=started
        )
        RunFactory(job=job, state="failed", reason=reason)
        lifecycle.retry(job, job.experiment.owner)
        told = job.events.filter(what=TRIED_AGAIN)
        assert [event.actor for event in told] == [job.experiment.owner] * stamped

    def test_an_exclusion_is_told_with_its_reason_and_by_whom(self) -> None:
        run, person = RunFactory(), UserFactory(username="a" * 60)
        assert excluded_runs.exclude(run, person, "the fan")
        run.refresh_from_db()
        assert run.reason == f"excluded by {'a' * 60}"[:40]
        event = run.events.get(what="succeeded → excluded")
        assert (event.why, event.actor, event.job) == ("the fan", person, run.job)

    def test_only_a_run_with_a_result_is_excluded(self) -> None:
        run = RunFactory(state="failed")
        assert not excluded_runs.exclude(run, UserFactory(), "the fan")
        assert not run.experiment.events.exists()

    def test_an_ended_jobs_open_runs_end_with_its_words(self) -> None:
        job = JobFactory(state="failed")
        environment = ContainerFactory(cluster=job.cluster)
        run = RunFactory(job=job, state="planned")
        ended = RunFactory(job=job, environment=environment)
        lifecycle.end_runs(job, Run.State.FAILED, reason="not submitted", message="no room")
        run.refresh_from_db()
        ended.refresh_from_db()
        assert (run.state, run.reason, run.message) == ("failed", "not submitted", "no room")
        assert ended.state == "succeeded"
        assert run.events.get().why == "no room"


class TestDiscard:
    def test_a_draft_goes_and_what_was_launched_stays(self, launched: Experiment) -> None:
        draft = ExperimentFactory()
        assert lifecycle.discard(draft)
        assert not lifecycle.discard(launched)
        assert list(Experiment.objects.all()) == [launched]

    def test_an_imported_experiment_is_no_draft(self) -> None:
        imported = {"imported_at": timezone.now(), "import_hash": "0" * 64}
        made = ExperimentFactory(design=Experiment.Design.INDEPENDENT, **imported)
        assert not lifecycle.discard(made)
        with pytest.raises(NotLaunchable, match="has been launched already"):
            lifecycle.launch(made, made.owner)
