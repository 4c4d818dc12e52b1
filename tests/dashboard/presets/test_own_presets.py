"""A definition is kept under a name and becomes a draft again; what is missing is said."""

from __future__ import annotations

import html

import pytest
from django.contrib.auth.models import Group
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse

from experiments.models import (
    AuditEntry,
    Cluster,
    Environment,
    Experiment,
    OwnPreset,
    Role,
    Workload,
)
from experiments.presets.own_presets import describe_definition
from tests.dashboard.conftest import People
from tests.factories import (
    CredentialFactory,
    ExperimentFactory,
    OwnPresetFactory,
    UserFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db


def save(client: Client, experiment: Experiment, **fields: str) -> OwnPreset:
    answer = client.post(f"/experiments/{experiment.pk}/preset/", fields)
    assert answer.status_code == 302, answer.content.decode()
    return OwnPreset.objects.order_by("-pk")[0]


def use(client: Client, preset: OwnPreset) -> tuple[Experiment | None, str]:
    """Return the draft that is made, if there is one, and what is said."""
    before = set(Experiment.objects.values_list("pk", flat=True))
    answer = client.post(f"/catalogue/presets/own/{preset.pk}/use/")
    assert answer.status_code == 302
    words = " ".join(str(message) for message in get_messages(answer.wsgi_request))
    return Experiment.objects.exclude(pk__in=before).first(), words


def test_a_definition_is_saved_listed_and_becomes_the_same_draft(
    as_owner: Client, results: Experiment
) -> None:
    Experiment.objects.filter(pk=results.pk).update(repeats=7, margin=0.03, reject_swap=True)
    preset = save(as_owner, results, name="  The   usual ")
    assert (preset.name, preset.visibility) == ("The usual", "private")
    assert "The usual" in as_owner.get("/catalogue/presets/").content.decode()
    draft, _ = use(as_owner, preset)
    assert draft
    results.refresh_from_db()
    assert draft.is_draft
    assert describe_definition(draft) == describe_definition(results)
    assert as_owner.get(f"/experiments/{draft.pk}/edit/").status_code == 200


def test_no_draft_is_made_for_a_cluster_that_one_may_see_and_not_use(
    as_owner: Client, results: Experiment
) -> None:
    preset = save(as_owner, results, name="kept")
    cluster = results.cluster
    key = CredentialFactory()  # of somebody else
    Cluster.objects.filter(pk=cluster.pk).update(transport="ssh", credential=key)
    reason = f"The key of {cluster} is not yours to use."
    made, words = use(as_owner, preset)
    assert made is None
    assert reason in words
    answer = as_owner.post(reverse("experiment_clone", args=[results.pk]), follow=True)
    assert reason in html.unescape(answer.content.decode())
    assert not Experiment.objects.filter(launched_at=None).exists()
    Cluster.objects.filter(pk=cluster.pk).update(enabled=False)
    assert f"{cluster} is not in service." in use(as_owner, preset)[1]


def test_a_later_change_of_the_experiment_does_not_change_the_preset(
    as_owner: Client, people: People
) -> None:
    draft = ExperimentFactory(owner=people.owner, question="As it was?")
    preset = save(as_owner, draft, name="kept")
    Experiment.objects.filter(pk=draft.pk).update(question="Changed?")
    made, _ = use(as_owner, preset)
    assert made
    assert made.question == "As it was?"


def test_a_name_is_taken_once_a_person(as_owner: Client, people: People) -> None:
    draft = ExperimentFactory(owner=people.owner)
    save(as_owner, draft, name="The usual")
    again = as_owner.post(f"/experiments/{draft.pk}/preset/", {"name": "the USUAL"})
    assert "a preset of this name already" in again.content.decode()
    assert OwnPreset.objects.count() == 1
    save(people.client("other"), draft, name="The usual")
    assert OwnPreset.objects.count() == 2


@pytest.mark.parametrize("name", ["", " ", "x" * 101, "a\0b"])
def test_an_odd_name_is_refused_in_words(name: str, as_owner: Client, people: People) -> None:
    draft = ExperimentFactory(owner=people.owner)
    answer = as_owner.post(f"/experiments/{draft.pk}/preset/", {"name": name})
    assert answer.status_code == 200
    assert "Not saved" in answer.content.decode()


def test_it_is_renamed_shared_and_deleted_and_the_log_says_so(
    as_owner: Client, people: People
) -> None:
    group = Group.objects.create(name="imaging")
    people.owner.groups.add(group)
    people.other.groups.add(group)
    preset = OwnPresetFactory(owner=people.owner, name="My zebra")
    address = f"/catalogue/presets/own/{preset.pk}/"
    other = people.client("other")
    assert "My zebra" not in other.get("/catalogue/presets/").content.decode()
    assert other.post(f"{address}use/").status_code == 404
    fields = {"name": "new name", "visibility": "groups", "groups": group.pk}
    as_owner.post(address, fields)
    assert "new name" in other.get("/catalogue/presets/").content.decode()
    draft, _ = use(other, preset)
    assert draft
    assert draft.owner == people.other
    assert other.get(address).status_code == 403
    assert other.post(f"{address}delete/").status_code == 403
    assert as_owner.post(f"{address}delete/").status_code == 302
    assert not OwnPreset.objects.exists()
    assert Experiment.objects.filter(pk=draft.pk).exists()
    entries = AuditEntry.objects.filter(kind="ownpreset").order_by("pk")
    assert [entry.what for entry in entries] == ["changed", "deleted"]


def test_what_is_missing_is_said_to_its_owner_by_name(
    as_owner: Client, people: People, results: Experiment
) -> None:
    gone = WorkloadFactory(name="a workload of then", owner=people.owner)
    results.workloads.add(gone)
    preset = save(as_owner, results, name="kept")
    results.workloads.remove(gone)
    gone.delete()
    hidden = results.environments.exclude(pk=results.baseline_id)[0]
    Environment.objects.filter(pk=hidden.pk).update(visibility="private", owner=UserFactory())
    draft, words = use(as_owner, preset)
    assert draft
    assert "1 of 2 workloads is gone, or you may not view it: a workload of then." in words
    assert f"environments is gone, or you may not view it: {hidden.name}." in words
    assert set(draft.environments.all()) == {results.baseline}
    assert as_owner.get(f"/experiments/{draft.pk}/edit/").status_code == 200


def test_names_that_others_may_not_view_are_not_told_to_them(
    people: People, results: Experiment
) -> None:
    preset = save(people.client("owner"), results, name="kept", visibility="members")
    Workload.objects.update(visibility="private", name="my secret", owner=people.owner)
    other = people.client("other")
    draft, words = use(other, preset)
    assert draft
    assert "1 of 1 workloads is gone, or you may not view it." in words
    assert "secret" not in words
    type(results.cluster)._default_manager.update(visibility="private", name="secret cluster")
    none, words = use(other, preset)
    assert none is None
    assert "No draft was made" in words
    assert "secret" not in words + other.get("/catalogue/presets/").content.decode()


def test_a_missing_baseline_has_a_stand_in(as_owner: Client, results: Experiment) -> None:
    preset = save(as_owner, results, name="kept")
    Environment.objects.filter(pk=results.baseline_id).update(
        visibility="private", owner=UserFactory()
    )
    draft, words = use(as_owner, preset)
    assert draft
    assert draft.baseline in draft.environments.all()
    assert "stands in for it" in words


def test_a_viewer_looks_and_makes_nothing(results: Experiment, people: People) -> None:
    preset = OwnPresetFactory(owner=people.owner, visibility="members", name="To look at")
    client = Client()
    client.force_login(UserFactory(role=Role.VIEWER))
    page = client.get("/catalogue/presets/").content.decode()
    assert "To look at" in page
    assert "Make a draft" not in page
    assert client.post(f"/catalogue/presets/own/{preset.pk}/use/").status_code == 403
    assert client.get(f"/experiments/{results.pk}/preset/").status_code == 403
