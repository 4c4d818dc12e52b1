"""What pages say while a site takes no jobs, and how old its last contact is."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from experiments import notify
from experiments.models import Cluster, Experiment, Job, Pause
from experiments.models.cluster import IDLE_SECONDS
from tests.dashboard.conftest import People
from tests.factories import (
    ClusterFactory,
    JobFactory,
    LaunchedFactory,
    PartitionFactory,
    RunFactory,
)

pytestmark = pytest.mark.django_db

WORDS = "sbatch: error: Required partition not available (inactive or drain) <b>"


@pytest.fixture
def waiting(people: People) -> Experiment:
    """An experiment none of whose jobs has been sent."""
    cluster = ClusterFactory(last_seen_at=timezone.now(), last_tick_at=timezone.now())
    made: Experiment = LaunchedFactory(
        owner=people.owner, cluster=cluster, partition=PartitionFactory(cluster=cluster, name="gpu")
    )
    for repeat in (1, 2):
        job = JobFactory(experiment=made, repeat=repeat, state=Job.State.PLANNED)
        RunFactory(job=job, environment=made.baseline, state="planned")
    return made


def pause(of: Experiment, **columns: Any) -> Pause:
    later = timezone.now() + timedelta(minutes=5)
    return Pause.objects.create(
        **{
            "cluster": of.cluster,
            "kind": "partition",
            "message": WORDS,
            "since": timezone.now(),
            "failures": 4,
            "retry_at": later,
        }
        | columns
    )


def text(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200
    return " ".join(BeautifulSoup(answer.content, "html.parser").get_text(" ").split())


def test_what_is_paused_is_said_wherever_people_look(waiting: Experiment, as_owner: Client) -> None:
    pause(waiting, partition=waiting.partition)
    page = text(as_owner, waiting.get_absolute_url())
    assert "Paused, partition : no jobs are sent to partition gpu" in page
    assert "2 jobs wait; nothing is lost" in page
    assert WORDS in page
    assert "2 jobs in Tare’s own queue: paused, until the site takes jobs again." in page
    cluster = text(as_owner, reverse("cluster", args=[waiting.cluster_id]))
    assert WORDS in cluster
    assert "paused, partition gpu" in cluster
    for name in ("overview", "experiments", "clusters"):
        assert "paused" in text(as_owner, reverse(name)), name
    assert "finished" not in text(as_owner, reverse("overview"))


def test_a_pause_of_others_is_none_of_an_experiments(waiting: Experiment, as_owner: Client) -> None:
    pause(waiting, partition=PartitionFactory(cluster=waiting.cluster, name="other"))
    assert "Paused" not in text(as_owner, waiting.get_absolute_url())
    assert "paused" not in text(as_owner, reverse("experiments"))


def test_what_only_an_experiment_of_somebody_elses_meets_is_not_shown(
    waiting: Experiment, people: People
) -> None:
    Experiment.objects.filter(pk=waiting.pk).update(visibility="owner")
    pause(waiting, experiment=waiting)
    address = reverse("cluster", args=[waiting.cluster_id])
    assert WORDS not in text(people.client("other"), address)
    assert WORDS in text(people.client("owner"), address)


@pytest.mark.parametrize("here", ["experiment", "cluster"])
def test_a_person_has_it_tried_again_at_once(
    waiting: Experiment,
    as_owner: Client,
    here: str,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:
    row = pause(waiting)
    rung: list[int] = []
    monkeypatch.setattr(notify, "enqueue", lambda task, pk, **more: rung.append(pk))
    back = waiting.get_absolute_url()
    if here == "cluster":
        back = reverse("cluster", args=[waiting.cluster_id])
    form = {"experiment": waiting.pk} if here == "experiment" else {}
    with django_capture_on_commit_callbacks(execute=True):
        answer = as_owner.post(reverse("pause_try", args=[row.pk]), form)
    assert answer["Location"] == back
    row.refresh_from_db()
    assert row.retry_at <= timezone.now()
    assert rung == [waiting.cluster_id]


@pytest.mark.parametrize("odd", ["x", "9" * 5000, "-1", "٣"])
def test_an_odd_address_to_go_back_to_is_none(
    waiting: Experiment, as_owner: Client, odd: str
) -> None:
    answer = as_owner.post(reverse("pause_try", args=[pause(waiting).pk]), {"experiment": odd})
    assert answer.status_code == 302


def test_who_may_not_send_jobs_there_does_not_try(waiting: Experiment, people: People) -> None:
    Cluster.objects.update(enabled=False)
    row = pause(waiting)
    assert people.client("other").post(reverse("pause_try", args=[row.pk])).status_code == 403
    assert people.client("anonymous").get(reverse("pause_try", args=[row.pk])).status_code == 302


def test_one_button_tries_all_that_were_refused(waiting: Experiment, as_owner: Client) -> None:
    waiting.jobs.update(state="failed", reason="refused", submitted_at=None)
    waiting.runs.update(state="failed", reason="not submitted", ended_at=timezone.now())
    assert "Send 2 jobs again that were refused" in text(as_owner, waiting.get_absolute_url())
    as_owner.post(reverse("experiment_retry_unsent", args=[waiting.pk]))
    assert set(waiting.jobs.values_list("state", "attempt")) == {("planned", 2)}
    assert "Send 2 jobs" not in text(as_owner, waiting.get_absolute_url())


def test_only_its_owner_tries_them(waiting: Experiment, people: People) -> None:
    address = reverse("experiment_retry_unsent", args=[waiting.pk])
    assert people.client("other").post(address).status_code == 403


class TestContact:
    """A cluster is reachable as long as it was reached lately, not as long as nobody complains."""

    @pytest.mark.parametrize(
        ("columns", "words"),
        [
            ({"last_seen_at": None}, "never reached"),
            ({"last_seen_at": timedelta(seconds=20)}, r"reachable , \d+ s ago"),
            ({"last_seen_at": timedelta(minutes=5)}, "last reached 5 min ago"),
            (
                {
                    "last_seen_at": timedelta(minutes=5),
                    "last_error": "Nobody listens",
                    "last_error_kind": "unreachable",
                },
                "unreachable , last reached 5 min ago",
            ),
            (
                {"last_error": "Nobody listens", "last_error_kind": "unreachable"},
                "unreachable , never reached",
            ),
        ],
    )
    def test_is_told_with_its_age(
        self, as_owner: Client, columns: dict[str, Any], words: str
    ) -> None:
        if ago := columns.get("last_seen_at"):
            columns = columns | {"last_seen_at": timezone.now() - ago}
        row = ClusterFactory(**columns)
        for address in (reverse("overview"), reverse("cluster", args=[row.pk])):
            page = text(as_owner, address)
            assert re.search(words, page), page
            assert "answers" not in page.replace("answers with a verdict", "")

    def test_is_recent_for_two_visits(self) -> None:
        now = timezone.now()
        seldom = ClusterFactory(poll_seconds=600, last_seen_at=now - timedelta(seconds=1100))
        often = ClusterFactory(
            poll_seconds=1, last_seen_at=now - timedelta(seconds=2 * IDLE_SECONDS + 5)
        )
        assert (seldom.contact, often.contact) == ("recent", "old")


def test_lists_do_not_ask_for_each_cluster(
    as_owner: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(20):
        cluster = ClusterFactory(last_seen_at=timezone.now(), last_tick_at=timezone.now())
        Pause.objects.create(
            cluster=cluster,
            partition=PartitionFactory(cluster=cluster),
            kind="limit",
            since=timezone.now(),
            retry_at=timezone.now(),
        )
    for name in ("overview", "clusters"):
        with django_assert_max_num_queries(20):
            as_owner.get(reverse(name))


def test_lists_name_what_is_paused_and_what_tare_could_not_handle(
    waiting: Experiment, as_owner: Client
) -> None:
    pause(waiting)
    Cluster.objects.update(
        own_failure="job 1234abcd: Tare itself failed, under reference 5fe1.",
        own_failure_details="KeyError: 'time' (reference 5fe1)",
        own_failed_at=timezone.now(),
    )
    for address in (reverse("overview"), reverse("clusters")):
        page = text(as_owner, address)
        assert "Job 1234abcd: Tare itself failed, under reference 5fe1." in page
        assert f"no jobs are sent to {waiting.cluster}" in page
        assert WORDS in page
        assert "KeyError" not in page


@pytest.mark.parametrize(("who", "reads"), [("other", False), ("admin", True)])
@pytest.mark.parametrize("ends_the_visit", [False, True])
def test_only_administrators_read_the_text_of_an_exception(
    waiting: Experiment, people: People, who: str, reads: bool, ends_the_visit: bool
) -> None:
    failed = "Tare itself failed, under reference 5fe1."
    Cluster.objects.update(
        own_failure="" if ends_the_visit else failed,
        last_error=failed if ends_the_visit else "",
        own_failure_details="KeyError: 'time' (reference 5fe1)",
        own_failed_at=timezone.now(),
    )
    page = text(people.client(who), reverse("cluster", args=[waiting.cluster.pk]))
    assert failed in page
    assert ("KeyError" in page) is reads


def test_a_cluster_that_is_being_set_up_is_not_called_reachable(
    waiting: Experiment, as_owner: Client
) -> None:
    Cluster.objects.update(preparing="Starting the cluster of this machine")
    for address in (reverse("overview"), reverse("clusters")):
        page = text(as_owner, address)
        assert "being set up" in page
        assert "reachable" not in page
