"""Sweeps in the form of an experiment: typed values become variants, up to the comparison."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from dashboard.execution.experiment_columns import COLUMNS
from experiments.comparisons import compare_experiment
from experiments.execution import lifecycle
from experiments.execution.progress import measure_progress
from experiments.models import Experiment, Run, Workload
from experiments.presets.own_presets import describe_definition, make_draft
from tests.dashboard.conftest import People, Site
from tests.dashboard.planning.test_form import HTMX, NEW, asked
from tests.dashboard.planning.test_unsaved_forms import Tab
from tests.factories import ExperimentFactory, OwnPresetFactory, WorkloadFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def net(site: Site) -> Workload:
    return WorkloadFactory(
        name="net", kind="cnn", parameters={"batch_size": 16}, owner=site.workload.owner
    )


def swept(site: Site, row: Workload, text: str, **changes: Any) -> dict[str, Any]:
    return asked(site, workloads=[row.pk], **{f"sweep_{row.pk}": text}, **changes)


def save(client: Client, site: Site, row: Workload, text: str, **changes: Any) -> Experiment:
    answer = client.post(NEW, swept(site, row, text, **changes) | {"action": "save"})
    assert answer.status_code == 302, answer.context["form"].errors
    return Experiment.objects.latest("pk")


def names(experiment: Experiment) -> list[str]:
    return [row.name for row in experiment.workloads.all()]


def test_each_value_becomes_a_workload_of_its_own(
    as_owner: Client, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size: 128, 32, 64")
    assert names(draft) == ["net batch_size=32", "net batch_size=64", "net batch_size=128"]
    rows = draft.workloads.all()
    assert [row.parameters["batch_size"] for row in rows] == [32, 64, 128]
    assert {row.parent for row in rows} == {net}
    assert {row.time_limit_seconds for row in rows} == {net.time_limit_seconds}


def test_what_was_typed_is_shown_as_it_was_typed(
    as_owner: Client, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size:   128,32\r\nsteps = 50,60")
    page = BeautifulSoup(as_owner.get(f"/experiments/{draft.pk}/edit/").content, "html.parser")
    field = page.select_one(f"#id_sweep_{net.pk}")
    assert field
    assert field.text.strip() == "batch_size:   128,32\nsteps = 50,60"
    assert page.select_one(f'input[name="workloads"][value="{net.pk}"][checked]')
    assert page.select_one("details.sweep[open]")


def test_a_preview_counts_and_names_the_variants(
    as_owner: Client, site: Site, net: Workload
) -> None:
    sent = swept(site, net, "batch_size: 32, 64, 128\nsteps: 50, 60")
    answer = as_owner.post(NEW, sent, headers=HTMX)
    form = answer.context["form"]
    assert form.forecast.blocks == 6 * 5
    page = BeautifulSoup(answer.content, "html.parser")
    shown = page.select_one(f"#id_sweep_{net.pk}_variants")
    assert shown
    assert "6 variants:" in shown.text
    assert "batch_size=32 steps=50" in shown.text
    assert Workload.objects.exclude(parent=None).count() == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch_size: 0", "batch_size must be from 1 to"),
        ("batch_size: 32, x", "batch_size must be a whole number"),
        ("batch_size: nan", "batch_size must be a whole number"),
        ("batch_size: 32, 64, 032", "batch_size has 32 twice."),
        ("batchsize: 32", "Is batch_size meant?"),
        ("batch_size: 32\nbatch_size: 64", "batch_size is there twice"),
        ("batch_size:", "batch_size has no values"),
        ("32, 64", "is no parameter with values"),
        ("steps: 5, 10\nburn_in: 7", "With steps=5 burn_in=7, burn_in must be less than the 5"),
        ("batch_size: " + ", ".join(map(str, range(1, 5001))), "at most"),
        ("batch_size: " + ", ".join(map(str, range(1, 200))), "more than 100 values"),
        (
            "batch_size: 1,2,3,4,5,6,7,8,9,10,11\nsteps: 11,12,13,14,15,16,17,18,19,20",
            "11 x 10 values are 110 combinations; at most 100 are allowed.",
        ),
        ("batch_size: " + "9" * 3000, "batch_size must be"),
        ("<script>alert(1)</script>: 1", "net has no parameter"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    text: str, message: str, as_owner: Client, site: Site, net: Workload
) -> None:
    if message.startswith("net has"):
        message = "cnn has no parameter “<script>alert(1)</script>”"
    answer = as_owner.post(NEW, swept(site, net, text) | {"action": "save"})
    assert answer.status_code == 200
    found = answer.context["form"].errors[f"sweep_{net.pk}"]
    assert message in " ".join(found)
    assert all(len(sentence) < 500 for sentence in found)
    assert "<script>alert(1)" not in answer.content.decode()
    assert not Experiment.objects.exists()
    assert not Workload.objects.exclude(parent=None).exists()


def test_a_wrong_sweep_leaves_the_others_counted(
    as_owner: Client, site: Site, net: Workload
) -> None:
    sent = swept(site, net, "batch_size: 32, 64, 128") | {
        "workloads": [net.pk, site.workload.pk],
        f"sweep_{site.workload.pk}": "nonsense: 1",
    }
    form = as_owner.post(NEW, sent, headers=HTMX).context["form"]
    assert list(form.errors) == [f"sweep_{site.workload.pk}"]
    assert form.forecast.blocks == (3 + 1) * 5


def test_all_sweeps_of_an_experiment_share_one_limit(
    as_owner: Client, site: Site, net: Workload
) -> None:
    sent = swept(site, net, "seed: 1..60") | {
        "workloads": [net.pk, site.workload.pk],
        f"sweep_{site.workload.pk}": "seed: 1..60",
    }
    form = as_owner.post(NEW, sent | {"action": "save"}).context["form"]
    assert "make 120 variants; at most 100" in str(form.errors)
    assert not Experiment.objects.exists()


def test_a_launch_runs_every_variant_and_freezes_what_was_typed(
    as_owner: Client, site: Site, net: Workload
) -> None:
    sent = swept(site, net, "batch_size: 128, 32") | {"action": "launch"}
    as_owner.post(NEW, sent)
    experiment = Experiment.objects.get()
    assert experiment.launched_at
    assert experiment.plan["sweeps"] == {str(net.pk): "batch_size: 128, 32"}
    assert sorted(row["name"] for row in experiment.plan["workloads"].values()) == [
        "net batch_size=128",
        "net batch_size=32",
    ]
    sizes = {
        run.spec["workload"]["parameters"]["batch_size"]
        for run in Run.objects.filter(experiment=experiment)
    }
    assert sizes == {32, 128}
    assert Run.objects.filter(experiment=experiment).count() == 2 * 2 * 5
    page = as_owner.get(f"/experiments/{experiment.pk}/").content.decode()
    assert page.index("net batch_size=32") < page.index("net batch_size=128")
    assert [group.configuration["workload"] for group in compare_experiment(experiment).groups] == [
        "net batch_size=32",
        "net batch_size=128",
    ]


def test_variants_nobody_wants_any_more_go_away_with_the_change(
    as_owner: Client, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size: 32, 64")
    edit = f"/experiments/{draft.pk}/edit/"
    as_owner.post(edit, swept(site, net, "batch_size: 64, 128") | {"action": "save"})
    assert names(draft) == ["net batch_size=64", "net batch_size=128"]
    assert Workload.objects.exclude(parent=None).count() == 2
    as_owner.post(edit, asked(site, workloads=[net.pk]) | {"action": "save"})
    assert names(draft) == ["net"]
    assert Experiment.objects.get().sweeps == {}
    assert not Workload.objects.exclude(parent=None).exists()


def test_variants_go_with_a_deleted_draft_unless_another_one_has_them(
    as_owner: Client, site: Site, net: Workload
) -> None:
    first = save(as_owner, site, net, "batch_size: 32, 64")
    second = save(as_owner, site, net, "batch_size: 64, 128")
    assert Workload.objects.exclude(parent=None).count() == 3
    as_owner.post(f"/experiments/{first.pk}/delete/")
    assert names(second) == ["net batch_size=64", "net batch_size=128"]
    as_owner.post(f"/experiments/{second.pk}/delete/")
    assert not Workload.objects.exclude(parent=None).exists()


def test_a_launched_experiment_keeps_its_variants_and_its_workload(
    as_owner: Client, site: Site, net: Workload
) -> None:
    as_owner.post(NEW, swept(site, net, "batch_size: 32, 64") | {"action": "launch"})
    experiment = Experiment.objects.get()
    before = [(row.pk, row.parameters) for row in experiment.workloads.all()]
    sent = {"name": "net", "time_limit_seconds": "99", "batch_size": "7", "visibility": "members"}
    as_owner.post(f"/catalogue/workloads/{net.pk}/edit/", sent)
    net.refresh_from_db()
    assert net.parameters == {"batch_size": 16}
    draft = save(as_owner, site, net, "batch_size: 64, 128")
    as_owner.post(f"/experiments/{draft.pk}/delete/")
    assert [(row.pk, row.parameters) for row in experiment.workloads.all()] == before


def test_a_launch_takes_the_workload_as_it_is_then(
    people: People, site: Site, as_owner: Client, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size: 32, 64")
    Workload.objects.filter(pk=net.pk).update(parameters={"steps": 77}, time_limit_seconds=50)
    lifecycle.launch(Experiment.objects.get(pk=draft.pk), people.owner)
    rows = Experiment.objects.get(pk=draft.pk).plan["workloads"].values()
    assert {row["parameters"]["steps"] for row in rows} == {77}
    assert {row["time_limit_seconds"] for row in rows} == {50}


def test_a_launch_is_refused_where_the_workload_no_longer_allows_the_values(
    people: People, site: Site, as_owner: Client, net: Workload
) -> None:
    draft = save(as_owner, site, net, "burn_in: 1, 5")
    Workload.objects.filter(pk=net.pk).update(parameters={"steps": 3, "burn_in": 0})
    with pytest.raises(lifecycle.NotLaunchable, match="burn_in must be less than the 3 steps"):
        lifecycle.launch(Experiment.objects.get(pk=draft.pk), people.owner)
    assert Experiment.objects.get(pk=draft.pk).is_draft


def test_a_copy_and_an_own_preset_have_the_sweep(
    as_owner: Client, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size: 32, 64")
    as_owner.post(f"/experiments/{draft.pk}/clone/")
    copy = Experiment.objects.latest("pk")
    assert (copy.pk != draft.pk, copy.sweeps, names(copy)) == (True, draft.sweeps, names(draft))
    definition = describe_definition(draft)
    assert [entry["name"] for entry in definition["workloads"]] == ["net"]
    preset = OwnPresetFactory(owner=draft.owner, definition=definition)
    again, problems = make_draft(preset, draft.owner)
    assert (problems, again.sweeps, names(again)) == ([], draft.sweeps, names(draft))


def test_a_preset_of_a_workload_that_has_changed_says_what_it_leaves_out(
    as_owner: Client, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "burn_in: 1, 5")
    preset = OwnPresetFactory(owner=draft.owner, definition=describe_definition(draft))
    Workload.objects.filter(pk=net.pk).update(parameters={"steps": 3, "burn_in": 0})
    again, problems = make_draft(preset, draft.owner)
    assert "Its sweeps are left out. With burn_in=5" in problems[0]
    assert (again.sweeps, names(again)) == ({}, ["net"])


def test_the_catalogue_and_the_form_show_no_variants(
    as_owner: Client, site: Site, net: Workload
) -> None:
    save(as_owner, site, net, "batch_size: 32, 64")
    for address in (NEW, "/catalogue/?tab=workloads", "/search/?q=net"):
        page = as_owner.get(address).content.decode()
        assert "net" in page
        assert "net batch_size=64" not in page, address


def test_who_may_not_see_a_workload_sees_no_variant_of_it(
    people: People, as_owner: Client, site: Site, net: Workload
) -> None:
    Workload.objects.filter(pk=net.pk).update(visibility="private", owner=people.owner)
    save(as_owner, site, net, "batch_size: 32")
    variant = Workload.objects.get(parent=net)
    assert as_owner.get(f"/catalogue/workloads/{variant.pk}/").status_code == 200
    assert people.client("other").get(f"/catalogue/workloads/{variant.pk}/").status_code == 404


def test_variants_of_a_private_draft_tell_nobody_its_values(
    people: People, as_owner: Client, site: Site, net: Workload
) -> None:
    """The workload is everybody's, and one of the values stands in a draft of each person."""
    Workload.objects.filter(pk=net.pk).update(owner=people.other)
    draft = save(as_owner, site, net, "batch_size: 32, 64", visibility="private")
    other = people.client("other")
    save(other, site, net, "batch_size: 64", visibility="private")
    secret = Workload.objects.get(name="net batch_size=32")
    shared = Workload.objects.get(name="net batch_size=64")

    def can_see(client: Client, row: Workload) -> bool:
        listed = client.get("/catalogue/?tab=workloads&variants=1").content.decode()
        named = [
            row.name in listed,
            client.get(f"/catalogue/workloads/{row.pk}/").status_code == 200,
            client.get(f"/catalogue/workloads/new/?copy={row.pk}").status_code == 200,
            client.get(f"/catalogue/workloads/{row.pk}/edit/").status_code != 404,
            client.post(f"/catalogue/workloads/{row.pk}/delete/").status_code != 404,
            client.get(reverse("visibility", args=["workload", row.pk])).status_code
            not in (403, 404),
        ]
        # Only a maker of workloads may copy one, only its owner may change it.
        assert len(set(named[:3])) == 1, named
        return any(named)

    assert can_see(as_owner, secret)
    assert can_see(as_owner, shared)
    assert can_see(people.client("admin"), secret)
    assert not can_see(other, secret)  # though its workload is theirs
    assert can_see(other, shared)
    Experiment.objects.filter(pk=draft.pk).update(visibility="members")
    assert can_see(other, secret)


