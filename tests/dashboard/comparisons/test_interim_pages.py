"""No verdict before its time: what pages and files say until then, and at interim analyses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from experiments.comparisons import compare_experiment
from experiments.comparisons.scales import compute_scalings
from experiments.models import Experiment, Job, Run
from experiments.statistics import Verdict
from tests.dashboard.conftest import People, Site, measured, show_all_sections
from tests.dashboard.planning.test_form import HTMX, NEW, asked, problems
from tests.factories import ContainerFactory, JobFactory, RunFactory, WorkloadFactory, block

pytestmark = pytest.mark.django_db

ADDRESSES = (
    "experiment",
    "comparison",
    "comparison_csv",
    "comparison_json",
    "comparison_tex",
)


def said(client: Client, name: str, experiment: Experiment) -> str:
    address = reverse(name, args=[experiment.pk])
    answer: Any = client.get(show_all_sections(address) if name == "comparison" else address)
    assert answer.status_code == 200
    content = b"".join(answer) if answer.streaming else answer.content
    return str(content.decode())


def under_way(site: Site, people: People, *, blocks: int, planned: int, **kwargs: Any) -> Any:
    """So many blocks have ended, the rest is planned."""
    experiment = measured(site, people.owner, blocks=blocks, repeats=planned, **kwargs)
    for repeat in range(blocks + 1, planned + 1):
        job = JobFactory(
            experiment=experiment, repeat=repeat, state=Job.State.PLANNED, ended_at=None
        )
        for environment in (site.bare, site.container):
            RunFactory(job=job, environment=environment, state=Run.State.PLANNED)
    return experiment


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_verdict_before_the_last_planned_run(
    name: str, site: Site, people: People, as_owner: Client
) -> None:
    experiment = under_way(site, people, blocks=4, planned=5)
    text = said(as_owner, name, experiment)
    for verdict in Verdict:
        assert verdict not in text
    for number in ("1.100", "+10.", "p_difference", "forest", "equivalence-0"):
        assert number not in text
    if name == "comparison_tex":
        assert "So far 4 of 5 blocks have ended." in text
    else:
        assert "The verdict appears when all 5 blocks have ended; 4 have." in text


def test_runs_are_points_long_before_that(site: Site, people: People, as_owner: Client) -> None:
    experiment = under_way(site, people, blocks=2, planned=5)
    page = said(as_owner, "comparison", experiment)
    assert 'data-chart="strip-0"' in page
    assert 'data-chart="order-0"' in page
    assert all(run.uid in page for run in experiment.runs.filter(state="succeeded"))
    runs = json.loads(said(as_owner, "runs_json", experiment))["runs"]
    assert sum(run.get("step_time (s)") is not None for run in runs) == 4


def test_lists_and_the_overview_say_when_it_comes(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = under_way(site, people, blocks=4, planned=5)
    address = reverse("comparison", args=[experiment.pk])
    brief = as_owner.get(address, headers=HTMX).content.decode()
    assert "verdict after 5 blocks; 4 so far" in brief
    page = as_owner.get("/").content.decode()
    assert "The verdict appears when all 5 blocks have ended; 4 have." in page
    for verdict in Verdict:
        assert verdict not in page + brief


def test_cancelled_early_it_is_stamped_and_told(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = under_way(site, people, blocks=4, planned=10)
    as_owner.post(reverse("experiment_cancel", args=[experiment.pk]))
    page = said(as_owner, "comparison", experiment)
    assert "<summary>STOPPED EARLY</summary><p>Stopped after 4 of 10 blocks" in page
    assert "It was ended after 4 of 10 blocks, outside the plan." in page
    assert "STOPPED EARLY" in said(as_owner, "comparison_tex", experiment)


def test_a_look_that_decided_offers_to_stop(site: Site, people: People, as_owner: Client) -> None:
    experiment = under_way(site, people, blocks=5, planned=10, looks=2)
    page = said(as_owner, "experiment", experiment)
    assert "SLOWER" in page
    assert "Decided at interim analysis 1 of 2." in page
    assert (
        "Interim analysis 2 of 2 comes when all 10 blocks have ended; 5 of their 10 blocks have."
        in page
    )
    address = reverse("experiment_stop", args=[experiment.pk])
    assert address in page
    other = people.client("other")
    assert address not in said(other, "experiment", experiment)
    assert other.post(address, {"analysis": "1"}).status_code == 403
    page = as_owner.post(address, {"analysis": "1"}, follow=True).content.decode()
    assert "Stopped at interim analysis 1. Its verdicts stand" in page
    assert address not in page
    assert "A person ended the experiment at interim analysis 1." in said(
        as_owner, "comparison", experiment
    )
    exported = json.loads(said(as_owner, "comparison_json", experiment))
    assert exported["experiment"]["stopped_at_look"] == 1
    assert exported["comparison"][0]["stamps"] == ""


@pytest.mark.parametrize("analysis", ["2", "0", "", "-1", "x", "9" * 30])
def test_a_look_that_is_not_the_last_one_is_refused(
    analysis: str, site: Site, people: People, as_owner: Client
) -> None:
    experiment = under_way(site, people, blocks=5, planned=10, looks=2)
    address = reverse("experiment_stop", args=[experiment.pk])
    page = as_owner.post(address, {"analysis": analysis}, follow=True).content.decode()
    assert "Not stopped" in page
    experiment.refresh_from_db()
    assert experiment.cancelled_at is None


def test_several_comparisons_are_counted_in_the_offer(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = under_way(site, people, blocks=0, planned=10, looks=2)
    third = ContainerFactory(cluster=site.cluster, name="udocker")
    experiment.environments.add(third)
    experiment.jobs.filter(repeat__lte=5).delete()
    for repeat, ratio in enumerate((1.3, 0.8, 1.2, 0.7, 1.0), start=1):
        values = {site.bare: 1.0, site.container: 1.1 + repeat / 1000, third: ratio}
        block(experiment, repeat, values)
    page = " ".join(said(as_owner, "experiment", experiment).split())
    assert (
        "Interim analysis 1 has decided 1 of 2 comparisons; the others would stay as they are."
        in page
    )


def test_the_intervals_that_decide_are_the_ones_that_are_shown(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = under_way(site, people, blocks=5, planned=10, looks=2)
    for name in ("comparison", "comparison_tex"):
        text = said(as_owner, name, experiment)
        assert "97.06" in text
        assert "94.12" in text
        # Components of variance have intervals of their own, which decide nothing.
        text = text.replace("\\%", "%").replace("REML with 95 % intervals", "")
        assert "95 %" not in text.replace("(95 % CI)", "")
        assert "each at the two-sided level 0.0294" in text


def test_the_definition_names_the_looks(site: Site, people: People, as_owner: Client) -> None:
    experiment = under_way(site, people, blocks=0, planned=15, looks=3)
    page = as_owner.get(experiment.get_absolute_url(), {"tab": "plan"}).content.decode()
    assert "3: after 5, 10 and 15 repeats, each at the level 0.0221" in page


def test_looks_that_the_repeats_do_not_allow_are_refused_at_the_field(
    as_owner: Client, site: Site
) -> None:
    found = problems(as_owner, site, repeats="9", looks="2")
    assert found == {
        "looks": [
            "2 interim analyses need at least 10 repeats: between one and the "
            "next come 5, the fewest that a verdict needs. 9 repeats allow 1 interim analysis."
        ]
    }
    assert "looks" in problems(as_owner, site, repeats="90", looks="6")


def test_a_draft_keeps_its_looks_and_so_does_its_copy(as_owner: Client, site: Site) -> None:
    as_owner.post(NEW, asked(site, repeats="10", looks="2") | {"action": "save"})
    draft = Experiment.objects.get()
    assert draft.looks == 2
    as_owner.post(reverse("experiment_clone", args=[draft.pk]))
    assert list(Experiment.objects.values_list("looks", flat=True)) == [2, 2]


def test_the_form_says_what_looks_save(as_owner: Client, site: Site) -> None:
    page = as_owner.post(NEW, asked(site, repeats="15", looks="3"), headers=HTMX).content.decode()
    words = " ".join(page.split())
    assert (
        "With interim analyses after 5, 10 and 15 repeats, each at 0.0221, it ends after 8.2 on "
        "average" in words
    )
    assert "judged once it takes 15 and proves it in more than 99." in words
    page = as_owner.post(NEW, asked(site, repeats="15"), headers=HTMX).content.decode()
    assert "With looks" not in page


def test_a_settled_job_has_no_button_to_try_it_again(
    site: Site, people: People, as_owner: Client
) -> None:
    experiment = under_way(site, people, blocks=4, planned=10, looks=2)
    failed = experiment.jobs.get(repeat=5)
    failed.runs.update(state=Run.State.FAILED)
    Job.objects.filter(pk=failed.pk).update(state=Job.State.FAILED)
    page = as_owner.get(experiment.get_absolute_url(), {"tab": "jobs"}).content.decode()
    address = reverse("job_retry", args=[failed.uid])
    assert address not in page
    page = as_owner.post(address, follow=True).content.decode()
    assert "a planned analysis has judged without it" in page


def test_scaling_shows_no_runs_that_no_analysis_has_judged(site: Site, people: People) -> None:
    """Or it would tell the next ratio before its time."""
    workload = WorkloadFactory(name="network", kind="cnn", parameters={})
    experiment = measured(
        replace(site, workload=workload),
        people.owner,
        blocks=5,
        repeats=10,
        looks=2,
        scales=["1x1", "1x2"],
    )
    for scale in experiment.scales:
        JobFactory(experiment=experiment, repeat=10, scale=scale, state="planned", ended_at=None)

    def list_levels() -> list[tuple[str, int, int, float]]:
        (scaling,) = compute_scalings(compare_experiment(experiment))
        return [(level.environment, level.gpus, level.n, level.mean) for level in scaling.levels]

    judged = list_levels()
    assert {n for _, _, n, _ in judged} == {5}
    for scale in experiment.scales:
        block(experiment, 6, {site.bare: 9.0, site.container: 9.0}, scale=scale)
    assert list_levels() == judged
