"""What every answer says to browsers and proxies, whichever page it is."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from experiments.models import Experiment
from tests.dashboard.conftest import People

pytestmark = pytest.mark.django_db


def test_no_page_is_kept_by_a_browser_or_a_proxy(results: Experiment, people: People) -> None:
    client = people.client("admin")
    addresses = ["/", "/runs/", results.get_absolute_url(), "/admin/", "/no-such-page/"]
    addresses += [reverse("comparison_json", args=[results.pk]), "/search/?q=%00"]
    for address in addresses:
        assert "no-store" in client.get(address)["Cache-Control"], address
    assert "no-store" in Client().get("/login/")["Cache-Control"]
    assert "no-store" in client.get(reverse("runs_csv", args=[results.pk]))["Cache-Control"]


@pytest.mark.parametrize("name", ["django_rq_home", "django_rq_workers"])
def test_pages_of_queues_have_a_policy_too(name: str, people: People) -> None:
    args = [0] if name.endswith("workers") else []
    address = reverse(f"admin:{name}", args=args)
    assert address.startswith("/admin/django_rq/")
    answer = people.client("admin").get(address)
    assert answer.status_code == 200
    directives = dict(
        part.strip().partition(" ")[::2] for part in answer["Content-Security-Policy"].split(";")
    )
    assert directives["script-src"] == "'self' 'unsafe-inline'"
    assert directives["default-src"] == directives["form-action"] == "'self'"
    assert directives["frame-ancestors"] == directives["object-src"] == "'none'"


def test_other_pages_run_no_inline_script(people: People) -> None:
    for address in ("/", "/admin/", "/login/"):
        policy = people.client("admin").get(address)["Content-Security-Policy"]
        assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
