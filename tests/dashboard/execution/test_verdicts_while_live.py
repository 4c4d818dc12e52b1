"""The verdicts on an experiment's page and the overview: no page computes what takes long."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from dashboard.execution import verdict_panel
from experiments.comparisons import keep_comparison, kept
from experiments.execution import excluded_runs
from experiments.models import Experiment, KeptComparison, Run, User
from tests.dashboard.conftest import People, Site, measured
from tests.factories import EventFactory, JobFactory, RunFactory, UserFactory

pytestmark = pytest.mark.django_db
METHOD = "experiments.comparisons.comparison_keys.identify_method"


@pytest.fixture(autouse=True)
def _nothing_remembered() -> None:
    cache.clear()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    pks: list[int] = []
    monkeypatch.setattr(kept, "enqueue_keep", pks.append)
    return pks


@pytest.fixture
def never_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(experiment: Experiment) -> Any:
        raise AssertionError("No page computes this.")

    monkeypatch.setattr(kept, "compare_experiment", refuse)


@pytest.fixture
def slow(site: Site, people: People, asked: list[int]) -> Experiment:
    """A live experiment after its first interim analysis, kept, which took two seconds."""
    made = measured(site, people.owner, repeats=10, looks=2)
    for repeat in (6, 7):
        for environment in made.environments.all():
            job = JobFactory(experiment=made, repeat=repeat)
            RunFactory(job=job, state=Run.State.RUNNING, environment=environment)
    assert keep_comparison(made.pk) == "kept"
    KeptComparison.objects.update(seconds=2.0)
    return made


def end_one(experiment: Experiment) -> None:
    run = experiment.runs.filter(state=Run.State.RUNNING).earliest("pk")
    Run.objects.filter(pk=run.pk).update(state=Run.State.FAILED)
    EventFactory(experiment=experiment, what="failed")


def read_text(client: Client, address: str, *, is_part: bool = False) -> str:
    headers = {"hx-request": "true"} if is_part else {}
    response = client.get(address, headers=headers)
    assert response.status_code == 200
    return " ".join(BeautifulSoup(response.content, "html.parser").text.split())


@pytest.mark.parametrize("is_part", [True, False])
def test_the_page_shows_what_was_computed_last_and_says_when(
    slow: Experiment, as_owner: Client, never_computed: None, is_part: bool
) -> None:
    address = slow.get_absolute_url()
    assert "Computed " not in read_text(as_owner, address, is_part=is_part)
    end_one(slow)
    text = read_text(as_owner, address, is_part=is_part)
    assert "slower than bare metal" in text
    assert "from the 10 runs that had ended; newer numbers appear when a worker" in text
    assert "Stop here and keep this verdict" in text


def test_the_comparison_is_read_only_when_it_is_another_one(
    slow: Experiment, as_owner: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, reads = slow.get_absolute_url(), []
    read_latest = verdict_panel.read_latest
    monkeypatch.setattr(
        verdict_panel,
        "read_latest",
        lambda row, inputs: reads.append(row.pk) or read_latest(row, inputs),
    )
    for _ in range(3):
        text = read_text(as_owner, address, is_part=True)
        assert "slower than bare metal" in text
        end_one(slow)
    assert reads == [slow.pk]
    KeptComparison.objects.update(seconds=0.1)
    assert keep_comparison(slow.pk) in ("kept", "put off")
    KeptComparison.objects.all().delete()
    read_text(as_owner, address, is_part=True)
    assert reads == [slow.pk] * 2


def test_names_of_people_are_not_remembered(slow: Experiment) -> None:
    """Links that hide names know those of now alone."""

    def read_verdicts() -> str:
        return verdict_panel.ShownComparison(Experiment.objects.get(pk=slow.pk)).panel.html

    person = UserFactory(username="ada.quimby")
    run = slow.runs.filter(state=Run.State.SUCCEEDED).earliest("pk")
    assert excluded_runs.exclude(run, person, "the fan was broken")
    KeptComparison.objects.all().delete()
    assert "ada.quimby" in read_verdicts()
    User.objects.filter(pk=person.pk).update(username="eve")
    assert "ada.quimby" not in read_verdicts()


@pytest.mark.parametrize("address", ["overview", "experiment", "comparison", "robustness"])
def test_after_an_upgrade_the_earlier_numbers_stand_until_a_worker_has_computed(
    address: str,
    slow: Experiment,
    as_owner: Client,
    asked: list[int],
    never_computed: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    KeptComparison.objects.update(kept_at="2026-01-01T00:00Z")
    monkeypatch.setattr(METHOD, lambda: "another version" * 8)
    asked.clear()
    path = reverse(address, args=[] if address == "overview" else [slow.pk])
    text = read_text(as_owner, path)
    assert "by an earlier version of the method" in text
    assert set(asked) == {slow.pk}


@pytest.mark.parametrize("address", ["overview", "experiment", "comparison", "robustness"])
def test_what_nobody_has_computed_yet_is_said(
    address: str,
    slow: Experiment,
    as_owner: Client,
    asked: list[int],
    never_computed: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    KeptComparison.objects.all().delete()
    monkeypatch.setattr(kept, "MANY_RUNS", 9)
    path = reverse(address, args=[] if address == "overview" else [slow.pk])
    text = read_text(as_owner, path)
    assert "being computed by a worker" in text
    assert set(asked) == {slow.pk}


def test_the_page_follows_until_the_last_numbers_are_there(
    slow: Experiment, as_owner: Client, asked: list[int]
) -> None:
    Run.objects.filter(state=Run.State.RUNNING).update(state=Run.State.FAILED)
    EventFactory(experiment=slow, what="failed")
    page = as_owner.get(slow.get_absolute_url()).content
    assert BeautifulSoup(page, "html.parser").select_one("#live")["hx-get"]  # type: ignore[index]
    KeptComparison.objects.update(kept_at="2026-01-01T00:00Z")
    assert keep_comparison(slow.pk) == "kept"
    page = as_owner.get(slow.get_absolute_url()).content
    assert not BeautifulSoup(page, "html.parser").select_one("#live").has_attr("hx-get")  # type: ignore[union-attr]
