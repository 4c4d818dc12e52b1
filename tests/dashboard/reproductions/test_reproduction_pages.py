"""The page on which an experiment is done again, and the section that says what came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.access.anonymity import build_anonymity
from experiments.models import Cluster, Environment, Experiment, Role, StagedImage
from experiments.reproductions.reproduction_drafts import make_draft
from tests.dashboard.access.test_links import visitor
from tests.dashboard.conftest import People, fetch
from tests.experiments.reproductions.test_done_again import Study, add_blocks, freeze
from tests.factories import LaunchedFactory, UserFactory, link_to

pytestmark = pytest.mark.django_db


@pytest.fixture
def study(people: People) -> Study:
    """A study of the administrator's that everybody who can log in may view."""
    made = Study()
    Experiment.objects.filter(pk=made.source.pk).update(owner=people.admin)
    made.owner = people.admin
    made.source.refresh_from_db()
    return made


@pytest.fixture
def as_admin(people: People) -> Client:
    return people.client("admin")


def press(client: Client, study: Study, action: str, cluster: Cluster | None = None) -> Any:
    """Open the page, and press one of its buttons as a browser does."""
    address = reverse("reproduce", args=[study.source.pk])
    answer = client.get(address, {"cluster": (cluster or study.cluster).pk})
    form = BeautifulSoup(answer.content, "html.parser").select_one("form.panel[method=post]")
    assert form
    sent = {str(each["name"]): each["value"] for each in form.select("input[name]:not([disabled])")}
    return client.post(address, sent | {"action": action}, follow=True)


def reproduce(study: Study) -> Experiment:
    """Return a reproduction with results: the same effect."""
    again = make_draft(study.propose(), study.owner)
    freeze(again)
    add_blocks(study.source, 1.1)
    add_blocks(again, 1.1, phase=2)
    return again


def test_it_launches_the_same_plan_and_both_name_each_other(as_admin: Client, study: Study) -> None:
    page = press(as_admin, study, "launch").content.decode()
    made = Experiment.objects.filter(reproduces=study.source).first()
    assert made, BeautifulSoup(page, "html.parser").main.get_text(" ", strip=True)
    assert made.launched_at
    assert made.order_seed != study.source.order_seed
    assert "Launched with the same plan and a new order." in page
    for row, other, words in (
        (made, study.source, "reproduces"),
        (study.source, made, "reproduced by"),
    ):
        text = fetch(as_admin, row.get_absolute_url()).decode()
        facts = BeautifulSoup(text, "html.parser").select_one(".head .facts")
        assert facts
        assert words in facts.get_text()
        assert facts.select_one(f'a[href="{other.get_absolute_url()}"]')


def test_pressed_twice_it_launches_once(as_admin: Client, study: Study) -> None:
    press(as_admin, study, "launch")
    assert "pressed twice" in press(as_admin, study, "launch").content.decode()
    assert Experiment.objects.filter(reproduces=study.source).count() == 1


def test_what_cannot_be_the_same_stands_on_the_page_before_the_launch(
    as_admin: Client, study: Study
) -> None:
    second = study.second_cluster()
    StagedImage.objects.create(
        image=study.image, cluster=second, format="sandbox", path="/images/x.sandbox"
    )
    address = reverse("reproduce", args=[study.source.pk])
    page = as_admin.get(address, {"cluster": second.pk}).content.decode()
    assert "It runs on second, and not on first." in page
    assert "the image is staged as sandbox, and was sif" in page
    press(as_admin, study, "draft", second)
    made = Experiment.objects.get(reproduces=study.source)
    assert (made.is_draft, made.cluster) == (True, second)


def test_a_list_that_has_changed_meanwhile_is_shown_again(as_admin: Client, study: Study) -> None:
    address = reverse("reproduce", args=[study.source.pk])
    sent = {"cluster": study.cluster.pk, "seen": "0" * 64, "action": "launch"}
    page = as_admin.post(address, sent).content.decode()
    assert "has changed since this page was opened" in page
    assert not Experiment.objects.filter(reproduces=study.source).exists()


def test_what_forbids_it_is_said_and_there_is_no_button(as_admin: Client, study: Study) -> None:
    second = study.second_cluster(runtime="udocker")
    address = reverse("reproduce", args=[study.source.pk])
    page = as_admin.get(address, {"cluster": second.pk}).content.decode()
    assert "which second does not have. Add the" in page
    assert 'value="launch"' not in page
    page = press(as_admin, study, "launch", second).content.decode()
    assert "No draft was made." in page
    assert not Experiment.objects.filter(reproduces=study.source).exists()


def test_images_are_prepared_by_a_button(as_admin: Client, study: Study) -> None:
    study.image.reference = "registry.example.org/lab/tf:2.21"
    study.image.save()
    page = press(as_admin, study, "prepare", study.second_cluster()).content.decode()
    assert f"registry.example.org/lab/tf@{study.image.digest} is being fetched." in page
    assert 'value="prepare"' not in page
    assert "under way" in page


