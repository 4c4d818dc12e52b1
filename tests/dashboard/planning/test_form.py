"""Asking for an experiment: previews, refusals at the field, drafts and launch."""

from __future__ import annotations

import re
from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from dashboard.form_styles import PercentField
from dashboard.planning.experiment_forms import ExperimentForm
from dashboard.planning.scales_field import ScalesField
from experiments.execution import lifecycle
from experiments.execution.gpu_hours import find_month
from experiments.models import Cluster, Experiment, GPUMonth, Run, StagedImage
from runners.interpreters import NO_PYTHON
from tests.dashboard.conftest import People, Site
from tests.factories import (
    ClusterFactory,
    ContainerFactory,
    CredentialFactory,
    EnvironmentFactory,
    ExperimentFactory,
    LaunchedFactory,
    PartitionFactory,
    WorkloadFactory,
)

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}
NEW = "/experiments/new/"


def asked(site: Site, **changes: Any) -> dict[str, Any]:
    return {
        "question": "What does Apptainer cost?",
        "cluster": site.cluster.pk,
        "partition": site.partition.pk,
        "workloads": [site.workload.pk],
        "environments": [site.bare.pk, site.container.pk],
        "baseline": site.bare.pk,
        "scales": "1x1",
        "repeats": "5",
        "margin": "2",
        "primary_metric": "",
        "design": "paired",
        "cooldown_seconds": "0",
        "visibility": "members",
    } | changes


def problems(client: Client, site: Site, **changes: Any) -> dict[str, list[str]]:
    """Return the messages at each field after an attempt to save."""
    answer = client.post(NEW, asked(site, **changes) | {"action": "save"})
    assert answer.status_code == 200
    assert Experiment.objects.count() == 0
    form = answer.context["form"]
    page = answer.content.decode()
    for messages in form.errors.values():
        for message in messages:
            assert form.error_class([message])[0]
    assert page.count('class="problem"') >= sum(len(found) for found in form.errors.values())
    return {name: list(found) for name, found in form.errors.items()}


def test_a_draft_is_saved_as_asked(as_owner: Client, site: Site, people: People) -> None:
    answer = as_owner.post(NEW, asked(site, scales="1x0, 1x1") | {"action": "save"})
    draft = Experiment.objects.get()
    assert answer["Location"] == draft.get_absolute_url()
    assert (draft.owner, draft.is_draft) == (people.owner, True)
    assert (draft.scales, draft.margin, draft.repeats) == (["1x0", "1x1"], 0.02, 5)
    assert set(draft.environments.all()) == {site.bare, site.container}


def test_launch_from_the_form_plans_every_run(as_owner: Client, site: Site) -> None:
    as_owner.post(NEW, asked(site) | {"action": "launch"})
    experiment = Experiment.objects.get()
    assert experiment.plan_hash
    assert Run.objects.filter(experiment=experiment).count() == 10


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"scales": "1x4"}, "scales", "4 GPUs a node asked for; gpu has 2."),
        ({"scales": "3x1"}, "scales", "3 nodes asked for; gpu has 2."),
        ({"scales": "all of them"}, "scales", "'all of them' is no scale"),
        ({"scales": ""}, "scales", "This field is required."),
        ({"repeats": "0"}, "repeats", "greater than or equal to 1"),
        ({"repeats": "5000"}, "repeats", "less than or equal to 1000"),
        ({"margin": "0"}, "margin", "from 0.01 % to 100 %"),
        ({"margin": "nan"}, "margin", "Enter a number."),
        ({"margin": "150"}, "margin", "from 0.01 % to 100 %"),
        ({"cooldown_seconds": "5000"}, "partition", "gpu ends jobs after 1 h 00 min"),
        ({"question": ""}, "question", "This field is required."),
        ({"question": "?" * 301}, "question", "at most 300 characters"),
        ({"environments": []}, "environments", "This field is required."),
        ({"baseline": ""}, "baseline", "This field is required."),
        ({"primary_metric": "images_per_second"}, "primary_metric", "does not report"),
        ({"workloads": ["987654"]}, "workloads", "not one of the available choices"),
    ],
)
def test_what_cannot_run_is_refused_at_the_field(
    changes: dict[str, Any], field: str, words: str, as_owner: Client, site: Site
) -> None:
    found = problems(as_owner, site, **changes)
    assert words in " ".join(found[field])


def test_the_baseline_alone_is_no_comparison(as_owner: Client, site: Site) -> None:
    found = problems(as_owner, site, environments=[site.bare.pk])
    assert "at least one environment more" in found["environments"][0]