def test_the_form_says_who_sees_the_variants(as_owner: Client, site: Site, net: Workload) -> None:
    page = as_owner.post(NEW, swept(site, net, "batch_size: 32"), headers=HTMX).content.decode()
    assert "Everyone who may view both this experiment and net can view its variants" in page


def test_a_variant_has_the_visibility_of_its_workload(
    people: People, as_owner: Client, site: Site, net: Workload
) -> None:
    Workload.objects.filter(pk=net.pk).update(owner=people.owner)
    save(as_owner, site, net, "batch_size: 32")
    variant = Workload.objects.get(parent=net)
    Workload.objects.filter(pk=net.pk).update(visibility="private")
    page = as_owner.get(f"/catalogue/workloads/{variant.pk}/").content.decode()
    assert "only me" in page
    assert "everybody who can log in" not in page
    # Nobody is led to a form that would change nothing.
    change = reverse("visibility", args=["workload", variant.pk])
    assert change not in page
    listed = as_owner.get("/catalogue/?tab=workloads&variants=1").content.decode()
    assert variant.name in listed
    assert change not in listed
    assert "everybody who can log in" not in listed.partition(variant.name)[2].partition("</tr>")[0]
    answer = as_owner.post(change, {"visibility": "members"})
    assert answer["Location"] == reverse("visibility", args=["workload", net.pk])


