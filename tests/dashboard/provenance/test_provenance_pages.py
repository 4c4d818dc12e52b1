"""Pages that show where numbers come from: reached from them, bounded, with nothing hidden."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Credential, Experiment, Run, Snapshot
from tests.dashboard.access.test_links import link_to, visitor
from tests.dashboard.conftest import fetch
from tests.experiments.bundles.studies import end_runs, launch
from tests.factories import CredentialFactory, UserFactory

pytestmark = pytest.mark.django_db
LINK = re.compile(r'href="([^"]*)"')


@pytest.fixture
def ended() -> Experiment:
    owner = UserFactory(username="maximiliane-of-the-lab", role="researcher")
    experiment = launch(containers=2, owner=owner)
    end_runs(experiment)
    long_name = "compute-node-of-the-department-042"
    experiment.runs.update(node=long_name)
    return Experiment.objects.get(pk=experiment.pk)


@pytest.fixture
def as_owner(ended: Experiment) -> Client:
    client = Client()
    client.force_login(ended.owner)
    return client


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def list_box_links(page: str) -> list[str]:
    """Return where the boxes of the picture lead to."""
    picture = page.partition('<svg class="provenance"')[2].partition("</svg>")[0]
    return LINK.findall(picture)


def test_it_is_reached_from_a_run_a_result_and_the_export_menu(
    ended: Experiment, as_owner: Client
) -> None:
    run = ended.runs.all()[0]
    of_run = reverse("run_provenance", args=[run.uid])
    assert f'href="{of_run}"' in read(as_owner, reverse("run", args=[run.uid]))
    comparison = reverse("comparison", args=[ended.pk])
    of_results = [reverse("result_provenance", args=[ended.pk, 1, n]) for n in (1, 2)]
    table = read(as_owner, f"{comparison}?section=full_results")
    for address in [*of_results, reverse("provenance", args=[ended.pk])]:
        assert f'href="{address}"' in table
    assert reverse("checklist", args=[ended.pk]) in table


def test_each_box_leads_to_a_page_that_opens(ended: Experiment, as_owner: Client) -> None:
    run = ended.runs.exclude(environment=ended.baseline_id)[0]
    pages = [
        reverse("run_provenance", args=[run.uid]) + "?metric=step_time",
        reverse("provenance", args=[ended.pk]),
        reverse("result_provenance", args=[ended.pk, 1, 2]),
    ]
    for address in pages:
        page = read(as_owner, address)
        links = list_box_links(page)
        assert len(links) > 10
        ids = set(re.findall(r'id="([^"]*)"', page))
        for link in dict.fromkeys(links):
            if link.startswith("#"):
                assert link[1:] in ids
            elif link.startswith("?"):
                read(as_owner, address.partition("?")[0] + link.replace("&amp;", "&"))
            else:
                read(as_owner, link)


def test_the_list_says_all_that_the_picture_shows(ended: Experiment, as_owner: Client) -> None:
    page = read(as_owner, reverse("result_provenance", args=[ended.pk, 1, 1]))
    boxes = len(list_box_links(page))
    assert len(re.findall(r'<tr id="n\d+">', page)) == boxes
    assert ended.plan_hash in page


def test_a_group_opens_some_runs_at_a_time(ended: Experiment, as_owner: Client) -> None:
    address = reverse("result_provenance", args=[ended.pk, 1, 1])
    closed = read(as_owner, address)
    assert "5 runs, 5 blocks" in closed
    opened = read(as_owner, f"{address}?open={ended.baseline_id}")
    shown = ended.runs.filter(environment=ended.baseline_id).values_list("uid", flat=True)
    for uid in shown:
        assert reverse("run", args=[uid]) in opened


@pytest.mark.parametrize(
    "rest",
    ["9/9/", "0/1/", "1/0/", "1/1/?rank=5", "1/99999999999999999999/"],
)
def test_what_is_not_there_is_not_found(ended: Experiment, as_owner: Client, rest: str) -> None:
    answer = as_owner.get(reverse("provenance", args=[ended.pk]) + rest)
    assert answer.status_code == 404


@pytest.mark.parametrize("rest", ["?open=nothing&from=0", "?from=-1&open=x", "?rank=x"])
def test_odd_input_opens_nothing(ended: Experiment, as_owner: Client, rest: str) -> None:
    address = reverse("result_provenance", args=[ended.pk, 1, 1])
    assert "5 runs, 5 blocks" in read(as_owner, address + rest)
    run = ended.runs.all()[0]
    wrong = reverse("run_provenance", args=[run.uid]) + "?metric=nothing"
    assert as_owner.get(wrong).status_code == 404
    assert as_owner.get(f"{address}?open=%00").status_code == 400


def test_names_that_a_link_hides_are_in_no_page_and_no_file(
    ended: Experiment, as_owner: Client
) -> None:
    """They are hidden before titles are cut: half a name would not be found afterwards."""
    key = CredentialFactory(user_name="account-of-maximiliane")
    type(ended.cluster).objects.filter(pk=ended.cluster_id).update(credential=key)
    checkout = {"/home/maximiliane-of-the-lab/x": {"commit": "fa" * 20}}
    snapshot = Snapshot.objects.keep({"inside": {"program": {"checkouts": checkout}}})
    run = ended.runs.all()[0]
    Run.objects.filter(pk=run.pk).update(snapshot=snapshot)
    addresses = [
        reverse("run_provenance", args=[run.uid]),
        reverse("run_provenance_file", args=[run.uid]),
        reverse("provenance", args=[ended.pk]),
        reverse("provenance_file", args=[ended.pk]),
        reverse("result_provenance", args=[ended.pk, 1, 1]),
        reverse("result_provenance_file", args=[ended.pk, 1, 1]),
        reverse("checklist", args=[ended.pk]),
        reverse("checklist_file", args=[ended.pk]),
    ]
    seen = "".join(fetch(as_owner, address).decode() for address in addresses)
    assert "maximiliane-of" in seen
    assert "fafafafa" in seen
    blind = visitor(link_to(ended, hides_names=True))
    for address in addresses:
        text = fetch(blind, address).decode()
        assert text
        for part in ("maximiliane", "compute-node-of", "fafafafa"):
            assert part not in text, (address, part)


def test_the_checklist_leads_whoever_may_change_it_to_the_publication(
    ended: Experiment, as_owner: Client
) -> None:
    Experiment.objects.filter(pk=ended.pk).update(visibility="members")
    address = reverse("checklist", args=[ended.pk])
    link = f'href="{reverse("publication", args=[ended.pk])}"'
    assert link in fetch(as_owner, address).decode()
    reader = Client()
    reader.force_login(UserFactory(role="researcher"))
    assert link not in fetch(reader, address).decode()


def test_no_account_of_a_cluster_is_named(ended: Experiment, as_owner: Client) -> None:
    key = CredentialFactory(user_name="account-on-the-cluster")
    type(ended.cluster).objects.filter(pk=ended.cluster_id).update(credential=key)
    run = ended.runs.all()[0]
    text = fetch(as_owner, reverse("run_provenance", args=[run.uid])).decode()
    assert "Account on" in text
    assert str(Credential.objects.get(pk=key.pk).user_name) not in text


def test_a_visitor_is_led_to_no_page_that_asks_to_log_in(ended: Experiment) -> None:
    client = visitor(link_to(ended))
    page = read(client, reverse("result_provenance", args=[ended.pk, 1, 1]))
    for link in dict.fromkeys(list_box_links(page)):
        if link.startswith("/"):
            assert client.get(link).status_code == 200, link


def test_a_checklist_names_no_reproduction_that_its_reader_may_not_view(
    ended: Experiment, as_owner: Client
) -> None:
    again = launch(visibility="members")
    Experiment.objects.filter(pk=again.pk).update(reproduces=ended)
    told = f"as experiment {again.pk},"
    for name in ("checklist", "checklist_file"):
        address = reverse(name, args=[ended.pk])
        assert told in fetch(as_owner, address).decode()
        for hides_names in (False, True):
            text = fetch(visitor(link_to(ended, hides_names=hides_names)), address).decode()
            assert "Done again" not in text
            assert "Reproductions:" not in text


def test_others_do_not_see_it(ended: Experiment) -> None:
    Experiment.objects.filter(pk=ended.pk).update(visibility="private")
    other = Client()
    other.force_login(UserFactory(role="researcher"))
    run: Any = ended.runs.all()[0]
    for name, arguments in (
        ("provenance", [ended.pk]),
        ("result_provenance_file", [ended.pk, 1, 1]),
        ("run_provenance", [run.uid]),
        ("checklist", [ended.pk]),
    ):
        assert other.get(reverse(name, args=arguments)).status_code == 404