def test_another_clusters_environment_is_no_choice(as_owner: Client, site: Site) -> None:
    foreign = EnvironmentFactory()
    found = problems(as_owner, site, environments=[site.bare.pk, foreign.pk])
    assert "environments" in found


def test_a_cluster_whose_key_is_not_mine_is_no_choice(
    as_owner: Client, site: Site, people: People
) -> None:
    key = CredentialFactory(owner=people.admin)
    closed = ClusterFactory(name="closed", transport="ssh", host="x", credential=key)
    assert closed not in ExperimentForm(user=people.owner).fields["cluster"].queryset
    closed.credential.users.add(people.owner)
    assert closed in ExperimentForm(user=people.owner).fields["cluster"].queryset
    closed.enabled = False
    closed.save(update_fields=["enabled"])
    assert closed not in ExperimentForm(user=people.owner).fields["cluster"].queryset


def test_the_preview_counts_and_saves_nothing(as_owner: Client, site: Site) -> None:
    answer = as_owner.post(NEW, asked(site, scales="1x1, 1x2"), headers=HTMX)
    page = answer.content.decode()
    assert "<html" not in page
    assert Experiment.objects.count() == 0
    found = answer.context["form"].forecast
    assert (found.combinations, found.blocks, found.jobs, found.runs) == (4, 10, 10, 20)
    assert 'id="consequences"' in page


def test_the_preview_has_node_hours_where_no_gpus_are_asked_for(
    as_owner: Client, site: Site
) -> None:
    for scales, parts in (
        ("1x0, 2x0 srun", ("none", "node-hours")),
        ("1x1, 1x0", ("at most",)),
    ):
        page = as_owner.post(NEW, asked(site, scales=scales), headers=HTMX).content.decode()
        cost = page[page.index('id="consequences"') :]
        assert all(part in cost for part in parts)
        assert ("node-hours" in cost) == ("node-hours" in parts)


def test_the_preview_warns_where_fewer_gpu_hours_are_left(as_owner: Client, site: Site) -> None:
    def preview() -> str:
        return as_owner.post(NEW, asked(site, scales="1x1"), headers=HTMX).content.decode()

    warning = "GPU-hours left in"
    assert warning not in preview(), "there is no limit"
    Cluster.objects.update(max_gpu_hours_per_month=1)
    month = find_month(timezone.now())
    GPUMonth.objects.create(cluster=site.cluster, month=month, gpu_seconds=3540)
    assert "lab has 0.0 of 1 GPU-hour left in" in preview()
    Cluster.objects.update(max_gpu_hours_per_month=1000)
    assert warning not in preview()


def test_the_preview_counts_what_is_run_again(as_owner: Client, site: Site) -> None:
    def preview(**fields: Any) -> str:
        typed = asked(site, scales="1x1", **fields)
        return " ".join(as_owner.post(NEW, typed, headers=HTMX).content.decode().split())

    more = "more if rules reject runs"
    assert more not in preview(rejected_again=2), "no rule rejects any"
    assert more not in preview(reject_swap="on", rejected_again=0)
    page = preview(reject_swap="on", rejected_again=2)
    assert re.search(r"at most ([0-9.]+), and at most ([0-9.]+) more if rules reject runs", page)
    first, further = (float(number) for number in re.findall(r"at most ([0-9.]+)", page)[:2])
    assert further == pytest.approx(2 * first, abs=0.2)


def test_the_preview_puts_problems_at_their_fields(as_owner: Client, site: Site) -> None:
    page = as_owner.post(NEW, asked(site, scales="1x8", question=""), headers=HTMX).content.decode()
    place = page.index('id="id_scales_error"')
    assert "8 GPUs a node asked for; gpu has 2." in page[place : place + 300]
    assert 'hx-swap-oob="true"' in page
    assert "This field is required" not in page


def test_the_preview_is_quiet_about_an_untouched_form(as_owner: Client, site: Site) -> None:
    page = as_owner.post(NEW, {"cluster": site.cluster.pk}, headers=HTMX).content.decode()
    assert 'class="problem"' not in page


def test_after_an_attempt_the_preview_is_as_strict_as_the_attempt(
    as_owner: Client, site: Site
) -> None:
    sent = asked(site, question="", attempted="launch")
    page = as_owner.post(NEW, sent, headers=HTMX).content.decode()
    assert page.count("This field is required") == 2  # in the summary and at the field
    assert "Not launched." in page
    assert 'href="#id_question"' in page
    assert "autofocus" not in page  # whoever types keeps the focus
    mended = as_owner.post(NEW, sent | {"question": "?"}, headers=HTMX).content.decode()
    assert 'id="summary"' in mended
    assert "Not launched." not in mended


