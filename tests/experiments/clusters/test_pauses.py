"""A site's no for now: it pauses, it does not fail. Real jobs on this machine; noes are forced."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from django.test import Client
from django.utils import timezone

from experiments import execution
from experiments.clusters.pauses import list_paused_keys, list_pauses, try_now
from experiments.comparisons.compared_pairs import TRIED_AGAIN
from experiments.execution import lifecycle, submitting
from experiments.execution.sending import MOST_REFUSALS
from experiments.execution.unsent_jobs import retry_unsent
from experiments.models import (
    Cluster,
    Environment,
    Experiment,
    Job,
    Partition,
    Pause,
    Run,
    Workload,
)
from runners.errors import Kind, NotNow, Refused, Scope, TryAgain
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.submissions import NotReached, Outcome
from runners.transports import Completed, Local, Transport
from tests.conftest import finish
from tests.factories import EnvironmentFactory, ExperimentFactory, PartitionFactory

pytestmark = pytest.mark.django_db

Make = Callable[..., Experiment]


@contextmanager
def answering(no: Callable[[JobSpec], Exception | None]) -> Iterator[list[JobSpec]]:
    """Have the site answer each submission with `no`'s exception; yield what it was asked."""
    asked: list[JobSpec] = []

    def submit(self: Runner, jobs: Sequence[JobSpec]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for job in jobs:
            asked.append(job)
            if problem := no(job):
                assert isinstance(problem, TryAgain | Refused)
                left = len(jobs) - len(outcomes) - 1
                return [*outcomes, problem, *[NotReached()] * left]
            outcomes.append(f"1-{len(asked)}")
        return outcomes

    with mock.patch.object(Runner, "submit_all", submit):
        yield asked


def not_now(scope: Scope, kind: Kind = "limit") -> NotNow:
    return NotNow("AssocMaxSubmitJobLimit", kind=kind, scope=scope)


def states(experiment: Experiment) -> set[str]:
    return set(experiment.jobs.values_list("state", flat=True))


@pytest.fixture
def on_partition(here: Cluster, bare: Environment, quick: Workload) -> Make:
    """Make a launched experiment on a partition; several may be made."""
    other = EnvironmentFactory(name="other", cluster=here)

    def make(partition: Partition | None, **columns: Any) -> Experiment:
        made: Experiment = ExperimentFactory(
            cluster=here,
            partition=partition,
            baseline=bare,
            environments=[bare, other],
            workloads=[quick],
            scales=["1x0"],
            **columns,
        )
        lifecycle.launch(made, made.owner)
        return made

    return make


def test_a_work_directory_that_is_not_there_for_a_moment_costs_no_job(
    experiment: Make, here: Cluster
) -> None:
    work = Path(here.work_directory)
    work.write_text("somebody has put a file here")
    made = experiment(repeats=30)
    assert execution.tick(here.pk) == "done"
    pause = Pause.objects.get()
    assert (pause.kind, pause.place, pause.failures) == ("work directory", "here", 1)
    assert str(work) in pause.message
    assert states(made) == {"planned"}
    assert not made.runs.exclude(state=Run.State.PLANNED).exists()
    work.unlink()
    Experiment.objects.filter(pk=made.pk).update(repeats=30)
    execution.tick(here.pk)
    assert not Pause.objects.exists()
    assert not made.jobs.filter(state=Job.State.PLANNED).exists()
    lifecycle.cancel(made, made.owner)
    finish(made)


class TestPromise8Pauses:
    """Promise 8: a site's temporary no pauses, it does not fail."""

    @pytest.mark.parametrize("scope", ["site", "partition", "request"])
    def test_after_the_first_no_nothing_else_is_sent_in_this_visit(
        self, experiment: Make, here: Cluster, scope: Scope
    ) -> None:
        made = experiment(repeats=30)
        with answering(lambda job: not_now(scope)) as asked:
            assert execution.tick(here.pk) == "done"
        assert len(asked) == 1
        assert states(made) == {"planned"}
        first, *others = made.events.filter(what="submitting → planned").order_by("job__block")
        assert "AssocMaxSubmitJobLimit" in first.why, "in the words of the scheduler"
        assert {event.why for event in others} == {submitting.NOT_REACHED}
        here.refresh_from_db()
        assert (here.last_error, here.retry_at) == ("", None)

    def test_each_no_makes_the_next_wait_longer(self, experiment: Make, here: Cluster) -> None:
        made = experiment(repeats=3)
        Cluster.objects.update(poll_seconds=10)
        waits = []
        for _ in range(12):
            Cluster.objects.update(last_tick_at=None)
            Pause.objects.update(retry_at=timezone.now())
            before = timezone.now()
            with answering(lambda job: not_now("site")) as asked:
                execution.tick(here.pk)
            assert len(asked) == 1
            waits.append(Pause.objects.get().retry_at - before)
        assert waits[0] >= timedelta(seconds=10)
        assert waits[1] >= timedelta(seconds=20)
        assert Pause.LONGEST <= waits[-1] < Pause.LONGEST + timedelta(minutes=1)
        assert states(made) == {"planned"}

    def test_until_its_time_nothing_is_asked_and_a_person_brings_that_forward(
        self, experiment: Make, here: Cluster
    ) -> None:
        made = experiment(repeats=3)
        with answering(lambda job: not_now("site")) as asked:
            execution.tick(here.pk)
            Pause.objects.update(retry_at=timezone.now() + timedelta(minutes=15), failures=9)
            execution.tick(here.pk)
            assert len(asked) == 1
            try_now(Pause.objects.get(), made.owner)
            execution.tick(here.pk)
            assert len(asked) == 2
        assert Pause.objects.get().failures == 1
        with answering(lambda job: None) as asked:
            execution.tick(here.pk)
        assert len(asked) == 3, "where one was taken, the others go in the same visit"
        assert states(made) == {"queued"}
        assert not Pause.objects.exists()

    def test_results_come_home_meanwhile(self, experiment: Make, here: Cluster) -> None:
        first = experiment()
        execution.tick(here.pk)
        second = Experiment.objects.get(pk=first.pk)
        job = first.jobs.get()
        assert job.state == Job.State.QUEUED
        Pause.objects.create(
            cluster=here, kind="limit", message="", since=timezone.now(), retry_at=timezone.now()
        )
        finish(second)
        assert set(first.runs.values_list("state", flat=True)) == {"succeeded"}

    def test_a_worker_that_dies_between_leaves_nothing_behind(
        self, experiment: Make, here: Cluster
    ) -> None:
        """What was being sent is asked for, tried again, and paused like the others."""
        made = experiment(repeats=2)
        with answering(lambda job: TryAgain("broke", kind="unreachable")):
            execution.tick(here.pk)
        assert states(made) == {"submitting", "planned"}
        Cluster.objects.update(retry_at=None)
        with answering(lambda job: not_now("site")) as asked:
            execution.tick(here.pk)
        assert len(asked) == 1
        assert states(made) == {"planned"}

    def test_what_was_being_sent_is_found_again_though_sending_is_paused(
        self, experiment: Make, here: Cluster
    ) -> None:
        made = experiment(repeats=4)
        made.jobs.update(state="submitting")
        *_, adopted = (job.name for job in made.jobs.order_by("pk"))

        def find(self: Runner, job: JobSpec) -> str | None:
            return "1-7" if job.name == adopted else None

        with (
            mock.patch.object(Runner, "find", find),
            answering(lambda job: not_now("site")) as asked,
        ):
            assert execution.tick(here.pk) == "done"
        assert len(asked) == 1
        found = made.jobs.order_by("pk").values_list("state", flat=True)
        assert list(found) == ["planned", "planned", "planned", "queued"]

    def test_cancelling_reaches_what_went_back_to_the_plan(
        self, experiment: Make, here: Cluster
    ) -> None:
        made = experiment()

        def cancelled_meanwhile(job: JobSpec) -> NotNow:
            lifecycle.cancel(made, made.owner)
            return not_now("site")

        with answering(cancelled_meanwhile):
            execution.tick(here.pk)
        with answering(lambda job: None) as asked:
            execution.tick(here.pk)
        assert not asked
        assert states(made) == {"cancelled"}
        assert set(made.runs.values_list("state", flat=True)) == {"cancelled"}
        assert not Pause.objects.exists(), "nothing waits for its end"


class TestScope:
    def test_a_wrong_partition_stops_its_own_experiments_only(
        self, on_partition: Make, here: Cluster
    ) -> None:
        wrong, right = (PartitionFactory(cluster=here, name=name) for name in ("wrong", "right"))
        stuck = on_partition(wrong, repeats=5)
        fine = on_partition(right, repeats=5)

        def no(job: JobSpec) -> NotNow | None:
            is_wrong = job.resources.partition == "wrong"
            return not_now("partition", "partition") if is_wrong else None

        with answering(no) as asked:
            execution.tick(here.pk)
            assert states(fine) == {"queued"}
            assert states(stuck) == {"planned"}
            asked.clear()
            Pause.objects.update(retry_at=timezone.now() + timedelta(minutes=1))
            execution.tick(here.pk)
            assert not asked
        (pause,) = list_pauses(stuck)
        assert pause.place == "partition wrong"
        assert list_pauses(fine) == []
        assert list_paused_keys([stuck, fine]) == {stuck.pk}

    def test_what_only_one_experiment_asks_for_pauses_that_one(
        self, on_partition: Make, here: Cluster
    ) -> None:
        large, small = on_partition(None, repeats=2), on_partition(None, repeats=2)
        theirs = {job.name for job in large.jobs.all()}

        def no(job: JobSpec) -> NotNow | None:
            return not_now("request", "nodes") if job.name in theirs else None

        with answering(no):
            execution.tick(here.pk)
        assert states(large) == {"planned"}
        assert states(small) == {"queued"}
        assert Pause.objects.get().experiment == large

    def test_what_one_experiment_is_refused_for_keeps_no_other_waiting(
        self, on_partition: Make, here: Cluster
    ) -> None:
        """In one visit: those behind it are sent, and each pause whose time has come is tried."""
        Cluster.objects.update(max_live_jobs=3)
        large, faulty, small = (on_partition(None, repeats=3) for _ in range(3))
        names = {row: {job.name for job in row.jobs.all()} for row in (large, faulty)}

        def no(job: JobSpec) -> Exception | None:
            if job.name in names[large]:
                return not_now("request", "nodes")
            return Refused("bad option") if job.name in names[faulty] else None

        with answering(no) as asked:
            execution.tick(here.pk)
            assert states(small) == {"queued"}
            assert {row.experiment for row in Pause.objects.all()} == {large, faulty}
            assert len(asked) == 5
            asked.clear()
            Cluster.objects.update(max_live_jobs=9)
            Pause.objects.update(retry_at=timezone.now())
            execution.tick(here.pk)
            assert len(asked) == 2, "one of each pause"
        assert faulty.jobs.filter(state="failed").count() == 2

    def test_a_scheduler_is_asked_in_vain_a_few_times_a_visit(
        self, on_partition: Make, here: Cluster
    ) -> None:
        for _ in range(MOST_REFUSALS + 5):
            on_partition(None, repeats=1)
        with answering(lambda job: not_now("request", "nodes")) as asked:
            execution.tick(here.pk)
        assert len(asked) == MOST_REFUSALS

    def test_a_limit_that_is_full_does_not_starve_others_of_their_places(
        self, on_partition: Make, here: Cluster
    ) -> None:
        """Jobs that wait do not take the places of those behind them."""
        Cluster.objects.update(max_live_jobs=2)
        wrong, right = (PartitionFactory(cluster=here, name=name) for name in ("wrong", "right"))
        on_partition(wrong, repeats=40)
        fine = on_partition(right, repeats=2)

        def no(job: JobSpec) -> NotNow | None:
            return not_now("partition") if job.resources.partition == "wrong" else None

        with answering(no):
            execution.tick(here.pk)
        assert states(fine) == {"queued"}

    def test_pauses_inside_each_other_end_one_after_the_other(
        self, on_partition: Make, here: Cluster
    ) -> None:
        partition = PartitionFactory(cluster=here)
        made = on_partition(partition, repeats=3)
        noes = [not_now("site"), not_now("partition"), not_now("request"), not_now("site")]
        with answering(lambda job: noes.pop() if noes else None):
            for _ in range(9):
                Pause.objects.update(retry_at=timezone.now())
                if "queued" not in states(made):
                    execution.tick(here.pk)
        assert states(made) == {"queued"}
        assert not Pause.objects.exists()


class TestItsOwnFault:
    def test_fails_that_job_alone(self, experiment: Make, here: Cluster) -> None:
        made = experiment(repeats=5)
        bad = made.jobs.get(block=0)

        def no(job: JobSpec) -> Refused | None:
            return Refused("unrecognized option '--bogus'") if job.name == bad.name else None

        with answering(no) as asked:
            execution.tick(here.pk)
            assert len(asked) == 1, "the others may share its fault"
            execution.tick(here.pk)
        bad.refresh_from_db()
        assert (bad.state, bad.reason) == ("failed", "refused")
        assert "--bogus" in bad.message
        assert made.jobs.filter(state=Job.State.QUEUED).count() == 4
        assert not Pause.objects.exists()

    def test_of_all_alike_does_not_burn_them_in_one_visit(
        self, experiment: Make, here: Cluster
    ) -> None:
        Cluster.objects.update(poll_seconds=60)
        made = experiment(repeats=30)
        with answering(lambda job: Refused("Invalid feature specification")):
            for _ in range(5):
                Cluster.objects.update(last_tick_at=None)
                execution.tick(here.pk)
        assert made.jobs.filter(state=Job.State.FAILED).count() == 1
        assert "Invalid feature" in list_pauses(made)[0].message


class TestTryingAllAgain:
    def refuse_all(self, experiment: Experiment) -> None:
        jobs, runs = experiment.jobs.all(), experiment.runs.all()
        jobs.update(state="failed", reason="refused", message="no", ended_at=timezone.now())
        runs.update(state="failed", reason="not submitted", message="no")

    def test_plans_every_job_that_was_not_sent(
        self, experiment: Make, django_assert_max_num_queries: Any
    ) -> None:
        made = experiment(repeats=30)
        self.refuse_all(made)
        with django_assert_max_num_queries(20):
            assert retry_unsent(made, made.owner) == 30
        assert set(made.jobs.values_list("state", "attempt", "reason")) == {("planned", 2, "")}
        assert set(made.runs.values_list("state", "reason", "message")) == {("planned", "", "")}
        planned = made.events.filter(what="failed → planned", actor=made.owner)
        assert list(planned.values_list("why", flat=True)) == ["it was not sent"] * 90
        assert retry_unsent(made, made.owner) == 0

    def test_leaves_what_has_failed_otherwise(self, experiment: Make) -> None:
        made = experiment(repeats=3)
        self.refuse_all(made)
        made.jobs.filter(block=0).update(reason="lost", submitted_at=timezone.now())
        assert retry_unsent(made, made.owner) == 2
        lifecycle.cancel(made, made.owner)
        made.refresh_from_db()
        assert retry_unsent(made, made.owner) == 0

    @pytest.mark.parametrize("every", [True, False])
    def test_of_what_never_started_stamps_nothing(self, experiment: Make, every: bool) -> None:
        made = experiment(repeats=3)
        self.refuse_all(made)
        made.runs.filter(job__block=1).update(state="succeeded")
        made.jobs.filter(block=1).update(
            state="done", submitted_at=timezone.now(), scheduler_id="1"
        )
        if every:
            assert retry_unsent(made, made.owner) == 2
        else:
            lifecycle.retry(made.jobs.get(block=0), made.owner)
        assert not made.events.filter(what=TRIED_AGAIN).exists()


def test_words_that_no_database_takes_are_kept_as_far_as_it_can(
    experiment: Make, here: Cluster
) -> None:
    experiment()
    words = "closed \0 \udce9 " + "x" * 100_000
    with answering(lambda job: NotNow(words, kind="refused", scope="request")):
        execution.tick(here.pk)
    kept = Pause.objects.get().message
    assert kept.startswith("closed \N{REPLACEMENT CHARACTER} \\xe9 x")
    assert len(kept) == 2000


def test_many_lines_of_one_complaint_are_one_sentence_and_a_fold(
    experiment: Make, here: Cluster, client: Client
) -> None:
    """`tar` says of every file that it may not be written."""
    lines = "\n".join(f"tar: payload/{n}.py: Cannot open: No such file" for n in range(28))
    made = experiment()

    def run(self: Transport, argv: Sequence[str], **options: object) -> Completed:
        return Completed(2, b"", lines.encode())

    with mock.patch.object(Local, "run", run):
        execution.tick(here.pk)
    pause = Pause.objects.get()
    assert pause.message.endswith(
        "payload/0.py: Cannot open: No such file (and 27 more lines like this)"
    )
    assert pause.details == lines
    client.force_login(made.owner)
    page = client.get(made.get_absolute_url()).content.decode()
    shown, fold = page.split("<summary>The whole message</summary>")
    assert "payload/7.py" not in shown
    assert "payload/27.py" in fold.split("</details>")[0]


def test_room_under_a_limit_is_used_as_soon_as_a_job_has_left(
    experiment: Make, here: Cluster
) -> None:
    made = experiment(repeats=2)
    noes = [None, not_now("site")]
    with answering(lambda job: noes.pop(0) if noes else None):
        execution.tick(here.pk)
        Pause.objects.update(retry_at=timezone.now() + timedelta(minutes=15))
        assert sorted(made.jobs.values_list("state", flat=True)) == ["planned", "queued"]
        execution.tick(here.pk)  # the first one is not in the queue any more
    assert not Pause.objects.exists()
    assert not made.jobs.filter(state=Job.State.PLANNED).exists()