def test_a_sweep_of_a_workload_that_is_not_ticked_is_no_sweep(
    as_owner: Client, site: Site, net: Workload
) -> None:
    sent = asked(site, **{f"sweep_{net.pk}": "rubbish"}) | {"action": "save"}
    as_owner.post(NEW, sent)
    assert names(Experiment.objects.get()) == [site.workload.name]


def test_a_preview_of_100_variants_asks_no_more_often_than_one_of_2(
    as_owner: Client, site: Site, net: Workload
) -> None:
    def count(text: str) -> int:
        as_owner.post(NEW, swept(site, net, text), headers=HTMX)
        with CaptureQueriesContext(connection) as asked_for:
            answer = as_owner.post(NEW, swept(site, net, text), headers=HTMX)
        assert not answer.context["form"].errors
        return len(asked_for)

    assert count("batch_size: " + ", ".join(map(str, range(1, 101)))) == count("batch_size: 1, 2")


def test_two_tabs_of_a_swept_draft_notice_each_other(
    as_owner: Client, site: Site, net: Workload
) -> None:
    draft = save(as_owner, site, net, "batch_size: 32, 64")
    edit = f"/experiments/{draft.pk}/edit/"
    seen = as_owner.get(edit).context["seen"]
    sent = swept(site, net, "batch_size: 32", seen=seen, action="save")
    assert as_owner.post(edit, sent).status_code == 302
    late = swept(site, net, "batch_size: 64", seen=seen, action="save")
    assert "saved in another tab" in as_owner.post(edit, late).content.decode()


