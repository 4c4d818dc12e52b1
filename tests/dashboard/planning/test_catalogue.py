"""Adding a workload: fields from the workload's own schema, its own words when it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from experiments.models import Workload
from runners.workloads import WORKLOADS
from tests.dashboard.conftest import People

pytestmark = pytest.mark.django_db

OURS = [kind for kind in WORKLOADS if kind != "command"]  # which has a form of its own
NEW = "/catalogue/workloads/new/?kind="


@pytest.mark.parametrize("kind", OURS)
def test_every_parameter_is_a_field_with_its_help_and_limits(kind: str, as_owner: Client) -> None:
    page = as_owner.get(NEW + kind).content.decode().replace("&#x27;", "'")
    for parameter in WORKLOADS[kind].parameters:
        assert f'name="{parameter.name}"' in page
        assert parameter.help in page
    assert WORKLOADS[kind].description in page


@pytest.mark.parametrize("kind", OURS)
def test_defaults_make_a_workload(kind: str, as_owner: Client, people: People) -> None:
    answer = as_owner.post(NEW + kind, {"name": "plain", "time_limit_seconds": "60"} | chosen(kind))
    assert answer.status_code == 302
    workload = Workload.objects.get()
    assert (workload.kind, workload.owner) == (kind, people.owner)
    assert workload.parameters == WORKLOADS[kind].clean({})


def chosen(kind: str) -> dict[str, Any]:
    """What the browser sends for choices and ticks; fields of text may be left empty."""
    parameters = WORKLOADS[kind].parameters
    sent = [one for one in parameters if one.type == "choice" or one.default is True]
    return {one.name: one.default for one in sent}


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"matrix_size": "1"}, "matrix_size", "Matrix size must be from 2 to 32768; got '1'."),
        ({"matrix_size": "$(id)"}, "matrix_size", "must be a whole number"),
        ({"steps": "10", "burn_in": "10"}, "burn_in", "must be less than the 10 steps"),
        ({"precision": "float8"}, "precision", "not one of the available choices"),
        ({"name": ""}, "name", "required"),
        ({"time_limit_seconds": "1"}, "time_limit_seconds", "greater than or equal to 10"),
    ],
)
def test_what_the_workload_refuses_is_said_at_the_field(
    changes: dict[str, str], field: str, words: str, as_owner: Client
) -> None:
    sent = {"name": "mine", "time_limit_seconds": "60"} | chosen("blas") | changes
    answer = as_owner.post(NEW + "blas", sent)
    assert answer.status_code == 200
    assert words in " ".join(answer.context["form"].errors[field])
    assert not Workload.objects.exists()


def test_a_name_is_given_once(as_owner: Client) -> None:
    sent = {"name": "mine", "time_limit_seconds": "60"} | chosen("blas")
    as_owner.post(NEW + "blas", sent)
    answer = as_owner.post(NEW + "blas", sent)
    assert "already exists" in " ".join(answer.context["form"].errors["name"])


def test_an_unknown_kind_is_the_first_one(as_owner: Client) -> None:
    assert as_owner.get(NEW + "<script>").status_code == 200