def test_without_javascript_the_summary_has_the_focus_and_another_cluster_keeps_the_attempt(
    as_owner: Client, site: Site
) -> None:
    page = as_owner.post(NEW, asked(site, question="") | {"action": "save"}).content.decode()
    assert "Not saved." in page
    assert page.count("autofocus") == 1
    assert 'name="attempted" value="save"' in page
    other = asked(site, question="", attempted="save") | {"action": "cluster"}
    assert 'name="attempted" value="save"' in as_owner.post(NEW, other).content.decode()


def test_an_attempt_that_nobody_can_make_is_none(as_owner: Client, site: Site) -> None:
    sent = asked(site, question="", attempted="<script>")
    page = as_owner.post(NEW, sent, headers=HTMX).content.decode()
    assert "This field is required" not in page
    assert "script>" not in page


@pytest.mark.parametrize(
    ("address", "links"),
    [
        ("/catalogue/workloads/new/?kind=blas", ["id_name"]),
        ("/catalogue/workloads/new/?kind=command", ["id_name", "id_argv", "id_metric-0-find"]),
        ("/catalogue/environments/new/", ["id_name"]),
        ("/catalogue/images/recipes/new/", ["id_title", "id_lock"]),
        ("/credentials/new/", ["id_name"]),
        ("/credentials/import/", ["id_name"]),
        ("/catalogue/presets/numpy-on-tuned-blas/", ["id_size_0", "id_environments_0"]),
    ],
)
def test_every_form_lists_what_is_wrong_with_links_to_fields_that_are_there(
    address: str, links: list[str], people: People, site: Site
) -> None:
    client = people.client("admin")
    sent = {"cluster": site.cluster.pk, "metric-TOTAL_FORMS": "1", "metric-INITIAL_FORMS": "0"}
    page = client.post(address, sent | {"read": "patterns", "metric-0-name": "x"}).content.decode()
    summary = page[page.index('id="summary"') : page.index("</ul>", page.index('id="summary"'))]
    for link in links:
        assert f'href="#{link}"' in summary
    for target in re.findall(r'href="#([^"]+)"', summary):
        assert page.count(f' id="{target}"') == 1, target


def test_another_cluster_brings_its_own_choices(as_owner: Client, site: Site) -> None:
    elsewhere = ClusterFactory(name="elsewhere")
    bare = EnvironmentFactory(name="bare elsewhere", cluster=elsewhere)
    partition = PartitionFactory(name="big", cluster=elsewhere)
    changed = asked(site, cluster=elsewhere.pk)
    answer = as_owner.post(NEW, changed, headers={**HTMX, "HX-Trigger-Name": "cluster"})
    page = answer.content.decode()
    assert 'id="fields"' in page
    assert "<html" not in page
    assert "bare elsewhere" in page
    assert "Apptainer</span>" not in page
    form = answer.context["form"]
    assert form["question"].value() == "What does Apptainer cost?"
    assert form["baseline"].value() == bare.pk
    assert form["partition"].value() == partition.pk


def test_without_javascript_the_cluster_is_a_first_step(as_owner: Client, site: Site) -> None:
    elsewhere = ClusterFactory(name="elsewhere")
    EnvironmentFactory(name="bare elsewhere", cluster=elsewhere)
    answer = as_owner.post(NEW, asked(site, cluster=elsewhere.pk) | {"action": "cluster"})
    page = answer.content.decode()
    assert "<html" in page
    assert "bare elsewhere" in page
    assert 'class="problem"' not in page
    assert "bare elsewhere" in as_owner.get(NEW, {"cluster": elsewhere.pk}).content.decode()


def test_an_image_that_is_being_staged_waits(as_owner: Client, site: Site) -> None:
    StagedImage.objects.update(state=StagedImage.State.STAGING)
    preview = as_owner.post(NEW, asked(site), headers=HTMX).content.decode()
    assert "is staging" in preview
    page = as_owner.post(NEW, asked(site) | {"action": "launch"}, follow=True).content.decode()
    assert Experiment.objects.get().is_draft
    assert "Saved, but not launched." in page
    assert "is staging" in page


def test_a_draft_is_edited_and_launched(as_owner: Client, site: Site) -> None:
    as_owner.post(NEW, asked(site) | {"action": "save"})
    draft = Experiment.objects.get()
    address = reverse("experiment_edit", args=[draft.pk])
    page = as_owner.get(address).content.decode()
    assert 'value="2"' in page  # the margin, in per cent
    assert 'value="1x1"' in page
    changed = asked(site, margin="3,5", scales="1x0") | {"action": "save"}
    assert as_owner.post(address, changed).status_code == 302
    draft.refresh_from_db()
    assert (draft.margin, draft.scales) == (0.035, ["1x0"])
    as_owner.post(reverse("experiment_launch", args=[draft.pk]))
    draft.refresh_from_db()
    assert not draft.is_draft
    assert as_owner.post(address, changed).status_code == 403


