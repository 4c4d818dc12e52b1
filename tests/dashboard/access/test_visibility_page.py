"""The page that says who may read something, and the forms that say it from the start."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from experiments.models import AuditEntry, Experiment, Image, PublishedTable, Workload
from tests.dashboard.conftest import People, Site
from tests.factories import TABLE, ImageFactory, PublishedTableFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(people: People) -> Group:
    made = Group.objects.create(name="neurophysics")
    made.user_set.add(people.owner)
    return made


def address(kind: str, row: Any) -> str:
    return reverse("visibility", args=[kind, row.pk])


def test_an_owner_shares_with_a_group(
    results: Experiment, as_owner: Client, people: People, group: Group
) -> None:
    sent = {"visibility": "groups", "groups": [group.pk]}
    answer = as_owner.post(address("experiment", results), sent, follow=True)
    assert "Visibility of What does it cost?: group neurophysics." in answer.content.decode()
    assert people.client("other").get(results.get_absolute_url()).status_code == 404
    group.user_set.add(people.other)
    assert people.client("other").get(results.get_absolute_url()).status_code == 200
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.kind) == (people.owner, "experiment")
    assert entry.changes == {
        "groups": [[], ["neurophysics"]],
        "visibility": ["members", "groups"],
    }
    event = results.events.latest("pk")
    assert (event.what, event.why) == ("visibility changed", "group neurophysics")


def test_events_of_before_a_renaming_show_with_the_words_of_today(
    results: Experiment, as_owner: Client
) -> None:
    results.events.create(what="readers changed", why="only me")
    results.events.create(what="stopped at look 1 of 2")
    page = as_owner.get(f"{results.get_absolute_url()}?tab=events").content.decode()
    assert "visibility changed" in page
    assert "readers changed" not in page
    assert "stopped at interim analysis 1 of 2" in page


def test_sharing_with_groups_names_one(results: Experiment, as_owner: Client, group: Group) -> None:
    Group.objects.create(name="elsewhere")
    elsewhere = Group.objects.get(name="elsewhere")
    for sent, words in (
        ({}, "Which groups? Choose one"),
        ({"groups": [elsewhere.pk]}, "Select a valid choice"),
    ):
        answer = as_owner.post(address("experiment", results), {"visibility": "groups"} | sent)
        assert words in answer.content.decode()
    results.refresh_from_db()
    assert results.visibility == "members"


def test_without_a_group_there_is_none_to_choose(results: Experiment, as_owner: Client) -> None:
    page = as_owner.get(address("experiment", results)).content.decode()
    assert "You are in no group" in page
    assert "my groups" not in page


@pytest.mark.parametrize("kind", ["cluster", "environment", "workload", "image", "table"])
def test_everything_that_is_shared_has_the_page(kind: str, site: Site, people: People) -> None:
    rows = {
        "cluster": site.cluster,
        "environment": site.bare,
        "workload": site.workload,
        "image": ImageFactory(),
        "table": PublishedTableFactory(),
    }
    admin = people.client("admin")
    sent = {"visibility": "private"}
    assert people.client("other").post(address(kind, rows[kind]), sent).status_code == 403
    answer = admin.post(address(kind, rows[kind]), sent, follow=True)
    assert answer.status_code == 200
    rows[kind].refresh_from_db()
    assert rows[kind].visibility == "private"
    assert people.client("other").get(address(kind, rows[kind])).status_code == 404


def test_what_is_seen_inside_only_is_never_public(people: People) -> None:
    image = ImageFactory()
    people.client("admin").post(address("image", image), {"visibility": "public"})
    assert Image.objects.get().visibility == "members"


def test_there_is_nothing_else_to_share(people: People) -> None:
    assert people.client("admin").get(reverse("visibility", args=["user", 1])).status_code == 404


def test_forms_share_from_the_start(as_owner: Client, people: People, group: Group) -> None:
    shared = {"visibility": "groups", "groups": [group.pk]}
    workload = {"name": "small", "time_limit_seconds": "60", "precision": "float64"}
    as_owner.post(reverse("workload_new") + "?kind=blas", workload | shared)
    table = {
        "text": TABLE,
        "margin": "2",
        "baseline": "bare metal",
        "action": "save",
    }
    as_owner.post(reverse("table_new"), table | shared)
    for model in (Workload, PublishedTable):
        row: Any = model._default_manager.get()
        assert row.visibility_text == "group neurophysics"


def test_lists_and_pages_of_the_catalogue_hide_what_is_not_shared(
    site: Site, people: People
) -> None:
    image = ImageFactory(reference="docker://hidden", visibility="private")
    type(site.bare).objects.update(visibility="private", python="/opt/hidden/python")
    type(site.workload).objects.update(visibility="private")
    other = people.client("other")
    for tab, word in (
        ("images", "docker://hidden"),
        ("environments", "/opt/hidden/python"),
        ("workloads", "blas small"),
    ):
        page = f"{reverse('catalogue')}?tab={tab}"
        assert word not in other.get(page).content.decode()
        assert word in people.client("admin").get(page).content.decode()
    assert other.get(reverse("image", args=[image.pk])).status_code == 404
    type(site.cluster).objects.update(visibility="private")
    for name in ("clusters", "overview"):
        assert ">lab<" not in other.get(reverse(name)).content.decode()
    assert other.get(reverse("cluster", args=[site.cluster.pk])).status_code == 404
