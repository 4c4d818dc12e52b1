"""The parity report on pages: what a draft shows and asks, and where a waiver's reason goes."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.execution import lifecycle
from experiments.models import Environment, Experiment, Operation
from experiments.software import inspections, parity_reports
from tests.dashboard.conftest import People, Site
from tests.dashboard.planning.test_form import HTMX
from tests.factories import ExperimentFactory, WorkloadFactory, block

pytestmark = pytest.mark.django_db

OLD: dict[str, Any] = {"python": {"version": "2.7.5"}, "packages": {"numpy": "1.16.6"}}
NEW: dict[str, Any] = {"python": {"version": "2.7.12"}, "packages": {"numpy": "1.16.6"}}


@pytest.fixture
def draft(site: Site, people: People) -> Experiment:
    made: Experiment = ExperimentFactory(
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        environments=[site.bare, site.container],
        workloads=[WorkloadFactory(name="blas")],
        owner=people.owner,
        visibility=Experiment.Visibility.PUBLIC,
    )
    return made


def seen(environment: Environment, facts: dict[str, Any]) -> None:
    inspections.keep_inspection(environment, facts, inspections.compute_fingerprint(environment))


def said(client: Client, name: str, experiment: Experiment, query: str = "") -> str:
    answer: Any = client.get(reverse(name, args=[experiment.pk]) + query)
    assert answer.status_code == 200
    content = b"".join(answer) if answer.streaming else answer.content
    return " ".join(str(content.decode()).split())


def post(client: Client, name: str, draft: Experiment, **data: Any) -> str:
    answer = client.post(reverse(name, args=[draft.pk]), data, follow=True)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_a_draft_says_that_nobody_has_looked_and_offers_to(
    draft: Experiment, as_owner: Client
) -> None:
    page = said(as_owner, "experiment", draft)
    assert "not inspected yet" in page
    page = post(as_owner, "experiment_inspect", draft)
    operations = Operation.objects.filter(kind=Operation.Kind.INSPECT)
    assert {operation.environment for operation in operations} == set(draft.environments.all())
    assert {operation.partition for operation in operations} == {draft.partition}
    assert ">Inspect<" not in page, "it is under way"
    address = reverse("experiment_software", args=[draft.pk])
    assert f'hx-get="{address}"' in page
    assert "data-live" in as_owner.get(address, headers=HTMX).content.decode()
    assert as_owner.get(address).headers["Location"].endswith("#software")


def test_the_same_software_is_a_yes(draft: Experiment, site: Site, as_owner: Client) -> None:
    seen(site.bare, OLD)
    seen(site.container, OLD)
    page = said(as_owner, "experiment", draft)
    assert "yes</span>" in page
    assert ">Inspect<" not in page
    assert "Waive" not in page


def test_a_difference_is_shown_stops_the_launch_and_can_be_waived(
    draft: Experiment, site: Site, as_owner: Client
) -> None:
    seen(site.bare, OLD)
    seen(site.container, NEW)
    page = said(as_owner, "experiment", draft)
    assert "<code>2.7.5</code>" in page
    assert "<code>2.7.12</code>" in page
    assert "1 blocking" in page
    refused = post(as_owner, "experiment_launch", draft)
    assert "differs from" in refused
    environment = str(site.container.pk)
    chosen = {"environment": environment, "what": ["Python"]}
    assert "write down why" in post(as_owner, "experiment_waive", draft, **chosen)
    unticked = {"environment": environment, "reason": "as in 2017"}
    assert "no difference was chosen" in post(as_owner, "experiment_waive", draft, **unticked)
    page = post(as_owner, "experiment_waive", draft, **chosen, reason="as in <2017>")
    assert "as in &lt;2017&gt;" in page
    page = post(as_owner, "experiment_waive", draft, environment=environment, action="withdraw")
    assert "as in" not in page
    post(as_owner, "experiment_waive", draft, **chosen, reason="as in <2017>")
    assert "The design can no longer be changed" in post(as_owner, "experiment_launch", draft)


@pytest.mark.parametrize("environment", ["", "x", "0", "999999", "9" * 40])
def test_an_environment_that_is_none_of_the_draft_is_not_found(
    draft: Experiment, as_owner: Client, environment: str
) -> None:
    address = reverse("experiment_waive", args=[draft.pk])
    assert as_owner.post(address, {"environment": environment}).status_code == 404


def test_what_was_waived_is_on_every_page_and_in_every_export(
    draft: Experiment, site: Site, people: People, as_owner: Client
) -> None:
    seen(site.bare, OLD)
    seen(site.container, NEW)
    parity_reports.waive_differences(draft, site.container, ["Python"], "as in 2017", people.owner)
    lifecycle.launch(draft, people.owner)
    plan = said(as_owner, "experiment", draft, "?tab=plan")
    assert 'as in 2017 <small class="muted">owner</small>' in plan
    draft.runs.all().delete()
    draft.jobs.all().delete()
    for repeat in range(1, 6):
        block(draft, repeat, {site.bare: 1.0 + repeat / 1000, site.container: 1.0})
    for name in ("experiment", "comparison", "comparison_csv", "comparison_json", "comparison_tex"):
        text = said(as_owner, name, draft)
        assert "as in 2017" in text, name
        assert "DIFFERENCES WAIVED" in text, name


def test_where_nobody_looked_the_verdict_the_methods_and_the_exports_say_so(
    draft: Experiment, site: Site, people: People, as_owner: Client
) -> None:
    lifecycle.launch(draft, people.owner)
    draft.runs.all().delete()
    draft.jobs.all().delete()
    for repeat in range(1, 6):
        block(draft, repeat, {site.bare: 1.0 + repeat / 1000, site.container: 1.0})
    for name in ("experiment", "comparison", "comparison_csv", "comparison_json", "comparison_tex"):
        query = "?section=all" if name == "comparison" else ""
        assert "oftware not compared before the launch" in said(as_owner, name, draft, query), name


def test_an_environments_page_shows_what_was_seen_inside_and_offers_to_look(
    site: Site, as_owner: Client
) -> None:
    address = reverse("environment", args=[site.bare.pk])
    page = " ".join(as_owner.get(address).content.decode().split())
    assert "Not inspected yet." in page
    seen(site.bare, OLD | {"blas": {"openblas": "0.3.7"}})
    page = " ".join(as_owner.get(address).content.decode().split())
    assert "<dd>2.7.5" in page
    assert "openblas 0.3.7" in page
    assert "1 packages" not in page
    assert "numpy" in page
    answer = as_owner.post(reverse("environment_inspect", args=[site.bare.pk]))
    assert answer.headers["Location"] == f"{address}#inside"
    assert Operation.objects.get().environment == site.bare
    page = as_owner.get(address).content.decode()
    assert ">Inspect<" not in page


def test_the_packages_of_a_system_without_python_are_shown(as_owner: Client, site: Site) -> None:
    seen(site.bare, {"python": {}, "packages": {}, "system_packages": {"sysbench": "1.0.20+ds-7"}})
    page = " ".join(
        as_owner.get(reverse("environment", args=[site.bare.pk])).content.decode().split()
    )
    assert "1 package of the system" in page
    assert "1.0.20+ds-7" in page
    assert "by a shell from its inside" in page
    assert "0 packages" not in page


def test_the_inventory_shows_known_programs_with_their_paths(as_owner: Client, site: Site) -> None:
    seen(site.bare, {"programs": {"fio": "/usr/bin/fio", "hpcc": "", "/private/x": "/private/x"}})
    page = as_owner.get(reverse("environment", args=[site.bare.pk])).content.decode()
    assert "/usr/bin/fio" in page
    assert "no hpcc" in page
    assert "/private/x" not in page