def test_an_experiment_without_sweeps_is_frozen_as_before(people: People) -> None:
    experiment = ExperimentFactory(owner=people.owner)
    lifecycle.launch(experiment, people.owner)
    assert "sweeps" not in experiment.plan


def test_lists_sort_the_numbers_of_variants_as_numbers(
    as_owner: Client, site: Site, net: Workload
) -> None:
    sent = swept(site, net, "batch_size: 256, 32, 1024", repeats="1") | {"action": "launch"}
    as_owner.post(NEW, sent)
    rows = as_owner.get("/runs/?sort=workload&columns=workload").content.decode()
    places = [rows.index(f"net batch_size={size}<") for size in (32, 256, 1024)]
    assert places == sorted(places)
    row = Experiment.objects.get()
    cell = COLUMNS["workloads"].read(row, measure_progress([row])[row.pk])
    assert cell == "net batch_size=32, net batch_size=256, net batch_size=1024"


def test_a_sweep_that_is_being_typed_is_kept(as_owner: Client, site: Site, net: Workload) -> None:
    name = f"sweep_{net.pk}"
    answer = Tab(as_owner).keep(site, workloads=[net.pk], **{name: "batch_size: 32,"})
    again = Tab(as_owner, answer["HX-Replace-Url"])
    assert again.field(name).text.strip() == "batch_size: 32,"


def test_the_form_shows_another_cluster_with_what_was_typed(
    as_owner: Client, site: Site, net: Workload
) -> None:
    sent = swept(site, net, "batch_size: 32, 64") | {"action": "cluster"}
    page = BeautifulSoup(as_owner.post(NEW, sent).content, "html.parser")
    field = page.select_one(f"#id_sweep_{net.pk}")
    assert field
    assert field.text.strip() == "batch_size: 32, 64"


def test_the_administration_shows_no_variants(
    people: People, as_owner: Client, site: Site, net: Workload
) -> None:
    save(as_owner, site, net, "batch_size: 32")
    variant = Workload.objects.get(parent=net)
    client = people.client("admin")
    listed = client.get(reverse("admin:experiments_workload_changelist")).content.decode()
    assert "net" in listed
    assert variant.name not in listed
    changed = client.get(reverse("admin:experiments_workload_change", args=[variant.pk]))
    assert changed.status_code == 302
