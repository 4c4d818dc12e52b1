"""The form: further decisive metrics with margins of their own."""

from __future__ import annotations

from typing import Any

import pytest
from bs4 import BeautifulSoup
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment
from experiments.planning.freeze import freeze_definition
from experiments.presets.own_presets import describe_definition
from tests.dashboard.conftest import Site
from tests.dashboard.planning.test_form import HTMX, NEW, asked, problems
from tests.factories import WorkloadFactory

pytestmark = pytest.mark.django_db

TWO = {"metric_2": "gflops", "margin_2": "5", "metric_3": "matmul_time", "margin_3": "3"}
STORED = [{"metric": "gflops", "margin": 0.05}, {"metric": "matmul_time", "margin": 0.03}]


def preview(client: Client, site: Site, **changes: str) -> str:
    page = client.post(NEW, asked(site, **changes), headers=HTMX).content.decode()
    return " ".join(page.replace("\N{NO-BREAK SPACE}", " ").split())


def test_without_any_the_plan_is_frozen_as_it_was(as_owner: Client, site: Site) -> None:
    as_owner.post(NEW, asked(site) | {"action": "launch"})
    launched = Experiment.objects.get()
    assert launched.plan
    assert (launched.further_metrics, launched.metrics_rule) == ([], "all")
    assert not {"further_metrics", "metrics_rule"} & launched.plan.keys()
    shown = as_owner.get(launched.get_absolute_url() + "?tab=plan").content.decode()
    assert "Further decisive metrics" not in shown


@pytest.mark.parametrize("rule", ["all", "in order"])
def test_they_are_saved_frozen_copied_and_shown(as_owner: Client, site: Site, rule: str) -> None:
    as_owner.post(NEW, asked(site, **TWO, metrics_rule=rule) | {"action": "launch"})
    launched = Experiment.objects.get()
    assert launched.plan
    frozen = {"further_metrics": STORED, "metrics_rule": rule}
    assert frozen.items() <= launched.plan.items()
    assert frozen.items() <= describe_definition(launched)["settings"].items()
    shown = as_owner.get(launched.get_absolute_url() + "?tab=plan").content.decode()
    assert "gflops within 5 %, matmul_time within 3 %;" in shown.replace("\N{NO-BREAK SPACE}", " ")
    as_owner.post(reverse("experiment_clone", args=[launched.pk]))
    copy = Experiment.objects.exclude(pk=launched.pk).get()
    assert frozen.items() <= freeze_definition(copy, 1).items()
    edited = BeautifulSoup(as_owner.get(f"{copy.get_absolute_url()}edit/").content, "html.parser")
    assert edited.select_one("#id_metric_2 option[selected]")["value"] == "gflops"  # type: ignore[index]
    assert edited.select_one("#id_margin_3")["value"] == "3"  # type: ignore[index]
    assert edited.select_one("#further-metrics[open]")


def test_a_margin_if_faster_is_kept_where_it_differs(as_owner: Client, site: Site) -> None:
    sent = TWO | {"margin_faster_2": "2", "margin_faster_3": "3", "action": "save"}
    as_owner.post(NEW, asked(site, **sent))
    assert Experiment.objects.get().further_metrics == [
        {"metric": "gflops", "margin": 0.05, "margin_faster": 0.02},
        STORED[1],
    ]


def test_an_empty_row_between_two_is_left_out(as_owner: Client, site: Site) -> None:
    sent = {"metric_3": "gflops", "margin_3": "5", "action": "save"}
    as_owner.post(NEW, asked(site, **sent))
    assert Experiment.objects.get().further_metrics == STORED[:1]


