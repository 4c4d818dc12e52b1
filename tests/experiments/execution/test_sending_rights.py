"""The right to a cluster's key counts when a job is planned anew, and when it is sent."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments import execution
from experiments.execution import lifecycle, repairs, unsent_jobs
from experiments.execution.further_attempts import NotDone
from experiments.models import Cluster, Experiment, Job, Pause, User
from tests.experiments.execution.test_repairs import failed_block
from tests.factories import UserFactory

pytestmark = pytest.mark.django_db

Make = Callable[..., Experiment]


def withdraw(cluster: Cluster, person: User) -> None:
    """Take the right to send jobs there from a person."""
    User.objects.filter(pk=person.pk).update(is_superuser=False)
    cluster.users.remove(person)
    assert not cluster.usable_by(User.objects.get(pk=person.pk))


def failed(made: Experiment) -> Job:
    """Return a job of which no run began, and which the scheduler did not take."""
    made.jobs.update(state="failed", reason="refused", message="no", ended_at=timezone.now())
    made.runs.update(state="failed", reason="not submitted", message="no")
    job: Job = made.jobs.order_by("pk")[0]
    return job


def person(made: Experiment) -> User:
    return User.objects.get(pk=made.owner_id)


class TestPlanningAnew:
    def test_needs_the_right_to_send(self, experiment: Make, client: Client) -> None:
        made = experiment(repeats=2)
        job = failed(made)
        withdraw(made.cluster, made.owner)
        with pytest.raises(NotDone, match="Not tried again"):
            lifecycle.retry(job, person(made))
        with pytest.raises(NotDone, match="Not tried again"):
            unsent_jobs.retry_unsent(made, person(made))
        client.force_login(person(made))
        for address in (
            reverse("job_retry", args=[job.uid]),
            reverse("job_repair", args=[job.uid]),
            reverse("experiment_retry_unsent", args=[made.pk]),
        ):
            page = client.post(address, follow=True).content.decode()
            assert "only site administrators send something there" in page
        assert set(made.jobs.values_list("state", flat=True)) == {"failed"}

    def test_of_a_rest_of_a_block_too(self, experiment: Make) -> None:
        made = experiment()
        job = made.jobs.get()
        failed_block(job, "", "not started")
        withdraw(made.cluster, made.owner)
        with pytest.raises(NotDone, match="Nothing is run"):
            repairs.repair(job, person(made), same_node=False)
        assert made.jobs.count() == 1

    def test_puts_the_job_into_the_name_of_who_asks(self, experiment: Make) -> None:
        made = experiment()
        job = failed(made)
        withdraw(made.cluster, made.owner)
        other = UserFactory()
        made.cluster.users.add(other)
        lifecycle.retry(job, other)
        execution.tick(made.cluster_id)
        assert made.jobs.get().state == "queued"
        lifecycle.cancel(made, other)


class TestSending:
    def test_waits_while_the_right_is_gone_and_goes_on_when_it_is_back(
        self, experiment: Make
    ) -> None:
        made = experiment(repeats=3)
        withdraw(made.cluster, made.owner)
        execution.tick(made.cluster_id)
        assert set(made.jobs.values_list("state", flat=True)) == {"planned"}
        pause = Pause.objects.get()
        assert (pause.experiment, pause.kind) == (made, "account")
        assert f"{made.owner}, who asked for these jobs, may not send jobs" in pause.message
        made.cluster.users.add(made.owner)
        Pause.objects.update(retry_at=timezone.now())
        execution.tick(made.cluster_id)
        assert not Pause.objects.exists()
        assert set(made.jobs.values_list("state", flat=True)) == {"queued"}
        lifecycle.cancel(made, made.owner)

    def test_waits_where_the_account_is_closed(self, experiment: Make) -> None:
        made = experiment()
        User.objects.filter(pk=made.owner_id).update(is_active=False)
        execution.tick(made.cluster_id)
        assert made.jobs.get().state == "planned"

    def test_of_what_a_dead_worker_had_begun_to_send_waits_too(self, experiment: Make) -> None:
        made = experiment()
        made.jobs.update(state="submitting")
        withdraw(made.cluster, made.owner)
        execution.tick(made.cluster_id)
        assert made.jobs.get().state == "planned"
        assert Pause.objects.get().kind == "account"
