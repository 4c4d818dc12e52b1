"""Why nothing of an experiment is sent now: the first reason that holds, in words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from experiments.execution.progress import (
    derive_status,
    explain_hold,
    explain_waiting,
    measure_progress,
)
from experiments.models import Cluster, Experiment, Pause
from experiments.models.cluster import CONNECTION_LIMIT
from tests.factories import JobFactory, LaunchedFactory, RunFactory

pytestmark = pytest.mark.django_db
NEXT_MONTH = timedelta(days=32)


@pytest.fixture
def waiting() -> Experiment:
    """An experiment with a planned job, on a cluster that was visited just now."""
    made: Experiment = LaunchedFactory(cluster__name="far", cluster__last_tick_at=timezone.now())
    job = JobFactory(experiment=made, state="planned", gpu_seconds=7200)
    RunFactory(job=job, state="planned")
    return made


def hold(waiting: Experiment, **columns: Any) -> str:
    Cluster.objects.filter(pk=waiting.cluster_id).update(**columns)
    return explain_hold(Experiment.objects.get(pk=waiting.pk))


def test_nothing_holds_it_where_the_next_visit_sends_it(waiting: Experiment) -> None:
    assert hold(waiting) == ""


def test_the_first_reason_that_holds_is_told(waiting: Experiment) -> None:
    assert hold(waiting, max_gpu_hours_per_month=1).startswith(
        "far has 1 GPU-hour a month for Tare, and the smallest of these jobs may take 2.0"
    )
    assert hold(waiting, max_live_jobs=0) == "far takes at most 0 jobs of Tare’s at once"
    now = timezone.now()
    Pause.objects.create(
        cluster=waiting.cluster, kind="limit", message="", since=now, retry_at=now + NEXT_MONTH
    )
    assert hold(waiting) == "paused, until the site takes jobs again"
    failed = {"last_error": "no route to host.", "last_error_kind": "unreachable"}
    assert hold(waiting, **failed) == (
        "the last visit to far failed (unreachable), and Tare tries again"
    )
    assert hold(waiting, last_error_kind=CONNECTION_LIMIT) == "no route to host"
    ago = timezone.now() - timedelta(hours=1)
    Experiment.objects.update(launched_at=ago)
    assert hold(waiting, last_tick_at=ago) == "a visit to far is due, and does not begin"
    assert hold(waiting, enabled=False) == "far is switched off, and nothing is sent to it"
    Experiment.objects.update(paused_at=timezone.now())
    assert hold(waiting) == "this experiment is paused, until somebody presses Continue"


def test_a_cluster_with_room_for_one_more_holds_nothing(waiting: Experiment) -> None:
    JobFactory(experiment__cluster=waiting.cluster, state="running")
    assert hold(waiting, max_live_jobs=2) == ""
    assert hold(waiting, max_live_jobs=1) == "far takes at most 1 job of Tare’s at once"


def test_what_a_person_has_paused_is_not_explained_twice(waiting: Experiment) -> None:
    (words,) = explain_waiting(waiting, {"planned": 1}, waiting.owner)
    assert words == "1 job in Tare’s own queue, to be sent at the next visit to far."
    waiting.paused_at = timezone.now()
    assert explain_waiting(waiting, {"planned": 1}, waiting.owner) == []
    assert explain_waiting(waiting, {"running": 1}, waiting.owner) == []


def test_the_reasons_of_most_jobs_in_the_queue_are_told(waiting: Experiment) -> None:
    counts = {"PENDING Priority": 1, "PENDING Resources": 3, "PENDING Dependency": 2, "": 4}
    for state, count in counts.items():
        for _ in range(count):
            JobFactory(experiment=waiting, state="queued", scheduler_state=state)
    Cluster.objects.update(scheduler="slurm")
    waiting.cluster.refresh_from_db()
    sentences = explain_waiting(waiting, {"queued": 10}, waiting.owner)
    assert [text.partition(" ")[0] for text in sentences] == ["4", "3", "2"]
    assert sentences[0] == "4 jobs in Slurm’s queue: it has not said why yet."
    assert all("Priority" not in text for text in sentences)


def test_a_single_job_in_the_queue_is_expected_to_start_itself(waiting: Experiment) -> None:
    later = timezone.now().replace(second=0, microsecond=0) + timedelta(hours=2)
    JobFactory(experiment=waiting, state="queued", expected_start_at=later)
    Cluster.objects.update(scheduler="slurm")
    waiting.cluster.refresh_from_db()
    (text,) = explain_waiting(waiting, {"queued": 1}, waiting.owner)
    assert text.endswith(f" Slurm expects to start it at {later:%Y-%m-%d %H:%M} UTC.")


def test_those_before_it_of_the_same_owner_are_named(waiting: Experiment) -> None:
    own = {"cluster": waiting.cluster, "owner": waiting.owner}
    for hours in (3, 2, 1):
        made = LaunchedFactory(
            **own,
            question=f"{hours}?",
            launched_at=waiting.launched_at - hours * timedelta(hours=1),  # type: ignore[operator]
        )
        JobFactory(experiment=made, state="planned")
    (text,) = explain_waiting(waiting, {"planned": 1}, waiting.owner)
    assert text.startswith(
        "1 job in Tare’s own queue, behind 3 jobs of the same owner (“3?” and 2 more experiments),"
    )


def test_progress_counts_runs_and_jobs_of_each_experiment(waiting: Experiment) -> None:
    ended = LaunchedFactory()
    job = JobFactory(experiment=ended, state="done")
    for state in ("succeeded", "failed", "excluded", "cancelled"):
        RunFactory(job=job, repeat=100 + job.runs.count(), state=state)
    progress = measure_progress([waiting, ended])
    assert progress[waiting.pk].tally.states == {"planned": 1}
    assert (progress[waiting.pk].tally.alive, progress[waiting.pk].has_live_jobs) == (True, False)
    tally = progress[ended.pk].tally
    assert (tally.total, tally.ended, tally.succeeded, tally.failed) == (4, 4, 1, 1)
    assert not tally.alive
    assert tally.parts == [("succeeded", 1), ("excluded", 1), ("failed", 1), ("cancelled", 1)]
    assert progress[ended.pk].status.text == "finished, 1 of 4 runs failed, 1 of 4 runs cancelled"
    job.state = "collecting"
    job.save()
    assert measure_progress([ended])[ended.pk].has_live_jobs


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"paused_at": timezone.now()}, "paused"),
        ({"cancelled_at": timezone.now()}, "being cancelled"),
        ({"launched_at": None, "plan_hash": "", "order_seed": None}, "draft"),
    ],
)
def test_what_a_person_did_is_its_state(
    columns: dict[str, Any], text: str, waiting: Experiment
) -> None:
    Experiment.objects.filter(pk=waiting.pk).update(**columns)
    row = Experiment.objects.get(pk=waiting.pk)
    assert measure_progress([row])[row.pk].status.text == text


def test_what_a_site_has_paused_is_paused(waiting: Experiment) -> None:
    assert measure_progress([waiting])[waiting.pk].status.text == "waiting"
    now = timezone.now()
    Pause.objects.create(
        cluster=waiting.cluster, kind="limit", message="", since=now, retry_at=now + NEXT_MONTH
    )
    assert measure_progress([waiting])[waiting.pk].status.text == "paused"


def test_an_imported_experiment_is_imported(waiting: Experiment) -> None:
    waiting.runs.update(state="succeeded")
    Experiment.objects.update(
        imported_at=timezone.now(),
        import_hash="0" * 64,
        design="independent",
        launched_at=None,
        plan_hash="",
        order_seed=None,
    )
    row = Experiment.objects.get(pk=waiting.pk)
    assert measure_progress([row])[row.pk].status.text == "imported"


def test_what_is_queued_while_the_rest_is_paused_says_both() -> None:
    jobs = {"planned": 1, "queued": 1}
    status = derive_status({"planned": 2}, jobs, is_paused_by_hand=True)
    assert (status.mark, status.text) == ("queued", "queued, the rest paused")
    assert derive_status({"planned": 2}, {"queued": 1}, is_paused_by_hand=True).text == "queued"