def test_launching_twice_says_so(as_owner: Client, site: Site, people: People) -> None:
    draft = ExperimentFactory(
        owner=people.owner,
        cluster=site.cluster,
        partition=site.partition,
        baseline=site.bare,
        environments=[site.bare, site.container],
    )
    address = reverse("experiment_launch", args=[draft.pk])
    assert as_owner.post(address).status_code == 302
    assert as_owner.post(address).status_code == 403


def test_a_draft_can_be_deleted_and_a_launched_experiment_cannot(
    as_owner: Client, site: Site
) -> None:
    for action in ("save", "launch"):
        as_owner.post(NEW, asked(site, question=action) | {"action": action})
    draft, launched = Experiment.objects.order_by("pk")
    page = as_owner.post(reverse("experiment_delete", args=[draft.pk]), follow=True).content
    assert "Deleted the draft “save”." in page.decode()
    assert as_owner.post(reverse("experiment_delete", args=[launched.pk])).status_code == 403
    assert not lifecycle.discard(draft)
    assert not lifecycle.discard(launched)
    assert list(Experiment.objects.all()) == [launched]


def test_no_cluster_teaches_instead_of_asking(people: People) -> None:
    page = people.client("owner").get(NEW).content.decode()
    assert "No cluster to run on" in page
    assert '<form method="post" class="split"' not in page


def test_the_form_suggests_bare_metal_as_baseline(as_owner: Client, site: Site) -> None:
    ContainerFactory(name="A container first by name", cluster=site.cluster)
    form = as_owner.get(NEW).context["form"]
    assert form["baseline"].value() == site.bare.pk
    assert form["cluster"].value() == site.cluster.pk


def test_the_form_begins_with_the_workload_that_one_comes_from(
    as_owner: Client, site: Site
) -> None:
    shown = as_owner.get(reverse("workload", args=[site.workload.pk])).content.decode()
    address = f"{NEW}?workload={site.workload.pk}"
    assert f'href="{address}"' in shown
    assert as_owner.get(address).context["form"]["workloads"].value() == [str(site.workload.pk)]
    for nonsense in ("0", "x", "9" * 30, ""):
        page = as_owner.get(f"{NEW}?workload={nonsense}")
        assert page.status_code == 200
        assert not page.context["form"].offered.chosen


def test_the_way_to_a_program_of_ones_own_stands_below_the_workloads_and_on_the_first_page(
    as_owner: Client, site: Site, people: People
) -> None:
    way = '<a href="/catalogue/workloads/new/?kind=command">a program of yours</a>'
    assert way in as_owner.get(NEW).content.decode()
    assert way in as_owner.get("/").content.decode()
    LaunchedFactory(owner=people.owner)  # as the demo does, before anybody has seen the page
    page = as_owner.get("/").content.decode()
    assert not is_first_page(page)
    assert way in page


def is_first_page(page: str) -> bool:
    """Return whether the overview stands as on a site without any experiment."""
    return "Its verdict will stand here." in page


def test_the_baseline_proposed_is_bare_metal_with_python(as_owner: Client, site: Site) -> None:
    """Of two on bare metal, the one for programs without Python comes first by its name."""
    EnvironmentFactory(cluster=site.cluster, name="a program alone", python=NO_PYTHON)
    form = as_owner.get(NEW).context["form"]
    assert form["baseline"].value() == site.bare.pk
    site.bare.delete()
    form = as_owner.get(NEW).context["form"]
    assert form["baseline"].value() == site.cluster.environments.get(python=NO_PYTHON).pk


def test_the_form_suggests_a_scale_that_the_cluster_has(as_owner: Client, site: Site) -> None:
    def scales(answer: Any) -> Any:
        return answer.context["form"]["scales"].value()

    assert scales(as_owner.get(f"{NEW}?cluster={site.cluster.pk}")) == "1x1"
    without_gpus = ClusterFactory(owner=site.cluster.owner, credential=site.cluster.credential)
    PartitionFactory(cluster=without_gpus, gpus_per_node=0)
    EnvironmentFactory(cluster=without_gpus, owner=site.cluster.owner)
    assert scales(as_owner.get(f"{NEW}?cluster={without_gpus.pk}")) == "1x0"

    def switched(scales_so_far: str) -> Any:
        data = asked(site, cluster=without_gpus.pk, scales=scales_so_far) | {"action": "cluster"}
        return scales(as_owner.post(NEW, data))

    assert switched("1x1") == "1x0", "what the form itself had filled in"
    assert switched("1x1, 1x2") == "1x1, 1x2", "what a person has typed"


