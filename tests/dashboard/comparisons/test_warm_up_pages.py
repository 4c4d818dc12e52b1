"""The warm-up on pages: asked for in the form, shown on runs and comparisons, told in methods."""

from __future__ import annotations

import html
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.execution.matrix import build_matrix
from experiments.execution import lifecycle
from experiments.models import Experiment, Run
from tests.dashboard.conftest import People, Site, show_all_sections
from tests.dashboard.planning.test_form import NEW, asked, problems
from tests.starts import FOUND, Made, started, steps

pytestmark = pytest.mark.django_db


def text(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def test_the_form_offers_both_and_suggests_the_fixed_warm_up(as_owner: Client, site: Site) -> None:
    page = text(as_owner.get(NEW))
    assert 'name="warm_up" value="fixed"' in page
    assert 'name="warm_up" value="found"' in page
    as_owner.post(NEW, asked(site) | {"action": "save"})
    assert Experiment.objects.get().warm_up == "fixed"


def test_the_choice_is_frozen_and_hashed_with_the_plan(
    as_owner: Client, site: Site, people: People
) -> None:
    hashes = set()
    for warm_up in ("fixed", "found"):
        as_owner.post(NEW, asked(site, warm_up=warm_up) | {"action": "save"})
        draft = Experiment.objects.latest("pk")
        lifecycle.launch(draft, people.owner)
        draft.refresh_from_db()
        assert draft.plan["warm_up"] == warm_up
        hashes.add(draft.plan_hash)
        page = text(as_owner.get(f"{draft.get_absolute_url()}?tab=plan"))
        assert draft.get_warm_up_display() in page
    assert len(hashes) == 2


def test_too_few_steps_to_find_a_warm_up_are_refused_at_the_field(
    as_owner: Client, site: Site
) -> None:
    site.workload.parameters = {"steps": 199}
    site.workload.save()
    assert problems(as_owner, site, warm_up="found") == {
        "warm_up": ["blas small has 199 steps; where it settles can be found from 200 on."]
    }


def test_a_clone_keeps_the_choice(as_owner: Client, people: People) -> None:
    source = Made(owner=people.owner, **FOUND).experiment
    as_owner.post(reverse("experiment_clone", args=[source.pk]))
    assert Experiment.objects.latest("pk").warm_up == "found"


def test_the_comparison_says_what_the_fixed_warm_up_leaves(
    as_owner: Client, people: People
) -> None:
    made = started(owner=people.owner)
    made.add(steps(0.02), steps(0.0202, throttled_from=250))
    page = text(as_owner.get(show_all_sections(reverse("comparison", args=[made.experiment.pk]))))
    assert "What is compared is the mean after the fixed warm-up of 10 steps." in page
    assert "5 warm-up, 1 no steady state" in page
    assert "+4.87 %" in page
    assert "1 of 12 runs never settle" in page
    assert "NO STEADY STATE" in page


def test_methods_in_the_paper_name_the_cut(as_owner: Client, people: People) -> None:
    made = started(owner=people.owner, **FOUND)
    paper = text(as_owner.get(reverse("comparison_tex", args=[made.experiment.pk])))
    assert "the mean of all steps after the first 60" in paper
    assert "without regard to its environment" in paper


def test_a_runs_page_says_how_it_starts(as_owner: Client, people: People) -> None:
    made = started(owner=people.owner)
    run = Run.objects.get(experiment=made.experiment, repeat=1, environment=made.box)
    page = text(as_owner.get(run.get_absolute_url()))
    assert "Warm-up: the first 40 steps are slower; steady from there." in page
    assert "The fixed warm-up of 10 steps leaves +3.8" in page


def test_the_strips_of_an_experiment_show_the_values_that_are_compared(people: People) -> None:
    made = started(owner=people.owner, **FOUND)
    made.add(steps(0.02), steps(0.0202, throttled_from=250))
    (row,) = build_matrix(made.experiment).rows
    for cell in row.cells:
        assert sorted(cell.values) == sorted(made.values(cell.environment))
