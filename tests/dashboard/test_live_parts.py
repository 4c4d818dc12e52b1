"""Live parts of pages, which are fetched every few seconds and rarely have changed."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, Site, measured
from tests.factories import JobFactory, RunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def alive(site: Site, people: People) -> Experiment:
    """An experiment with a run under way."""
    experiment = measured(site, people.owner, blocks=1)
    RunFactory(job=JobFactory(experiment=experiment, repeat=2), state=Run.State.RUNNING)
    return experiment


def test_what_is_shown_already_is_not_sent_again(alive: Experiment, as_owner: Client) -> None:
    address = alive.get_absolute_url()
    first = as_owner.get(address, headers={"HX-Request": "true"})
    shown = {"HX-Request": "true", "X-Shown": first["X-Shown"]}
    assert b"csrfmiddlewaretoken" in first.content, "which differs each time"
    again = as_owner.get(address, headers=shown)
    assert (again.status_code, again.content) == (204, b"")
    alive.runs.update(state=Run.State.FAILED, reason="lost")
    assert as_owner.get(address, headers=shown).status_code == 200


def test_pages_and_other_answers_are_left_alone(alive: Experiment, as_owner: Client) -> None:
    assert "X-Shown" not in as_owner.get(alive.get_absolute_url())
    missing = as_owner.get("/experiments/999999/", headers={"HX-Request": "true"})
    assert missing.status_code == 404
    assert "X-Shown" not in missing
    posted = as_owner.post(
        reverse("experiment_pause", args=[alive.pk]), headers={"HX-Request": "true"}
    )
    assert posted.status_code == 302


@pytest.mark.parametrize("shown", ["", "null", "x" * 5_000, "\xff"])
def test_an_odd_header_is_no_digest(alive: Experiment, as_owner: Client, shown: str) -> None:
    headers = {"HX-Request": "true", "X-Shown": shown}
    assert as_owner.get(alive.get_absolute_url(), headers=headers).status_code == 200
