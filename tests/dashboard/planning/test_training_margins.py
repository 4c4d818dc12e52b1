"""The form: margins of training, where a workload trains something, frozen with the plan."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment, Workload
from experiments.planning.freeze import freeze_definition
from experiments.presets.own_presets import describe_definition
from tests.dashboard.conftest import Site
from tests.dashboard.planning.test_form import HTMX, NEW, asked, problems
from tests.factories import WorkloadFactory

pytestmark = pytest.mark.django_db

MARGINS = {"accuracy_margin": "0,5", "loss_margin": "0.02"}
FROZEN = {"accuracy_margin": 0.5, "loss_margin": 0.02}


@pytest.fixture
def trains(site: Site) -> Workload:
    row: Workload = WorkloadFactory(name="net", kind="cnn", parameters={"evaluate": True})
    return row


def shown(page: bytes) -> dict[str, str]:
    """Return the margins of training that a page shows, with what stands in each."""
    fields = BeautifulSoup(page, "html.parser").select("#training-margins input")
    return {str(field["name"]): str(field.get("value", "")) for field in fields}


def test_what_was_posted_before_there_was_the_choice_is_frozen_as_it_was(
    as_owner: Client, site: Site, trains: Workload
) -> None:
    as_owner.post(NEW, asked(site, workloads=[trains.pk]) | {"action": "launch"})
    launched = Experiment.objects.get()
    assert launched.plan
    assert (launched.accuracy_margin, launched.loss_margin) == (None, None)
    assert not FROZEN.keys() & launched.plan.keys()


def test_the_margins_are_saved_frozen_copied_and_kept_in_presets(
    as_owner: Client, site: Site, trains: Workload
) -> None:
    as_owner.post(NEW, asked(site, workloads=[trains.pk], **MARGINS) | {"action": "launch"})
    launched = Experiment.objects.get()
    assert launched.plan
    assert launched.plan_hash
    assert FROZEN.items() <= launched.plan.items()
    assert FROZEN.items() <= describe_definition(launched)["settings"].items()
    as_owner.post(reverse("experiment_clone", args=[launched.pk]))
    copy = Experiment.objects.exclude(pk=launched.pk).get()
    assert FROZEN.items() <= freeze_definition(copy, 1).items()
    plan = as_owner.get(launched.get_absolute_url() + "?tab=plan").content.decode()
    text = " ".join(plan.replace("\N{NO-BREAK SPACE}", " ").split())
    assert "<dt>Margins of training</dt><dd>0.5 points of accuracy, 0.02 of the loss</dd>" in text
    edited = as_owner.get(f"{copy.get_absolute_url()}edit/").content
    assert shown(edited) == {"accuracy_margin": "0.5", "loss_margin": "0.02"}


def test_only_workloads_that_train_are_asked_for_a_margin(
    as_owner: Client, site: Site, trains: Workload
) -> None:
    silent = as_owner.post(NEW, asked(site) | {"action": "preview"}).content
    assert shown(silent) == {}
    page = as_owner.post(NEW, asked(site, workloads=[trains.pk]) | {"action": "preview"}).content
    assert shown(page) == {"accuracy_margin": "", "loss_margin": ""}
    details = BeautifulSoup(page, "html.parser").select_one("details#training")
    assert details is not None
    assert not details.has_attr("open"), "it is folded until a margin is filled in"
    trains.parameters = {"evaluate": False}
    trains.save()
    page = as_owner.post(NEW, asked(site, workloads=[trains.pk]) | {"action": "preview"}).content
    assert shown(page) == {"loss_margin": ""}


def test_the_live_preview_brings_the_fields_once_and_leaves_typed_ones_alone(
    as_owner: Client, site: Site, trains: Workload
) -> None:
    chosen = asked(site, workloads=[trains.pk])
    first = as_owner.post(NEW, chosen, headers=HTMX).content
    assert shown(first) == {"accuracy_margin": "", "loss_margin": ""}
    typing = as_owner.post(NEW, chosen | MARGINS, headers=HTMX).content
    assert shown(typing) == {}, "whoever types into one keeps it"
    unticked = as_owner.post(NEW, asked(site, accuracy_margin="", loss_margin=""), headers=HTMX)
    box = BeautifulSoup(unticked.content, "html.parser").select_one("#training-margins")
    assert box is not None, "they are taken away"
    assert shown(unticked.content) == {}


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"accuracy_margin": "0"}, "accuracy_margin", "greater than or equal to 0.001"),
        ({"accuracy_margin": "101"}, "accuracy_margin", "less than or equal to 100"),
        ({"accuracy_margin": "nan"}, "accuracy_margin", "Enter a number."),
        ({"loss_margin": "-1"}, "loss_margin", "greater than or equal to"),
        ({"loss_margin": "inf"}, "loss_margin", "Enter a number."),
    ],
)
def test_what_is_no_margin_is_refused(
    as_owner: Client,
    site: Site,
    trains: Workload,
    changes: dict[str, str],
    field: str,
    message: str,
) -> None:
    refused = problems(as_owner, site, workloads=[trains.pk], **changes)
    assert message in refused[field][0]


def test_a_margin_of_what_nobody_measures_is_refused_and_shown(
    as_owner: Client, site: Site
) -> None:
    refused = problems(as_owner, site, accuracy_margin="0.5")
    assert refused["accuracy_margin"] == [
        "None of the workloads reports an accuracy (accuracy): leave this empty."
    ]
    page = as_owner.post(NEW, asked(site, accuracy_margin="0.5") | {"action": "save"}).content
    assert shown(page) == {"accuracy_margin": "0.5"}


@pytest.mark.parametrize(
    "values", [{"accuracy_margin": 0}, {"accuracy_margin": 101}, {"loss_margin": -1}]
)
def test_the_database_keeps_no_other_margin(
    as_owner: Client, site: Site, values: dict[str, object]
) -> None:
    as_owner.post(NEW, asked(site) | {"action": "save"})
    with pytest.raises(IntegrityError), transaction.atomic():
        Experiment.objects.update(**values)
