"""What is stored and told of each job of a portion, by what the site answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest
from django.utils import timezone

from experiments.execution import sending, submitting
from experiments.execution.rows import list_jobs
from experiments.execution.submitting import SendingPaused, send_portion
from experiments.models import Cluster, Experiment, Job, Operation, Pause, Run, StagedImage
from runners.errors import Kind, NotNow, Refused, Scope, TryAgain
from runners.jobs import JobSpec
from runners.runner import Runner
from runners.schedulers import SCHEDULERS
from runners.submissions import NotReached, Outcome
from runners.transports import Local
from tests.factories import OperationFactory, PartitionFactory

pytestmark = pytest.mark.django_db
Make = Callable[..., Experiment]
Answers = list[Outcome | Exception]


@pytest.fixture
def runner() -> Runner:
    return Runner(Local(), SCHEDULERS["direct"]())


def answer(answers: Answers) -> Any:
    """Return what takes the place of `submit_all`: it gives these answers, then takes all."""

    def submit(self: Runner, specs: Sequence[JobSpec]) -> list[Outcome]:
        taken: list[Any] = [f"1-{spec.name[-4:]}" for spec in specs]
        return [*answers, *taken[len(answers) :]]

    return submit


def send(made: Experiment, runner: Runner, *answers: Outcome | Exception) -> None:
    """Send all planned jobs of an experiment together."""
    held: Any = mock.Mock(cluster=Cluster.objects.get(pk=made.cluster_id))
    with mock.patch.object(Runner, "submit_all", answer(list(answers))):
        send_portion(list(list_jobs(held, "planned")), runner)


def jobs_of(made: Experiment) -> list[Job]:
    return list(made.jobs.order_by("pk"))


def not_now(scope: Scope = "request", kind: Kind = "limit") -> NotNow:
    return NotNow("sbatch: not now", kind=kind, scope=scope, details="all lines")


def whys(job: Job) -> list[tuple[str, str]]:
    return list(job.events.filter(run=None).order_by("pk").values_list("what", "why"))


def test_what_is_sent_is_stored_with_its_script_directory_and_number(
    experiment: Make, runner: Runner
) -> None:
    made = experiment(repeats=2)
    before = timezone.now()
    send(made, runner)
    for job in jobs_of(made):
        assert (job.state, job.scheduler_id) == ("queued", f"1-{job.name[-4:]}")
        assert job.directory == f"{made.cluster.work_directory}/jobs/{job.uid}-1"
        assert job.script.startswith("#!/bin/")
        assert job.directory in job.script
        assert job.submitted_at
        assert before <= job.submitted_at <= timezone.now()
        assert whys(job) == [
            ("planned → submitting", ""),
            ("submitting → queued", f"scheduler job {job.scheduler_id}"),
        ]


def test_the_gpu_time_is_that_which_is_asked_for(experiment: Make, runner: Runner) -> None:
    made = experiment()
    made.jobs.update(scale="2x3", gpu_seconds=1)
    send(made, runner)
    (job,) = jobs_of(made)
    minutes = job.gpu_seconds / 6 / 60
    assert minutes == int(minutes) > 1


def test_a_no_for_now_plans_the_job_again_and_pauses_its_experiment(
    experiment: Make, runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    made = experiment(repeats=3)
    with pytest.raises(SendingPaused) as caught:
        send(made, runner, "1-1", not_now(), NotReached())
    first, second, third = jobs_of(made)
    assert [job.state for job in (first, second, third)] == ["queued", "planned", "planned"]
    assert whys(second)[-1] == ("submitting → planned", "sbatch: not now")
    assert whys(third)[-1] == ("submitting → planned", submitting.NOT_REACHED)
    pause = Pause.objects.get()
    assert (pause.experiment, pause.kind, pause.message) == (made, "limit", "sbatch: not now")
    assert pause.details == "all lines"
    assert (caught.value.pause, caught.value.uid) == (pause, second.uid)
    assert (str(caught.value), caught.value.kind) == ("sbatch: not now", "limit")
    assert "here: sbatch: not now (limit)" in caplog.text


def test_a_refusal_fails_the_job_in_its_words_and_pauses_those_like_it(
    experiment: Make, runner: Runner
) -> None:
    made = experiment(repeats=2)
    before = timezone.now()
    with pytest.raises(SendingPaused):
        send(made, runner, Refused("no such\x00 option"), NotReached())
    first, second = jobs_of(made)
    assert (first.state, first.reason, second.state) == ("failed", "refused", "planned")
    assert first.message.startswith("no such")
    assert first.message.endswith(" option")
    assert first.ended_at
    assert first.ended_at >= before
    assert whys(first)[-1] == ("submitting → failed", first.message)
    runs = first.runs.values_list("state", "reason", "message")
    assert set(runs) == {("failed", "not submitted", first.message)}
    assert Pause.objects.get().kind == "refused"
    assert not Run.objects.filter(job=second).exclude(state="planned").exists()


def test_what_ends_the_visit_comes_before_what_pauses_its_sending(
    experiment: Make, runner: Runner
) -> None:
    made = experiment(repeats=3)
    away = TryAgain("no route", kind="unreachable")
    with pytest.raises(TryAgain) as caught:
        send(made, runner, not_now(), not_now("site", "disk full"), away)
    assert caught.value is away
    assert [job.state for job in jobs_of(made)] == ["planned", "planned", "submitting"]
    with pytest.raises(SendingPaused) as paused:
        send(made, runner, not_now(), not_now("site", "disk full"))
    assert paused.value.pause.is_of_the_site


def test_where_nothing_can_be_stored_nothing_was_sent(experiment: Make, runner: Runner) -> None:
    made = experiment(repeats=2)
    full = NotNow("No space left", kind="disk full", scope="site")
    held: Any = mock.Mock(cluster=made.cluster)
    with (
        mock.patch.object(Runner, "submit_all", side_effect=full),
        pytest.raises(SendingPaused, match="No space left"),
    ):
        send_portion(list(list_jobs(held, "planned")), runner)
    first, second = jobs_of(made)
    assert whys(first)[-1] == ("submitting → planned", "No space left")
    assert whys(second)[-1] == ("submitting → planned", submitting.NOT_REACHED)
    pause = Pause.objects.get()
    assert pause.is_of_the_site
    assert pause.failures == 1


def test_a_job_that_was_taken_ends_the_pause_of_those_like_it(
    experiment: Make, runner: Runner
) -> None:
    made = experiment()
    now = timezone.now()
    about = {"cluster": made.cluster, "kind": "limit", "message": "", "since": now, "retry_at": now}
    Pause.objects.create(experiment=made, **about)
    send(made, runner)
    assert not Pause.objects.exists()


def test_a_file_that_is_gone_is_named_by_its_check_sum(experiment: Make, runner: Runner) -> None:
    made = experiment()
    for run in made.runs.all():
        run.spec["workload"]["parameters"]["files"] = {"train.py": "f" * 64}
        run.save(update_fields=["spec"])
    send(made, runner)
    (job,) = jobs_of(made)
    assert (job.state, job.reason, job.directory) == ("failed", "refused", "")
    assert job.message == f"A file that blas sends is gone: sha256 {'f' * 64}. Upload it anew."
    assert whys(job) == [("planned → failed", job.message)]


def test_what_cannot_be_written_in_a_script_is_said(experiment: Make, runner: Runner) -> None:
    made = experiment()
    for run in made.runs.all():
        run.spec["environment"]["variables"] = [["A=\nB", "1"]]
        run.save(update_fields=["spec"])
    send(made, runner)
    (job,) = jobs_of(made)
    assert (job.state, job.reason) == ("failed", "refused")
    assert job.message.startswith("The job script cannot be written: ")
    assert not job.message.endswith("..")


def test_a_partition_that_no_script_can_ask_for_pauses_its_jobs(
    experiment: Make, here: Cluster
) -> None:
    made = experiment()
    partition = PartitionFactory(cluster=here, directives=["--mem=1\nrm"])
    Experiment.objects.update(partition=partition)
    Cluster.objects.update(scheduler="slurm")
    with pytest.raises(SendingPaused, match=r"^The job script cannot be written: "):
        send(made, Runner(Local(), SCHEDULERS["slurm"]()))
    pause = Pause.objects.get()
    assert (pause.partition, pause.kind) == (partition, "partition")
    assert made.jobs.get().state == "planned"


def test_an_operation_that_the_site_refuses_for_now_fails_if_nothing_else_asks_for_the_same(
    here: Cluster, runner: Runner
) -> None:
    def operation() -> Operation:
        row: Operation = OperationFactory(
            staged_image__cluster=here,
            staged_image__format="archive",
            staged_image__state=StagedImage.State.READY,
            kind=Operation.Kind.VERIFY,
            state="planned",
        )
        return row

    row = operation()
    with mock.patch.object(Runner, "submit_all", answer([not_now()])):
        send_portion([row], runner)
    row.refresh_from_db()
    assert (row.state, row.reason, row.message) == ("failed", "refused", "sbatch: not now")
    waits = operation()
    with (
        mock.patch.object(Runner, "submit_all", answer([not_now("site", "disk full")])),
        pytest.raises(SendingPaused),
    ):
        send_portion([waits], runner)
    waits.refresh_from_db()
    assert (waits.state, waits.reason) == ("planned", "")
    assert waits.script
    assert waits.directory == f"{here.work_directory}/chores/{waits.uid}-1"
    refused = operation()
    with mock.patch.object(Runner, "submit_all", answer([Refused("no such option")])):
        send_portion([refused], runner)
    refused.refresh_from_db()
    assert (refused.state, refused.message) == ("failed", "no such option")


def test_what_was_cancelled_meanwhile_is_told_with_its_runs(
    experiment: Make, runner: Runner
) -> None:
    made = experiment()
    (job,) = jobs_of(made)
    submitting.end_without_sending(job, "cancelled", "before", Job.State.CANCELLED)
    job.refresh_from_db()
    assert (job.state, job.reason) == ("cancelled", "")
    assert whys(job) == [("planned → cancelled", "before")]
    runs = job.runs.values_list("state", "reason", "message")
    assert set(runs) == {("cancelled", "cancelled", "")}


def test_a_portion_that_stays_planned_is_not_tried_twice_in_a_visit(
    experiment: Make, runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever keeps it: an earlier portion that was kept stays among those that were tried."""
    held: Any = mock.Mock(cluster=experiment().cluster)
    visit = sending.Sending(held, runner, timezone.now(), sent_back={"an earlier one"})
    monkeypatch.setattr(sending, "send_portion", lambda *_: None)
    jobs = list(list_jobs(held, "planned"))
    assert jobs
    sending._send_until_refused(visit, jobs)
    assert visit.sent_back == {"an earlier one", *(job.uid for job in jobs)}
