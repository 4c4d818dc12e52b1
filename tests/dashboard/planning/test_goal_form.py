"""The form: what is to be shown, and a margin of its own for what is faster."""

from __future__ import annotations

import re

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment
from experiments.planning.freeze import freeze_definition
from experiments.presets.own_presets import describe_definition
from tests.dashboard.conftest import Site
from tests.dashboard.planning.test_form import HTMX, NEW, asked, problems

pytestmark = pytest.mark.django_db

NOT_SLOWER = {"goal": "not slower"}
UNEVEN = {"margin": "5", "margin_faster": "2"}


def preview(client: Client, site: Site, **changes: str) -> str:
    page = client.post(NEW, asked(site, **changes), headers=HTMX).content.decode()
    return " ".join(page.split())


def test_what_was_posted_before_there_was_the_choice_is_frozen_as_it_was(
    as_owner: Client, site: Site
) -> None:
    as_owner.post(NEW, asked(site) | {"action": "launch"})
    launched = Experiment.objects.get()
    assert launched.plan
    assert (launched.goal, launched.margin_faster) == ("equivalence", None)
    assert not {"goal", "margin_faster"} & launched.plan.keys()


@pytest.mark.parametrize(
    ("changes", "frozen"),
    [(NOT_SLOWER, {"goal": "not slower"}), (UNEVEN, {"margin_faster": 0.02})],
    ids=["not slower", "uneven"],
)
def test_the_choice_is_saved_frozen_and_copied(
    as_owner: Client, site: Site, changes: dict[str, str], frozen: dict[str, object]
) -> None:
    as_owner.post(NEW, asked(site, **changes) | {"action": "launch"})
    launched = Experiment.objects.get()
    assert launched.plan
    unusual = {"goal", "margin_faster"} & launched.plan.keys()
    assert {name: launched.plan[name] for name in unusual} == frozen
    assert frozen.items() <= describe_definition(launched)["settings"].items()
    as_owner.post(reverse("experiment_clone", args=[launched.pk]))
    copy = Experiment.objects.exclude(pk=launched.pk).get()
    assert frozen.items() <= freeze_definition(copy, 1).items()
    page = as_owner.get(launched.get_absolute_url() + "?tab=plan").content.decode()
    text = " ".join(page.replace("\N{NO-BREAK SPACE}", " ").split())
    shown = "<dt>Margin</dt><dd>2 %" if changes is NOT_SLOWER else "2 % faster to 5 % slower</dd>"
    assert shown in text
    assert f"<dt>To be shown</dt><dd>{launched.get_goal_display()}</dd>" in text
    edited = as_owner.get(f"{copy.get_absolute_url()}edit/").content.decode()
    assert re.search(rf'value="{copy.goal}"[^>]* checked', edited)


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"goal": "faster"}, "goal", "Select a valid choice"),
        ({"margin_faster": "0"}, "margin_faster", "from 0.01 % to 100 %"),
        ({"margin_faster": "nan"}, "margin_faster", "Enter a number."),
        ({"margin_faster": "150"}, "margin_faster", "from 0.01 % to 100 %"),
        ({"margin_faster": "-2"}, "margin_faster", "from 0.01 % to 100 %"),
        ({"margin": "150", **NOT_SLOWER}, "margin", "from 0.01 % to 100 %"),
        ({"margin_faster": "2", **NOT_SLOWER}, "margin_faster", "leave this empty"),
    ],
)
def test_what_cannot_be_shown_is_refused(
    as_owner: Client, site: Site, changes: dict[str, str], field: str, message: str
) -> None:
    assert message in problems(as_owner, site, **changes)[field][0]


@pytest.mark.parametrize("faster", ["2", ""])
def test_the_same_margin_in_both_directions_is_one_margin(
    as_owner: Client, site: Site, faster: str
) -> None:
    as_owner.post(NEW, asked(site, margin_faster=faster) | {"action": "save"})
    assert Experiment.objects.get().margin_faster is None


@pytest.mark.parametrize(
    "values", [{"goal": "faster"}, {"margin_faster": 0}, {"goal": "not slower", "margin_faster": 1}]
)
def test_the_database_keeps_no_other_goal(
    as_owner: Client, site: Site, values: dict[str, object]
) -> None:
    as_owner.post(NEW, asked(site) | {"action": "save"})
    with pytest.raises(IntegrityError), transaction.atomic():
        Experiment.objects.update(**values)


def test_the_planner_counts_the_repeats_of_what_is_to_be_shown(
    as_owner: Client, site: Site
) -> None:
    both = preview(as_owner, site, repeats="8")
    alone = preview(as_owner, site, repeats="8", **NOT_SLOWER)
    uneven = preview(as_owner, site, repeats="8", **UNEVEN)
    assert "8 blocks can prove 1.7 %; 2 % needs 6." in both
    assert "8 blocks can prove “not slower” at 1.4 %; 2 % needs 5." in alone
    assert "8 blocks can prove 1.7 %; 2 % faster to 5 % slower needs 5." in uneven
