"""What the form of an experiment says of programs that are missing, before anything is launched."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Environment
from experiments.software import inspections
from runners.workloads import WORKLOADS
from tests.dashboard.conftest import Site
from tests.dashboard.planning.test_form import asked
from tests.factories import WorkloadFactory

pytestmark = pytest.mark.django_db


def test_the_form_warns_of_a_program_that_is_missing_or_not_known(
    as_owner: Client, site: Site
) -> None:
    workload = WorkloadFactory(
        name="random reads",
        kind="command",
        parameters=WORKLOADS["command"].clean({"argv": ["fio"], "read": "nothing"}),
    )
    sent = asked(site, workloads=[workload.pk])

    def ask() -> str:
        answer = as_owner.post(reverse("experiment_new"), sent, headers={"HX-Request": "true"})
        return answer.content.decode()

    names = f"{site.container}, {site.bare}"
    assert f"random reads starts fio. Whether that is there is not known of {names}" in ask()
    keep(site.bare, "/usr/bin/fio")
    keep(site.container, "")
    page = ask()
    assert f"which the inspection of {site.container} did not find there" in page
    assert "not known of" not in page
    keep(site.container, "/bin/fio")
    assert "random reads starts" not in ask()


def test_a_preview_with_environments_that_are_refused_is_no_error(
    as_owner: Client, site: Site
) -> None:
    """One environment alone is nothing to compare: it is said at the field, once that is asked."""
    sent = asked(site, environments=[site.bare.pk])
    answer = as_owner.post(reverse("experiment_new"), sent, headers={"HX-Request": "true"})
    assert answer.status_code == 200


def keep(environment: Environment, path: str) -> None:
    facts = {"programs": {"fio": path}}
    inspections.keep_inspection(environment, facts, inspections.compute_fingerprint(environment))