def test_a_draft_loses_them_again(as_owner: Client, site: Site) -> None:
    as_owner.post(NEW, asked(site, **TWO) | {"action": "save"})
    draft = Experiment.objects.get()
    as_owner.post(f"{draft.get_absolute_url()}edit/", asked(site) | {"action": "save"})
    draft.refresh_from_db()
    assert draft.further_metrics == []


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"metric_2": "joy", "margin_2": "5"}, "metric_2", "Select a valid choice"),
        ({"metric_2": "gflops"}, "margin_2", "Each decisive metric has a margin of its own."),
        ({"metric_2": "gflops", "margin_2": "0"}, "margin_2", "from 0.01 % to 100 %"),
        ({"metric_2": "gflops", "margin_2": "nan"}, "margin_2", "Enter a number."),
        ({"metric_2": "gflops", "margin_2": "-1"}, "margin_2", "from 0.01 % to 100 %"),
        ({"metric_2": "gflops", "margin_2": "150"}, "margin_2", "from 0.01 % to 100 %"),
        ({"margin_2": "5"}, "metric_2", "Choose the metric that this margin is of."),
        (TWO | {"metric_3": "gflops"}, "metric_3", "gflops is decisive metric 2 already"),
        ({"metric_2": "step_time", "margin_2": "5"}, "metric_2", "is the primary metric of blas"),
        (
            {"primary_metric": "gflops", "metric_2": "gflops", "margin_2": "5"},
            "metric_2",
            "gflops is the primary metric: choose another one",
        ),
        ({"metric_2": "images_per_second", "margin_2": "5"}, "metric_2", "does not report"),
        ({"metric_2": "queue_time", "margin_2": "5"}, "metric_2", "choose the independent design"),
        (TWO | {"metrics_rule": "any"}, "metrics_rule", "Select a valid choice"),
        (
            TWO | {"repeats": "10", "looks": "2"},
            "looks",
            "Several decisive metrics are judged once",
        ),
        (
            TWO | {"goal": "not slower", "margin_faster_2": "1"},
            "margin_faster_2",
            "How much faster it is does not matter",
        ),
    ],
)
def test_what_cannot_decide_is_refused_at_its_field(
    as_owner: Client, site: Site, changes: dict[str, Any], field: str, message: str
) -> None:
    assert message in problems(as_owner, site, **changes)[field][0]


def test_a_metric_that_one_of_the_workloads_does_not_measure_is_refused(
    as_owner: Client, site: Site
) -> None:
    fft = WorkloadFactory(name="fft alone", parameters={"operation": "fft"})
    found = problems(as_owner, site, **TWO, workloads=[site.workload.pk, fft.pk])
    assert "fft alone does not report matmul_time." in found["metric_3"][0]


def test_the_preview_is_quiet_about_a_margin_that_is_still_to_come(
    as_owner: Client, site: Site
) -> None:
    sent = preview(as_owner, site, metric_2="gflops")
    assert "a margin of its own." not in sent
    assert "does not report" in preview(as_owner, site, metric_2="images_per_second")


def test_power_is_that_of_each_metric_and_of_all_at_once(as_owner: Client, site: Site) -> None:
    text = preview(as_owner, site, repeats="8", **TWO)
    assert "Primary metric: No runs of blas to go by here yet" in text
    assert "gflops: No runs" in text
    assert "All 3 decisive metrics at once need 7; step_time alone needs most, 6." in text
    assert "however the metrics are correlated (Boole’s bound)" in text
    assert "decisive metrics at once" not in preview(as_owner, site, repeats="8")


def test_a_tab_that_was_opened_before_the_metrics_were_changed_is_told(
    as_owner: Client, site: Site
) -> None:
    as_owner.post(NEW, asked(site, **TWO) | {"action": "save"})
    draft = Experiment.objects.get()
    page = BeautifulSoup(as_owner.get(f"{draft.get_absolute_url()}edit/").content, "html.parser")
    seen = page.select_one("input[name=seen]")["value"]  # type: ignore[index]
    same = asked(site, **TWO, seen=seen, estimand="nodes", metrics_rule="all")
    draft.further_metrics = STORED[::-1]
    draft.save()
    answer = as_owner.post(f"{draft.get_absolute_url()}edit/", same | {"action": "save"})
    assert "was saved in another tab" in answer.content.decode()
    draft.further_metrics = STORED
    draft.save()
    answer = as_owner.post(f"{draft.get_absolute_url()}edit/", same | {"action": "save"})
    assert answer.status_code == 302