def test_scales_are_written_in_one_way() -> None:
    assert ScalesField().clean(" 1x2 ,2×4,") == ["1x2", "2x4"]
    assert ScalesField().prepare_value(["1x2", "2x4"]) == "1x2, 2x4"


@pytest.mark.parametrize(("text", "fraction"), [("2", 0.02), ("0,5 %", 0.005), ("100", 1.0)])
def test_a_margin_is_typed_in_per_cent(text: str, fraction: float) -> None:
    assert PercentField().clean(text) == fraction


def test_metrics_of_the_workloads_chosen_come_first(as_owner: Client, site: Site) -> None:
    WorkloadFactory(name="net", kind="cnn")
    asked_for = asked(site) | {"action": "preview"}
    page = as_owner.post(NEW, asked_for, headers=HTMX).content.decode()
    metric = BeautifulSoup(page, "html.parser").select_one("#metric")
    assert metric
    assert metric["hx-swap-oob"] == "true"
    first, rest, of_runs = metric.select("optgroup")
    assert first["label"] == "Of the workloads chosen"
    assert "images_per_second" not in first.get_text()
    assert "images_per_second" in rest.get_text()
    assert "step_time" in first.get_text()
    assert of_runs["label"] == "Of every run"
    assert "run_time" in of_runs.get_text()
    assert "run_time" not in first.get_text() + rest.get_text()
    nothing = as_owner.post(NEW, asked_for | {"workloads": []}, headers=HTMX)
    assert "Of the workloads chosen" not in nothing.content.decode()


def test_rules_that_reject_runs_are_part_of_the_draft(as_owner: Client, site: Site) -> None:
    typed = {"reject_swap": "on", "reject_below_mhz": "1500", "rejected_again": "2"}
    typed |= {"reject_others_cpus": "3"}
    as_owner.post(NEW, asked(site, **typed) | {"action": "save"})
    draft = Experiment.objects.get()
    rules = {"swap": True, "least_mhz": 1500, "others_cpus": 3, "again": 2}
    assert draft.rejection_rules == rules
    page = as_owner.get(f"{draft.get_absolute_url()}edit/").content.decode()
    assert re.search(r'<details[^>]* id="reject" open>', page)
    as_owner.post(reverse("experiment_clone", args=[draft.pk]))
    copy = Experiment.objects.exclude(pk=draft.pk).get()
    assert copy.rejection_rules == draft.rejection_rules


@pytest.mark.parametrize("typed", ["-1", "6", "1.5", "1e9", "9" * 30, "x", "\0"])
def test_how_often_rejected_runs_are_tried_again_has_a_limit(
    as_owner: Client, site: Site, typed: str
) -> None:
    assert list(problems(as_owner, site, rejected_again=typed)) == ["rejected_again"]
    as_owner.post(NEW, asked(site, reject_swap="on", rejected_again="") | {"action": "save"})
    assert Experiment.objects.get().rejection_rules == {"swap": True}


@pytest.mark.parametrize(
    "changes",
    [{"design": "independent"}, {"looks": "2", "repeats": "10"}, {"cooldown_seconds": "x"}],
)
def test_what_is_unusual_or_wrong_is_not_folded_away(
    as_owner: Client, site: Site, changes: dict[str, str]
) -> None:
    def is_open(answer: Any) -> bool:
        part = BeautifulSoup(answer.content, "html.parser").select_one("details#design")
        assert part
        return part.has_attr("open")

    assert not is_open(as_owner.get(NEW))
    assert not is_open(as_owner.post(NEW, asked(site) | {"action": "preview"}))
    assert is_open(as_owner.post(NEW, asked(site, **changes) | {"action": "preview"}))


@pytest.mark.parametrize("typed", ["9", "-1", "1.5", "x", "\0"])
def test_what_is_no_limit_of_output_is_refused_at_its_field(
    as_owner: Client, site: Site, typed: str
) -> None:
    assert list(problems(as_owner, site, output_mib=typed)) == ["output_mib"]


@pytest.mark.parametrize("typed", ["0", "-1", "1.5", "1e9", "9" * 30, "x", "\0"])
@pytest.mark.parametrize("name", ["reject_below_mhz", "reject_others_cpus"])
def test_what_is_no_clock_or_number_of_cpus_is_refused_at_its_field(
    as_owner: Client, site: Site, typed: str, name: str
) -> None:
    assert list(problems(as_owner, site, **{name: typed})) == [name]