@pytest.mark.parametrize(
    "odd",
    [
        {"cluster": "x"},
        {"cluster": "99999999999999999999"},
        {"cluster": "²"},
        {"partition": "-1"},
        {"environment-1": "new", "environment-2": "x" * 5000},
    ],
)
def test_odd_input_opens_the_page(as_admin: Client, study: Study, odd: dict[str, str]) -> None:
    fetch(as_admin, reverse("reproduce", args=[study.source.pk]), data=odd)


def test_what_has_no_plan_says_so(as_admin: Client, people: People) -> None:
    row = LaunchedFactory(owner=people.admin)
    answer = as_admin.get(reverse("reproduce", args=[row.pk]), follow=True)
    assert "It cannot be reproduced. It has no frozen plan" in answer.content.decode()


def test_who_may_not_launch_or_not_view_it_is_refused(study: Study) -> None:
    address = reverse("reproduce", args=[study.source.pk])
    viewer, client = UserFactory(role=Role.VIEWER), Client()
    client.force_login(viewer)
    assert client.get(address).status_code == 403
    Experiment.objects.filter(pk=study.source.pk).update(visibility="private")
    client.force_login(UserFactory(role=Role.RESEARCHER))
    assert client.get(address).status_code == 404


def test_somebody_without_a_cluster_is_told(study: Study) -> None:
    Cluster.objects.update(enabled=False)
    client = Client()
    client.force_login(UserFactory(role=Role.RESEARCHER))
    page = client.get(reverse("reproduce", args=[study.source.pk])).content.decode()
    assert "No cluster to run on" in page
    assert not Environment.objects.exclude(pk__in=[study.bare.pk, study.box.pk]).exists()


def test_the_verdict_stands_on_the_page_of_the_comparison(as_admin: Client, study: Study) -> None:
    again = reproduce(study)
    address = reverse("comparison", args=[again.pk])
    page = fetch(as_admin, address, data={"section": "reproduction"}).decode()
    section = BeautifulSoup(page, "html.parser").select_one("#section #reproduction")
    assert section
    assert [each.get_text() for each in section.select(".verdict")] == [
        "REPRODUCED",
        "REPRODUCED",
        "SLOWER",
        "SLOWER",
    ]
    assert "The only comparison is reproduced." in section.get_text()
    assert section.select_one(f'a[href="{study.source.get_absolute_url()}"]')
    # An experiment that reproduces nothing has no such section.
    other = fetch(as_admin, reverse("comparison", args=[study.source.pk])).decode()
    assert "section=reproduction" not in other


def test_the_file_has_every_line(as_admin: Client, study: Study) -> None:
    again = reproduce(study)
    content = json.loads(fetch(as_admin, reverse("comparison_json", args=[again.pk])))
    (line,) = content["reproduction"]
    assert line["outcome"] == "REPRODUCED"
    assert (line["first_verdict"], line["again_verdict"]) == ("SLOWER", "SLOWER")
    assert line["difference_ci90_low"] < 1 < line["difference_ci90_high"]
    assert content["reproduction_overall"][0]["outcome"] == "REPRODUCED"


def test_a_link_to_a_reproduction_opens_no_number_of_the_first_study(study: Study) -> None:
    again = reproduce(study)
    Experiment.objects.update(visibility="public")
    client = visitor(link_to(again))
    page = fetch(client, reverse("comparison", args=[again.pk]), data={"section": "reproduction"})
    assert "you may not view it" in page.decode()
    content = json.loads(fetch(client, reverse("comparison_json", args=[again.pk])))
    assert not content.get("reproduction")


def test_who_may_not_view_the_first_study_reads_no_number_of_it(
    people: People, study: Study
) -> None:
    again = reproduce(study)
    Experiment.objects.filter(pk=study.source.pk).update(visibility="private")
    client = people.client("other")
    page = fetch(
        client, reverse("comparison", args=[again.pk]), data={"section": "reproduction"}
    ).decode()
    assert "you may not view it" in page
    assert study.source.get_absolute_url() not in page
    content = json.loads(fetch(client, reverse("comparison_json", args=[again.pk])))
    assert not content.get("reproduction")
    facts = fetch(client, again.get_absolute_url()).decode()
    assert study.source.get_absolute_url() not in facts


def test_a_link_that_hides_names_hides_the_machines_of_both_studies(study: Study) -> None:
    again = make_draft(study.propose(), study.owner)
    second = study.second_cluster()
    Experiment.objects.filter(pk=again.pk).update(cluster=second)
    Cluster.objects.filter(pk=study.cluster.pk).update(name="renamed")
    for row in (again, study.source):
        hide = build_anonymity([Experiment.objects.get(pk=row.pk)]).hide
        text = hide("It runs on second, and not on first, which is renamed.")
        assert [name for name in ("second", "first", "renamed") if name in text] == []
        assert text.startswith("It runs on cluster-")
    assert "first.example.org" not in build_anonymity([again]).hide("on first.example.org")
