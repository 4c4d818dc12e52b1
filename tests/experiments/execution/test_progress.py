"""An experiment's state is what its runs and jobs add up to."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from experiments.execution.progress import (
    Status,
    WaitingReason,
    derive_status,
    explain_waiting,
    measure_progress,
)
from experiments.models import Cluster, Experiment, Job, Run
from tests.factories import JobFactory, LaunchedFactory, OperationFactory, RunFactory, UserFactory

COUNTS = st.integers(0, 50)


@pytest.mark.parametrize(
    ("runs", "jobs", "status"),
    [
        ({"planned": 4}, {"planned": 2}, Status("planned", "waiting")),
        ({"planned": 4}, {"planned": 1, "submitting": 1}, Status("queued", "queued")),
        ({"planned": 4}, {"planned": 1, "queued": 1}, Status("queued", "queued")),
        ({"planned": 4}, {"queued": 1, "running": 1}, Status("running", "running")),
        ({"planned": 1, "running": 1}, {"running": 1}, Status("running", "running")),
        ({"planned": 2, "succeeded": 2}, {"collecting": 1}, Status("running", "running")),
        ({"planned": 2, "succeeded": 2}, {"done": 1, "queued": 1}, Status("queued", "queued")),
        ({"succeeded": 4}, {"done": 2}, Status("done", "finished")),
        ({"succeeded": 3, "excluded": 1}, {"done": 2}, Status("done", "finished")),
        ({"failed": 40}, {"failed": 20}, Status("failed", "failed")),
        ({"failed": 40}, {"done": 20}, Status("failed", "failed")),
        (
            {"succeeded": 37, "failed": 3},
            {"done": 20},
            Status("incomplete", "finished, 3 of 40 runs failed"),
        ),
        (
            {"succeeded": 2, "failed": 1, "cancelled": 1},
            {"done": 2},
            Status("incomplete", "finished, 1 of 4 runs failed, 1 of 4 runs cancelled"),
        ),
        ({"failed": 1, "cancelled": 1}, {"done": 1}, Status("failed", "failed")),
        ({"cancelled": 2}, {"cancelled": 1}, Status("cancelled", "cancelled")),
    ],
)
def test_a_state_is_what_happens_now(
    runs: dict[str, int], jobs: dict[str, int], status: Status
) -> None:
    assert derive_status(runs, jobs) == status


def test_people_decide_over_counts() -> None:
    alive, ended = {"planned": 1}, {"failed": 1}
    assert derive_status({}, {}, is_draft=True).text == "draft"
    assert derive_status(alive, {"planned": 1}, is_cancelled=True).text == "being cancelled"
    assert derive_status(ended, {"failed": 1}, is_cancelled=True).text == "cancelled"
    assert derive_status(alive, {"planned": 1}, is_paused=True).text == "paused"
    by_hand = {"is_paused_by_hand": True}
    assert derive_status(alive, {"planned": 1}, **by_hand).text == "paused"
    some_sent = derive_status({"running": 1, "planned": 1}, {"running": 1, "planned": 1}, **by_hand)
    assert some_sent == Status("running", "running, the rest paused")
    assert derive_status({"running": 1}, {"running": 1}, **by_hand).text == "running"
    assert derive_status({"succeeded": 2}, {"done": 2}, is_imported=True).text == "imported"
    some = derive_status({"succeeded": 1, "failed": 1}, {"done": 2}, is_imported=True)
    assert some.text == "imported, 1 of 2 runs failed"


@given(
    st.dictionaries(st.sampled_from([str(state) for state in Run.State]), COUNTS),
    st.dictionaries(st.sampled_from([str(state) for state in Job.State]), COUNTS),
)
def test_nothing_is_green_without_a_result_and_nothing_runs_that_has_not_begun(
    runs: dict[str, int], jobs: dict[str, int]
) -> None:
    status = derive_status(runs, jobs)
    succeeded = runs.get("succeeded", 0) + runs.get("excluded", 0)
    if sum(runs.values()) and not succeeded:
        assert status.mark != "done"
    if runs.get("failed", 0):
        assert status.mark != "done"
    if status.text == "running":
        assert runs.get("running", 0) + jobs.get("running", 0) + jobs.get("collecting", 0)


@pytest.fixture
def waiting(db: None) -> Experiment:
    """Two jobs planned and one queued, each with a run."""
    experiment: Experiment = LaunchedFactory(cluster__last_tick_at=timezone.now())
    for repeat, state in enumerate(("planned", "planned", "queued"), start=1):
        job = JobFactory(experiment=experiment, repeat=repeat, state=state)
        RunFactory(job=job, state=Run.State.PLANNED)
    experiment.jobs.filter(state="queued").update(scheduler_state="PENDING Priority")
    return experiment


def test_progress_needs_two_queries_and_no_plan(waiting: Experiment) -> None:
    for _ in range(3):
        RunFactory(job=JobFactory(experiment=LaunchedFactory()), state=Run.State.SUCCEEDED)
    rows = list(Experiment.objects.without_plan())
    with CaptureQueriesContext(
        connection,
    ) as captured:
        found = measure_progress(rows)
    assert len(captured) == 2
    assert not any("plan" in query["sql"].replace("'planned'", "") for query in captured)
    assert Counter(one.status.text for one in found.values()) == {"queued": 1, "finished": 3}
    assert found[waiting.pk].jobs == {"planned": 2, "queued": 1}


def test_waiting_is_explained_by_the_schedulers_reason_and_the_limit(waiting: Experiment) -> None:
    jobs = measure_progress([waiting])[waiting.pk].jobs
    cluster = waiting.cluster
    Cluster.objects.filter(pk=cluster.pk).update(max_live_jobs=1, scheduler="slurm")
    cluster.refresh_from_db()
    own, slurm = explain_waiting(waiting, jobs, waiting.owner)
    assert own == f"2 jobs in Tare’s own queue: {cluster} takes at most 1 job of Tare’s at once."
    assert slurm == "1 job in Slurm’s queue: jobs of higher priority go first (Priority)."


def test_the_first_expected_start_is_named_while_it_lies_ahead(waiting: Experiment) -> None:
    Cluster.objects.filter(pk=waiting.cluster_id).update(scheduler="slurm")
    waiting.cluster.refresh_from_db()
    job = JobFactory(
        experiment=waiting, repeat=4, state="queued", scheduler_state="PENDING Priority"
    )
    later, past = datetime(2999, 1, 2, 3, 4, tzinfo=UTC), timezone.now() - timedelta(minutes=1)
    jobs = measure_progress([waiting])[waiting.pk].jobs

    def explain(*expected: datetime | None) -> str:
        for row, start in zip((job, waiting.jobs.get(repeat=3)), expected, strict=True):
            Job.objects.filter(pk=row.pk).update(expected_start_at=start)
        return explain_waiting(waiting, jobs, waiting.owner)[-1].partition("(Priority).")[2]

    assert explain(None, None) == ""
    assert explain(past, past) == ""
    named = " Slurm expects to start the first of them at 2999-01-02 03:04 UTC."
    assert explain(later, past) == named
    assert explain(later, later + timedelta(hours=1)) == named


def test_the_place_in_tares_queue_is_behind_what_its_owner_launched_before(
    waiting: Experiment,
) -> None:
    hour = timedelta(hours=1)
    own = {"cluster": waiting.cluster, "owner": waiting.owner}
    earlier = LaunchedFactory(**own, launched_at=waiting.launched_at - hour)
    later = LaunchedFactory(**own, launched_at=timezone.now())
    another = LaunchedFactory(cluster=waiting.cluster, launched_at=waiting.launched_at - hour)
    for repeat in (1, 2, 3):
        JobFactory(experiment=earlier, repeat=repeat, state="planned")
    JobFactory(experiment=later, state="planned")
    JobFactory(experiment=another, state="planned")
    (words,) = explain_waiting(waiting, {"planned": 2}, waiting.owner)
    assert words.startswith(
        f"2 jobs in Tare’s own queue, behind 3 jobs of the same owner (“{earlier.question}”), in"
        " turns with 1 job of other people"
    )
    assert words.endswith(f"to be sent at the next visit to {waiting.cluster}.")
    assert words.before == earlier.pk, "the page links to it"
    first = LaunchedFactory(**own, launched_at=waiting.launched_at - 2 * hour)
    JobFactory(experiment=first, state="planned")
    (words,) = explain_waiting(waiting, {"planned": 2}, waiting.owner)
    assert f"behind 4 jobs of the same owner (“{first.question}” and 1 more experiment)," in words
    Experiment.objects.filter(pk=first.pk).update(paused_at=timezone.now())
    (words,) = explain_waiting(waiting, {"planned": 2}, waiting.owner)
    assert f"behind 3 jobs of the same owner (“{earlier.question}”)," in words


def test_the_question_of_an_earlier_experiment_is_told_to_its_readers_only(
    waiting: Experiment,
) -> None:
    hour = timedelta(hours=1)
    own = {"cluster": waiting.cluster, "owner": waiting.owner}
    hidden = LaunchedFactory(
        **own, question="Secret?", visibility="private", launched_at=waiting.launched_at - 2 * hour
    )
    JobFactory(experiment=hidden, state="planned")
    colleague, visitor = UserFactory(), AnonymousUser()

    def explain(reader: Any) -> WaitingReason:
        (words,) = explain_waiting(waiting, {"planned": 2}, reader)
        return words

    assert "behind 1 job of the same owner (“Secret?”)," in explain(waiting.owner)
    for reader in (colleague, visitor):
        assert "behind 1 job of the same owner, to be sent" in explain(reader)
        assert explain(reader).before is None
    shared = LaunchedFactory(**own, visibility="members", launched_at=waiting.launched_at - hour)
    JobFactory(experiment=shared, state="planned")
    named = f"behind 2 jobs of the same owner (“{shared.question}” and 1 more experiment),"
    assert named in explain(colleague)
    assert "behind 2 jobs of the same owner, to be sent" in explain(visitor)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"enabled": False}, "is switched off, and nothing is sent to it"),
        (
            {"last_error": "no route to host", "last_error_kind": "unreachable"},
            " failed (unreachable), and Tare tries again",
        ),
        (
            {"last_error": "Slurm does not answer: no contact", "last_error_kind": "busy"},
            " failed (no usable answer), and Tare tries again",
        ),
    ],
)
def test_a_cluster_that_takes_nothing_says_why(
    columns: dict[str, object], words: str, waiting: Experiment
) -> None:
    for name, value in columns.items():
        setattr(waiting.cluster, name, value)
    assert words in explain_waiting(waiting, {"planned": 2}, waiting.owner)[0]


def test_work_on_images_counts_against_the_limit(waiting: Experiment) -> None:
    waiting.jobs.filter(state="queued").delete()
    waiting.cluster.max_live_jobs = 1
    assert "next visit" in explain_waiting(waiting, {"planned": 2}, waiting.owner)[0]
    OperationFactory(
        staged_image__cluster=waiting.cluster, cluster=waiting.cluster, state="running"
    )
    assert "takes at most 1 job" in explain_waiting(waiting, {"planned": 2}, waiting.owner)[0]
