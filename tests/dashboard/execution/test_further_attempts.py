"""Trying again, running what never began, collecting again: offered where a failure is told."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments.models import Experiment, Job, Run
from experiments.models.states import NOT_STARTED
from tests.dashboard.conftest import People, Site
from tests.factories import JobFactory, LaunchedFactory, RunFactory

pytestmark = pytest.mark.django_db


def failed(site: Site, people: People, *reasons: str, **columns: Any) -> Job:
    """Return a failed job whose runs ended for these reasons."""
    experiment = LaunchedFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        workloads=[site.workload],
        environments=[site.bare, site.container],
    )
    past = timezone.now()
    job: Job = JobFactory(
        experiment=experiment,
        state=Job.State.FAILED,
        reason="node failure",
        submitted_at=past,
        ended_at=past,
        directory="/tmp/tare/jobs/x",
        collect_tries=3,
        **columns,
    )
    for environment, reason in zip((site.bare, site.container), reasons, strict=True):
        state = Run.State.SUCCEEDED if not reason else Run.State.FAILED
        RunFactory(
            job=job, environment=environment, state=state, reason=reason, output_tail="Killed\n"
        )
    return job


def actions(client: Client, address: str) -> set[str]:
    """Return which buttons for this job stand on a page, by the last part of their address."""
    answer = client.get(address)
    assert answer.status_code == 200
    page = BeautifulSoup(answer.content, "html.parser")
    forms = [str(form["action"]).rstrip("/").rpartition("/")[2] for form in page.select("form")]
    return {name for name in forms if name in {"retry", "repair", "collect"}}


CASES = {
    ("node failure", "node failure"): {"retry", "collect"},
    ("out of memory", NOT_STARTED): {"retry", "repair", "collect"},
    ("", NOT_STARTED): {"repair", "collect"},
    ("", "exit code 1"): {"collect"},
}


@pytest.mark.parametrize(("reasons", "offered"), CASES.items())
def test_what_may_be_done_stands_where_the_failure_is_told(
    site: Site,
    people: People,
    as_owner: Client,
    reasons: tuple[str, str],
    offered: set[str],
) -> None:
    job = failed(site, people, *reasons)
    run = job.runs.filter(state=Run.State.FAILED).latest("pk")
    for address in (
        job.experiment.get_absolute_url(),
        f"{job.experiment.get_absolute_url()}?tab=jobs",
        run.get_absolute_url(),
    ):
        assert actions(as_owner, address) == offered, address
        assert actions(people.client("other"), address) == set()


def test_what_is_asked_on_a_runs_page_leads_back_to_it(
    site: Site, people: People, as_owner: Client
) -> None:
    job = failed(site, people, "", NOT_STARTED)
    run = job.runs.get(state=Run.State.FAILED)
    answer = as_owner.post(reverse("job_repair", args=[job.uid]), {"run": run.uid})
    assert answer["Location"] == run.get_absolute_url()
    run.refresh_from_db()
    assert (run.state, run.job.repairs) == (Run.State.PLANNED, job)
    jobs = f"{job.experiment.get_absolute_url()}?tab=jobs"
    for odd in ("", "no such run", "x" * 5000):
        answer = as_owner.post(reverse("job_retry", args=[job.uid]), {"run": odd})
        assert answer["Location"] == jobs


def test_a_cancelled_experiment_offers_its_files_alone(
    site: Site, people: People, as_owner: Client
) -> None:
    job = failed(site, people, "out of memory", NOT_STARTED)
    Experiment.objects.update(cancelled_at=timezone.now())
    assert actions(as_owner, job.experiment.get_absolute_url()) == {"collect"}


def test_a_failed_run_shows_its_output_once(site: Site, people: People, as_owner: Client) -> None:
    job = failed(site, people, "exit code 1", "exit code 1")
    page = as_owner.get(job.runs.latest("pk").get_absolute_url()).content.decode()
    assert page.count("Killed") == 1
