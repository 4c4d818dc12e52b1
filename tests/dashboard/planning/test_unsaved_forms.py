"""Forms of experiments keep themselves, and two tabs do not overwrite each other in silence."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment, UnsavedForm
from tests.dashboard.conftest import People, Site
from tests.dashboard.planning.test_form import HTMX, NEW, asked
from tests.factories import ClusterFactory, WorkloadFactory

pytestmark = pytest.mark.django_db

KEEP = "/experiments/new/keep/"
HIDDEN = ("kept_key", "kept_tab", "kept_before", "seen")


class Tab:
    """A page of the form in a browser: its hidden fields are sent with what is typed."""

    def __init__(self, client: Client, address: str = NEW) -> None:
        self.client, self.address = client, address
        self.answer = client.get(address)
        self.read(self.answer)

    def read(self, answer: Any) -> None:
        self.page = BeautifulSoup(answer.content, "html.parser")
        self.hidden = {name: self.field(name)["value"] for name in HIDDEN}

    def field(self, name: str) -> Any:
        field = self.page.select_one(f'[name="{name}"]')
        assert field is not None, name
        return field

    def keep(self, site: Site, **changes: Any) -> Any:
        kept = self.page.select_one("#kept")
        assert kept
        sent = asked(site) | self.hidden | changes
        return self.client.post(str(kept["hx-post"]), sent, headers=HTMX)

    def save(self, site: Site, **changes: Any) -> Any:
        sent = asked(site) | self.hidden | {"action": "save"} | changes
        return self.client.post(self.address, sent)


def test_what_is_typed_is_kept_and_shown_again(as_owner: Client, site: Site) -> None:
    tab = Tab(as_owner)
    answer = tab.keep(site, question="Does it", scales="1x1, 1x", repeats="", reject_swap="on")
    assert "Kept at <time" in " ".join(answer.content.decode().split())
    assert not Experiment.objects.exists(), "nothing is saved that nobody has saved"
    again = Tab(as_owner, answer["HX-Replace-Url"])
    assert again.field("question")["value"] == "Does it"
    assert again.field("scales")["value"] == "1x1, 1x"
    assert again.field("repeats").get("value", "") == ""
    assert again.field("reject_swap").has_attr("checked")
    assert again.field("workloads").has_attr("checked")
    text = again.page.get_text(" ")
    assert "and did not save" in " ".join(text.split())
    assert "This field is required" not in text
    assert "'1x' is no scale" in text


def test_a_new_form_leads_to_what_was_not_saved(as_owner: Client, site: Site) -> None:
    Tab(as_owner).keep(site, question="First <b>")
    Tab(as_owner).keep(site, question="")
    page = Tab(as_owner).page
    links = {link.get_text(): link["href"] for link in page.select(".unsaved a")}
    assert set(links) == {"First <b>", "an experiment without a question yet"}
    row = UnsavedForm.objects.get(values__question=["First <b>"])
    assert links["First <b>"] == f"{NEW}?unsaved={row.key}"
    answer = as_owner.post(reverse("experiment_discard", args=[row.key]), follow=True)
    assert "Discarded what was not saved." in answer.content.decode()
    assert not UnsavedForm.objects.filter(pk=row.pk).exists()


def test_the_same_minute_is_said_once(as_owner: Client, site: Site) -> None:
    tab = Tab(as_owner)
    tab.keep(site)
    answer = tab.keep(site, question="Further")
    row = UnsavedForm.objects.get()
    assert row.values["question"] == ["Further"]
    assert answer.status_code in (200, 204)  # 200 where a minute has just begun
    assert answer.status_code == 204 or b"Kept at" in answer.content


def test_saving_forgets_what_was_kept(as_owner: Client, site: Site) -> None:
    tab = Tab(as_owner)
    tab.keep(site)
    assert tab.save(site).status_code == 302
    assert not UnsavedForm.objects.exists()


def test_a_refused_form_goes_on_as_the_same_tab(as_owner: Client, site: Site) -> None:
    tab = Tab(as_owner)
    tab.keep(site)
    before = tab.hidden
    tab.read(tab.save(site, question=""))
    assert tab.hidden == before
    assert b"another tab" not in tab.keep(site, question="Mended").content
    assert tab.save(site).status_code == 302


def test_two_tabs_of_new_experiments_have_nothing_to_do_with_each_other(
    as_owner: Client, site: Site
) -> None:
    one, two = Tab(as_owner), Tab(as_owner)
    one.keep(site, question="One")
    two.keep(site, question="Two")
    kept = UnsavedForm.objects.values_list("values__question", flat=True)
    assert sorted(kept) == [["One"], ["Two"]]


def draft_of(client: Client, site: Site) -> Experiment:
    client.post(NEW, asked(site) | {"action": "save"})
    return Experiment.objects.get()


def test_two_tabs_of_a_draft_do_not_overwrite_each_other_in_silence(
    as_owner: Client, site: Site
) -> None:
    address = reverse("experiment_edit", args=[draft_of(as_owner, site).pk])
    one, two = Tab(as_owner, address), Tab(as_owner, address)
    one.keep(site, question="One")
    refused = two.keep(site, question="Two").content.decode()
    assert "Not kept: another tab has kept this form at" in refused
    assert f'href="{address}"' in refused
    assert UnsavedForm.objects.get().values["question"] == ["One"]
    two.keep(site, question="Two", action="keep")
    assert UnsavedForm.objects.get().values["question"] == ["Two"]
    assert b"Not kept: another tab" in one.keep(site, question="One more").content
    third = Tab(as_owner, address)
    assert third.field("question")["value"] == "Two"
    assert b"Not kept" not in third.keep(site, question="Three").content
    fourth = Tab(as_owner, address)
    third.keep(site, question="Three, and more")
    assert b"Not kept: another tab" in fourth.keep(site, question="Four").content


def test_a_draft_that_was_saved_elsewhere_is_not_overwritten_in_silence(
    as_owner: Client, site: Site
) -> None:
    draft = draft_of(as_owner, site)
    address = reverse("experiment_edit", args=[draft.pk])
    one, two = Tab(as_owner, address), Tab(as_owner, address)
    workloads = [site.workload.pk, WorkloadFactory(owner=site.workload.owner).pk]
    assert one.save(site, workloads=workloads).status_code == 302
    for action, words in (("save", "Not saved."), ("launch", "Not launched.")):
        answer = two.save(site, question="Two", action=action)
        assert answer.status_code == 200
        assert words in answer.content.decode()
        assert "saved in another tab, or by somebody else" in answer.content.decode()
        draft.refresh_from_db()
        assert draft.question == "What does Apptainer cost?"
        assert draft.workloads.count() == 2
    two.read(answer)
    assert two.field("question")["value"] == "Two"
    assert two.save(site, question="Two").status_code == 302
    draft.refresh_from_db()
    assert draft.question == "Two"


def test_saving_twice_from_one_page_after_another_is_no_conflict(
    as_owner: Client, site: Site
) -> None:
    address = reverse("experiment_edit", args=[draft_of(as_owner, site).pk])
    for question in ("One", "Two"):
        assert Tab(as_owner, address).save(site, question=question).status_code == 302


@pytest.mark.parametrize(
    "changes",
    [
        {"estimand": ""},
        {"estimand": "partition", "spreads_nodes": True, "design": "independent"},
        {"scales": ["2x1", "1x1"]},
        {"warm_up": "found", "looks": 2, "margin": 0.05},
    ],
)
def test_what_the_form_proposes_is_nobody_elses_change(
    as_owner: Client, site: Site, changes: dict[str, Any]
) -> None:
    """A draft from a preset, or from before a choice, has fields that the form fills in."""
    draft = draft_of(as_owner, site)
    Experiment.objects.filter(pk=draft.pk).update(**changes)
    tab = Tab(as_owner, reverse("experiment_edit", args=[draft.pk]))
    assert tab.save(site, question="Mine alone").status_code == 302
    assert Experiment.objects.get().question == "Mine alone"


def test_another_cluster_in_the_address_is_nobody_elses_change(
    as_owner: Client, site: Site
) -> None:
    draft = draft_of(as_owner, site)
    elsewhere = ClusterFactory()
    address = reverse("experiment_edit", args=[draft.pk]) + f"?cluster={elsewhere.pk}"
    assert Tab(as_owner, address).save(site, question="Mine alone").status_code == 302


def test_nobody_else_sees_or_changes_what_was_kept(
    as_owner: Client, site: Site, people: People
) -> None:
    tab = Tab(as_owner)
    tab.keep(site, question="Mine alone")
    key = tab.hidden["kept_key"]
    for who in ("other", "admin"):
        client = people.client(who)
        assert b"Mine alone" not in client.get(f"{NEW}?unsaved={key}").content
        client.post(reverse("experiment_discard", args=[key]))
        client.post(KEEP, asked(site, question="Theirs") | tab.hidden)
    assert (
        people.client("anonymous")
        .post(KEEP, asked(site) | tab.hidden)["Location"]
        .startswith("/login/")
    )
    row = UnsavedForm.objects.get(owner=people.owner)
    assert row.values["question"] == ["Mine alone"]


def test_another_persons_draft_is_not_kept_for(
    as_owner: Client, site: Site, people: People
) -> None:
    draft = draft_of(as_owner, site)
    address = reverse("experiment_keep", args=[draft.pk])
    sent = asked(site) | {"kept_key": f"draft-{draft.pk}", "kept_tab": "ab"}
    assert people.client("other").post(address, sent).status_code in (403, 404)
    assert as_owner.post(address, sent).status_code == 200
    as_owner.post(reverse("experiment_launch", args=[draft.pk]))
    assert not UnsavedForm.objects.exists(), "a launched experiment cannot be edited"
    assert as_owner.post(address, sent).status_code == 403


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"kept_key": "draft-1"},
        {"kept_key": "draft-1", "kept_tab": "ab"},
        {"kept_key": "../x", "kept_tab": "ab"},
        {"kept_key": "ab", "kept_tab": "\0"},
        {"kept_key": "a" * 5000, "kept_tab": "ab"},
        {"kept_key": "ab", "kept_tab": "ab", "question": "x" * 200_001},
    ],
)
def test_what_cannot_be_kept_says_so(as_owner: Client, site: Site, sent: dict[str, str]) -> None:
    answer = as_owner.post(KEEP, asked(site) | sent)
    assert "Not kept: " in answer.content.decode()
    assert not UnsavedForm.objects.exists()


def test_odd_values_are_kept_and_shown(as_owner: Client, site: Site) -> None:
    tab = Tab(as_owner)
    odd = {"question": "a\0b \ud7ff \N{ZERO WIDTH SPACE}", "cluster": "x", "workloads": ["nan"]}
    answer = tab.keep(site, **odd, margin="NaN", repeats="1e999")
    assert as_owner.get(answer["HX-Replace-Url"]).status_code == 200
    many = [str(number) for number in range(5000)]
    assert b"Not kept" not in tab.keep(site, workloads=many).content
    assert as_owner.get(answer["HX-Replace-Url"]).status_code == 200


def test_the_oldest_of_many_gives_way(as_owner: Client, site: Site, people: People) -> None:
    for number in range(UnsavedForm.MOST + 2):
        sent = asked(site, question=str(number)) | {"kept_key": f"{number:x}", "kept_tab": "ab"}
        as_owner.post(KEEP, sent)
    kept = {row.question for row in UnsavedForm.objects.all()}
    assert kept == {str(number) for number in range(2, UnsavedForm.MOST + 2)}
