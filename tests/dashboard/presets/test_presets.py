"""Presets on pages: chosen by cluster, size and environments, and opened as a draft."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment, Workload
from experiments.presets import PRESETS
from tests.dashboard.conftest import People, Site
from tests.factories import ClusterFactory, EnvironmentFactory

pytestmark = pytest.mark.django_db

BLAS = "numpy-on-tuned-blas"
NETWORKS = "five-networks-normalised"


def words(client: Client, name: str, *args: str, **query: object) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_the_list_names_each_with_its_source(as_owner: Client) -> None:
    shown = words(as_owner, "presets")
    for preset in PRESETS.values():
        assert preset.title in shown
        assert preset.source in shown
        assert reverse("preset", args=[preset.key]) in shown


@pytest.mark.parametrize("key", PRESETS)
def test_each_opens_and_has_what_is_ready_ticked(key: str, as_owner: Client, site: Site) -> None:
    form = as_owner.get(reverse("preset", args=[key])).context["form"]
    assert form.chosen_cluster == site.cluster
    assert form.bare == site.bare
    assert form.ticked == {site.bare.pk, site.container.pk}


def test_a_draft_opens_in_the_usual_form_filled_in(
    as_owner: Client, site: Site, people: People
) -> None:
    sent = {
        "cluster": site.cluster.pk,
        "size": "laptop",
        "environments": [site.bare.pk, site.container.pk],
        "baseline": site.bare.pk,
    }
    answer = as_owner.post(reverse("preset", args=[BLAS]), sent, follow=True)
    draft = Experiment.objects.get()
    assert answer.redirect_chain[-1][0] == reverse("experiment_edit", args=[draft.pk])
    assert draft.owner == people.owner
    assert draft.primary_metric == PRESETS[BLAS].metric
    form = answer.context["form"]
    assert {row.pk for row in form["workloads"].initial} == set(
        draft.workloads.values_list("pk", flat=True)
    )
    shown = answer.content.decode()
    assert PRESETS[BLAS].ends_in in shown
    assert "Not launchable here" not in shown


@pytest.mark.parametrize("key", PRESETS)
def test_the_drafts_form_offers_the_metric_that_decides(
    key: str, as_owner: Client, site: Site
) -> None:
    sent = {
        "cluster": site.cluster.pk,
        "size": "laptop",
        "environments": [site.bare.pk, site.container.pk],
        "baseline": site.bare.pk,
        "folder": "/data" if PRESETS[key].sizes["laptop"].needs_data else "",
    }
    form = as_owner.post(reverse("preset", args=[key]), sent, follow=True).context["form"]
    metric = form["primary_metric"]
    assert metric.value() == PRESETS[key].metric
    assert metric.field.valid_value(metric.value())


def test_too_few_gpus_are_said_before_and_after_with_what_to_change(
    as_owner: Client, site: Site
) -> None:
    site.partition.gpus_per_node = 0
    site.partition.save()
    problem = "1 GPU a node asked for; gpu has 0. Take these scales out of the draft"
    assert problem in words(as_owner, "preset", NETWORKS)
    sent = {
        "cluster": site.cluster.pk,
        "size": "laptop",
        "environments": [site.bare.pk, site.container.pk],
        "baseline": site.bare.pk,
    }
    answer = as_owner.post(reverse("preset", args=[NETWORKS]), sent, follow=True)
    assert problem in answer.content.decode()


def test_what_is_amiss_is_said_and_nothing_is_made(as_owner: Client, site: Site) -> None:
    elsewhere = EnvironmentFactory(name="elsewhere")
    sent = {
        "cluster": site.cluster.pk,
        "size": "huge",
        "environments": [elsewhere.pk],
        "baseline": site.bare.pk,
    }
    answer = as_owner.post(reverse("preset", args=[BLAS]), sent)
    assert {"size", "environments"} <= set(answer.context["form"].errors)
    sent |= {"environments": [site.container.pk], "size": "laptop"}
    answer = as_owner.post(reverse("preset", args=[BLAS]), sent)
    assert set(answer.context["form"].errors) == {"baseline"}
    assert not Experiment.objects.exists()
    assert Workload.objects.count() == 1  # the site's own


def test_another_cluster_shows_its_own_environments(
    as_owner: Client, site: Site, people: People
) -> None:
    other = ClusterFactory(name="other", owner=people.owner)
    EnvironmentFactory(name="bare metal there", cluster=other)
    shown = words(as_owner, "preset", BLAS, cluster=other.pk)
    assert "bare metal there" in shown
    assert "Choose the baseline and at least one environment more." in shown
    assert as_owner.get(reverse("preset", args=["no-such"])).status_code == 404
