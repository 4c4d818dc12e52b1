"""In whose name a job is sent, and who has paused its experiment."""

from __future__ import annotations

from datetime import timedelta

import pytest

from experiments.execution import experiment_pauses
from experiments.execution.experiment_pauses import Stopped, find_person, find_stopped
from experiments.execution.sending_rights import find_forbidden, find_senders
from experiments.models import Event, Experiment, Job, Run, User
from tests.factories import (
    NOON,
    ClusterFactory,
    ExperimentFactory,
    JobFactory,
    LaunchedFactory,
    RunFactory,
    UserFactory,
)

pytestmark = pytest.mark.django_db


def tell(what: str, by: User | None, minutes: int, job: Job, run: Run | None = None) -> None:
    """Write an event of a job; a launch is one of its experiment alone."""
    about = None if what in ("launched", "paused") else job
    event = Event.objects.create(experiment=job.experiment, job=about, run=run, what=what, actor=by)
    Event.objects.filter(pk=event.pk).update(at=NOON + timedelta(minutes=minutes))


@pytest.fixture
def job() -> Job:
    made: Job = JobFactory(state="planned")
    return made


def sender(job: Job) -> User | None:
    return find_senders([job])[job.pk]


def test_a_job_is_sent_in_the_name_of_who_launched_it_first(job: Job) -> None:
    first, second = UserFactory(), UserFactory()
    assert sender(job) is None
    tell("launched", second, 2, job)
    tell("launched", first, 1, job)
    tell("paused", second, 3, job)
    assert sender(job) == first


def test_or_of_who_last_asked_for_it_again(job: Job) -> None:
    launcher, earlier, later = (UserFactory() for _ in range(3))
    run = RunFactory(job=job, state="planned")
    other = JobFactory(experiment=job.experiment, state="planned")
    tell("launched", launcher, 1, job)
    tell("failed → planned", later, 3, job)
    tell("block repaired", earlier, 2, job)
    tell("failed → planned", None, 4, job)  # by rule
    tell("failed → planned", launcher, 5, job, run)
    tell("collected again", launcher, 6, job)
    assert find_senders([job, other]) == {job.pk: later, other.pk: launcher}


def test_who_may_not_send_any_more_is_named_and_others_are_left_out(job: Job) -> None:
    person = UserFactory(username="ada")
    job.cluster.users.add(person)
    tell("launched", person, 1, job)
    assert find_forbidden([job]) == {}
    job.cluster.users.remove(person)
    other = JobFactory(state="planned")
    assert find_forbidden([job, other]) == {
        job.pk: f"ada, who asked for these jobs, may not send jobs to {job.cluster} any more. They "
        "wait until that right is given back, or the experiment is cancelled."
    }


def test_whose_account_is_closed_sends_nothing(job: Job) -> None:
    person = UserFactory(is_active=False)
    job.cluster.users.add(person)
    tell("launched", person, 1, job)
    assert list(find_forbidden([job])) == [job.pk]


def test_who_paused_last_is_told(job: Job) -> None:
    first, second = UserFactory(), UserFactory()
    assert find_person(job.experiment) is None
    tell("paused", second, 2, job)
    tell("paused", first, 1, job)
    tell("launched", first, 3, job)
    assert find_person(job.experiment) == second
    tell("paused", None, 4, job)
    assert find_person(job.experiment) is None


def test_a_pause_and_its_end_happen_once(job: Job) -> None:
    made, other, person = job.experiment, LaunchedFactory(), UserFactory()
    assert experiment_pauses.pause(made, person)
    assert not experiment_pauses.pause(made, person)
    assert made.paused_at
    assert Experiment.objects.get(pk=made.pk).paused_at == made.paused_at
    assert experiment_pauses.resume(made, person)
    assert not experiment_pauses.resume(made, person)
    assert made.paused_at is None
    told = made.events.order_by("pk").values_list("what", "actor", "job")
    assert list(told) == [("paused", person.pk, None), ("continued", person.pk, None)]
    assert not other.events.exists()
    assert Experiment.objects.get(pk=other.pk).paused_at is None


def test_a_draft_is_not_paused() -> None:
    draft = ExperimentFactory(cluster=ClusterFactory())
    assert not experiment_pauses.pause(draft, draft.owner)
    assert not draft.events.exists()


def test_what_is_stopped_is_paused_or_cancelled() -> None:
    goes_on, paused, cancelled, both, other = (LaunchedFactory() for _ in range(5))
    for row, columns in (
        (paused, {"paused_at": NOON}),
        (cancelled, {"cancelled_at": NOON}),
        (both, {"paused_at": NOON, "cancelled_at": NOON}),
        (other, {"cancelled_at": NOON}),
    ):
        Experiment.objects.filter(pk=row.pk).update(**columns)
    keys = [row.pk for row in (goes_on, paused, paused, cancelled, both)]
    assert find_stopped(keys) == Stopped(
        paused=frozenset({paused.pk}), cancelled=frozenset({cancelled.pk, both.pk})
    )
