"""A/A tests on the pages: the button, the draft, the sentence beside the verdict, the badge."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from dashboard.planning.experiment_forms import ExperimentForm
from experiments.comparisons import keep_comparison
from experiments.comparisons.aa_verdicts import ALARM
from experiments.models import Environment, Experiment, Role, User
from experiments.models.environment_copies import make_copy
from tests.dashboard.conftest import People, Site, fetch
from tests.factories import LaunchedFactory, PartitionFactory, UserFactory, block

pytestmark = pytest.mark.django_db

BUTTON = "Run against itself"
NONE_YET = "None yet that you may read"


def press(client: Client, environment: Environment, **sent: object) -> Experiment:
    """Press the button and return the draft whose form opens."""
    address = reverse("environment_against_itself", args=[environment.pk])
    answer = client.post(address, sent)
    draft = Experiment.objects.latest("pk")
    assert answer.status_code == 302, answer.content
    assert answer["Location"] == reverse("experiment_edit", args=[draft.pk])
    return draft


def measured(site: Site, owner: User, factor: float = 1.0, **columns: object) -> Experiment:
    copy = make_copy(site.container)
    made: Experiment = LaunchedFactory(
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.container,
        environments=[site.container, copy],
        workloads=[site.workload],
        owner=owner,
        **columns,
    )
    for repeat in range(1, 6):
        values = {site.container: 0.02, copy: 0.02 * factor + repeat * 1e-6}
        block(made, repeat, values)
    keep_comparison(made.pk)
    return made


class TestTheButton:
    """It makes a draft, and opens it in the form."""

    def test_makes_a_draft_that_the_form_shows_and_saves(
        self, site: Site, people: People, as_owner: Client
    ) -> None:
        page = fetch(as_owner, reverse("environment", args=[site.container.pk])).decode()
        assert BUTTON in page
        draft = press(as_owner, site.container)
        assert draft.question == "Does Apptainer equal itself on gpu?"
        assert (draft.partition, draft.scales, draft.margin) == (site.partition, ["1x1"], 0.02)
        assert draft.repeats == 6  # which prove 2 % in 80 of 100, at the usual CV of 1 %
        assert [row.pk for row in draft.workloads.all()] == [site.workload.pk]
        page = fetch(as_owner, draft.get_absolute_url()).decode()
        assert "yes, the same environment" in page
        assert "not inspected yet" not in page
        form = ExperimentForm(instance=draft, user=people.owner)
        again = Environment.objects.get(copy_of=site.container)
        assert again in form.fields["environments"].queryset  # type: ignore[attr-defined]
        sent = {name: form[name].value() for name in form.fields if form[name].value() is not None}
        sent |= {
            "scales": "1x1",
            "margin": "2",
            "workloads": [site.workload.pk],
            "environments": [site.container.pk, again.pk],
            "action": "save",
        }
        answer = as_owner.post(reverse("experiment_edit", args=[draft.pk]), sent)
        assert answer.status_code == 302, answer.content.decode()
        assert set(draft.environments.all()) == {site.container, again}

    def test_pressed_twice_it_opens_the_first_draft(self, site: Site, as_owner: Client) -> None:
        first = press(as_owner, site.bare)
        assert press(as_owner, site.bare) == first
        assert Experiment.objects.count() == 1

    def test_offers_the_partitions_in_service(self, site: Site, as_owner: Client) -> None:
        other = PartitionFactory(cluster=site.cluster, name="other", time_limit_minutes=10)
        gone = PartitionFactory(cluster=site.cluster, name="retired", enabled=False)
        page = fetch(as_owner, reverse("environment", args=[site.bare.pk])).decode()
        assert "retired" not in page
        assert press(as_owner, site.bare, partition=other.pk).partition == other
        address = reverse("environment_against_itself", args=[site.bare.pk])
        for wrong in (gone.pk, PartitionFactory().pk, "x"):
            answer = as_owner.post(address, {"partition": wrong}, follow=True)
            assert "not in service any more" in answer.content.decode()
        assert Experiment.objects.count() == 1

    def test_is_not_for_viewers(self, site: Site) -> None:
        client = Client()
        client.force_login(UserFactory(role=Role.VIEWER))
        page = fetch(client, reverse("environment", args=[site.bare.pk])).decode()
        assert BUTTON not in page
        address = reverse("environment_against_itself", args=[site.bare.pk])
        assert client.post(address).status_code == 403
        assert not Experiment.objects.exists()

    def test_is_not_for_whom_the_cluster_is_not(self, site: Site, people: People) -> None:
        site.cluster.users.remove(people.other)
        client = people.client("other")
        page = fetch(client, reverse("environment", args=[site.bare.pk])).decode()
        assert BUTTON not in page
        address = reverse("environment_against_itself", args=[site.bare.pk])
        assert client.post(address).status_code == 403

    def test_leads_nowhere_once_the_environment_is_gone(self, site: Site, as_owner: Client) -> None:
        pk = site.bare.pk
        site.bare.delete()
        assert as_owner.post(reverse("environment_against_itself", args=[pk])).status_code == 404


def test_no_list_and_no_new_form_has_the_copy(site: Site, people: People, as_owner: Client) -> None:
    again = make_copy(site.bare)
    for address in (
        "/catalogue/?tab=environments&q=metal",
        "/search/?q=metal",
        "/experiments/new/",
    ):
        page = fetch(as_owner, address).decode()
        assert "bare metal" in page
        assert again.name not in page
    answer = as_owner.get(reverse("environment", args=[again.pk]))
    assert answer["Location"] == reverse("environment", args=[site.bare.pk])
    press(people.client("admin"), again)
    assert Experiment.objects.get().baseline == site.bare


class TestTheComparison:
    """What its verdict means stands beside it, on the page and in the report."""

    def test_a_difference_is_an_alarm(self, site: Site, people: People) -> None:
        made = measured(site, people.owner, factor=1.1)
        client = people.client("owner")
        for name in ("comparison", "report"):
            page = fetch(client, reverse(name, args=[made.pk])).decode()
            assert ALARM in page
        assert (
            "A/A test: Apptainer again is the same"
            in fetch(client, reverse("comparison_tex", args=[made.pk])).decode()
        )

    def test_every_page_of_it_opens(self, site: Site, people: People, as_owner: Client) -> None:
        made = measured(site, people.owner)
        comparison = reverse("comparison", args=[made.pk])
        address = made.get_absolute_url()
        pages = [f"{address}?tab={tab}" for tab in ("runs", "jobs", "plan", "events")]
        pages += [f"{comparison}?section=all", "/runs/"]
        pages += [
            reverse(name, args=[made.pk]) for name in ("comparison_json", "runs_csv", "robustness")
        ]
        for page in pages:
            assert "Apptainer again" in fetch(as_owner, page).decode(), page

    def test_of_containers_it_says_nothing(self, results: Experiment, as_owner: Client) -> None:
        page = fetch(as_owner, reverse("comparison", args=[results.pk])).decode()
        assert "A/A" not in page


class TestTheBadge:
    """A cluster's page has the last verdicts of each partition, as far as the reader may see."""

    def test_has_verdict_ratio_and_link(self, site: Site, people: People) -> None:
        alarm = measured(site, people.owner, factor=1.1, question="Is it itself?")
        page = fetch(people.client("other"), reverse("cluster", args=[site.cluster.pk])).decode()
        badge = page[page.index('id="aa-tests"') :]
        assert "verdict-slower" in badge
        assert "1.10015 [1.10005, 1.10025]" in badge
        assert f'<a class="anywhere" href="/experiments/{alarm.pk}/comparison/">' in badge
        assert "Is it itself?" in badge

    def test_shows_nothing_of_what_is_hidden(self, site: Site, people: People) -> None:
        measured(site, people.owner, question="Is it secret?", visibility="private")
        page = fetch(people.client("other"), reverse("cluster", args=[site.cluster.pk])).decode()
        assert "Is it secret?" not in page
        assert NONE_YET in page
        page = fetch(people.client("owner"), reverse("cluster", args=[site.cluster.pk])).decode()
        assert NONE_YET not in page
